"""``python manage.py restore FILE``: bring an installation back from a backup, while no server runs."""

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from nniweb.backups.archive import NotABackup
from nniweb.backups.database import CannotCopy
from nniweb.backups.putting_back import CannotRestore, has_own_keys, opens_secrets, put_back
from nniweb.backups.taking import KEYS
from nniweb.storage.data_folder import DataFolderLocked
from nniweb.storage.elsewhere import is_elsewhere
from nniweb.storage.own_files import COMMAND


class Command(BaseCommand):
    help = "Restore a backup into the data folder (NNIWEB_DATA). No server may run on it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help=f"a file that `{COMMAND} backup` wrote")
        parser.add_argument("--force", action="store_true",
                            help="move an existing installation aside first")

    def handle(self, *args: Any, file: Path, force: bool, **options: Any) -> None:
        try:
            manifest, aside = put_back(file.expanduser().absolute(), force, timezone.now())
        except (CannotRestore, NotABackup, CannotCopy, DataFolderLocked) as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"The backup cannot be restored, and nothing was changed: {error}") from None
        if aside is not None:
            self.stdout.write(f"The old installation was moved to {aside}.")
        for sentence in _about_keys(manifest):
            self.stdout.write(sentence)
        for sentence in _about_files(manifest):
            self.stdout.write(sentence)
        self.stdout.write(f"{settings.DATA_FOLDER} was restored to its state at {manifest['taken_at']}. Start the "
                          "server. It finds running trials that are in the backup again.")


def _about_files(manifest: dict[str, Any]) -> Iterator[str]:
    """What a backup of an installation leaves to be done whose files are in a storage elsewhere."""
    if "stored_elsewhere" not in manifest:
        return
    set_here = "" if is_elsewhere() else (" NNIWEB_FILE_STORAGE is not set here: set it, with its options, before you "
                                          "start the server.")
    yield (f"Code archives, kept files, checkpoints and older output of the backup are in a storage "
           f"({manifest['stored_elsewhere']}), and not in the backup. Files that were removed there since it was taken "
           f"are missing.{set_here}")


def _about_keys(manifest: dict[str, Any]) -> Iterator[str]:
    """What a backup without keys leaves to be done."""
    if has_own_keys(manifest):
        return
    if opens_secrets(manifest):
        yield "The backup contains no keys. The keys that are here can decrypt its secrets."
        return
    secrets = "; ".join(manifest["secrets"]) or "there are none"
    yield (f"The backup contains no keys, and the keys in {settings.DATA_FOLDER / KEYS} are different ones. People "
           "must sign in again. Before you start the server, put the old file seal_keys there (or set NNIWEB_SEAL_KEYS "
           f"to its content), so that all secrets can be decrypted. Otherwise enter these secrets again: {secrets}.")
