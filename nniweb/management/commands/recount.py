"""``python manage.py recount``: compare the counts of trials that pages show with the trials, and count anew."""

from itertools import islice
from typing import Any

from django.core.management.base import CommandError, CommandParser

from nniweb.experiments.retention.settled_check import differing_experiments, forget_all
from nniweb.management.asked_here import AskedHere
from nniweb.management.served_before import require_served_before

#: Experiments that are named.
SHOWN = 100


class Command(AskedHere):
    help = ("Have the worker count the ended trials of all experiments anew. Until it has, pages count them each time. "
            "With --check, only compare what is kept with the trials, and name the experiments where it differs. The "
            "server may run.")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="change nothing; name experiments that differ")

    def handle(self, *args: Any, **options: Any) -> None:
        require_served_before()
        if not options["check"]:
            self.stdout.write(f"What was kept of the trials of {forget_all()} experiment(s) is counted anew by the "
                              "worker.")
            return
        found = list(islice(differing_experiments(), SHOWN))
        for experiment in found:
            self.stdout.write(f"The counts or the best results that are kept of {experiment} differ from its trials.")
        if found:
            raise CommandError("Run the command without --check to have all counted anew.")
        self.stdout.write("All counts agree with the trials.")
