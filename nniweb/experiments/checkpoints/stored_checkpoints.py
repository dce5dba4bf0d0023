"""Checkpoints as rows: which chunks an experiment has, what a manifest adds, which checkpoints an attempt may go on
from.

Each function that writes is one or several short transactions of its own, unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from django.db import transaction
from django.db.models import QuerySet

from nniweb.database.later_flush import flushed_later
from nniweb.experiments.checkpoints.checkpoint_settings import checkpoints_of
from nniweb.experiments.checkpoints.chunk_files import (
    chunk_path,
    is_cheap_to_ask,
    keep_file,
    keep_small_files,
    manifest_path,
    remove_all,
    remove_file,
    size_of,
)
from nniweb.experiments.checkpoints.continued_trials import line_of
from nniweb.experiments.checkpoints.deleted_meanwhile import unless_deleted
from nniweb.experiments.checkpoints.handed_on import hands_on
from nniweb.experiments.checkpoints.incoming_file import IncomingFile
from nniweb.experiments.checkpoints.shared_transactions import SharedTransactions
from nniweb.experiments.models import (
    Attempt,
    Checkpoint,
    CheckpointChunk,
    CheckpointChunkUse,
    Experiment,
    Metric,
    Trial,
)
from nniweb.experiments.sql.selected_rows import is_any
from trialkeeper import contract

#: A chunk that a keeper asked for and that is there is kept for so long, though no checkpoint has it.
WANTED_FOR = timedelta(hours=1)
#: Checkpoints that a new attempt is told of.
MOST_TO_RESUME = 3
#: Hashes of one question to the database, and rows of one transaction.
AT_ONCE = 500


def missing_chunks(experiment: Experiment, hashes: Sequence[str], now: datetime) -> list[str]:
    """Those of these chunks that the experiment does not have, in their order; the others are kept for WANTED_FOR."""
    missing: list[str] = []
    looks = is_cheap_to_ask()
    for some in _slices(hashes):
        rows = dict(CheckpointChunk.objects.filter(
            experiment=experiment, sha256__in=some, lost_at=None).values_list("sha256", "size"))
        # of what a restored backup does not have, or somebody removed from the disk, there are rows only
        here = [sha256 for sha256, size in rows.items()
                if not looks or size_of(chunk_path(experiment.public_id, sha256)) == size]
        kept = set(_want(experiment, here, now))
        missing += [sha256 for sha256 in some if sha256 not in kept]
    return missing


def _want(experiment: Experiment, hashes: Collection[str], now: datetime) -> list[str]:
    """Keep these from being removed for a while; those that are still there."""
    if not hashes:
        return []
    rows = CheckpointChunk.objects.filter(experiment=experiment, sha256__in=hashes, lost_at=None)
    rows.update(wanted_at=now)
    return list(rows.values_list("sha256", flat=True))


def keep_chunk(experiment: Experiment, sha256: str, content: IncomingFile, now: datetime) -> None:
    """Store a chunk, unless it is there. Raises ExperimentDeleted, and OSError, NoRoom where the disk is full.

    The row is first, and says until the file is written that the chunk is lost: from then on nobody removes the file.
    The file is durable when this returns, and the row when a checkpoint that has the chunk is stored: if a power cut
    comes before that, the keeper is told that the chunk is missing, and sends it again.
    """
    path = chunk_path(experiment.public_id, sha256)
    with unless_deleted(experiment.pk, lambda: _remove(experiment, [path])):
        _transactions.write(_Begun(experiment.pk, sha256, content.size, now))
        keep_file(path, sha256, content)
        _transactions.write(_Kept(experiment.pk, sha256))


def keep_chunks(experiment: Experiment, chunks: Mapping[str, bytes], now: datetime) -> None:
    """As ``keep_chunk``, for small chunks by hash: two transactions for all of them, and the disk is waited for once.
    """
    files = {chunk_path(experiment.public_id, sha256): (sha256, content) for sha256, content in chunks.items()}
    with unless_deleted(experiment.pk, lambda: _remove(experiment, files)):
        with flushed_later():
            _write_chunks([_Begun(experiment.pk, sha256, len(content), now) for sha256, content in chunks.items()])
        keep_small_files(files)
        with flushed_later():
            _write_chunks([_Kept(experiment.pk, sha256) for sha256 in chunks])


def _remove(experiment: Experiment, paths: Collection[str]) -> None:
    """Of a deleted experiment."""
    for path in paths:
        remove_file(path)
    remove_all(experiment.public_id)


@dataclass(frozen=True)
class _Begun:
    """A chunk whose file is about to be written. ``experiment``: primary key."""

    experiment: int
    sha256: str
    size: int
    wanted_at: datetime


@dataclass(frozen=True)
class _Kept:
    """A chunk whose file is there."""

    experiment: int
    sha256: str


def _write_chunks(items: Sequence[_Begun | _Kept]) -> None:
    begun = {(item.experiment, item.sha256): item for item in items if isinstance(item, _Begun)}
    CheckpointChunk.objects.bulk_create(  # in one order: other web processes may write the same rows
        (CheckpointChunk(experiment_id=item.experiment, sha256=item.sha256, size=item.size, wanted_at=item.wanted_at,
                         lost_at=item.wanted_at) for _, item in sorted(begun.items())),
        update_conflicts=True, unique_fields=["experiment", "sha256"], update_fields=["size", "wanted_at"])
    kept: dict[int, list[str]] = {}
    for item in items:
        if isinstance(item, _Kept):
            kept.setdefault(item.experiment, []).append(item.sha256)
    for experiment, hashes in kept.items():
        CheckpointChunk.objects.filter(experiment=experiment, sha256__in=hashes, lost_at__isnull=False).update(
            lost_at=None)


_transactions: SharedTransactions[_Begun | _Kept] = SharedTransactions(_write_chunks)


def chunk_was_lost(experiment: Experiment, sha256: str, now: datetime) -> None:
    """Its file is damaged or missing: keepers shall send it again. Checkpoints that have it cannot be used until then.
    """
    CheckpointChunk.objects.filter(experiment=experiment, sha256=sha256, lost_at=None).update(lost_at=now)


def may_have_chunk(trial: Trial, sha256: str) -> bool:
    """Whether the chunk is part of a checkpoint that attempts of this trial may have."""
    return CheckpointChunkUse.objects.filter(
        chunk__experiment=trial.experiment_id, chunk__sha256=sha256, chunk__lost_at=None,
        checkpoint__trial__in=trials_to_take_from(trial)).exists()


def has_chunk(experiment: Experiment, sha256: str) -> bool:
    """Whether the experiment has it and it was not found lost."""
    return is_any(CheckpointChunk, "experiment_id = %s AND sha256 = %s AND lost_at IS NULL", [experiment.pk, sha256])


def known_chunks(experiment: Experiment, hashes: Collection[str]) -> set[str]:
    """Those that the experiment has and that were not found lost. At most as many as one pack has."""
    return set(CheckpointChunk.objects.filter(experiment=experiment, sha256__in=hashes, lost_at=None).values_list(
        "sha256", flat=True))


def may_have_chunks(trial: Trial, hashes: Collection[str]) -> dict[str, int]:
    """Hash -> bytes, of those that are part of a checkpoint that attempts of this trial may have."""
    return dict(CheckpointChunkUse.objects.filter(
        chunk__experiment=trial.experiment_id, chunk__sha256__in=hashes, chunk__lost_at=None,
        checkpoint__trial__in=trials_to_take_from(trial)).values_list("chunk__sha256", "chunk__size").distinct())


def wrong_sizes(experiment: Experiment, chunks: Mapping[str, int]) -> bool:
    """Whether a chunk has another size than a manifest says."""
    return any(size != chunks[sha256] for some in _slices(list(chunks)) for sha256, size in
               CheckpointChunk.objects.filter(experiment=experiment, sha256__in=some).values_list("sha256", "size"))


def add_checkpoint(attempt: Attempt, manifest: str, content: IncomingFile, *, name: str, size: int, file_count: int,
                   chunks: Collection[str], now: datetime) -> list[str]:
    """Store a manifest and which chunks it has. The chunks that are missing after all; it does not count yet.

    Harmless when repeated, also where it was interrupted: rows are written some at a time, and ``stored_at`` last.
    Raises ExperimentDeleted, and OSError, NoRoom where the disk is full.
    """
    experiment = attempt.trial.experiment
    path = manifest_path(experiment.public_id, manifest)
    with unless_deleted(experiment.pk, lambda: _remove(experiment, [path])):
        checkpoint, _ = Checkpoint.objects.get_or_create(
            attempt=attempt, manifest=manifest, defaults={
                "trial_id": attempt.trial_id, "name": name, "size": size, "file_count": file_count, "created_at": now})
        # after the row, which keeps others from removing the file
        keep_file(path, manifest, content)
        return _add_chunks(checkpoint, experiment, chunks, now)


def _add_chunks(checkpoint: Checkpoint, experiment: Experiment, chunks: Collection[str], now: datetime) -> list[str]:
    """The rest of ``add_checkpoint``, when the manifest's file is there."""
    if checkpoint.stored_at is not None and checkpoint.removed_at is None:
        return []
    missing: list[str] = []
    for some in _slices(list(chunks)):
        with transaction.atomic():  # those that are removed meanwhile have no use: who removes them looks, too
            keys = dict(CheckpointChunk.objects.filter(
                experiment=experiment, sha256__in=some).values_list("sha256", "pk"))
            CheckpointChunkUse.objects.bulk_create(
                (CheckpointChunkUse(checkpoint=checkpoint, chunk_id=key) for key in keys.values()),
                ignore_conflicts=True)
        missing += [sha256 for sha256 in some if sha256 not in keys]
    if missing:
        return missing
    # one that was removed and is saved again does not count before it is confirmed again
    Checkpoint.objects.filter(pk=checkpoint.pk).update(
        stored_at=now, removed_at=None, k=None, confirmed_n=None, confirmed_at=None)
    return []


