"""Removing folders that their owner has closed, as a trial may do with its own: only root may enter them."""

import contextlib
import os
import shutil
import stat


def remove_tree(path: str) -> None:
    """``shutil.rmtree``, which first makes its user's own folders in it writable where it fails. Raises OSError."""
    try:
        shutil.rmtree(path)
    except PermissionError:
        open_folders(path)
        shutil.rmtree(path)


def remove_unless_plain(path: str) -> None:
    """Remove what a trial has put in a file's place: a link, a pipe, a folder. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            remove_tree(path)
        elif not stat.S_ISREG(mode):
            os.unlink(path)


def open_folders(path: str) -> None:
    """Let the owner of the folder, and of each folder in it, list and change it. Links are not followed."""
    _open(path)
    for parent, folders, _ in os.walk(path):  # it lists a folder after its parent was yielded
        for name in folders:
            _open(os.path.join(parent, name))


def _open(folder: str) -> None:
    if os.path.islink(folder):
        return
    with contextlib.suppress(OSError):  # of another user: the removal says so
        os.chmod(folder, 0o700)
