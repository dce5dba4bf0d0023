"""The blocking part of the calls about checkpoints. Each function is called by a thread, and closes what it opened.

All raise RefusedReport, and OSError where the disk of the storage is full or broken. Bodies are closed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.utils import timezone

from nniweb.experiments.checkpoints.checkpoint_settings import checkpoints_of
from nniweb.experiments.checkpoints.chunk_files import (
    DamagedFile,
    check_file,
    chunk_path,
    content_of,
    is_cheap_to_ask,
    manifest_path,
)
from nniweb.experiments.checkpoints.deleted_meanwhile import ExperimentDeleted
from nniweb.experiments.checkpoints.incoming_file import IncomingFile
from nniweb.experiments.checkpoints.stored_checkpoints import (
    add_checkpoint,
    chunk_was_lost,
    counting,
    has_chunk,
    keep_chunk,
    keep_chunks,
    known_chunks,
    may_have_chunk,
    may_have_chunks,
    missing_chunks,
    trials_to_take_from,
    wrong_sizes,
)
from nniweb.experiments.models import Attempt, Experiment
from nniweb.experiments.quotas.checkpoint_quota import why_no_checkpoints_more
from nniweb.experiments.sql.idle_connections import give_connection_back
from nniweb.keeperapi import job_files
from trainingservice.receiver import checkpoint_manifests
from trainingservice.receiver.report_reading import RefusedReport
from trainingservice.words.byte_size import byte_size
from trialkeeper import chunk_pack, contract

logger = logging.getLogger(__name__)

#: The word for what is there and has another hash than it must have, beside ``contract.ERROR_*``.
ERROR_DAMAGED = "damaged"


def missing(job_name: str, token_hash: str, body: IncomingFile) -> dict[str, Any]:
    """Which of the chunks that it names the experiment does not have."""
    with _attempt(job_name, token_hash, body) as attempt:
        hashes = checkpoint_manifests.read_question(body.content())
        return {"missing": missing_chunks(_that_keeps(attempt), hashes, timezone.now())}


def put_chunk(job_name: str, token_hash: str, sha256: str, body: IncomingFile) -> dict[str, Any]:
    """Store a chunk, once."""
    with _attempt(job_name, token_hash, body) as attempt:
        experiment = _that_keeps(attempt)
        checkpoint_manifests.check_hash(body.size, body.sha256, sha256)
        if not has_chunk(experiment, sha256) and (why_not := why_no_checkpoints_more(experiment, body.size)):
            raise RefusedReport(413, contract.ERROR_TOO_LARGE, why_not)
        keep_chunk(experiment, sha256, body, timezone.now())
        return {}


def put_chunks(job_name: str, token_hash: str, body: IncomingFile) -> dict[str, Any]:
    """Store small chunks that came together, each once."""
    with _attempt(job_name, token_hash, body) as attempt:
        experiment = _that_keeps(attempt)
        _refuse_together_where_it_is_slow()
        chunks = checkpoint_manifests.read_pack(body.content())
        known = known_chunks(experiment, chunks)
        new = sum(len(content) for sha256, content in chunks.items() if sha256 not in known)
        if new and (why_not := why_no_checkpoints_more(experiment, new)):
            raise RefusedReport(413, contract.ERROR_TOO_LARGE, why_not)
        keep_chunks(experiment, chunks, timezone.now())
        return {}


def put_manifest(job_name: str, token_hash: str, checkpoint_id: str, body: IncomingFile) -> dict[str, Any]:
    """Store what a checkpoint consists of. It counts when its journal entry is committed."""
    with _attempt(job_name, token_hash, body) as attempt:
        experiment = _that_keeps(attempt)
        now = timezone.now()
        manifest = checkpoint_manifests.read_manifest(body.content(), checkpoint_id)
        _refuse_by_size(experiment, manifest.size)
        if absent := missing_chunks(experiment, list(manifest.chunks), now):
            raise checkpoint_manifests.missing_chunks(absent)
        if wrong_sizes(experiment, manifest.chunks):
            raise RefusedReport(400, contract.ERROR_UNREADABLE, "The manifest gives a chunk a size that it has not.")
        if absent := add_checkpoint(
                attempt, checkpoint_id, body, name=manifest.name, size=manifest.size,
                file_count=len(manifest.files), chunks=list(manifest.chunks), now=now):
            raise checkpoint_manifests.missing_chunks(absent)
        return {}


def manifest_to_send(job_name: str, token_hash: str, checkpoint_id: str) -> tuple[str, int]:
    """Path in the storage and bytes of the manifest of a checkpoint that counts, of the same trial or of one that it
    continues.
    """
    with _attempt(job_name, token_hash) as attempt:
        if not any(counting(trial).filter(manifest=checkpoint_id).exists()
                   for trial in trials_to_take_from(attempt.trial)):
            raise _unknown("The trial has no such checkpoint.")
        path = manifest_path(attempt.trial.experiment.public_id, checkpoint_id)
        return path, _checked(path, checkpoint_id, f"the manifest {checkpoint_id}")


def chunk_to_send(job_name: str, token_hash: str, sha256: str) -> tuple[str, int]:
    """Path in the storage and bytes of a chunk of such a checkpoint."""
    with _attempt(job_name, token_hash) as attempt:
        experiment = attempt.trial.experiment
        if not may_have_chunk(attempt.trial, sha256):
            raise _unknown("The trial has no checkpoint with such a chunk.")
        path = chunk_path(experiment.public_id, sha256)
        try:
            return path, _checked(path, sha256, f"the chunk {sha256}")
        except RefusedReport:
            chunk_was_lost(experiment, sha256, timezone.now())
            raise


def chunks_to_send(job_name: str, token_hash: str, body: IncomingFile) -> bytes:
    """A pack of small chunks of such checkpoints, in the order of the question. Refused as a whole where one cannot be
    sent: asked for alone, that one is told to be missing or damaged.
    """
    with _attempt(job_name, token_hash, body) as attempt:
        _refuse_together_where_it_is_slow()
        hashes = checkpoint_manifests.read_question(body.content())
        if len(hashes) > chunk_pack.MOST_CHUNKS:
            raise _unknown(f"At most {chunk_pack.MOST_CHUNKS} chunks are sent together.")
        sizes = may_have_chunks(attempt.trial, hashes)
        if len(sizes) < len(hashes):
            raise _unknown("The trial has no checkpoint with one of these chunks.")
        if max(sizes.values(), default=0) > chunk_pack.SMALL_CHUNK or sum(sizes.values()) > chunk_pack.MOST_BYTES:
            raise _unknown("These chunks are too large to be sent together.")
        experiment = attempt.trial.experiment.public_id
        try:
            return chunk_pack.pack(content_of(chunk_path(experiment, sha256), sha256) for sha256 in hashes)
        except (FileNotFoundError, DamagedFile):
            raise _unknown("One of these chunks is missing or damaged.") from None


@contextmanager
def _attempt(job_name: str, token_hash: str, body: IncomingFile | None = None) -> Iterator[Attempt]:
    try:
        attempt = job_files.saving_attempt(job_name, token_hash)
        if attempt.stage == Attempt.Stage.ENDED:
            raise RefusedReport(410, contract.ERROR_GONE, "This attempt has ended.")
        yield attempt
    except ExperimentDeleted:
        raise job_files.deleted_meanwhile() from None
    finally:
        if body is not None:
            body.close()
        give_connection_back()


def _that_keeps(attempt: Attempt) -> Experiment:
    """The attempt's experiment. Raises RefusedReport where it keeps no checkpoints."""
    experiment = attempt.trial.experiment
    if checkpoints_of(experiment) is None:
        raise RefusedReport(413, contract.ERROR_TOO_LARGE, "The experiment keeps no checkpoints.")
    return experiment


