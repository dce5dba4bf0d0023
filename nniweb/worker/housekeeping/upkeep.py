"""Looks after what needs no platform: retention, the rows of deleted experiments, and how much room things take.

A thread of its own in each worker process. It takes one experiment at a time whose ``look_after_at`` has come, works on
it for a few seconds at most, in short transactions with rests between them, and writes down when it is to be looked at
again. Whatever it is interrupted at, the next look goes on: what is still there is what is still to be removed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Q, QuerySet
from django.utils import timezone

from nniweb.experiments.ingest.one_report import TOKEN_GRACE
from nniweb.experiments.models import Cluster, DiskUsage, Experiment, FolderUsage
from nniweb.experiments.retention.checkpoint_removal import remove_old_checkpoints
from nniweb.experiments.retention.disk_usage import DATABASE, measure, measure_data_folder
from nniweb.experiments.retention.output_storing import store_output
from nniweb.experiments.retention.removal import Pace
from nniweb.experiments.retention.settling import settle
from nniweb.experiments.sql.selected_rows import is_any
from nniweb.observability.log_ids import log_ids
from nniweb.process.process_identity import host_name
from nniweb.storage.elsewhere import StorageFailed
from nniweb.worker.housekeeping.keep_to_retention import Retention
from nniweb.worker.housekeeping.remove_rows import remove_rows_of
from nniweb.worker.poll_loop import LOOK_SECONDS, look_until
from trainingservice.lasting_thread import LastingThread

logger = logging.getLogger(__name__)

#: How often is looked whether the data folder is to be added up, in seconds.
WALK_SECONDS = 60.0
#: How long one experiment is worked on before another one gets its turn, in seconds.
TURN_SECONDS = 5.0
#: For how long an experiment is another worker's after it was taken: more than a turn ever takes.
TAKEN = timedelta(minutes=10)
#: When an experiment is looked at again: one that changes, and one that has been over for a day.
SOON, LATER = timedelta(hours=1), timedelta(days=1)
#: When an experiment is looked at again whose files could not be removed, because their storage did not answer; and
#: when old checkpoints are tried again for this reason.
STORAGE_PAUSE = timedelta(minutes=1)
#: Columns it has no use for.
_LEFT_OUT = ("config", "config_text", "notes", "description", "search_space", "trial_options")


class Upkeep:
    """``start`` begins, ``stop`` ends it after the transaction that is going on; both from any thread.

    ``now`` and ``monotonic`` are the clocks; ``sleep`` takes the rests (by default ``stop`` cuts them short).
    """

    def __init__(self, now: Callable[[], datetime] = timezone.now, monotonic: Callable[[], float] = time.monotonic,
                 sleep: Callable[[float], object] | None = None) -> None:
        self._now = now
        self._monotonic = monotonic
        self._stopping = threading.Event()
        self.pace = Pace(sleep or self._stopping.wait)
        self._retention = Retention(self.pace)
        self._has_begun = False
        self._next_walk = 0.0
        self._storage_again = float("-inf")
        self._thread = LastingThread("upkeep", self._run, stopping=self._stopping)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    def _run(self) -> None:
        look_until(self._stopping, "upkeep", self._look, self._thread.part)

    def _look(self) -> float:
        if not self._has_begun:
            self.look_at_all_again()
            self._has_begun = True
        if self.remove_old_checkpoints() or self.look():
            return 0.02
        if time.monotonic() >= self._next_walk:
            self._next_walk = time.monotonic() + WALK_SECONDS
            self.measure_data_folder()
        return LOOK_SECONDS

    def look_at_all_again(self) -> None:
        """Once at the start: what the settings say for all may be something else than before."""
        now = self._now()
        keys = list(Experiment.objects.filter(look_after_at__gt=now).values_list("pk", flat=True))
        for start in range(0, len(keys), 500):
            with self.pace.measured():
                Experiment.objects.filter(pk__in=keys[start: start + 500], look_after_at__gt=now + timedelta(minutes=1)
                                          ).update(look_after_at=now)

    def remove_old_checkpoints(self) -> bool:
        """At once, and not an hour later: trials may save a gigabyte each minute. Whether there were any.

        While their storage does not answer they stay, it is asked once a minute, and the rest of the upkeep goes on.
        """
        if self._monotonic() < self._storage_again:
            return False
        deadline = self._monotonic() + TURN_SECONDS
        try:
            return remove_old_checkpoints(self.pace, lambda: self._stopping.is_set() or self._monotonic() >= deadline)
        except StorageFailed as error:
            logger.warning("old checkpoints are removed later: %s", error)
            self._storage_again = self._monotonic() + STORAGE_PAUSE.total_seconds()
            return False

    def look(self) -> bool:
        """Work on one experiment that is due; False where none is."""
        experiment = self._next_experiment()
        if experiment is None:
            return False
        deadline = self._monotonic() + TURN_SECONDS

        def is_over() -> bool:
            return self._stopping.is_set() or self._monotonic() >= deadline

        with log_ids(experiment=experiment.public_id):
            now = self._now()
            again = now + LATER if experiment.is_finished and _has_been_over_for_long(experiment, now) else now + SOON
            try:
                is_done = self._look_after(experiment, now, is_over)
            except StorageFailed as error:
                logger.warning("files that are to be removed are removed later: %s", error)
                is_done, again = True, now + STORAGE_PAUSE
            # not where somebody wants it to be looked at since (None)
            Experiment.objects.filter(pk=experiment.pk, look_after_at=experiment.look_after_at).update(
                look_after_at=again if is_done else now)
        return True

    def _look_after(self, experiment: Experiment, now: datetime, is_over: Callable[[], bool]) -> bool:
        if experiment.deleted_at is not None:
            return remove_rows_of(experiment, now, self.pace, is_over)
        if not self._retention.apply(experiment, now, is_over):
            return False
        if not store_output(experiment, now - TOKEN_GRACE, self.pace, is_over):
            return False
        if not settle(experiment, now - TOKEN_GRACE, self.pace, is_over):
            return False
        if self._must_be_measured(experiment):
            measure(experiment, now, self.pace.sleep)
        return True

    def _must_be_measured(self, experiment: Experiment) -> bool:
        measured = DiskUsage.objects.filter(experiment=experiment).values_list("measured_at", flat=True).first()
        return self._retention.took_something(experiment) or measured is None or (
            experiment.changed_at is not None and experiment.changed_at >= measured)

    def measure_data_folder(self) -> bool:
        """Add up this host's data folder where it is due; False where not, or another worker here does it."""
        now = self._now()
        last = FolderUsage.objects.filter(host=host_name(), part=DATABASE)
        if last.filter(measured_at__gt=now - SOON).exists():
            return False
        if not last.update(measured_at=now):
            FolderUsage.objects.get_or_create(host=host_name(), part=DATABASE, defaults={"measured_at": now})
        measure_data_folder(host_name(), now, self.pace.sleep)
        return True

    def _next_experiment(self) -> Experiment | None:
        """An experiment that is due, which no other worker takes for a while.

        What it left may lie on the host that its cluster is tied to, so only a worker there takes it.
        """
        now = self._now()
        if not anything_is_due(now):
            return None
        for due in due_experiments(now):
            for experiment in due.defer(*_LEFT_OUT)[:1]:
                until = now + TAKEN
                if Experiment.objects.filter(pk=experiment.pk, look_after_at=experiment.look_after_at).update(
                        look_after_at=until):
                    experiment.look_after_at = until
                    return experiment
        return None


def anything_is_due(now: datetime) -> bool:
    """Whether ``due_experiments`` may find one. Asked each second: two statements, by hand, and mostly no more."""
    mine = (f"cluster_id IN (SELECT id FROM {Cluster._meta.db_table} WHERE pinned_host IN ('', %s))"
            " AND look_after_at")
    return is_any(Experiment, f"{mine} IS NULL", [host_name()]) or is_any(
        Experiment, f"{mine} <= %s", [host_name(), connection.ops.adapt_datetimefield_value(now)])


def due_experiments(now: datetime) -> list[QuerySet[Experiment]]:
    """Those that this host's workers are to look at: never looked at, or again.

    Asked for by the keys of clusters, and as two questions: otherwise SQLite would look at all experiments.
    """
    clusters = list(Cluster.objects.filter(pinned_host__in=["", host_name()]).values_list("pk", flat=True))
    mine = Experiment.objects.filter(Q(deleted_at=None) | Q(rows_removed_at=None), cluster__in=clusters)
    return [mine.filter(look_after_at=None), mine.filter(look_after_at__lte=now)]


def _has_been_over_for_long(experiment: Experiment, now: datetime) -> bool:
    return experiment.ended_at is None or experiment.ended_at < now - LATER
