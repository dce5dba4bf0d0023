"""``python manage.py move-files``: files of the data folder go to the storage of NNIWEB_FILE_STORAGE, or back."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.storage import storages
from django.core.management.base import BaseCommand, CommandError

from nniweb.experiments.retention.stored_files import stored_files
from nniweb.management.served_before import require_served_before
from nniweb.storage.data_folder import DataFolderLocked, ServerLock
from nniweb.storage.elsewhere import StorageElsewhere, StorageFailed, elsewhere
from nniweb.storage.moving import Progress, move_back, move_there

#: Seconds between two lines about what is done.
SAY_SECONDS = 5.0


class Command(BaseCommand):
    help = ("Move code archives, kept files and checkpoints from the data folder to the storage of "
            "NNIWEB_FILE_STORAGE. The server may run. Each file is compared after it was copied. If the command is "
            "interrupted, run it again.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--back", action="store_true", help=(
            "copy all files from the storage into the data folder, before NNIWEB_FILE_STORAGE is removed; the server "
            "must not run"))

    def handle(self, *args: Any, back: bool, **options: Any) -> None:
        require_served_before()
        storage = elsewhere()
        if storage is None:
            raise CommandError("NNIWEB_FILE_STORAGE is not set, so files are in the data folder. Set it first, for "
                               "this command and for all servers (docs/file-storage.md).")
        folder = Path(settings.DATA_FOLDER) / "files"
        self._said_at = time.monotonic()
        try:
            storage.ask()
            done = self._back(folder, storage) if back else move_there(
                folder, storage, self._say, leave="checkpoints/" if "checkpoints" in storages.backends else "")
        except StorageFailed as error:
            raise CommandError(f"{error} Nothing is lost. Run the command again when the storage can be used."
                               ) from None
        except OSError as error:
            raise CommandError(f"A file cannot be read or written: {error}. Nothing is lost. Run the command again "
                               "when that is mended.") from None
        self.stdout.write(f"{'Copied' if back else 'Moved'}: {done}.")
        if done.failed:
            raise CommandError(f"{len(done.failed)} file(s) could not be {'copied' if back else 'moved'}, such as "
                               f"{done.failed[0]}: " + ("the storage does not have them." if back else
                               "the storage has something else after they were stored. They stay in the data folder."))
        if back:
            self.stdout.write("The storage keeps its copies. Remove NNIWEB_FILE_STORAGE from the settings of all "
                              "servers before you start them.")

    def _back(self, folder: Path, storage: StorageElsewhere) -> Progress:
        lock = ServerLock(Path(settings.DATA_FOLDER))
        try:
            lock.acquire()
        except DataFolderLocked as locked:
            raise CommandError(str(locked)) from None
        try:
            return move_back(list(stored_files()), folder, storage, self._say)
        finally:
            lock.release()

    def _say(self, progress: Progress) -> None:
        if time.monotonic() - self._said_at >= SAY_SECONDS:
            self._said_at = time.monotonic()
            self.stdout.write(f"{progress}")
