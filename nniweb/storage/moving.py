"""Moves files between the data folder and the storage of NNIWEB_FILE_STORAGE, one after another.

Whatever moment it is interrupted at, the same call goes on from there: a file leaves the place it was in when the other
place has been read and has the same hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from django.core.files.base import File

from nniweb.storage.durable_storage import DurableFileSystemStorage
from nniweb.storage.elsewhere import StorageElsewhere, files_here

_PIECE = 1024 * 1024


@dataclass
class Progress:
    """What is done of what there was to do. ``files`` and ``bytes`` are of those that are done."""

    all_files: int
    all_bytes: int
    files: int = 0
    bytes: int = 0
    #: Names of files that could not be moved.
    failed: list[str] = field(default_factory=list)
    monotonic: Callable[[], float] = time.monotonic
    _began: float = -1.0

    def __post_init__(self) -> None:
        self._began = self.monotonic()

    def count(self, size: int) -> None:
        self.files += 1
        self.bytes += size

    @property
    def seconds_left(self) -> float | None:
        """An estimate by what was done so far; None where nothing is known."""
        passed = self.monotonic() - self._began
        if passed <= 0 or not self.bytes:
            return None
        return max(0.0, (self.all_bytes - self.bytes) * passed / self.bytes)

    def __str__(self) -> str:
        left = self.seconds_left
        estimate = "" if left is None or self.files >= self.all_files else f", about {_duration(left)} left"
        return (f"{self.files} of {self.all_files} files, {self.bytes / 1e6:.1f} of {self.all_bytes / 1e6:.1f} MB"
                f"{estimate}")


def move_there(folder: Path, storage: StorageElsewhere, say: Callable[[Progress], object], leave: str = "") -> Progress:
    """Move every file below the folder into the storage, under its own name. The server may run.

    ``say`` is called after each file. ``leave``: what begins so stays. Raises StorageFailed.
    """
    names = [path for path in files_here(folder) if not leave or not _name(folder, path).startswith(leave)]
    progress = Progress(len(names), sum(_size(path) for path in names))
    for path in names:
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            size = path.stat().st_size
            if _move_one(path, _name(folder, path), storage):
                progress.count(size)
            else:
                progress.failed.append(_name(folder, path))
            say(progress)
    _remove_empty(folder)
    return progress


def _move_one(path: Path, name: str, storage: StorageElsewhere) -> bool:
    sha256 = _hash(path.open("rb"))
    if _hash_there(storage, name) != sha256:
        with path.open("rb") as source:
            storage.put(name, File(source, name))
        if _hash_there(storage, name) != sha256:
            return False
    try:
        path.unlink()
    except FileNotFoundError:  # removed while it was copied: it would stay there for ever
        storage.delete(name)
    return True


def move_back(files: list[tuple[str, int]], folder: Path, storage: StorageElsewhere, say: Callable[[Progress], object]
              ) -> Progress:
    """Copy files (name, bytes) from the storage into the folder; those that are there in their size are left.

    The storage keeps them. The server must not run. Raises StorageFailed, OSError.
    """
    here = DurableFileSystemStorage(location=str(folder), directory_permissions_mode=0o700, file_permissions_mode=0o600)
    progress = Progress(len(files), sum(size for _, size in files))
    for name, size in files:
        if not (here.exists(name) and here.size(name) == size):
            try:
                with storage.open(name) as source:
                    if here.exists(name):
                        here.delete(name)
                    here.save(name, source)
            except FileNotFoundError:
                progress.failed.append(name)
                say(progress)
                continue
        progress.count(size)
        say(progress)
    return progress


def _hash_there(storage: StorageElsewhere, name: str) -> str:
    """"" where there is none."""
    try:
        return _hash(storage.open_there(name))
    except FileNotFoundError:
        return ""


def _hash(source: IO[bytes] | File[Any]) -> str:
    digest = hashlib.sha256()
    with source:
        while piece := source.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def _remove_empty(folder: Path) -> None:
    for path in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{rest} s"

