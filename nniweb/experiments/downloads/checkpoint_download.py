"""A checkpoint as one tar archive, in pieces as the reader takes them; each chunk's hash is compared before it goes."""

from __future__ import annotations

import logging
import tarfile
from collections.abc import Iterator

from nniweb.experiments.checkpoints.chunk_files import DamagedFile, chunk_path, content_of, manifest_path
from nniweb.experiments.models import Checkpoint
from nniweb.storage.elsewhere import StorageFailed
from trainingservice.receiver.checkpoint_manifests import ReadManifest, read_manifest

logger = logging.getLogger(__name__)


class CheckpointDamaged(Exception):
    """Something of it is damaged or missing on the server's disk. The sentence says what."""


class CheckpointAway(CheckpointDamaged):
    """Nothing is known to be damaged: its storage elsewhere does not answer at the moment."""


def manifest_of(checkpoint: Checkpoint) -> ReadManifest:
    """What the checkpoint consists of. Raises CheckpointDamaged."""
    path = manifest_path(checkpoint.trial.experiment.public_id, checkpoint.manifest)
    return read_manifest(_content(checkpoint, path, checkpoint.manifest), checkpoint.manifest)


def checkpoint_pieces(checkpoint: Checkpoint, manifest: ReadManifest) -> Iterator[bytes]:
    """The archive: folders and files below the checkpoint's name, or the one file under this name. At most one chunk is
    in memory. Raises CheckpointDamaged in the middle, so that nobody takes what was sent for the whole.
    """
    changed = (checkpoint.confirmed_at or checkpoint.created_at).timestamp()
    for path in manifest.folders:
        yield _header(f"{manifest.name}/{path}", 0, 0o755, changed, tarfile.DIRTYPE)
    for file in manifest.files:
        name = f"{manifest.name}/{file['path']}" if file["path"] else manifest.name
        yield _header(name, file["size"], file["mode"] & 0o777, changed, tarfile.REGTYPE)
        for sha256 in file["chunks"]:
            yield _content(checkpoint, chunk_path(checkpoint.trial.experiment.public_id, sha256), sha256)
        if padding := -file["size"] % tarfile.BLOCKSIZE:
            yield bytes(padding)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _content(checkpoint: Checkpoint, path: str, sha256: str) -> bytes:
    try:
        return content_of(path, sha256)
    except FileNotFoundError:
        what = "is missing"
    except DamagedFile:
        what = "is damaged"
    except OSError as error:
        logger.warning("%s of the checkpoint %s cannot be read: %s", path, checkpoint.name, error)
        kind = CheckpointAway if isinstance(error, StorageFailed) else CheckpointDamaged
        raise kind(f"A part of the checkpoint {checkpoint.name} cannot be read at the moment. Try again later; the "
                   "server's log says why.") from error
    raise CheckpointDamaged(f"A part of the checkpoint {checkpoint.name} {what} on the server's disk ({path}). Restore "
                            "it from a backup (docs/backup.md), or use another checkpoint.")


def _header(name: str, size: int, mode: int, changed: float, kind: bytes) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime, member.type = size, mode, int(changed), kind
    return member.tobuf(tarfile.PAX_FORMAT)
