"""Which files the rows name in the storage of files: all that an installation has there."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.files.storage import storages
from django.db.models import Exists, OuterRef

from nniweb.experiments.checkpoints.chunk_files import chunk_path, manifest_path, size_of
from nniweb.experiments.models import (
    Checkpoint,
    CheckpointChunk,
    CheckpointChunkUse,
    CodeArchive,
    CodeVariant,
    TrialFile,
    TrialOutput,
)


def stored_files() -> Iterator[tuple[str, int]]:
    """Name and bytes of each, once. Checkpoints only where they have no storage of their own."""
    yield from CodeArchive.objects.values_list("storage_path", "size").iterator()
    yield from CodeVariant.objects.filter(removed_at=None).values_list("storage_path", "size").iterator()
    yield from TrialFile.objects.values_list("storage_path", "size").iterator()
    stored = TrialOutput.objects.filter(storage_path__isnull=False)
    for path, size in stored.values_list("storage_path", "stored_size").iterator():
        yield path or "", size or 0
    if "checkpoints" not in storages.backends:
        yield from _of_checkpoints()


def _of_checkpoints() -> Iterator[tuple[str, int]]:
    used = CheckpointChunk.objects.filter(Exists(CheckpointChunkUse.objects.filter(chunk=OuterRef("pk"))), lost_at=None)
    for experiment, sha256, size in used.values_list("experiment__public_id", "sha256", "size").iterator():
        yield chunk_path(experiment, sha256), size
    manifests = Checkpoint.objects.filter(stored_at__isnull=False).values_list(
        "trial__experiment__public_id", "manifest").distinct()
    for experiment, manifest in manifests.iterator():
        path = manifest_path(experiment, manifest)
        yield path, size_of(path) or 0
