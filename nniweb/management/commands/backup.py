"""``python manage.py backup FILE``: all that this installation keeps, in one file, while it runs."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from nniweb.backups.database import CannotCopy
from nniweb.backups.taking import take
from nniweb.management.served_before import require_served_before


class Command(BaseCommand):
    help = "Write a backup of this installation, also while it runs. The file holds keys and secrets: keep it safe."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="file to write, such as nniweb.tar.gz; an old one is replaced "
                                                    "when the new one is whole")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        require_served_before()
        path = file.expanduser().absolute()
        try:
            gone = take(path, timezone.now())
        except CannotCopy as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"The backup cannot be written to {path}: {error.strerror or error}.") from None
        for name in gone[:10]:
            self.stderr.write(f"{name} was removed while it was to be read, and is not in it.")
        self.stdout.write(f"Written to {path} ({path.stat().st_size / 1e6:.1f} MB). It holds keys and secrets: keep it "
                          "where only you can read it.")
