"""Opens what a path names without following a link anywhere on the way.

A path that a person named is resolved and checked, and read some time later. Whoever may write to one of its folders
could put a link there in between; then opening fails, and nothing behind the link is read.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

# to pass through a folder takes less than to read it: homes of others often let everybody do only that
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# without waiting for whoever would write to a pipe
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LinkOnTheWay(OSError):
    """The path, or a folder on the way to it, is a link (or no folder), which it was not when it was checked."""


class NoPlainFile(OSError):
    """It is a folder, a device, a pipe or a socket."""


def open_folder(path: Path) -> int:
    """A descriptor of the folder, to be closed by the caller. ``path``: absolute, as ``Path.resolve`` gives it.

    Raises OSError, LinkOnTheWay among them.
    """
    return _open(path, _FOLDER)


def open_file(path: Path) -> int:
    """The same for a plain file, open for reading. Raises OSError, LinkOnTheWay and NoPlainFile among them."""
    descriptor = _open(path, _FILE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NoPlainFile(errno.EINVAL, "it is not a plain file", str(path))
    return descriptor


def read_file(path: Path, most: int) -> bytes:
    """The content of a plain file of at most ``most`` bytes. Raises OSError: as ``open_file``, or EFBIG."""
    with open(open_file(path), "rb", buffering=0) as file:
        pieces: list[bytes] = []
        left = most + 1
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
    if left <= 0:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return b"".join(pieces)


def _open(path: Path, flags: int) -> int:
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{path} is not a resolved path")
    root, *names = path.parts
    descriptor = os.open(root, _PASS if names else flags)
    for position, name in enumerate(names, start=1):
        try:
            inner = os.open(name, flags if position == len(names) else _PASS, dir_fd=descriptor)
        except OSError as error:
            raise _explained(error, path) from None
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _explained(error: OSError, path: Path) -> OSError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return LinkOnTheWay(error.errno, "a link or a file was put in the place of a folder on its way since it was "
                            "checked", str(path))
    return OSError(error.errno, error.strerror, str(path))
