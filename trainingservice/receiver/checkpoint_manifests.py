"""Reads what keepers send about checkpoints: the one place that says which manifests and lists of hashes are right.

Pure functions without threads, clocks or storage; every server of the keeper protocol calls them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from trainingservice.limited_json import storable
from trainingservice.receiver.report_reading import MAX_NAME, MAX_PATH, RefusedReport
from trainingservice.words.shown_value import shown
from trialkeeper import contract

#: The version of manifests that is understood.
VERSION = 1
#: A SHA-256 as it stands in addresses, manifests and entries.
HASH = re.compile(r"[0-9a-f]{64}")
#: Most bytes of the body of a question for missing chunks.
MAX_QUESTION_BYTES = 100 * contract.MAX_ASKED_CHUNKS

_INT64 = 2**63 - 1


@dataclass(frozen=True)
class ReadManifest:
    """A manifest whose every field was checked."""

    #: Fit for a text column.
    name: str
    #: Bytes of all files together.
    size: int
    #: In the order of the manifest.
    files: tuple[contract.ManifestFile, ...]
    folders: tuple[str, ...]
    #: Hash -> bytes, of each chunk that the files consist of.
    chunks: Mapping[str, int]


def read_manifest(body: bytes, checkpoint_id: str) -> ReadManifest:
    """Check a manifest. Raises RefusedReport: 400, and 413 where it is too long."""
    if len(body) > contract.MAX_MANIFEST_BYTES:
        raise RefusedReport(413, contract.ERROR_TOO_LARGE,
                            f"a manifest must not have more than {contract.MAX_MANIFEST_BYTES} bytes")
    if hashlib.sha256(body).hexdigest() != checkpoint_id:
        raise _wrong("the manifest has another SHA-256 than the address")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise _wrong("the manifest is not JSON") from None
    if not isinstance(document, Mapping) or document.get("version") != VERSION:
        raise _wrong(f"the manifest is not an object with version {VERSION}")
    name, files, folders = document.get("name"), document.get("files"), document.get("folders")
    if not is_name(name):
        raise _wrong(f"the manifest's name must be the name of a file or folder of at most {MAX_NAME} characters")
    if not isinstance(files, list) or not isinstance(folders, list):
        raise _wrong("the manifest's files and folders must be lists")
    if len(files) + len(folders) > contract.MAX_CHECKPOINT_FILES:
        raise RefusedReport(413, contract.ERROR_TOO_LARGE,
                            f"a checkpoint must not have more than {contract.MAX_CHECKPOINT_FILES} files and folders")
    chunks: dict[str, int] = {}
    read = tuple(_file(raw, chunks) for raw in files)
    _check_paths([file["path"] for file in read], folders)
    return ReadManifest(storable(name), sum(file["size"] for file in read), read, tuple(folders), chunks)


def is_name(name: Any) -> TypeGuard[str]:
    """Whether it can be the name of one file or folder."""
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME and name not in (".", "..") \
        and not any(character in name for character in "/\0")


def read_question(body: bytes) -> list[str]:
    """The hashes of a question for missing chunks, each once. Raises RefusedReport: 400."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise _wrong("the body is not JSON") from None
    hashes = document.get("hashes") if isinstance(document, Mapping) else None
    if not isinstance(hashes, list) or len(hashes) > contract.MAX_ASKED_CHUNKS:
        raise _wrong(f"hashes must be a list of at most {contract.MAX_ASKED_CHUNKS} texts")
    if not all(isinstance(one, str) and HASH.fullmatch(one) for one in hashes):
        raise _wrong("each of hashes must be a SHA-256 of 64 hexadecimal digits")
    return list(dict.fromkeys(hashes))


def check_chunk(body: bytes, sha256: str) -> None:
    """Raises RefusedReport, 400, for a chunk that is empty or whose hash is another one."""
    if not body:
        raise _wrong("a chunk must have at least one byte")
    if hashlib.sha256(body).hexdigest() != sha256:
        raise _wrong("the chunk has another SHA-256 than the address")


def missing_chunks(missing: list[str]) -> RefusedReport:
    """The refusal of a manifest some of whose chunks the server does not have."""
    return _MissingChunks(missing[:contract.MAX_ASKED_CHUNKS])


class _MissingChunks(RefusedReport):
    def __init__(self, missing: list[str]) -> None:
        super().__init__(409, contract.ERROR_CHUNKS, "some chunks of the checkpoint are not here")
        self.missing = missing

    def document(self, installation: str) -> dict[str, Any]:
        return {**super().document(installation), "missing": self.missing}


def _file(raw: Any, chunks: dict[str, int]) -> contract.ManifestFile:
    if not isinstance(raw, Mapping):
        raise _wrong("each of the manifest's files must be an object")
    path, size, mode, hashes = raw.get("path"), raw.get("size"), raw.get("mode"), raw.get("chunks")
    if not isinstance(path, str):
        raise _wrong("the path of a file must be a text")
    if not _is_whole(size) or not 0 <= size <= _INT64 or not _is_whole(mode) or not 0 <= mode <= 0o7777:
        raise _wrong(f"size or mode of the file {shown(path[:200])} is not a number that it can be")
    count = -(-size // contract.CHUNK_BYTES)
    if not isinstance(hashes, list) or len(hashes) != count:
        raise _wrong(f"the file {shown(path[:200])} of {size} bytes must have {count} chunks")
    for index, sha256 in enumerate(hashes):
        if not isinstance(sha256, str) or not HASH.fullmatch(sha256):
            raise _wrong(f"the file {shown(path[:200])} names a chunk that is no SHA-256")
        of_chunk = min(contract.CHUNK_BYTES, size - index * contract.CHUNK_BYTES)
        if chunks.setdefault(sha256, of_chunk) != of_chunk:
            raise _wrong(f"the chunk {sha256} stands for two different numbers of bytes")
    return {"path": path, "size": size, "mode": mode, "chunks": list(hashes)}


def _check_paths(files: list[str], folders: list[Any]) -> None:
    if files == [""]:
        if folders:
            raise _wrong("a checkpoint that is a single file has no folders")
        return
    for path in (*files, *folders):
        if not isinstance(path, str) or len(path) > MAX_PATH or "\0" in path \
                or any(part in ("", ".", "..") for part in path.split("/")):
            raise _wrong(f"{shown(path if not isinstance(path, str) else path[:200])} is not a path within the "
                         "checkpoint")
    every = {*files, *folders}
    if len(every) < len(files) + len(folders):
        raise _wrong("a path stands in the manifest twice")
    are_files = set(files)
    for path in every:
        above = path.rpartition("/")[0]
        while above:
            if above in are_files:
                raise _wrong(f"{shown(path[:200])} lies below a file")
            above = above.rpartition("/")[0]


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(message: str) -> RefusedReport:
    return RefusedReport(400, contract.ERROR_UNREADABLE, message)