def rows_of(attempt_pk: int, manifests: Collection[str]) -> set[str]:
    """Those of these manifests that the attempt has sent, with all their chunks."""
    return set(Checkpoint.objects.filter(attempt=attempt_pk, manifest__in=manifests, stored_at__isnull=False,
                                         removed_at=None).values_list("manifest", flat=True))


def confirm(attempt_pk: int, entry: contract.Entry, at: datetime) -> None:
    """The checkpoint counts from now on. Within the caller's transaction."""
    first = Attempt.objects.values_list("first_sequence", flat=True).get(pk=attempt_pk) or 0
    Checkpoint.objects.filter(attempt=attempt_pk, manifest=entry["id"]).update(
        k=entry["k"], step=entry["step"], sequence=entry["sequence"], joined_sequence=first + entry["sequence"],
        confirmed_n=entry["n"], confirmed_at=at)


def let_go_of_older(trial: int, at: datetime) -> None:
    """Mark the checkpoints of a trial that are too many now; the worker removes what they consist of.

    Within the caller's transaction.
    """
    asked = checkpoints_of(Experiment.objects.only("config").get(trials=trial))
    kept = 1 if asked is None else asked.keep
    known = list(counting(trial))
    old = {one.pk for one in known[kept:]}
    if old and asked is not None and asked.keep_best and (best := _best(trial, known)) is not None:
        old.discard(best)
    if old:
        Checkpoint.objects.filter(pk__in=old).update(removed_at=at)


