"""``python manage.py ledger``: what the ledger has of each month, and whether it agrees with the attempts."""

from itertools import islice
from typing import Any

from django.core.management.base import CommandError, CommandParser

from nniweb.experiments.budgets.ledger_check import differences, months
from nniweb.experiments.models import LedgerEntry
from nniweb.management.asked_here import AskedHere
from nniweb.management.served_before import require_served_before

#: Differences that are printed.
SHOWN = 100


class Command(AskedHere):
    help = ("Print what trials took in each month. With --check, compute the ledger again from the attempts that are "
            "stored, and its sums from its rows, and print what differs. The server may run.")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="compute all figures again and print differences")

    def handle(self, *args: Any, **options: Any) -> None:
        require_served_before()
        found = months(LedgerEntry.objects.all())
        for one in found:
            self.stdout.write(
                f"{one.month}: {one.trials} trials, {one.attempts} attempts, "
                f"{one.hours:.4f} hours, "
                f"{one.gpu_hours:.4f} GPU-hours, money {one.money:.6f}")
        if not found:
            self.stdout.write("The ledger has no rows.")
        if options["check"]:
            self._check()

    def _check(self) -> None:
        found = list(islice(differences(), SHOWN + 1))
        for sentence in found[:SHOWN]:
            self.stdout.write(sentence)
        if found:
            more = "More than " if len(found) > SHOWN else ""
            raise CommandError(f"{more}{min(len(found), SHOWN)} figure(s) differ. If attempts end at the moment, run "
                               "the command again.")
        self.stdout.write("All figures agree with what is computed again.")
