"""Having files survive a power cut. What was only written comes back empty, cut off or not at all.

What a later start relies on is flushed before it counts: first the file, then the folder that holds its name. Each
flush waits for the disk, tenths of a millisecond on a fast one, tens of milliseconds on a slow or busy one.
Standard library only; the server's packages use it, too.
"""

import errno
import os

#: What file systems answer that cannot flush a folder, some network ones: nothing more can be done there.
_NOT_FOR_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


def flush_file(path: str) -> None:
    """Have the content of a file on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(folder: str) -> None:
    """Have the names in a folder on the disk: which files there are, and which one a name means. Raises OSError."""
    descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_FOR_FOLDERS:
            raise
    finally:
        os.close(descriptor)


def flush_tree(folder: str) -> None:
    """Flush all files and folders below a folder, and itself; links are not followed. Raises OSError."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path) and not os.path.islink(path):
                flush_file(path)
        flush_folder(parent)


def put_in_place(draft: str, path: str) -> None:
    """Give a file that is written its name, in the same folder: others, and a later start, see the old file or the
    whole new one. Raises OSError.
    """
    flush_file(draft)
    os.replace(draft, path)
    flush_folder(os.path.dirname(path))
