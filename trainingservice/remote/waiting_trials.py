"""Trials that wait for GPUs of machines over SSH: for the one that has waited longest, GPUs are kept free."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from trainingservice.machine_shares.shares import NOTHING
from trainingservice.nodes.options import nodes_of
from trainingservice.remote.scheduling import MachineView, machines_to_keep
from trainingservice.trial_job import TrialJobDetail

#: A trial that has waited for GPUs for so many seconds has one machine's GPUs kept free for it.
KEEP_AFTER = 30.0


class _Wait(NamedTuple):
    """``since``: monotonic seconds; ``gpus``: of each of ``nodes`` machines."""

    since: float
    gpus: int = 0
    nodes: int = 1


class WaitingTrials:
    """Any method may be called from any thread."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[str, _Wait] = {}

    def note(self, job: TrialJobDetail) -> None:
        """It waits, from the first time that this is said of it."""
        if job.form.gpu_number or job.form.share != NOTHING:
            self._since.setdefault(job.id, _Wait(self._monotonic(), job.form.gpu_number or 0,
                                                 nodes_of(job.form.options)))

    def knows(self, job_name: str) -> bool:
        """Whether it waits for a part of a machine since this object has first tried it."""
        return job_name in self._since

    def forget(self, job_name: str) -> None:
        """It has started, or ended."""
        self._since.pop(job_name, None)

    def machines_kept_from(self, job: TrialJobDetail, views: Sequence[MachineView], unfinished: Collection[str]
                           ) -> tuple[str, ...]:
        """Machines whose GPUs come free for a trial that has waited longest and asks for more than this one: on one
        machine, or on several. ``unfinished``: names of jobs.
        """
        number, nodes = job.form.gpu_number or 0, nodes_of(job.form.options)
        now = self._monotonic()
        mine = self._since.get(job.id, _Wait(now))
        waiting = [wait for name, wait in list(self._since.items())
                   if name != job.id and name in unfinished
                   and (wait.gpus > number or wait.gpus * wait.nodes > number * nodes)
                   and wait.since <= mine.since and now - wait.since >= KEEP_AFTER]
        if not number or not waiting:
            return ()
        longest = min(waiting, key=lambda wait: wait.since)
        return machines_to_keep(longest.gpus, views, longest.nodes)