def _best(trial: int, known: Sequence[Checkpoint]) -> int | None:
    """The checkpoint whose last intermediate result before it is the best; None where none has one."""
    falls = Experiment.objects.only("optimize_mode").get(
        trials=trial).optimize_mode == Experiment.OptimizeMode.MINIMIZE
    numbers: dict[int, float] = {}
    for one in known:
        number = Metric.objects.filter(
            attempt=one.attempt_id, kind=contract.PERIODICAL, sequence__lt=one.sequence,
            number__isnull=False).order_by("-sequence", "-n").values_list("number", flat=True).first()
        if number is not None:
            numbers[one.pk] = number
    return (min if falls else max)(numbers, key=lambda pk: numbers[pk]) if numbers else None


def counting(trial: int) -> QuerySet[Checkpoint]:
    """The checkpoints of a trial that are whole, confirmed and there, the newest first."""
    return Checkpoint.objects.filter(trial=trial, confirmed_at__isnull=False, removed_at=None).order_by(
        "-attempt__number", "-confirmed_n")


def trials_with_checkpoints(experiments: Collection[int]) -> set[int]:
    """Of these experiments, the trials (primary keys) of which a checkpoint is whole, confirmed and there."""
    return set(Checkpoint.objects.filter(
        trial__experiment__in=experiments, confirmed_at__isnull=False, removed_at=None).values_list("trial", flat=True))


def to_resume(attempt: Attempt, saved: Container[int] | None = None) -> list[Checkpoint]:
    """Where this attempt may go on from: first its trial's own checkpoints, then those of the trials that it continues,
    the newest first. No question for the first attempt of a trial that has not begun and continues none.

    ``saved``: ``trials_with_checkpoints``, for whoever asks for many attempts; None: they are asked for one by one.
    """
    has_run = attempt.number > 1 or bool(attempt.journal_id)
    trials = [attempt.trial_id] if hands_on(attempt.trial.experiment) else line_of(attempt.trial)
    found: list[Checkpoint] = []
    for trial in trials if has_run else trials[1:]:
        if len(found) < MOST_TO_RESUME and (saved is None or trial in saved):
            found += counting(trial).exclude(name=contract.HANDED_ON)[:MOST_TO_RESUME - len(found)]
    return found


def to_load(trial: Trial) -> list[Checkpoint]:
    """What the trial that this one continues has handed on to it, the newest first."""
    if trial.continues_id is None:
        return []
    return list(counting(trial.continues_id).filter(name=contract.HANDED_ON)[:MOST_TO_RESUME])


def trials_to_take_from(trial: Trial) -> list[int]:
    """The trials (primary keys) whose checkpoints an attempt of this one may have: itself first, then those that it
    continues. Of folders that are handed on, the last one's alone.
    """
    line = line_of(trial)
    return line[:2] if hands_on(trial.experiment) else line


def _slices(hashes: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(hashes)
    while some := list(islice(rest, AT_ONCE)):
        yield some
