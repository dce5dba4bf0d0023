"""Checkpoints that a ``KeeperReceiver`` keeps, in a folder: chunks and manifests, named by their content.

Methods may be called from several threads. What a method has stored is on the disk when it returns.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from pathlib import Path

from trainingservice.receiver.checkpoint_manifests import ReadManifest, check_chunk, missing_chunks, read_manifest
from trialkeeper.durable_files import put_in_place


class CheckpointFolder:
    """Those of one experiment. Nothing is removed but by ``shutil.rmtree`` of the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def missing(self, hashes: Sequence[str]) -> list[str]:
        """Those of these chunks that are not here."""
        return [sha256 for sha256 in hashes if not self._chunk(sha256).is_file()]

    def put_chunk(self, sha256: str, content: bytes) -> None:
        """Raises RefusedReport where it has another hash, OSError where it cannot be stored."""
        check_chunk(content, sha256)
        self._store(self._chunk(sha256), content)

    def put_manifest(self, checkpoint_id: str, content: bytes) -> None:
        """Raises RefusedReport where it is wrong or chunks are missing, OSError where it cannot be stored."""
        manifest = read_manifest(content, checkpoint_id)
        if missing := self.missing(list(manifest.chunks)):
            raise missing_chunks(missing)
        self._store(self._manifest(checkpoint_id), content)

    def has(self, checkpoint_id: str) -> bool:
        """Whether its manifest was sent."""
        return self._manifest(checkpoint_id).is_file()

    def manifest(self, checkpoint_id: str) -> ReadManifest:
        """Raises FileNotFoundError, and RefusedReport where it was damaged."""
        return read_manifest(self._manifest(checkpoint_id).read_bytes(), checkpoint_id)

    def chunk_content(self, sha256: str) -> bytes | None:
        """None where it is not here, or damaged."""
        return _checked(self._chunk(sha256), sha256)

    def manifest_content(self, checkpoint_id: str) -> bytes | None:
        """None where it is not here, or damaged."""
        return _checked(self._manifest(checkpoint_id), checkpoint_id)

    def _chunk(self, sha256: str) -> Path:
        return self._folder / "chunks" / sha256[:2] / sha256

    def _manifest(self, checkpoint_id: str) -> Path:
        return self._folder / "manifests" / checkpoint_id

    @staticmethod
    def _store(path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.parent / f".{secrets.token_hex(8)}.part"
        try:
            part.write_bytes(content)
            put_in_place(str(part), str(path))
        finally:
            part.unlink(missing_ok=True)


def _checked(path: Path, sha256: str) -> bytes | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    return content if hashlib.sha256(content).hexdigest() == sha256 else None
