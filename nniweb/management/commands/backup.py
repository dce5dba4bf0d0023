"""``python manage.py backup FILE``: all that this installation keeps, in one file, while it runs."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from nniweb.backups.database import CannotCopy
from nniweb.backups.taking import KEYS, USUALLY, discard, expected, take
from nniweb.backups.unfinished import Unfinished
from nniweb.management.served_before import require_served_before
from nniweb.storage.elsewhere import StorageFailed, is_elsewhere


class Command(BaseCommand):
    help = ("Write a backup of this installation: database, code archives, kept files, checkpoints. The server may "
            "run. Secrets in the backup are encrypted. The keys are included only with --with-keys.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="file to write, such as nniweb.tar.gz; an existing file is "
                                                    "replaced when the new one is complete")

        parser.add_argument("--with-keys", action="store_true",
                            help="include the data folder's keys; whoever has the file can then decrypt all secrets")
        parser.add_argument("--with-stored-files", action="store_true", help=(
            "include the files of NNIWEB_FILE_STORAGE, which otherwise stay in that storage alone"))
        parser.add_argument("--anew", action="store_true", help=(
            "do not go on with a backup to this file that was interrupted in the last 24 hours, but remove what it "
            "left"))

    def handle(self, *args: Any, file: Path, with_keys: bool, with_stored_files: bool, anew: bool,
               **options: Any) -> None:
        require_served_before()
        path = file.expanduser().absolute()
        parts = (*USUALLY, KEYS) if with_keys else USUALLY
        try:
            self.stdout.write(expected(parts))
            if anew:
                discard(path)
            gone = take(path, timezone.now(), parts, with_stored=with_stored_files, say=self.stdout.write, goes_on=True)
        except CannotCopy as error:
            raise CommandError(str(error)) from None
        except StorageFailed as error:
            raise CommandError(f"{error} No backup was written.{_left(path)}") from None
        except OSError as error:
            raise CommandError(
                f"The backup cannot be written to {path}: {error.strerror or error}.{_left(path)}") from None
        for name in gone[:10]:
            self.stderr.write(f"{name} was removed during the backup and is not in it.")
        about = ("It includes the keys, so it can be used to decrypt all secrets. Keep it where only you can read "
                 "it." if with_keys else
                 f"It does not include the keys. Keep a copy of {settings.DATA_FOLDER / KEYS} somewhere else, because "
                 "the secrets in the backup cannot be decrypted without them. (--with-keys includes them.)")
        if is_elsewhere() and not with_stored_files:
            about += (" It does not include the files in the storage of NNIWEB_FILE_STORAGE (code archives, kept "
                      "files, checkpoints, output of trials that ended more than a day ago). Back up that storage, or "
                      "use "
                      "--with-stored-files.")
        self.stdout.write(f"Written to {path} ({path.stat().st_size / 1e6:.1f} MB). {about}")


def _left(path: Path) -> str:
    """What to do with what there is of it."""
    unfinished = Unfinished(path)
    if not unfinished.can_go_on:
        return ""
    return (f" What is done of it is in {unfinished.folder}. Within 24 hours the same command goes on from there; "
            "remove that folder if you need its room.")
