"""Removes what trials left in the database and the file storage, some rows at a time: for retention and for deletion.

Each call is one short transaction, so that reports, which share SQLite's one writer with it, hardly wait. Whatever
moment it is interrupted at, the same call goes on from there: what is still there is what is still to be removed.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from django.core.files.storage import default_storage
from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import Count, F, Model, Sum, Value
from django.db.models.deletion import Collector

from nniweb.experiments.models import Attempt, Metric, ResourceReading, Trial, TrialFile, TrialOutput
from nniweb.experiments.output.pieces import BYTES_OF_ROW
from nniweb.experiments.retention.policy import NOTHING_THERE
from nniweb.storage.elsewhere import StorageFailed, is_elsewhere
from trialkeeper import contract

#: What one transaction shall take, in seconds. The fewest and the most rows it removes: below the fewest it is the
#: commit that takes the time, and more of them would hold others up longer. With how many it begins. The most bytes of
#: output: on Debian SQLite overwrites what it removes.
AIM_SECONDS, FEWEST_ROWS, MOST_ROWS, FIRST_ROWS, MOST_BYTES = 0.015, 20, 2000, 100, 1_000_000
#: Of the time, what pauses are of work: others that write get through in between. The longest one, in seconds.
REST, LONGEST_REST = 4.0, 0.1


@dataclass
class Pace:
    """How many rows a transaction may remove, by how long the last ones took; and the rest after each."""

    #: Sleeps so many seconds, or less where it is told to end.
    sleep: Callable[[float], object] = time.sleep
    rows: int = FIRST_ROWS
    #: Those of models that are removed by themselves: a row to which others may refer takes twenty times as long.
    rows_of: dict[type[Model], int] = field(default_factory=dict)

    def most_of(self, model: type[Model]) -> int:
        """How many rows of this model alone a transaction may remove."""
        return self.rows_of.get(model, min(FIRST_ROWS, self.rows))

    @contextlib.contextmanager
    def measured(self, model: type[Model] | None = None) -> Iterator[None]:
        """A transaction; afterwards a rest. ``model``: of which alone it removes rows."""
        with transaction.atomic():
            # from here: what was waited for others says nothing of how much is removed at once
            began = time.monotonic()
            yield
        took = time.monotonic() - began
        if model is None:
            self.rows = self._next(self.rows, took)
        else:
            self.rows_of[model] = self._next(self.most_of(model), took)
        self.sleep(min(LONGEST_REST, max(0.001, REST * took)))

    @staticmethod
    def _next(rows: int, took: float) -> int:
        if took > 4 * AIM_SECONDS:  # the machine is busy, or the rows are large: not only a little too long
            return FEWEST_ROWS
        if took > AIM_SECONDS:
            return max(FEWEST_ROWS, rows // 2)
        return min(MOST_ROWS, rows * 2) if took < AIM_SECONDS / 2 else rows


@dataclass
class Removed:
    """What a step removed."""

    trials: int = 0
    rows: int = 0
    #: As stored; of intermediate results and readings not counted, nor of trials that were removed in parts.
    bytes: int = 0

    def __add__(self, other: Removed) -> Removed:
        return Removed(self.trials + other.trials, self.rows + other.rows, self.bytes + other.bytes)


@dataclass
class _Had:
    """What a trial has of a kind."""

    attempts: list[int] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


def remove_of_trials(kind: str, trials: Sequence[int], now: datetime, pace: Pace, is_over: Callable[[], bool]
                     ) -> Removed:
    """What these trials (primary keys) have of a kind of ``retention.OF_TRIALS``, until ``is_over`` says so.

    Those of which nothing is left are marked as looked at, in the transaction that removed the last of it.
    """
    removed = Removed()
    column = f"{kind}_removed_at"
    most_bytes = MOST_BYTES if kind == "output" else sys.maxsize
    had = _what_they_have(kind, trials)
    if empty := [trial for trial in trials if not had[trial].rows]:
        with pace.measured():
            Trial.objects.filter(pk__in=empty).update(**{column: NOTHING_THERE})
    waiting = deque(trial for trial in trials if had[trial].rows)
    while waiting and not is_over():
        first = had[waiting[0]]
        if first.rows > pace.rows or first.bytes > most_bytes:
            rows = _remove_a_part(kind, first, pace)
            first.rows -= rows
            removed += Removed(rows=rows)
            if rows:
                continue
        group = _Had()
        chosen: list[int] = []
        while waiting and (not chosen or (group.rows + had[waiting[0]].rows <= pace.rows
                                          and group.bytes + had[waiting[0]].bytes <= most_bytes)):
            chosen.append(waiting.popleft())
            one = had[chosen[-1]]
            group.attempts += one.attempts
            group.rows += one.rows
            group.bytes += one.bytes
        _remove_files(kind, attempt__in=group.attempts)
        with pace.measured():
            for model, which in _MODELS[kind]:
                model._default_manager.filter(attempt__in=group.attempts, **which).delete()
            Trial.objects.filter(pk__in=chosen).update(**{column: now})
        removed += Removed(len(chosen), group.rows, group.bytes)
    return removed


#: Kind -> the models of its rows, which belong to attempts, with what else they must be.
_MODELS: dict[str, tuple[tuple[type[Model], dict[str, Any]], ...]] = {
    "output": ((TrialOutput, {}),),
    "readings": ((Metric, {"kind": contract.PERIODICAL}), (ResourceReading, {})),
    "files": ((TrialFile, {}),)}
#: Column with the bytes of a row, where they are told.
_BYTES: dict[type[Model], Any] = {TrialOutput: BYTES_OF_ROW, TrialFile: F("size")}


def _what_they_have(kind: str, trials: Sequence[int]) -> dict[int, _Had]:
    found = {trial: _Had() for trial in trials}
    trial_of = dict(Attempt.objects.filter(trial__in=trials).values_list("pk", "trial"))
    for attempt, trial in trial_of.items():
        found[trial].attempts.append(attempt)
    for model, which in _MODELS[kind]:
        counted = model._default_manager.filter(attempt__in=list(trial_of), **which).order_by().values_list("attempt")
        for attempt, rows, size in counted.annotate(rows=Count("pk"), size=Sum(_BYTES.get(model, Value(0)))):
            found[trial_of[attempt]].rows += rows
            found[trial_of[attempt]].bytes += size or 0
    return found


def _remove_a_part(kind: str, one: _Had, pace: Pace) -> int:
    """Some rows of a trial that has too many for one transaction, but not the last ones; how many that were."""
    most = min(pace.rows, max(1, MOST_BYTES // contract.MAX_OUTPUT_PIECE_BYTES) if kind == "output" else pace.rows)
    for model, which in _MODELS[kind]:
        rows = model._default_manager.filter(attempt__in=one.attempts, **which)
        keys = list(rows.values_list("pk", flat=True)[:most + 1])
        if len(keys) > most:
            _remove_files(kind, pk__in=keys[:most])
            with pace.measured():
                model._default_manager.filter(pk__in=keys[:most]).delete()
            one.bytes = one.bytes * max(0, one.rows - most) // max(1, one.rows)
            return most
    return 0


def _remove_files(kind: str, **which: Any) -> None:
    """First: a row without its file is removed the next time, a file without a row never."""
    for path in paths_of(kind, **which):
        remove_file(path)


def paths_of(kind: str, **which: Any) -> list[str]:
    """The files that rows of a kind have in the storage. ``which``: conditions on the rows."""
    if kind == "files":
        return list(TrialFile.objects.filter(**which).values_list("storage_path", flat=True))
    if kind == "output":
        stored = TrialOutput.objects.filter(storage_path__isnull=False, **which)
        return [path for path in stored.values_list("storage_path", flat=True) if path is not None]
    return []


def remove_file(storage_path: str) -> None:
    """Remove a kept file, and its folder where that is empty then. Harmless where it is gone already. Raises
    StorageFailed.
    """
    try:
        default_storage.delete(storage_path)
    except StorageFailed:
        raise
    except OSError:
        pass
    if not is_elsewhere():
        with contextlib.suppress(OSError):  # of a folder only an empty one is removed
            default_storage.delete(str(PurePosixPath(storage_path).parent))


def remove_rows(model: type[Model], pace: Pace, *, most: int = MOST_ROWS, **which: Any) -> int:
    """One transaction's worth of a model's rows, at most so many; how many that were (0: there are no more).

    Nothing that refers to them may come meanwhile: what does is looked for before the transaction.
    """
    keys = list(model._default_manager.filter(**which).values_list("pk", flat=True)[:min(most, pace.most_of(model))])
    if keys:
        found = Collector(using=DEFAULT_DB_ALIAS)
        found.collect(model._default_manager.filter(pk__in=keys))  # a question for each kind of row that may refer
        with pace.measured(model):
            found.delete()
    return len(keys)
