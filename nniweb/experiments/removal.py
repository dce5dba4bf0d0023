"""Removes what trials left in the database and the file storage, some rows at a time: for retention and for deletion.

Each call is one short transaction, so that reports, which share SQLite's one writer with it, hardly wait. Whatever
moment it is interrupted at, the same call goes on from there: what is still there is what is still to be removed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Model
from django.db.models.functions import Length

from nniweb.experiments.models import Metric, ResourceReading, Trial, TrialFile, TrialOutput
from nniweb.experiments.retention import NOTHING_THERE
from trialkeeper import contract

#: What one transaction shall take, in seconds, and the most of rows and of bytes it removes. On Debian SQLite
#: overwrites what it removes, so bytes count.
AIM_SECONDS, MOST_ROWS, MOST_BYTES = 0.010, 2000, 1_000_000
#: Of the time, what pauses are of work: others that write get through in between.
REST = 4.0


@dataclass
class Pace:
    """How many rows a transaction may remove, by how long the last ones took; and the rest after each."""

    #: Sleeps so many seconds, or less where it is told to end.
    sleep: Callable[[float], object] = time.sleep
    rows: int = 50
    #: The longest transaction so far, in seconds.
    longest: float = 0.0

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """A transaction; afterwards a rest."""
        with transaction.atomic():
            # from here: what was waited for others says nothing of how much is removed at once
            began = time.monotonic()
            yield
        took = time.monotonic() - began
        self.longest = max(self.longest, took)
        if took > AIM_SECONDS:
            self.rows = max(1, self.rows // 2)
        elif took < AIM_SECONDS / 2:
            self.rows = min(MOST_ROWS, self.rows * 2)
        self.sleep(max(0.001, REST * took))


@dataclass
class Removed:
    """What a step removed."""

    trials: int = 0
    rows: int = 0
    #: As stored; of intermediate results and readings not counted.
    bytes: int = 0

    def __add__(self, other: Removed) -> Removed:
        return Removed(self.trials + other.trials, self.rows + other.rows, self.bytes + other.bytes)


@dataclass
class _Gathered:
    """Rows of one transaction."""

    keys: dict[type[Model], list[int]] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    paths: list[str] = field(default_factory=list)
    #: Trials of which nothing is left after it, and those that had nothing.
    emptied: list[int] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)


def remove_of_trials(kind: str, trials: Sequence[int], now: datetime, pace: Pace) -> Removed:
    """One transaction's worth of what these trials (primary keys) have of a kind of ``retention.OF_TRIALS``.

    Those of which nothing is left then are marked as looked at.
    """
    found = _gather(kind, trials, pace.rows)
    for path in found.paths:  # first: a row without its file is removed the next time, a file without a row never
        remove_file(path)
    with pace.measured():
        for model, keys in found.keys.items():
            model._default_manager.filter(pk__in=keys).delete()
        column = f"{kind}_removed_at"
        if found.emptied:
            Trial.objects.filter(pk__in=found.emptied).update(**{column: now})
        if found.empty:
            Trial.objects.filter(pk__in=found.empty).update(**{column: NOTHING_THERE})
    return Removed(len(found.emptied), found.rows, found.bytes)


def _gather(kind: str, trials: Sequence[int], most: int) -> _Gathered:
    found = _Gathered()
    for trial in trials:
        rows = list(islice(_rows(kind, trial, most - found.rows + 1), most - found.rows + 1))
        taken = 0
        for model, key, size, path in rows:
            if found.rows >= most or (kind == "output" and found.bytes >= MOST_BYTES):
                break
            found.keys.setdefault(model, []).append(key)
            found.rows += 1
            found.bytes += size
            taken += 1
            if path:
                found.paths.append(path)
        if taken < len(rows):
            break
        (found.emptied if rows else found.empty).append(trial)
        if found.rows >= most:
            break
    return found


def _rows(kind: str, trial: int, most: int) -> Iterable[tuple[type[Model], int, int, str]]:
    """Model, key, bytes and stored file of at most so many rows (of each model) of the trial."""
    if kind == "output":
        output = TrialOutput.objects.filter(attempt__trial=trial)
        for key, size in output.values_list("pk", Length("data"))[:most]:
            yield TrialOutput, key, size, ""
    elif kind == "readings":
        metrics = Metric.objects.filter(attempt__trial=trial, kind=contract.PERIODICAL)
        for key in metrics.values_list("pk", flat=True)[:most]:
            yield Metric, key, 0, ""
        readings = ResourceReading.objects.filter(attempt__trial=trial)
        for key in readings.values_list("pk", flat=True)[:most]:
            yield ResourceReading, key, 0, ""
    else:
        files = TrialFile.objects.filter(attempt__trial=trial)
        for key, size, path in files.values_list("pk", "size", "storage_path")[:most]:
            yield TrialFile, key, size, path


def remove_file(storage_path: str) -> None:
    """Remove a kept file, and its folder where that is empty then. Harmless where it is gone already."""
    with contextlib.suppress(OSError):
        default_storage.delete(storage_path)
    with contextlib.suppress(OSError):  # of a folder only an empty one is removed
        default_storage.delete(str(PurePosixPath(storage_path).parent))


def remove_rows(model: type[Model], pace: Pace, *, most: int = MOST_ROWS, **which: Any) -> int:
    """One transaction's worth of a model's rows, at most so many; how many that were (0: there are no more)."""
    keys = list(model._default_manager.filter(**which).values_list("pk", flat=True)[:min(most, pace.rows)])
    if keys:
        with pace.measured():
            model._default_manager.filter(pk__in=keys).delete()
    return len(keys)
