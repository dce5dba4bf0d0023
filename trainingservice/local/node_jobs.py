"""Trials with several nodes on this machine: one process with one rank for each, which meet on a loopback port."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from trainingservice.keeper.agent_client import FolderState
from trainingservice.keeper.trial_of_ranks import (
    RankState,
    TrialOfRanks,
    failed_rank,
    rank_state,
    rows_of,
    trial_of_ranks,
)
from trainingservice.trial_job import TrialJobDetail
from trialkeeper import contract

_ADDRESS = "127.0.0.1"


class LocalNodes:
    """What is known of such trials beside the states of their folders. Any method may be called from any thread."""

    def __init__(self, host: str, monotonic: Callable[[], float]) -> None:
        self._host, self._monotonic = host, monotonic
        self._lock = threading.Lock()
        self._rank_0_ended_at: dict[str, float] = {}
        self._failed: dict[str, int] = {}

    def gpus(self, job: TrialJobDetail, rank: int) -> tuple[int, ...] | None:
        """Those of one rank: GPUs are booked for all ranks at once."""
        number = job.form.gpu_number
        if not job.gpu_indices or not number:
            return job.gpu_indices
        return job.gpu_indices[rank * number:(rank + 1) * number]

    @staticmethod
    def complete(node: contract.NodeDocument, rank: int, first: contract.NodeDocument | None) -> None:
        """Say what the keeper of a rank must know of it. ``first``: what rank 0 says of itself."""
        node["rank"], node["address"] = rank, _ADDRESS
        if rank and first is not None:
            node["port"] = first["port"]

    def due(self, job: TrialJobDetail, states: Mapping[int, FolderState]) -> list[int]:
        """Ranks to be started: those that are not, once rank 0 has chosen a port."""
        first = states[0]
        if job.is_early_stopped is not None or job.id in self._failed or first["state"] != "running" \
                or "port" not in first.get("node", {}):
            return []
        return [rank for rank in sorted(states) if rank and states[rank]["state"] == "absent"]

    def judged(self, job: TrialJobDetail, states: Mapping[int, FolderState]) -> TrialOfRanks:
        """What the ranks mean for the trial."""
        return self._trial(job, [self._rank(job, states, rank) for rank in sorted(states)])

    def not_started(self, job: TrialJobDetail, states: Mapping[int, FolderState], rank: int, why: str) -> TrialOfRanks:
        """The same where the machine refused to start a rank."""
        ranks = [self._rank(job, states, each) for each in sorted(states)]
        ranks[rank] = failed_rank(ranks[rank], why)
        return self._trial(job, ranks)

    def forget(self, job_name: str) -> None:
        with self._lock:
            self._failed.pop(job_name, None)
            self._rank_0_ended_at.pop(job_name, None)

    def _rank(self, job: TrialJobDetail, states: Mapping[int, FolderState], rank: int) -> RankState:
        return rank_state(rank, job, self._host, states[rank], self.gpus(job, rank))

    def _trial(self, job: TrialJobDetail, ranks: list[RankState]) -> TrialOfRanks:
        with self._lock:
            now = self._monotonic()
            ended_for = now - self._rank_0_ended_at.setdefault(job.id, now) if ranks[0].has_ended else 0.0
            failed = self._failed.get(job.id, job.platform_state.get("failed"))
            trial = trial_of_ranks(ranks, is_canceled=job.is_early_stopped is not None, failed=failed,
                                   rank_0_ended_for=ended_for)
            known = {} if trial.failed is None else {"failed": trial.failed}
            if trial.failed is not None:
                self._failed[job.id] = trial.failed
        return replace(trial, seen=replace(trial.seen, platform_state={"ranks": rows_of(ranks), **known}))
