"""What is done in the background of a large installation: how much in a second, and how long others wait for it."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from nniweb.experiments.ingest.one_report import TOKEN_GRACE
from nniweb.experiments.models import Experiment, SettledTrials, Trial
from nniweb.experiments.retention.removal import Pace
from nniweb.experiments.retention.settling import settle
from nniweb.worker.housekeeping.keep_to_retention import Retention
from nniweb.worker.housekeeping.remove_rows import remove_rows_of

if TYPE_CHECKING:
    from django.db.models import Model

    from benchmarks.reporting import Report

#: Milliseconds that a transaction may hold others up.
LONGEST = 150.0
#: Seconds for which removal is watched.
WATCHED = 60.0


class WatchedPace(Pace):
    """Without rests, to see what is possible; remembers the longest transaction, in seconds."""

    def __init__(self) -> None:
        super().__init__(sleep=lambda seconds: None)
        self.longest = 0.0

    @contextlib.contextmanager
    def measured(self, model: type[Model] | None = None) -> Iterator[None]:
        began = time.monotonic()
        with super().measured(model):
            yield
        self.longest = max(self.longest, time.monotonic() - began)


@dataclass
class Watch:
    """Ends what takes too long."""

    seconds: float
    began: float = 0.0

    def __post_init__(self) -> None:
        self.began = time.monotonic()

    @property
    def passed(self) -> float:
        return time.monotonic() - self.began

    def is_over(self) -> bool:
        return self.passed > self.seconds


def add_up_all(report: Report) -> None:
    """Have the ended trials of all experiments added up, as after an upgrade."""
    pace, watch = WatchedPace(), Watch(600.0)
    before = timezone.now() - TOKEN_GRACE
    for experiment in Experiment.objects.order_by("pk").iterator():
        settle(experiment, before, pace, watch.is_over)
    added = sum(sum(counts.values()) for counts in SettledTrials.objects.values_list("counts", flat=True))
    report.add("ended trials added up", added / watch.passed, "trials/s", beside=f"{added:,} trials")
    report.add("there, the longest transaction", pace.longest * 1000, "ms", limit=LONGEST)


def keep_to_retention(public_id: str, report: Report) -> None:
    """Remove intermediate results and output of an experiment for a while."""
    experiment = Experiment.objects.get(public_id=public_id)
    experiment.retention = {"output": 1, "readings": 1, "files": 1}
    pace, watch = WatchedPace(), Watch(WATCHED)
    Retention(pace).apply(experiment, timezone.now() + timedelta(days=10), watch.is_over)
    done = Trial.objects.filter(experiment=experiment, output_removed_at__isnull=False).count()
    report.add("retention, output", done / watch.passed, "trials/s")
    report.add("there, the longest transaction", pace.longest * 1000, "ms", limit=LONGEST)


def delete(public_id: str, report: Report, *, is_whole: bool) -> None:
    """Remove the rows of an experiment for a while. ``is_whole``: what is left then goes, too, and is not measured."""
    experiment = Experiment.objects.get(public_id=public_id)
    before = Trial.objects.filter(experiment=experiment).count()
    pace, watch = WatchedPace(), Watch(WATCHED)
    remove_rows_of(experiment, timezone.now(), pace, watch.is_over)
    gone = before - Trial.objects.filter(experiment=experiment).count()
    report.add("deletion", gone / watch.passed, "trials/s")
    report.add("there, the longest transaction", pace.longest * 1000, "ms", limit=LONGEST)
    if is_whole:
        remove_rows_of(experiment, timezone.now(), pace, lambda: False)


def export(public_id: str, pieces: Callable[..., Iterator[str]], report: Report, what: str) -> None:
    """Write an experiment with its intermediate results nowhere: how much in a second, and what memory it takes."""
    experiment = Experiment.objects.get(public_id=public_id)
    trials = Trial.objects.filter(experiment=experiment)
    before, watch = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, Watch(0)
    size = sum(map(len, pieces(experiment, trials)))
    report.add(f"export as {what}", size / 1e6 / watch.passed, "MB/s", beside=f"{size / 1e6:.0f} MB")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000
    report.add("there, memory grows by", grown, "MB", limit=100.0)
