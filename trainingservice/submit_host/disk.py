"""The few things that are done with files of jobs, on this machine's disks or on another machine's.

Paths are absolute ones of the machine that has the disk. All methods raise OSError, and TemporaryError
where the machine cannot be asked; any of them may be called from any thread.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from trainingservice.files.output_folder import FolderHere, OutputFolder
from trialkeeper.durable_files import put_in_place
from trialkeeper.folder_reader import open_plain_file
from trialkeeper.folder_removal import open_folders

#: Bytes that are read in one go.
MOST_AT_ONCE = 8 * 1024 * 1024


class Disk(Protocol):
    def is_folder(self, path: Path) -> bool: ...

    def exists(self, path: Path) -> bool: ...

    def make_folder(self, path: Path, mode: int) -> None:
        """Make a folder in one that is there, with these rights. Harmless where it is there already."""

    def size(self, path: Path) -> int | None:
        """Bytes of a file; None where there is none."""

    def put(self, path: Path, content: bytes, mode: int, *, durable: bool = False) -> None:
        """Write a file in one step: others see it whole or not at all.

        ``durable``: it survives a power cut when this returns; through SSH as far as the machine's file server sees to
        that by itself.
        """

    def copy(self, source: Path, target: Path, mode: int) -> None:
        """``put`` the content of a file of this machine, which may be large. Durable."""

    def touch(self, path: Path) -> None:
        """Have a file there, an empty one where there is none."""

    def read(self, path: Path, offset: int = 0, most: int = MOST_AT_ONCE) -> bytes | None:
        """At most so many bytes from ``offset`` on; None where there is no such file.

        On this machine's disks nothing but plain files is read, and no link is followed: a trial can put one there.
        """

    def remove_file(self, path: Path) -> None:
        """Harmless where there is none."""

    def remove_folder(self, path: Path) -> list[str]:
        """Remove it with all that is in it; what could not be removed and why, in words."""

    def free_bytes(self, path: Path) -> int | None:
        """Room on the disk of this folder; None where the machine does not tell."""

    def output(self, trusted: Path, folder: str) -> OutputFolder:
        """What a trial wrote into ``folder`` (relative to ``trusted``, which no trial can write to). Asks nothing."""


#: How often a folder is removed into which somebody still writes, and the seconds in between.
REMOVALS, REMOVE_AGAIN_AFTER = 40, 0.05


class LocalDisk:
    """The disks of this machine, those it has mounted among them."""

    def is_folder(self, path: Path) -> bool:
        return path.is_dir()

    def exists(self, path: Path) -> bool:
        return path.exists()

    def make_folder(self, path: Path, mode: int) -> None:
        if not path.is_dir():
            path.mkdir(exist_ok=True)
            path.chmod(mode)

    def size(self, path: Path) -> int | None:
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def put(self, path: Path, content: bytes, mode: int, *, durable: bool = False) -> None:
        partial = _partial(path)
        partial.touch(mode=0o600)
        partial.write_bytes(content)
        partial.chmod(mode)
        if durable:
            put_in_place(str(partial), str(path))
        else:
            os.replace(partial, path)

    def copy(self, source: Path, target: Path, mode: int) -> None:
        partial = _partial(target)
        shutil.copyfile(source, partial)
        partial.chmod(mode)
        put_in_place(str(partial), str(target))

    def touch(self, path: Path) -> None:
        if path.is_symlink():
            path.unlink(missing_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))

    def read(self, path: Path, offset: int = 0, most: int = MOST_AT_ONCE) -> bytes | None:
        try:
            with open(open_plain_file(str(path.parent), path.name), "rb") as stream:
                stream.seek(offset)
                return stream.read(most)
        except FileNotFoundError:
            return None

    def remove_file(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> list[str]:
        was_opened = False
        for _ in range(REMOVALS):
            problems: list[OSError] = []
            shutil.rmtree(path, onerror=lambda _, name, error, problems=problems: problems.append(error[1]))  # type: ignore[misc]
            if not path.exists():
                return []
            if any(problem.errno == errno.EACCES for problem in problems) and not was_opened:
                was_opened = True
                open_folders(str(path))
                continue
            if any(problem.errno not in (errno.ENOTEMPTY, errno.ENOENT) for problem in problems):
                break
            time.sleep(REMOVE_AGAIN_AFTER)  # a keeper that is about to end wrote or renamed something meanwhile
        return [f"{problem.filename} ({problem.strerror})" for problem in problems]

    def free_bytes(self, path: Path) -> int | None:
        return shutil.disk_usage(path).free

    def output(self, trusted: Path, folder: str) -> OutputFolder:
        return FolderHere(str(trusted), folder)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
