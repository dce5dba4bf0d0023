"""Reads a checkpoint, a file or a folder of plain files, and cuts it into chunks that are named by their hash.

Files are cut at multiples of contract.CHUNK_BYTES: a file that did not change since the last checkpoint, or only grew,
has the same chunks, which are not sent again.
"""

import contextlib
import hashlib
import os
import stat
from typing import Any, BinaryIO, Callable, Iterator, List, NamedTuple, Tuple

from trialkeeper import contract
from trialkeeper.checkpoint_entry import Problem, is_text
from trialkeeper.checkpoint_manifest import manifest_text
from trialkeeper.checkpoint_upload import Place
from trialkeeper.folder_reader import open_plain_file

#: Bytes that are read and hashed at once.
_BLOCK = 1024 * 1024
#: How deep a checkpoint's folders go at most.
DEEPEST = 50


class CutCheckpoint(NamedTuple):
    """A checkpoint that was read. ``id``: SHA-256 (hex) of ``text``, the manifest's bytes."""

    id: str
    text: bytes
    manifest: contract.Manifest
    size: int


class _Found(NamedTuple):
    path: str
    seen: os.stat_result


def cut(folder: str, name: str, most_bytes: int,
        found: Callable[[str, Place], None] = lambda sha256, place: None) -> CutCheckpoint:
    """Read the checkpoint ``name`` in ``folder``. Raises Problem. Takes as long as reading and hashing it takes.

    ``found`` is told the hash of each chunk as soon as it is known, before it is certain that nothing changes.
    """
    files, folders, is_folder = _look(folder, name)
    size = sum(file.seen.st_size for file in files)
    if size > most_bytes:
        raise Problem(contract.TOO_LARGE, str(size))
    if len(files) + len(folders) > contract.MAX_CHECKPOINT_FILES:
        raise Problem(contract.TOO_MANY_FILES, str(len(files) + len(folders)))
    cut_files: List[contract.ManifestFile] = []
    for file in files:
        inner = name + "/" + file.path if is_folder else name
        chunks: List[str] = []
        for sha256, size in _chunks(folder, inner, file.seen):
            found(sha256, Place(inner, len(chunks), size))
            chunks.append(sha256)
        cut_files.append({"path": file.path, "size": file.seen.st_size, "mode": file.seen.st_mode & 0o777,
                          "chunks": chunks})
    again, folders_again, _ = _look(folder, name)
    if folders_again != folders or [_of(file) for file in again] != [_of(file) for file in files]:
        raise Problem(contract.CHANGED, name)
    manifest: contract.Manifest = {"version": 1, "name": name, "files": cut_files, "folders": folders}
    text = manifest_text(manifest)
    if len(text) > contract.MAX_MANIFEST_BYTES:
        raise Problem(contract.TOO_MANY_FILES, str(len(files) + len(folders)))
    return CutCheckpoint(hashlib.sha256(text).hexdigest(), text, manifest, size)


def read_chunk(folder: str, place: Place) -> bytearray:
    """One chunk of a file of the checkpoint, in memory. Raises Problem."""
    content = bytearray(place.size)
    try:
        with opened_chunk(folder, place) as (stream, begin):
            stream.seek(begin)
            if _read_into(stream, memoryview(content)) < place.size:
                raise Problem(contract.CHANGED, place.path)
    except OSError as error:
        raise unreadable(place.path, error) from error
    return content


@contextlib.contextmanager
def opened_chunk(folder: str, place: Place) -> Iterator[Tuple[BinaryIO, int]]:
    """The file in which a chunk is, unbuffered, and where in it the chunk begins. Raises Problem."""
    try:
        descriptor = open_plain_file(folder, place.path)
    except OSError as error:
        raise unreadable(place.path, error) from error
    with open(descriptor, "rb", buffering=0) as stream:
        yield stream, place.number * contract.CHUNK_BYTES


