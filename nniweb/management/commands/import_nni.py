"""``manage.py import_nni ~/nni-experiments/<id>``: shows an experiment of NNI's like ours, and goes on with it."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from nniweb.experiments.clusters import addresses
from nniweb.experiments.config import ConfigInvalid
from nniweb.experiments.errors import Refused
from nniweb.experiments.nni_import.importing import import_archive, imported_before
from nniweb.experiments.nni_import.nni_archive import UnreadableArchive, read_archive
from nniweb.management.asked_here import AskedHere
from nniweb.management.commands.launch import experiment_owner
from nniweb.management.served_before import require_served_before
from trainingservice.words.shown_value import shown


class Command(AskedHere):
    help = ("Import a finished or stopped experiment of NNI with its trials, metrics and logs. Its folder is not "
            "changed.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="the experiment's folder, below nni-experiments")
        parser.add_argument("--continue", action="store_true", dest="go_on",
                            help="continue the search; the tuner gets all earlier results")
        parser.add_argument("--max-trial-number", type=int, metavar="N", help="a new limit, including old trials")
        parser.add_argument("--user", help="owner of the experiment (default: the first administrator)")

    def handle(self, *args: Any, folder: Path, go_on: bool, max_trial_number: int | None, user: str | None,
               **options: Any) -> None:
        require_served_before()
        owner = experiment_owner(user)
        try:
            archive = read_archive(folder)
            known = imported_before(archive)
            experiment = import_archive(archive, owner, go_on=go_on, max_trial_number=max_trial_number)
        except UnreadableArchive as error:
            raise CommandError(str(error)) from None
        except ConfigInvalid as invalid:
            viewing = " Without --continue it is imported for viewing only." if go_on and not known else ""
            raise CommandError(f"The experiment cannot be {'continued' if go_on else 'imported'} as it is.{viewing}\n"
                               + "\n".join(str(error) for error in invalid.errors)) from None
        except Refused as refused:
            raise CommandError("\n".join(f"{f'{field}: ' if field else ''}{message}"
                                         for field, message in refused.errors)) from None
        if known is not None:
            self.stdout.write(f"Continuing {shown(experiment.name)}, which was imported as {experiment.public_id}")
            self.stdout.write(addresses.experiment_page(experiment.public_id))
            return
        self.stdout.write(f"Imported {shown(experiment.name)}, {len(archive.trials)} trials, id {experiment.public_id}")
        interrupted = sum(trial.ended is None for trial in archive.trials)
        if interrupted:
            self.stdout.write(f"Trials that had not ended when NNI stopped: {interrupted}. They count as canceled. "
                              "\"Run again\" on a trial's page runs its parameters again.")
        self.stdout.write(addresses.experiment_page(experiment.public_id))
