"""What the runs of a proposal come to: pure, of what is known of them so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.models.trial import RESULTS
from nniweb.tuning.replicates import mean_and_error
from trainingservice.trial_job_status import TrialJobStatus


@dataclass(frozen=True)
class Run:
    """A trial that has ended. ``value``: what it counts in the mean, None where it does not count."""

    replicate: int
    status: str
    value: float | None


@dataclass(frozen=True)
class Outcome:
    """``wanted``: replicates that are to be run in all. ``status``: what a tuner is told where that is the end."""

    state: ProposalState
    wanted: int
    value_count: int
    failed_count: int
    mean: float | None
    standard_error: float | None
    status: str


def outcome_of(runs: Sequence[Run], begun: int, most: int, may_be_better: Callable[[float], bool] | None) -> Outcome:
    """``runs``: at least one, in the order of their numbers. ``most``: replicates of a proposal that is run in full.
    ``may_be_better``: whether one with this mean is worth another run; None where every proposal is run in full.

    Of several runs of one replicate (reruns) the latest that has a value counts. The mean is over the replicates that
    have a value; where fewer than half of those that have ended have one, there is none.
    """
    latest: dict[int, Run] = {}
    for run in runs:
        before = latest.get(run.replicate)
        if before is None or before.value is None or run.value is not None:
            latest[run.replicate] = run
    values = [run.value for _, run in sorted(latest.items()) if run.value is not None]
    counted = values if 2 * len(values) >= len(latest) else []
    mean, error = mean_and_error(counted)
    wanted = most
    if may_be_better is not None and begun < most:
        stopped = any(run.status == TrialJobStatus.EARLY_STOPPED for run in latest.values())
        if mean is None or stopped or not may_be_better(mean):
            wanted = begun
    state = ProposalState.OPEN
    if wanted <= begun and len(latest) >= begun:
        state = ProposalState.COMPLETE if begun >= most else ProposalState.DROPPED
    return Outcome(state, max(wanted, begun), len(counted), sum(run.status == TrialJobStatus.FAILED
                                                               for run in latest.values()),
                   mean, error, _status(list(latest.values()), mean))


def _status(runs: Sequence[Run], mean: float | None) -> str:
    """Of a proposal with a value that of one that gave it; else that of the replicate that came to least."""
    if mean is not None:
        with_value = [run.status for run in runs if run.value is not None]
        return next((status for status in RESULTS if status in with_value), with_value[0])
    least = (TrialJobStatus.FAILED.value, TrialJobStatus.EARLY_STOPPED.value, TrialJobStatus.USER_CANCELED.value,
             TrialJobStatus.SYS_CANCELED.value)
    return next((status for status in least if any(run.status == status for run in runs)), runs[-1].status)
