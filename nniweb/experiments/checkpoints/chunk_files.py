"""The files of checkpoints in Django's storage: chunks and manifests, named by their content, of one experiment each.

A file that is there is whole: it is written without a name, or beside its place, flushed, and then gets its name.
Blocking; any thread. What goes wrong in a storage elsewhere is an OSError, as on a disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, default_storage, storages
from django.utils.functional import LazyObject

from nniweb.experiments.checkpoints.incoming_file import IncomingFile, keep_together
from nniweb.storage.elsewhere import StorageFailed

#: Folder of all of them in the storage.
FOLDER = "checkpoints"
#: Bytes that stay free on the disk of the storage: it is the database's disk, too, on most servers.
KEPT_FREE = 1024 ** 3
#: As that, where the storage is elsewhere: what keepers send lies on the disk of the data folder on its way.
KEPT_FREE_ON_THE_WAY = 128 * 1024 ** 2
#: Bytes that are read at once.
PIECE = 256 * 1024


class _CheckpointStorage(LazyObject):  # type: ignore[type-arg]  # generic in the stubs only
    """That of NNIWEB_CHECKPOINT_STORAGE, else that of all files."""

    def _setup(self) -> None:
        self._wrapped = storages["checkpoints"] if "checkpoints" in storages.backends else default_storage


checkpoint_storage: Storage = cast(Storage, _CheckpointStorage())


class DamagedFile(Exception):
    """What lies in the storage has another hash than its name."""


class NoRoom(OSError):
    """The disk of the storage is nearly full."""


@contextlib.contextmanager
def _errors_of_storage() -> Iterator[None]:
    try:
        yield
    except (OSError, NotImplementedError, DamagedFile):
        raise
    except Exception as error:  # each storage has errors of its own
        raise StorageFailed(f"The storage of checkpoints failed: {type(error).__name__}: {error}") from error


def chunk_path(experiment_id: str, sha256: str) -> str:
    """Of a chunk. ``experiment_id``: the public one."""
    return f"{FOLDER}/{experiment_id}/chunks/{sha256[:2]}/{sha256}"


def manifest_path(experiment_id: str, manifest: str) -> str:
    """Of a manifest, by its SHA-256."""
    return f"{FOLDER}/{experiment_id}/manifests/{manifest}"


def incoming_file() -> IncomingFile:
    """For what a keeper begins to send: on the disk of the storage, where that is a folder. Raises OSError."""
    return IncomingFile(incoming_folder(), _check_room_on_the_way)


def incoming_folder() -> str:
    """Where files lie that have no name yet. Raises OSError."""
    try:
        folder = checkpoint_storage.path(FOLDER)
    except NotImplementedError:
        return str(settings.DATA_FOLDER)
    Path(folder).mkdir(parents=True, exist_ok=True)
    return folder


def keep_file(path: str, sha256: str, content: IncomingFile) -> None:
    """Store content under the name of its hash, unless it is there and undamaged. Durable when this returns.

    Raises NoRoom, OSError.
    """
    try:
        check_file(path, sha256)
        return
    except FileNotFoundError:
        pass  # nothing is removed: another who sends the same may have stored it by now
    except DamagedFile:
        remove_file(path)
    _check_room(content.size)
    if is_cheap_to_ask() and content.keep_at(checkpoint_storage.path(path)):
        return
    with _errors_of_storage():
        name = checkpoint_storage.save(path, ContentFile(content.content()))
    if name != path:  # somebody else stored the same meanwhile
        remove_file(name)


def keep_small_files(contents: Mapping[str, tuple[str, bytes]]) -> None:
    """As ``keep_file``, for several small ones: path -> hash and content. All are durable when this returns. Only where
    files lie in a folder of this machine (``is_cheap_to_ask``).
    """
    absent: dict[str, bytes] = {}
    for path, (sha256, content) in contents.items():
        try:
            check_file(path, sha256)
        except FileNotFoundError:
            absent[path] = content
        except DamagedFile:
            remove_file(path)
            absent[path] = content
    if not absent:
        return
    _check_room(sum(map(len, absent.values())))
    named = keep_together(incoming_folder(), {
        checkpoint_storage.path(path): content for path, content in absent.items()})
    for path, content in absent.items():
        if checkpoint_storage.path(path) in named:
            continue
        with _errors_of_storage():
            name = checkpoint_storage.save(path, ContentFile(content))
        if name != path:  # somebody else stored the same meanwhile
            remove_file(name)


def size_of(path: str) -> int | None:
    """Bytes of a file; None where there is none."""
    with contextlib.suppress(OSError), _errors_of_storage():
        return int(checkpoint_storage.size(path))
    return None


def is_cheap_to_ask() -> bool:
    """Whether files lie in a folder of this machine, where it costs nothing to look whether they are there."""
    try:
        checkpoint_storage.path(FOLDER)
    except NotImplementedError:
        return False
    return True


def check_file(path: str, sha256: str) -> int:
    """Bytes of the file, whose hash was compared. Raises DamagedFile, OSError (FileNotFoundError where it is gone)."""
    digest, size = hashlib.sha256(), 0
    with _errors_of_storage(), checkpoint_storage.open(path) as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            size += len(piece)
    if digest.hexdigest() != sha256:
        raise DamagedFile(path)
    return size


def content_of(path: str, sha256: str) -> bytes:
    """The whole file, whose hash was compared. Raises DamagedFile, OSError."""
    with _errors_of_storage(), checkpoint_storage.open(path) as file:
        content: bytes = file.read()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedFile(path)
    return content


def pieces_of(path: str) -> Iterator[bytes]:
    """The file, piece by piece. Raises OSError."""
    with _errors_of_storage(), checkpoint_storage.open(path) as file:
        while piece := file.read(PIECE):
            yield piece


def remove_file(path: str) -> None:
    """Harmless where it is gone already. Raises StorageFailed where a storage elsewhere does not answer."""
    try:
        with _errors_of_storage():
            checkpoint_storage.delete(path)
    except StorageFailed:
        raise
    except OSError:
        return


def check_storage() -> None:
    """Ask whether a storage elsewhere answers, before a transaction has to wait for it. Raises StorageFailed."""
    if not is_cheap_to_ask():
        with _errors_of_storage():
            checkpoint_storage.exists(f"{FOLDER}/probe")


def remove_all(experiment_id: str) -> None:
    """Everything of an experiment: what rows name must be removed before, this is the rest. Of folders only."""
    with contextlib.suppress(NotImplementedError):
        shutil.rmtree(checkpoint_storage.path(f"{FOLDER}/{experiment_id}"), ignore_errors=True)


def _check_room_on_the_way(size: int) -> None:
    """As ``_check_room``, for what arrives."""
    if is_cheap_to_ask():
        _check_room(size)
    elif shutil.disk_usage(settings.DATA_FOLDER).free < KEPT_FREE_ON_THE_WAY + size:
        raise NoRoom("The disk of the server's data folder is nearly full.")


def _check_room(size: int) -> None:
    """Raises NoRoom. Of a storage elsewhere nothing is known."""
    try:
        folder = Path(checkpoint_storage.path(FOLDER))
    except NotImplementedError:
        return
    while not folder.exists():
        folder = folder.parent
    if shutil.disk_usage(folder).free < KEPT_FREE + size:
        raise NoRoom("The server's disk is nearly full.")
