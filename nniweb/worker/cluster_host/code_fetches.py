"""Fetches of experiments' code, on threads beside the rounds of a cluster."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from django.db import connection

from nniweb.experiments.models import Experiment
from nniweb.worker.cluster_host.call_threads import CallThreads

#: Fetches of one cluster's experiments at the same time, of different people; more wait their turn. A server that does
#: not answer takes one until its time is over.
AT_ONCE = 2


class CodeFetches:
    """Fetches on threads of its own; the round takes the outcomes. Used by the cluster's round thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._threads = CallThreads("fetches", AT_ONCE)
        self._box: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stop = threading.Event()
        #: Experiment -> its owner (primary keys). Those that wait for a thread, too.
        self._under_way: dict[int, int | None] = {}

    def start(self, experiment: Experiment, fetch: Callable[[threading.Event], Callable[[], None]]) -> None:
        """Run ``fetch``, which must not raise, on a thread; what it returns runs in a later round. Does nothing while
        another one of the same person is under way: each round asks again.
        """
        if experiment.pk in self._under_way or experiment.owner_id in self._under_way.values():
            return

        def work() -> None:
            try:
                outcome = fetch(self._stop)
            finally:
                connection.close()
            self._box.put(lambda: self._finish(experiment.pk, outcome))
            self._wake()

        if self._threads.submit(work):
            self._under_way[experiment.pk] = experiment.owner_id

    def _finish(self, experiment_pk: int, outcome: Callable[[], None]) -> None:
        self._under_way.pop(experiment_pk, None)
        outcome()

    def collect(self) -> None:
        while True:
            try:
                outcome = self._box.get_nowait()
            except queue.Empty:
                return
            outcome()

    def close(self) -> None:
        """End what is under way; whoever drives the cluster next begins again."""
        self._stop.set()
        self._threads.close()
