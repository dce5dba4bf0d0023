"""``manage.py config check FILE`` and ``config upgrade FILE``: experiment files, without launching anything."""

import tempfile
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from nniweb.experiments.clusters.metadata import defaults_among
from nniweb.experiments.config import ConfigInvalid, ParsedConfig, parse_experiment_config, resolved_document
from nniweb.experiments.config.upgrade import upgraded
from nniweb.experiments.launch.nameable_folders import nameable_at_a_terminal
from nniweb.experiments.models import Cluster
from trainingservice.base import ServiceContext
from trainingservice.errors import TrainingServiceError
from trainingservice.limited_yaml import yaml_text
from trainingservice.local.shell import shell_variables
from trainingservice.platforms import load_platform


class Command(BaseCommand):
    help = "Check a config file, or print the settings that it resolves to."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        check = actions.add_parser("check", help="print the resolved settings, or all errors")
        upgrade = actions.add_parser("upgrade", help="print the v2 form of a v1 file, including secrets")
        for action in (check, upgrade):
            action.add_argument("config", type=Path, help="experiment file")

    def handle(self, *args: Any, action: str, config: Path, **options: Any) -> None:
        text = read_config_text(config)
        try:
            document, notes = self._check(text, config) if action == "check" else upgraded(text)
        except ConfigInvalid as invalid:
            raise CommandError("\n".join(f"{config}: {error}" for error in invalid.errors)) from None
        for note in notes:
            self.stderr.write(f"Note: {note}")
        self.stdout.write(yaml_text(document), ending="")

    @staticmethod
    def _check(text: str, path: Path) -> tuple[dict[str, Any], list[str]]:
        known = _cluster_platform()
        defaults = defaults_among(Cluster.objects.filter(enabled=True)) if known is not None else None
        parsed = parse_experiment_config(text, path.parent.resolve(), roots=nameable_at_a_terminal(),
                                         cluster_platform=known, cluster_defaults=defaults)
        return resolved_document(parsed.settings), [*parsed.notes, *_said_of_command(parsed)]


def _said_of_command(parsed: ParsedConfig) -> list[str]:
    """What the platform has to say of the trials' command when it is launched from this shell, before it runs."""
    settings, section = parsed.settings, parsed.settings.training_service
    if section is None:
        return []
    try:
        with tempfile.TemporaryDirectory() as folder:
            service = load_platform(section.platform)(section.settings, ServiceContext("check", Path(folder)))
            findings = service.check_command(settings.trial_command, settings.trial_code_directory,
                                             settings.environment, section.options.with_shell(shell_variables()))
    except (TrainingServiceError, ValueError, OSError):
        return []  # the launch says what is wrong
    return [str(finding.message) for finding in findings if not finding.ok]


def read_config_text(path: Path) -> str:
    """The file's text. Raises CommandError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8 text.") from None


def _cluster_platform() -> Callable[[str], str | None] | None:
    """Tells clusters' platforms where there is a database; files that name no cluster can be checked without one."""
    try:
        platforms = dict(Cluster.objects.filter(enabled=True).values_list("name", "platform"))
    except DatabaseError:
        return None
    return platforms.get