def _refuse_together_where_it_is_slow() -> None:
    """A storage elsewhere takes each file by a request of its own: the keeper would not wait for hundreds of them."""
    if not is_cheap_to_ask():
        raise RefusedReport(405, "unknown", "Chunks are sent one by one to the storage of this server.")


def _refuse_by_size(experiment: Experiment, size: int) -> None:
    settings = checkpoints_of(experiment)
    if settings is not None and size > settings.max_bytes:
        raise RefusedReport(413, contract.ERROR_TOO_LARGE, f"The checkpoint has {byte_size(size)}, and maxSize of "
                            f"checkpoints is {byte_size(settings.max_bytes)}.")


def _checked(path: str, sha256: str, what: str) -> int:
    """Bytes of the file. Raises RefusedReport, 404, where it is missing or damaged."""
    try:
        return check_file(path, sha256)
    except FileNotFoundError:
        logger.error("%s is not in the storage of the server (%s)", what, path)
        raise _unknown(f"The server does not have {what} any more.") from None
    except DamagedFile:
        logger.error("%s is damaged in the storage of the server (%s)", what, path)
        raise RefusedReport(404, ERROR_DAMAGED, f"On the server's disk {what} is damaged.") from None


def _unknown(message: str) -> RefusedReport:
    return RefusedReport(404, "unknown", message)
