"""The files of checkpoints in Django's storage: chunks and manifests, named by their content, of one experiment each.

A file that is there is whole: it is written beside its place, flushed and renamed. Blocking; any thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

#: Folder of all of them in the storage.
FOLDER = "checkpoints"
#: Bytes that stay free on the disk of the storage: it is the database's disk, too, on most servers.
KEPT_FREE = 1024 ** 3
#: Bytes that are read at once.
PIECE = 256 * 1024


class DamagedFile(Exception):
    """What lies in the storage has another hash than its name."""


class NoRoom(OSError):
    """The disk of the storage is nearly full."""


def chunk_path(experiment_id: str, sha256: str) -> str:
    """Of a chunk. ``experiment_id``: the public one."""
    return f"{FOLDER}/{experiment_id}/chunks/{sha256[:2]}/{sha256}"


def manifest_path(experiment_id: str, manifest: str) -> str:
    """Of a manifest, by its SHA-256."""
    return f"{FOLDER}/{experiment_id}/manifests/{manifest}"


def keep_file(path: str, sha256: str, content: bytes) -> None:
    """Store content under the name of its hash, unless it is there and undamaged. Durable when this returns.

    Raises NoRoom, OSError.
    """
    with contextlib.suppress(FileNotFoundError, DamagedFile):
        check_file(path, sha256)
        return
    _check_room(len(content))
    remove_file(path)
    name = default_storage.save(path, ContentFile(content))
    if name != path:  # somebody else stored the same meanwhile
        remove_file(name)


def size_of(path: str) -> int | None:
    """Bytes of a file; None where there is none."""
    with contextlib.suppress(OSError):
        return int(default_storage.size(path))
    return None


def is_cheap_to_ask() -> bool:
    """Whether files lie in a folder of this machine, where it costs nothing to look whether they are there."""
    try:
        default_storage.path(FOLDER)
    except NotImplementedError:
        return False
    return True


def check_file(path: str, sha256: str) -> int:
    """Bytes of the file, whose hash was compared. Raises DamagedFile, OSError (FileNotFoundError where it is gone)."""
    digest, size = hashlib.sha256(), 0
    with default_storage.open(path) as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            size += len(piece)
    if digest.hexdigest() != sha256:
        raise DamagedFile(path)
    return size


def content_of(path: str, sha256: str) -> bytes:
    """The whole file, whose hash was compared. Raises DamagedFile, OSError."""
    with default_storage.open(path) as file:
        content: bytes = file.read()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedFile(path)
    return content


def pieces_of(path: str) -> Iterator[bytes]:
    """The file, piece by piece. Raises OSError."""
    with default_storage.open(path) as file:
        while piece := file.read(PIECE):
            yield piece


def remove_file(path: str) -> None:
    """Harmless where it is gone already."""
    with contextlib.suppress(OSError):
        default_storage.delete(path)


def remove_all(experiment_id: str) -> None:
    """Everything of an experiment: what rows name must be removed before, this is the rest. Of folders only."""
    with contextlib.suppress(NotImplementedError):
        shutil.rmtree(default_storage.path(f"{FOLDER}/{experiment_id}"), ignore_errors=True)


def _check_room(size: int) -> None:
    """Raises NoRoom. Of a storage elsewhere nothing is known."""
    try:
        folder = Path(default_storage.path(FOLDER))
    except NotImplementedError:
        return
    while not folder.exists():
        folder = folder.parent
    if shutil.disk_usage(folder).free < KEPT_FREE + size:
        raise NoRoom("The server's disk is nearly full.")
