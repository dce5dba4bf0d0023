"""Moves the output of trials that ended long ago from the database to the storage of files, where that is elsewhere.

A segment is written first; then, in one short transaction, its row takes the place of its pieces' rows. Whatever moment
it is interrupted at, the same call goes on from there: the same pieces become the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from django.core.files.storage import default_storage
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Length

from nniweb.experiments.models import Attempt, Experiment, Trial, TrialOutput
from nniweb.experiments.output.segments import SEGMENT_BYTES, Piece, store_segment
from nniweb.experiments.retention.removal import Pace
from nniweb.storage.elsewhere import is_elsewhere

#: Trials that are looked at together.
AT_ONCE = 200
#: Rows of pieces in one segment.
MOST_PIECES = 2000


def store_output(experiment: Experiment, before: datetime, pace: Pace, is_over: Callable[[], bool]) -> bool:
    """Move what there is of trials that ended before ``before`` and whose keepers have said all since then. False where
    ``is_over`` came first and there is more. Raises StorageFailed.

    ``experiment.output_stored_until`` remembers up to which end all is moved.
    """
    if not is_elsewhere():
        return True
    ended = Trial.objects.filter(experiment=experiment, output_removed_at=None, ended_at__lte=before)
    may_send = Attempt.objects.filter(trial=OuterRef("pk")).filter(
        ~Q(stage=Attempt.Stage.ENDED) | Q(end_received_at__gt=before))
    until, last, may_note = experiment.output_stored_until, 0, True
    while True:
        later = ended if until is None else ended.filter(Q(ended_at=until, pk__gt=last) | Q(ended_at__gt=until),
                                                         ended_at__gte=until)
        trials = list(later.annotate(may_send=Exists(may_send)).order_by("ended_at", "pk").values_list(
            "pk", "ended_at", "may_send")[:AT_ONCE])
        if not trials:
            return True
        if not _store_trials([pk for pk, _, waits in trials if not waits], pace, is_over):
            return False
        # not beyond one that is not moved yet
        noted = until
        for _, ended_at, waits in trials:
            may_note = may_note and not waits
            if may_note:
                noted = ended_at
        last, until = trials[-1][:2]
        if noted != experiment.output_stored_until:
            Experiment.objects.filter(pk=experiment.pk).update(output_stored_until=noted)
            experiment.output_stored_until = noted


def _store_trials(trials: Sequence[int], pace: Pace, is_over: Callable[[], bool]) -> bool:
    rows = TrialOutput.objects.filter(attempt__trial__in=trials, storage_path=None)
    streams = rows.order_by().values_list("attempt", "attempt__job_name", "stream").distinct()
    for attempt, job_name, stream in list(streams):
        its = rows.filter(attempt=attempt, stream=stream).order_by("offset")
        while segment := _next_segment(its):
            if is_over():
                return False
            _store_one(job_name, stream, segment, pace)
    return True


_Found = tuple[int, int, "bytes | memoryview[int]", int]


def _next_segment(rows: QuerySet[TrialOutput]) -> list[_Found]:
    """The first pieces that are not moved yet; [] where there are none."""
    size, last = 0, -1
    for offset, length in list(rows.values_list("offset", Length("data"))[:MOST_PIECES]):
        size += length
        if last >= 0 and size > SEGMENT_BYTES:
            break
        last = offset
    return list(rows.filter(offset__lte=last).values_list("pk", "offset", "data", "skipped"))


def _store_one(job_name: str, stream: str, rows: Sequence[_Found], pace: Pace) -> None:
    pieces = [Piece(offset, bytes(data), skipped) for _, offset, data, skipped in rows]
    stored = store_segment(job_name, stream, pieces)
    first, *others = (pk for pk, *_ in rows)
    with pace.measured():
        is_there = TrialOutput.objects.filter(pk=first, storage_path=None).update(
            data=b"", storage_path=stored.path, stored_size=stored.size, stored_sha256=stored.sha256,
            stored_end=pieces[-1].offset + len(pieces[-1].data), skipped=sum(piece.skipped for piece in pieces))
        if is_there:
            TrialOutput.objects.filter(pk__in=others).delete()
    # removed meanwhile, or moved by another worker, whose file it is then
    if not is_there and not TrialOutput.objects.filter(pk=first, storage_path=stored.path).exists():
        default_storage.delete(stored.path)
