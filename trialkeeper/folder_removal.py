"""Removing folders that their owner has closed, as a trial may do with its own: only root may enter them."""

import contextlib
import os
import shutil


def remove_tree(path: str) -> None:
    """``shutil.rmtree``, which first makes its user's own folders in it writable where it fails. Raises OSError."""
    try:
        shutil.rmtree(path)
    except PermissionError:
        open_folders(path)
        shutil.rmtree(path)


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
