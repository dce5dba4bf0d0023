"""``python manage.py launch config.yml --follow``: launches an experiment from its file."""

from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import Q

from nniweb.api.experiments.launch_request import from_form
from nniweb.client.arguments import LAUNCH_HELP, add_launch_arguments
from nniweb.client.words import visibility_line
from nniweb.experiments.access.visibility import default_visibility, visible_clusters, visible_to_group
from nniweb.experiments.clusters import addresses
from nniweb.experiments.clusters.metadata import defaults_among
from nniweb.experiments.clusters.worker_presence import HOW_TO_START, worker_is_alive
from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.launch_checks import why_not_here
from nniweb.experiments.launch.launch_shell import with_shell
from nniweb.experiments.launch.launching import launch
from nniweb.experiments.launch.nameable_folders import nameable_at_a_terminal
from nniweb.experiments.models import Experiment, User
from nniweb.experiments.models.account import Role
from nniweb.management.asked_here import AskedHere
from nniweb.management.commands.config import read_config_text
from nniweb.management.following import follow
from nniweb.management.served_before import require_own_database, require_served_before
from nniweb.storage.own_files import START
from trainingservice.local.shell import shell_document, shell_variables
from trainingservice.words.shown_value import shown


class Command(AskedHere):
    help = LAUNCH_HELP

    def add_arguments(self, parser: CommandParser) -> None:
        add_launch_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        require_own_database(options, "cluster", "code")
        require_served_before()
        experiment = self._launch(options["config"], experiment_owner(options["user"]), git_fields(options),
                                  options["group"])
        self.stdout.write(f"Launched {shown(experiment.name)}, id {experiment.public_id}")
        self.stdout.write(addresses.experiment_page(experiment.public_id))
        self.stdout.write(visibility_line({"group": experiment.group.name if experiment.group else None}))
        for note in experiment.notes:
            self.stdout.write(f"Note: {note}")
        if not worker_is_alive():
            self.stderr.write(f"No worker is alive, so the experiment waits. {HOW_TO_START}")
        if not options["follow"]:
            return
        follow(experiment, self.stdout)

    @staticmethod
    def _launch(path: Path, owner: User, git: dict[str, str], group: str | None) -> Experiment:
        text = read_config_text(path)
        usable = visible_clusters(owner).filter(enabled=True)
        try:
            if git:
                seen_by = {} if group is None else {"group": group}
                return from_form({"config": text, "shell": shell_document(), **git, **seen_by}, owner, launch)
            visible_to = default_visibility(owner) if group is None else visible_to_group(owner, group)
            parsed = parse_experiment_config(
                text, path.parent.resolve(), roots=nameable_at_a_terminal(),
                cluster_platform=lambda name: usable.filter(name=name).values_list("platform", flat=True).first(),
                why_not_here=partial(why_not_here, owner), cluster_defaults=defaults_among(usable))
            return launch(with_shell(parsed, owner, shell_variables()), owner, visible_to=visible_to)
        except ConfigInvalid as invalid:
            raise CommandError("\n".join(f"{path}: {error}" for error in invalid.errors)) from None
        except Refused as refused:
            raise CommandError("\n".join(f"{path}: {f'{field}: ' if field else ''}{message}"
                                         for field, message in refused.errors)) from None


def git_fields(options: dict[str, Any]) -> dict[str, str]:
    """The fields of a launch over REST. Raises CommandError."""
    fields = {"git_url": options["git"], "git_ref": options["git_ref"], "git_folder": options["git_folder"]}
    if path := options["git_token_file"]:
        try:
            fields["git_token"] = path.read_text().strip()
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from None
    return {name: value for name, value in fields.items() if value}


def experiment_owner(name: str | None) -> User:
    """The user of this name, or the first administrator. Raises CommandError."""
    users = User.objects.filter(is_active=True).order_by("pk")
    if name is not None:
        owner = users.filter(username=name).first()
        if owner is None:
            raise CommandError(f"There is no user named {shown(name)}.")
        return owner
    owner = users.filter(Q(is_superuser=True) | Q(role=Role.ADMIN)).first()
    if owner is None:
        raise CommandError(f"There is no administrator yet. The first start of the server ({START}) creates one.")
    return owner
