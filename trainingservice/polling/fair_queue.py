"""In which order the jobs of several experiments are tried, where there may not be room for all of them."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable
from typing import Generic, TypeVar

Job = TypeVar("Job")


class FairQueue(Generic[Job]):
    """Experiments of a higher priority go first; of one priority the experiment with the fewest jobs under way; of one
    experiment the job that was added first.

    For one thread.
    """

    def __init__(self, under_way: Iterable[str]) -> None:
        """``under_way``: the experiment of each job that the platform has."""
        self._under_way = Counter(under_way)
        self._waiting: dict[str, deque[Job]] = {}
        #: (-priority, jobs under way, order of the experiments, experiment): one entry for each that has jobs waiting.
        self._queue: list[tuple[int, int, int, str]] = []

    def add(self, experiment: str, job: Job, priority: int = 0) -> None:
        """A job that waits. Before the first ``next``. An experiment has the priority of its first job."""
        if experiment not in self._waiting:
            self._waiting[experiment] = deque()
            heapq.heappush(self._queue, (-priority, self._under_way[experiment], len(self._waiting), experiment))
        self._waiting[experiment].append(job)

    def next(self) -> Job | None:
        """The job to try now, once; None when all were tried."""
        while self._queue:
            after, number, order, experiment = self._queue[0]
            waiting = self._waiting[experiment]
            if number != self._under_way[experiment] and waiting:  # one was started since it was put here
                heapq.heapreplace(self._queue, (after, self._under_way[experiment], order, experiment))
            elif waiting:
                return waiting.popleft()
            else:
                heapq.heappop(self._queue)
        return None

    def started(self, experiment: str) -> None:
        """A job of this experiment was given to the platform."""
        self._under_way[experiment] += 1
