"""``python manage.py doctor``: what is wrong with this installation, and what to do about it."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from nniweb.doctor.findings import as_json, as_text, exit_status


class Command(BaseCommand):
    help = ("Check this installation and print each problem with its solution. The server may run or be stopped. "
            "Nothing is changed. Exit status: 0 nothing is wrong, 1 something does not work, 3 only warnings.")
    requires_system_checks: list[str] = []  # they are among what it looks at

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print all findings as a JSON document, for programs")

    def handle(self, *args: Any, **options: Any) -> None:
        from nniweb.doctor.examination import examine

        found = examine()
        self.stdout.write(as_json(found) if options["json"] else as_text(found))
        if status := exit_status(found):
            sys.exit(status)
