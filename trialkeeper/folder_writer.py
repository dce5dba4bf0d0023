"""Writes into a folder that a trial writes to, too, whatever the trial has put there.

The keeper may be allowed more than its trial, which may be in a container: no link is followed below the place that is
trusted, and each step goes from an open folder to what is in it.
"""

import contextlib
import os
from typing import List

from trialkeeper.file_mode import file_mode

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_folder_below(trusted: str, inner: str) -> None:
    """Make a folder, and those on the way to it. Harmless where it is there. Raises OSError, also for a link on the
    way.
    """
    os.close(_entered(trusted, inner.split("/"), makes=True))


def write_below(trusted: str, inner: str, text: str) -> None:
    """Replace a file as a whole, as ``write_file`` does; its folder is there. Raises OSError, also for a link on the
    way.
    """
    *folders, name = inner.split("/")
    parent = _entered(trusted, folders)
    draft = "%s.%d.new" % (name, os.getpid())
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=parent)
        with open(os.open(draft, _NEW, file_mode(), dir_fd=parent), "wb") as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))
        os.replace(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
    finally:
        os.close(parent)


def open_new_or_plain(trusted: str, inner: str, flags: int) -> int:
    """A descriptor of a file, which is made where it is missing. Raises OSError, also for a link on the way."""
    *folders, name = inner.split("/")
    parent = _entered(trusted, folders)
    try:
        return os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, file_mode(), dir_fd=parent)
    finally:
        os.close(parent)


def _entered(trusted: str, names: List[str], makes: bool = False) -> int:
    descriptor = os.open(trusted, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in names:
        try:
            if makes:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
            inner = os.open(name, _FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor
