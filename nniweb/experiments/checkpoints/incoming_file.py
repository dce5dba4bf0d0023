"""What a keeper sends of a checkpoint, while it arrives: a file without a name, whose hash is known when it is whole.

It lies on the disk on which it is to stay, so that keeping it costs no second copy: it gets its name there. Only a
little is kept in memory alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

from trialkeeper.durable_files import flush_folder

#: What has no more bytes is kept in memory alone.
SMALL = 64 * 1024
#: Files that are open at once while several are kept together.
_OPEN_TOGETHER = 50


class IncomingFile:
    """For one thread at a time. Whoever has it closes it. ``size``: bytes that have come."""

    def __init__(self, folder: str, check_room: Callable[[int], None]) -> None:
        """``folder``: there it lies until it has a name, if it is not small. ``check_room``: called before so many
        bytes more are written there; raises OSError where they are too many.
        """
        self._folder, self._check_room = folder, check_room
        self._digest = hashlib.sha256()
        self._small: list[bytes] = []
        self._file: IO[bytes] | None = None
        self.size = 0

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """What came next; it is not kept as it is. Blocks. Raises OSError where the disk is full."""
        for piece in pieces:
            self._digest.update(piece)
            self.size += len(piece)
        if self._file is None and self.size <= SMALL:
            self._small += map(bytes, pieces)
            return
        # each time: many arrive at once, and none of them is counted before it is whole
        self._check_room(sum(map(len, pieces)))
        if self._file is None:
            self._file = _nameless_file(self._folder)
            pieces, self._small = [*self._small, *pieces], []
        begin = self._file.tell()
        for piece in pieces:
            left = memoryview(piece)
            while left:
                left = left[self._file.write(left):]
        if hasattr(os, "posix_fadvise"):
            # the disk begins now, a little at a time: commits of the database wait for what is flushed beside them
            os.posix_fadvise(self._file.fileno(), begin, self._file.tell() - begin, os.POSIX_FADV_DONTNEED)

    @property
    def sha256(self) -> str:
        """Of all that has come, hexadecimal."""
        return self._digest.hexdigest()

    def content(self) -> bytes:
        """All that has come."""
        if self._file is None:
            return b"".join(self._small)
        self._file.seek(0)
        return self._file.read()

    def keep_at(self, path: str) -> bool:
        """Give the file this name, durably; False where it has to be copied there. Raises OSError.

        Harmless where somebody else has given the name to the same content meanwhile.
        """
        if self._file is None:
            return False
        os.fsync(self._file.fileno())
        changed: dict[Path, None] = {}
        if not _give_name(self._file, path, changed):
            return False
        for folder in changed:
            flush_folder(str(folder))
        return True

    def close(self) -> None:
        """Harmless when repeated."""
        self._small = []
        if self._file is not None:
            self._file.close()


def _nameless_file(folder: str) -> IO[bytes]:
    """One that can get a name, where the system has such files. Raises OSError."""
    try:
        # not tempfile's: those can never get a name (O_EXCL)
        descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except (OSError, AttributeError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE):
            raise
        return tempfile.TemporaryFile(dir=folder, buffering=0)
    return open(descriptor, "r+b", buffering=0)


def _give_name(file: IO[bytes], path: str, changed: dict[Path, None]) -> bool:
    """Whether the flushed file has this name now. Folders that are to be flushed then are added to ``changed``."""
    folder = Path(path).parent
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    into = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # with a descriptor of the folder: only then Python asks for what the link in /proc leads to
        with contextlib.suppress(FileExistsError):
            os.link(f"/proc/self/fd/{file.fileno()}", Path(path).name, dst_dir_fd=into, follow_symlinks=True)
    except OSError:  # another disk, or a file system without files that have no name
        return False
    finally:
        os.close(into)
    changed.update(dict.fromkeys((folder, *(one.parent for one in made))))
    return True


def keep_together(folder: str, contents: Mapping[str, bytes]) -> set[str]:
    """Write small files that lie in ``folder`` until they have these names: path -> content. The paths of those that
    are there durably; the others have to be copied there. Raises OSError.

    The disk begins with all of some files before one is waited for, and folders are flushed once, at the end.
    """
    named: set[str] = set()
    changed: dict[Path, None] = {}
    left = iter(contents.items())
    while some := list(islice(left, _OPEN_TOGETHER)):
        with contextlib.ExitStack() as files:
            written: list[tuple[str, IO[bytes]]] = []
            for path, content in some:
                file = files.enter_context(_nameless_file(folder))
                view = memoryview(content)
                while view:
                    view = view[file.write(view):]
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                written.append((path, file))
            for _, file in written:
                os.fsync(file.fileno())
            named |= {path for path, file in written if _give_name(file, path, changed)}
    for one in changed:
        flush_folder(str(one))
    return named