def _of(file: _Found) -> Tuple[str, Tuple[int, int, int]]:
    return file.path, _state(file.seen)


def _look(folder: str, name: str) -> Tuple[List[_Found], List[str], bool]:
    """Its files and folders, by path, and whether it is a folder. Raises Problem."""
    try:
        seen = os.stat(os.path.join(folder, name), follow_symlinks=False)
    except OSError as error:
        raise unreadable(name, error) from error
    if stat.S_ISREG(seen.st_mode):
        return [_Found("", seen)], [], False
    if not stat.S_ISDIR(seen.st_mode):
        raise Problem(contract.NOT_PLAIN, name)
    files: List[_Found] = []
    folders: List[str] = []
    for path, inner in _walk(os.path.join(folder, name), "", 0):
        if stat.S_ISDIR(inner.st_mode):
            folders.append(path)
        else:
            files.append(_Found(path, inner))
        if len(files) + len(folders) > contract.MAX_CHECKPOINT_FILES:
            raise Problem(contract.TOO_MANY_FILES, "more than %d" % contract.MAX_CHECKPOINT_FILES)
    return sorted(files, key=lambda file: file.path), sorted(folders), True


def _walk(folder: str, prefix: str, depth: int) -> Iterator[Tuple[str, os.stat_result]]:
    """Path below the first folder and status of all that is in it. Raises Problem."""
    inner: List[str] = []
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(prefix.rstrip("/") or os.path.basename(folder), error) from error
    try:
        for name in sorted(os.listdir(descriptor)):
            path = prefix + name
            if not is_text(name):
                raise Problem(contract.NOT_PLAIN, path.encode("utf-8", "backslashreplace").decode())
            seen = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISDIR(seen.st_mode):
                inner.append(name)
            elif not stat.S_ISREG(seen.st_mode):
                raise Problem(contract.NOT_PLAIN, path)
            yield path, seen
    except OSError as error:
        raise unreadable(prefix.rstrip("/") or os.path.basename(folder), error) from error
    finally:
        os.close(descriptor)
    for name in inner:
        if depth >= DEEPEST:
            raise Problem(contract.TOO_MANY_FILES, "folders are more than %d deep" % DEEPEST)
        yield from _walk(os.path.join(folder, name), prefix + name + "/", depth + 1)


def _chunks(folder: str, inner: str, expected: os.stat_result) -> Iterator[Tuple[str, int]]:
    """Hash and bytes of each chunk."""
    block = memoryview(bytearray(min(_BLOCK, expected.st_size)))
    try:
        with open(open_plain_file(folder, inner), "rb", buffering=0) as stream:
            if _state(os.fstat(stream.fileno())) != _state(expected):
                raise Problem(contract.CHANGED, inner)
            left = expected.st_size
            while left:
                digest, size = hashlib.sha256(), min(contract.CHUNK_BYTES, left)
                for begin in range(0, size, _BLOCK):
                    part = block[:min(_BLOCK, size - begin)]
                    if _read_into(stream, part) < len(part):
                        raise Problem(contract.CHANGED, inner)
                    digest.update(part)
                left -= size
                yield digest.hexdigest(), size
            if _state(os.fstat(stream.fileno())) != _state(expected):
                raise Problem(contract.CHANGED, inner)
    except OSError as error:
        raise unreadable(inner, error) from error


def _read_into(stream: Any, target: memoryview) -> int:
    """Bytes that were read: fewer than there is room for where the file ends."""
    size = 0
    while size < len(target):
        more = stream.readinto(target[size:])
        if not more:
            break
        size += more
    return size


def _state(seen: os.stat_result) -> Tuple[int, int, int]:
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def unreadable(path: str, error: OSError) -> Problem:
    """What is wrong where a file of the checkpoint cannot be read."""
    if isinstance(error, FileNotFoundError):
        return Problem(contract.CHANGED, path)
    return Problem(contract.UNREADABLE, "%s: %s" % (path, error.strerror or error))
