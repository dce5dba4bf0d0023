"""Files of the storage as paths of this machine: where the storage is elsewhere, copies in the data folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from pathlib import Path

from django.conf import settings
from django.core.files.storage import default_storage

from trialkeeper.durable_files import put_in_place

#: A copy that nobody has wanted for so long, in seconds, is removed when another one is fetched.
KEPT_SECONDS = 7 * 86400.0
#: A copy's time of use is written down at most so often, in seconds.
_NOTED_SECONDS = 3600.0
_PIECE = 1024 * 1024


class CopyDamaged(OSError):
    """What the storage has is not what was stored. The text is a sentence."""


def local_copy(storage_path: str, size: int, sha256: str = "") -> Path:
    """The file's path. A copy is fetched once, and compared with ``size`` and, where it is given, ``sha256``.

    Raises FileNotFoundError, CopyDamaged, StorageFailed; of files in a folder of this machine nothing is looked at.
    """
    try:
        return Path(default_storage.path(storage_path))
    except NotImplementedError:
        copy = copy_path(storage_path)
    with contextlib.suppress(FileNotFoundError):
        status = copy.stat()
        if status.st_size == size:
            if time.time() - status.st_mtime > _NOTED_SECONDS:
                os.utime(copy)
            return copy
    _fetch(storage_path, size, sha256, copy)
    return copy


def copy_path(storage_path: str) -> Path:
    """Where the copy of a file lies, if there is one."""
    return Path(settings.DATA_FOLDER) / "cache" / Path(storage_path).name


def remove_copy(storage_path: str) -> None:
    """Of a file that is removed. Harmless where there is none."""
    copy_path(storage_path).unlink(missing_ok=True)


def _fetch(storage_path: str, size: int, sha256: str, copy: Path) -> None:
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_unused(copy.parent)
    draft = copy.with_name(f"{copy.name}.{secrets.token_hex(4)}.draft")
    found, digest = 0, hashlib.sha256()
    try:
        with default_storage.open(storage_path) as source, open(draft, "wb") as goal:
            while piece := source.read(_PIECE):
                found += len(piece)
                digest.update(piece)
                goal.write(piece)
        if found != size or sha256 and digest.hexdigest() != sha256:
            raise CopyDamaged(f"The file {storage_path} in the storage is damaged: {size} bytes were stored, and the "
                              f"{found} bytes that are there now differ from them.")
        put_in_place(str(draft), str(copy))
    finally:
        draft.unlink(missing_ok=True)


def _remove_unused(folder: Path) -> None:
    before = time.time() - KEPT_SECONDS
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < before:
                path.unlink()
