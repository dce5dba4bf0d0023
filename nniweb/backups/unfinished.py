"""What a backup that was interrupted has left, for the same command to go on with: a folder beside the file.

It holds the copy of the database, which is whole or is made anew, and the part of the file that is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from trialkeeper.durable_files import flush_file, put_in_place

#: A copy of the database that is older is made anew: files that its rows need may have been removed since.
OLDEST = timedelta(days=1)


class InUse(Exception):
    """Another process writes a backup to the same file."""


class NotOurs(Exception):
    """What lies at the folder's place was not left by a backup of this user: it is neither filled nor removed."""


class Unfinished:
    """The folder, locked while it is used as a context. ``path``: of the backup."""

    def __init__(self, path: Path) -> None:
        self.folder = path.with_name(f".{path.name}.partial")
        #: The copy of the database.
        self.database = self.folder / "database"
        self._about = self.folder / "about.json"
        #: What ``BackupWriter`` writes, and its journal, which is there first.
        self.draft, self.journal = self.folder / "draft", self.folder / "journal"
        self._descriptor = -1

    def __enter__(self) -> Unfinished:
        """Raises OSError, InUse and NotOurs."""
        while self._descriptor < 0:
            self._descriptor = self._opened()
        return self

    def _opened(self) -> int:
        """The folder, locked; negative where another process has removed it meanwhile, because it is done."""
        try:
            self.folder.mkdir(mode=0o700)
        except FileExistsError:
            if not self._is_ours():
                raise NotOurs from None
        try:
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return -1
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), self.folder.lstat()):
                    return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise InUse from None
        os.close(descriptor)
        return -1

    def _is_ours(self) -> bool:
        """Whether it is a folder that nobody else could have filled: where others may write beside the file, they may
        have put a link there, or a folder of theirs.
        """
        try:
            found = self.folder.lstat()
        except FileNotFoundError:
            return True
        if not stat.S_ISDIR(found.st_mode):
            return False
        if found.st_uid == os.geteuid() and not found.st_mode & 0o077:
            return True
        # on some file systems (a share, root on NFS) all folders belong to one user, or have one mode
        with TemporaryDirectory(dir=self.folder.parent, prefix=self.folder.name) as another:
            made = os.lstat(another)
            return (found.st_uid, found.st_mode) == (made.st_uid, made.st_mode)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        os.close(self._descriptor)

    def taken_at(self, wanted: Mapping[str, Any], now: datetime) -> tuple[datetime, dict[str, Any]] | None:
        """When the database was copied, and what ``keep`` was given with it; None where there is no copy, or one that
        is too old or not of a backup like this.
        """
        if self._is_done:
            return None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # somebody may have edited it
            found = json.loads(self._about.read_bytes())
            taken, more = datetime.fromisoformat(found["taken_at"]), dict(found["more"])
            # as JSON has it: tuples are lists there
            if (found["wanted"] == json.loads(json.dumps(wanted)) and found["copy"] == self._copy()
                    and timedelta() <= now - taken <= OLDEST):
                return taken, more
        return None

    def keep(self, wanted: Mapping[str, Any], taken_at: datetime, more: Mapping[str, Any]) -> None:
        """The copy of the database is whole. ``wanted``: what must be the same for a backup that goes on with it."""
        flush_file(str(self.database))
        draft = self._about.with_suffix(".draft")
        draft.write_text(json.dumps({"wanted": wanted, "taken_at": taken_at.isoformat(), "more": more,
                                     "copy": self._copy()}))
        put_in_place(str(draft), str(self._about))

    def _copy(self) -> list[int]:
        """By which it is seen that the copy of the database is as it was: its size, and when it was written. A part of
        it may be packed already. Raises OSError.
        """
        found = self.database.stat()
        return [found.st_size, found.st_mtime_ns]

    @property
    def can_go_on(self) -> bool:
        """Whether there is something to go on with."""
        return self._about.exists() and not self._is_done

    @property
    def _is_done(self) -> bool:
        """Whether the draft has been put into the backup's place."""
        return self.journal.exists() and not self.draft.exists()

    def clear(self) -> None:
        """Begin anew. First what says that there is something to go on with."""
        self._about.unlink(missing_ok=True)
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def remove(self) -> None:
        self.clear()  # in its order: a backup that is done is not gone on with
        self.folder.rmdir()
