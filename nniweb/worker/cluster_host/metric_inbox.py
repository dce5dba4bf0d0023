"""Metrics that a cluster's service tells its listener: taken from any thread, stored in groups on another one.

The thread begins with the first metric: most services emit none, because keepers report to the server. A round stores
what waits as well, before it writes down what the platform says of its jobs: a metric that was emitted before a job
was shown as ended is stored before that end.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection
from django.utils import timezone

from nniweb.database.outage_logs import first_line, takes_nothing
from nniweb.experiments.clusters.lease import Lease, LeaseLost
from nniweb.experiments.ingest.heard_metrics import HeardMetric, store_heard
from nniweb.experiments.sql import database_health
from nniweb.experiments.sql.exact_text import printable
from nniweb.experiments.sql.idle_connections import drop_connection, give_connection_back
from nniweb.observability.log_ids import log_ids
from nniweb.worker.cluster_host.service_answers import LONGEST_NAME
from trainingservice.lasting_thread import LastingThread
from trainingservice.receiver.metric_objects import read_metric_object
from trainingservice.receiver.report_reading import WrongEntry
from trainingservice.trial_job import TrialJobMetric
from trialkeeper import contract
from trialkeeper.shortage import is_shortage

logger = logging.getLogger(__name__)

#: Metrics of one transaction, and about how many bytes of them: bounds how long other writers wait.
MOST_AT_ONCE, MOST_BYTES_AT_ONCE = 500, 1024 * 1024
#: Metrics that may wait, and about how many bytes of them; who emits more waits until there is room, ...
MOST_WAITING, MOST_BYTES_WAITING = 10_000, 32 * 1024 * 1024
#: ... at most so long, in seconds: it may hold a lock that the thread which makes room needs in the end.
PATIENCE = 60.0
#: Seconds until metrics are stored again that the database did not take.
PAUSE = 1.0
#: Jobs that are remembered so that a fault is told once for each.
MOST_FAULTY_JOBS = 10_000
_SIZE_OF_ROW = 100


class MetricInbox:
    """Of one cluster, for all its service objects. ``listen`` is the listener; it may be called from any thread."""

    def __init__(self, name: str, lease: Lease) -> None:
        self._name, self._lease = name, lease
        self._waiting: deque[HeardMetric] = deque()
        self._bytes = 0
        #: Guards these; told when there is something, and when there is room.
        self._changed = threading.Condition()
        #: Held by who stores, so that the order stays.
        self._storing = threading.Lock()
        #: Jobs of which it was logged that something of them is not kept.
        self._faulty: set[str] = set()
        self._closing = threading.Event()
        self._thread: LastingThread | None = None

    def listen(self, metric: TrialJobMetric) -> None:
        """Take one metric. Waits while very many wait to be stored. What cannot be read is logged, once for a job."""
        heard = _read(metric)
        size = _size(heard)
        if heard.fault and not self._is_first_fault(heard.job_name):
            return
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(size) or self._closing.is_set(), PATIENCE)
            if self._closing.is_set():
                return
            self._waiting.append(heard)
            self._bytes += size
            self._changed.notify_all()
            if self._thread is None:
                self._start()

    def store(self) -> None:
        """Store what waits now. Raises LeaseLost, and as ``_store_group``; then it waits on."""
        with self._changed:
            left = len(self._waiting)
        while left > 0:
            with self._storing:
                group = self._next_group()
                if not group:
                    return
                self._store_group(group)
                with self._changed:
                    for heard in group:
                        self._bytes -= _size(heard)
                        self._waiting.popleft()
                    self._changed.notify_all()
            left -= len(group)

    def close(self) -> None:
        """Store what waits, where that is possible, and end the thread. What is told afterwards is stored by nobody."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=10.0)
        try:
            self.store()
        except LeaseLost:
            pass  # the next service tells its own worker what it can
        except Exception as error:
            logger.warning("cluster %s: %d metrics that its service emitted are lost; the error: %s",
                           self._name, len(self._waiting), first_line(error))

    # --- inside ----------------------------------------------------------------------------

    def _has_room(self, size: int) -> bool:
        return not self._waiting or (
            len(self._waiting) < MOST_WAITING and self._bytes + size <= MOST_BYTES_WAITING)

    def _is_first_fault(self, job_name: str) -> bool:
        with self._changed:
            if len(self._faulty) >= MOST_FAULTY_JOBS:
                self._faulty.clear()
            is_first = job_name not in self._faulty
            self._faulty.add(job_name)
        return is_first

    def _start(self) -> None:
        thread = LastingThread(f"metrics-{self._name}", self._run, stopping=self._closing)
        try:
            thread.start()
        except (RuntimeError, MemoryError):  # no thread to spare: rounds store what waits
            return
        self._thread = thread

    def _run(self) -> None:
        try:
            with log_ids(cluster=self._name):
                while not self._closing.is_set():
                    with self._changed:
                        self._changed.wait_for(lambda: self._waiting or self._closing.is_set())
                    self._store_or_wait()
        finally:
            connection.close()

    def _store_or_wait(self) -> None:
        try:
            self.store()
            give_connection_back()
        except LeaseLost:
            self._closing.wait()  # another worker's service tells the metrics now
        except Exception as error:
            logger.warning("cluster %s: metrics that its service emits wait; the error: %s", self._name,
                           first_line(error))
            drop_connection()
            self._closing.wait(PAUSE)

    def _next_group(self) -> list[HeardMetric]:
        group: list[HeardMetric] = []
        size = 0
        with self._changed:
            for heard in self._waiting:
                size += _size(heard)
                if group and (len(group) >= MOST_AT_ONCE or size > MOST_BYTES_AT_ONCE):
                    break
                group.append(heard)
        return group

    def _store_group(self, group: Sequence[HeardMetric]) -> None:
        """Where one of them cannot be stored, that one is found by halving, and left out.

        Raises LeaseLost, and what says nothing of the metrics: that the database takes nothing, that memory is short.
        """
        try:
            with self._lease.transaction():
                unknown = store_heard(group, self._lease.cluster_pk, timezone.now())
            database_health.note_written()
            self._tell_of_unknown(unknown)
        except LeaseLost:
            raise
        except Exception as error:
            if takes_nothing(error):
                database_health.note_refused(error)
                raise
            if is_shortage(error):
                raise
            if len(group) == 1:
                if self._is_first_fault(group[0].job_name):
                    logger.exception("cluster %s: a metric of job %s cannot be stored and is left out", self._name,
                                     group[0].job_name)
                return
            middle = len(group) // 2
            self._store_group(group[:middle])
            self._store_group(group[middle:])

    def _tell_of_unknown(self, job_names: Iterable[str]) -> None:
        for job_name in job_names:
            if self._is_first_fault(job_name):
                logger.warning("cluster %s: its service emits metrics of a job %.60r, which does not belong to this "
                               "cluster; they are not stored", self._name, job_name)


def _read(metric: Any) -> HeardMetric:
    """What a plug-in gave, whatever that is."""
    job_name = getattr(metric, "id", None)
    # a name that is changed by this is none of this server's: it is logged as one that the cluster does not have
    job_name = printable(job_name, LONGEST_NAME) if isinstance(job_name, str) else None
    if not isinstance(metric, TrialJobMetric) or job_name is None:
        return HeardMetric(job_name or "", None,
                           f"a listener is given a TrialJobMetric, not a value of the type {type(metric).__name__}")
    try:
        return HeardMetric(job_name, read_metric_object(metric.data, time.time()))
    except WrongEntry as error:
        return HeardMetric(job_name, None, f"{error.field}: {error}" if error.field else str(error))


def _size(heard: HeardMetric) -> int:
    entry: contract.Entry = heard.entry or {}
    return _SIZE_OF_ROW + len(entry.get("value", ""))
