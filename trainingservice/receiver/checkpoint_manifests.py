"""Reads what keepers send about checkpoints: manifests, lists of hashes, chunks.

Pure functions without threads, clocks or storage; every server of the keeper protocol calls them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainingservice.limited_json import storable
from trainingservice.receiver.report_reading import RefusedReport
from trialkeeper import checkpoint_manifest, chunk_pack, contract
from trialkeeper.checkpoint_entry import Problem

#: Most bytes of the body of a question for missing chunks.
MAX_QUESTION_BYTES = 100 * contract.MAX_ASKED_CHUNKS
#: Brackets and commas of a manifest, those within names counted: many times as many as the largest checkpoint needs.
#: Reading JSON holds up the whole process: 16 MiB of empty lists do for a second, and take 400 MB.
MOST_PARTS = 1_000_000


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
    """Check a manifest, by the rules of ``trialkeeper.checkpoint_manifest``. Raises RefusedReport: 400, and 413 where
    it is too long.
    """
    if len(body) > contract.MAX_MANIFEST_BYTES:
        raise RefusedReport(413, contract.ERROR_TOO_LARGE,
                            f"a manifest must not have more than {contract.MAX_MANIFEST_BYTES} bytes")
    if sum(map(body.count, (b"[", b"{", b","))) > MOST_PARTS:
        raise _wrong(f"the manifest has more than {MOST_PARTS} values")
    try:
        manifest = checkpoint_manifest.read_manifest(body, checkpoint_id)
    except Problem as problem:
        raise _wrong(problem.detail) from None
    return ReadManifest(storable(manifest["name"]), checkpoint_manifest.size_of(manifest), tuple(manifest["files"]),
                        tuple(manifest["folders"]), checkpoint_manifest.chunk_sizes(manifest))


def read_question(body: bytes) -> list[str]:
    """The hashes of a question for missing chunks, each once. Raises RefusedReport: 400."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise _wrong("the body is not JSON") from None
    hashes = document.get("hashes") if isinstance(document, Mapping) else None
    if not isinstance(hashes, list) or len(hashes) > contract.MAX_ASKED_CHUNKS:
        raise _wrong(f"hashes must be a list of at most {contract.MAX_ASKED_CHUNKS} texts")
    if not all(map(checkpoint_manifest.is_hash, hashes)):
        raise _wrong("each of hashes must be a SHA-256 of 64 hexadecimal digits")
    return list(dict.fromkeys(hashes))


def read_pack(body: bytes) -> dict[str, bytes]:
    """The small chunks that came in one body, by hash. Raises RefusedReport: 400."""
    try:
        contents = chunk_pack.unpack(body)
    except ValueError as error:
        raise _wrong(str(error)) from None
    return {hashlib.sha256(content).hexdigest(): content for content in contents}


def check_chunk(body: bytes, sha256: str) -> None:
    """Raises RefusedReport, 400, for a chunk that is empty or whose hash is another one."""
    check_hash(len(body), hashlib.sha256(body).hexdigest(), sha256)


def check_hash(size: int, found: str, sha256: str) -> None:
    """The same of a chunk of ``size`` bytes whose hash was found to be ``found``."""
    if not size:
        raise _wrong("a chunk must have at least one byte")
    if found != sha256:
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


def _wrong(message: str) -> RefusedReport:
    return RefusedReport(400, contract.ERROR_UNREADABLE, message)
