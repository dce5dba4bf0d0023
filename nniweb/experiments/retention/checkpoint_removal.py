"""Removes checkpoints that were let go of, and chunks that no checkpoint has, some at a time.

A row goes before its file, in one transaction: whoever sends the same chunk waits for its end, and then finds neither.
Whatever moment it is interrupted at, the same call goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from django.db.models import Exists, OuterRef, QuerySet

from nniweb.experiments.checkpoints.chunk_files import (
    check_storage,
    chunk_path,
    is_cheap_to_ask,
    manifest_path,
    remove_all,
    remove_file,
)
from nniweb.experiments.models import Attempt, Checkpoint, CheckpointChunk, CheckpointChunkUse, Experiment
from nniweb.experiments.retention.removal import Pace, remove_rows
from nniweb.experiments.sql.selected_rows import is_any

Key = TypeVar("Key")

#: What was sent and has become no checkpoint that counts is kept for so long: a large one is sent for hours.
UNUSED_FOR = timedelta(days=1)
#: Files that one transaction removes at most, of this machine and of a storage elsewhere.
MOST_FILES, MOST_ELSEWHERE = 100, 10
#: And their bytes, or one file: a disk removes large files at some 4 GB a second, and reports wait on SQLite meanwhile.
MOST_BYTES = 32 * 1024 * 1024


def remove_old_checkpoints(pace: Pace, is_over: Callable[[], bool]) -> bool:
    """Remove what checkpoints consist of that were let go of; whether there were any. One small question if not."""
    if not is_any(Checkpoint, "removed_at IS NOT NULL AND stored_at IS NOT NULL", []):
        return False
    while not is_over():
        checkpoint = Checkpoint.objects.filter(removed_at__isnull=False, stored_at__isnull=False).select_related(
            "trial__experiment").defer("trial__experiment__config", "trial__experiment__config_text").order_by(
            "removed_at").first()
        if checkpoint is None:
            break
        _remove_one(checkpoint, pace, is_over)
    return True


def _remove_one(checkpoint: Checkpoint, pace: Pace, is_over: Callable[[], bool]) -> None:
    experiment = checkpoint.trial.experiment
    its_uses = CheckpointChunkUse.objects.filter(checkpoint=checkpoint)
    while uses := dict(_removed_together(
            ((use, chunk), size)
            for use, chunk, size in its_uses.values_list("pk", "chunk", "chunk__size")[:_files_at_once()])):
        # those that nobody has asked for since it was sent; the others are left to ``remove_unused``
        chunks = CheckpointChunk.objects.filter(pk__in=list(uses.values()), wanted_at__lte=checkpoint.stored_at)
        _remove_unused(experiment, chunks, checkpoint.removed_at, pace, uses=list(uses))
        if is_over():
            return
    with pace.measured():
        others = Checkpoint.objects.filter(trial__experiment=experiment, manifest=checkpoint.manifest)
        if not others.exclude(pk=checkpoint.pk).exclude(removed_at__isnull=False, stored_at=None).exists():
            remove_file(manifest_path(experiment.public_id, checkpoint.manifest))
        still = Checkpoint.objects.filter(pk=checkpoint.pk, removed_at__isnull=False)
        if Attempt.objects.filter(resumed_from=checkpoint.pk).exists():
            still.update(stored_at=None)
        else:
            still.delete()


def _removed_together(files: Iterable[tuple[Key, int]]) -> list[Key]:
    """The first of these files that one transaction removes, by what they are known by; with each its bytes."""
    found: list[Key] = []
    total = 0
    for key, size in files:
        total += size
        if found and total > MOST_BYTES:
            break
        found.append(key)
    return found


def _files_at_once() -> int:
    """How many files a transaction may remove. A storage elsewhere is first asked whether it answers, so that no
    transaction waits for one that does not. Raises StorageFailed.
    """
    if is_cheap_to_ask():
        return MOST_FILES
    check_storage()
    return MOST_ELSEWHERE


def _remove_unused(experiment: Experiment, chunks: QuerySet[CheckpointChunk], now: datetime | None, pace: Pace,
                   most: int = MOST_FILES, uses: Sequence[int] = ()) -> int:
    """Those of these chunks that no checkpoint has; with them these uses (primary keys)."""
    unused = chunks.filter(~Exists(CheckpointChunkUse.objects.filter(chunk=OuterRef("pk")).exclude(pk__in=uses)))
    keys = _removed_together(unused.values_list("pk", "size")[:most])
    if not is_cheap_to_ask():
        # committed first: if the storage fails at the second file, no row says that the first is still there
        unused.filter(pk__in=keys).update(lost_at=now)
    with pace.measured():
        CheckpointChunkUse.objects.filter(pk__in=uses).delete()
        # holds the rows: from here on whoever asks for one waits, and those that were asked for meanwhile stay
        chunks.filter(pk__in=keys).update(lost_at=now)
        gone = dict(unused.filter(pk__in=keys).values_list("pk", "sha256"))
        CheckpointChunk.objects.filter(pk__in=list(gone)).delete()
        for sha256 in gone.values():
            remove_file(chunk_path(experiment.public_id, sha256))
    return len(gone)


def remove_unused(experiment: Experiment, now: datetime, pace: Pace, is_over: Callable[[], bool]) -> bool:
    """What keepers have sent of an experiment and no checkpoint that counts has; False where ``is_over`` came first."""
    if not CheckpointChunk.objects.filter(experiment=experiment).exists():
        return True
    before = now - UNUSED_FOR
    Checkpoint.objects.filter(trial__experiment=experiment, confirmed_at=None, removed_at=None, created_at__lt=before,
                              stored_at__isnull=False).update(removed_at=now)
    while not is_over():
        most = _files_at_once()
        if not _remove_unused(experiment, CheckpointChunk.objects.filter(
                experiment=experiment, wanted_at__lt=before), now, pace, most):
            return True
    return False


def let_go_of_checkpoints(experiment: Experiment, now: datetime) -> int:
    """Have all checkpoints of trials removed whose files retention has removed, or found that there are none; how many
    there are.
    """
    return Checkpoint.objects.filter(trial__experiment=experiment, trial__files_removed_at__isnull=False,
                                     removed_at=None).update(removed_at=now)


def remove_checkpoints_of(experiment: Experiment, pace: Pace, is_over: Callable[[], bool]) -> bool:
    """All rows and files of a deleted experiment; False where ``is_over`` came first."""
    while remove_rows(CheckpointChunkUse, pace, chunk__experiment=experiment):
        if is_over():
            return False
    while chunks := list(CheckpointChunk.objects.filter(experiment=experiment)[:MOST_FILES]):
        for chunk in chunks:
            remove_file(chunk_path(experiment.public_id, chunk.sha256))
        with pace.measured():
            CheckpointChunk.objects.filter(pk__in=[chunk.pk for chunk in chunks]).delete()
        if is_over():
            return False
    while checkpoints := list(Checkpoint.objects.filter(trial__experiment=experiment)[:MOST_FILES]):
        for one in checkpoints:
            remove_file(manifest_path(experiment.public_id, one.manifest))
        with pace.measured():
            Checkpoint.objects.filter(pk__in=[one.pk for one in checkpoints]).delete()
        if is_over():
            return False
    remove_all(experiment.public_id)
    return True
