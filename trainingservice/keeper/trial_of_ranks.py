"""What the states of its ranks mean for a trial. Pure functions.

1. Rank 0 is the trial's voice: where it succeeds, the trial has succeeded.
2. A rank that fails before ends all others, and is named as the reason.
3. The job has ended when no rank runs any more, so that nothing of it is left when its machines and GPUs are free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainingservice.keeper.agent_client import FolderState
from trainingservice.keeper.attempt_states import observed_state
from trainingservice.keeper.keeper_exit import observed_exit, read_exit, read_text
from trainingservice.polling.job_record import Observation
from trainingservice.reasons import Reason, because_of
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Seconds that the other ranks have after the end of a trial whose rank 0 succeeded.
OTHERS_HAVE = 10.0
#: Ends of rank 0 that are the trial's, and that end of themselves.
_GOOD = (TrialJobStatus.SUCCEEDED, TrialJobStatus.EARLY_STOPPED)


@dataclass(frozen=True)
class RankState:
    """One rank as it was seen last."""

    rank: int
    machine: str
    gpu_indices: tuple[int, ...] | None = None
    #: None: nothing was seen of it yet.
    seen: Observation | None = None
    #: How it ended: one of contract.END_REASONS, "" where it has not, or where nobody knows.
    end_reason: str = ""
    last_lines: str = ""
    #: When it ended by its machine's clock, seconds since 1970; 0 where that is not known.
    ended_at: float = 0.0

    @property
    def has_ended(self) -> bool:
        return self.seen is not None and self.seen.status.is_end

    @property
    def has_failed(self) -> bool:
        return self.seen is not None and self.seen.status.is_end and self.seen.status not in _GOOD


@dataclass(frozen=True)
class TrialOfRanks:
    """``stop``: ranks that must be ended now. ``failed``: the rank that failed first, None while none has. ``waits``:
    the end of rank 0 is the trial's, and the others have a while to end by themselves.
    """

    seen: Observation
    stop: tuple[int, ...] = ()
    failed: int | None = None
    waits: bool = False


def rank_state(rank: int, job: TrialJobDetail, machine: str, state: FolderState,
               gpu_indices: tuple[int, ...] | None = None) -> RankState:
    """By what the agent of its machine tells."""
    end = read_exit(state.get("exit"))
    has_ended = state["state"] == "ended"
    as_of_one = replace(job, status=TrialJobStatus.WAITING) if rank else job
    return RankState(rank, machine, gpu_indices, observed_state(as_of_one, state, machine),
                     end_reason=end["reason"] if has_ended else "", last_lines=end["last_lines"] if has_ended else "",
                     ended_at=end["at"] if has_ended else 0.0)


def trial_of_ranks(ranks: Sequence[RankState], *, is_canceled: bool, failed: int | None = None,
                   rank_0_ended_for: float = 0.0) -> TrialOfRanks:
    """``ranks``: all, in their order. ``is_canceled``: somebody wants the trial stopped, and every rank was told.

    ``failed``: what was found before. ``rank_0_ended_for``: seconds since rank 0 was seen ended.
    """
    first = ranks[0]
    running = tuple(state.rank for state in ranks if not state.has_ended)
    if is_canceled:
        return _canceled(ranks, running)
    if first.seen is not None and first.seen.status in _GOOD and failed is None:
        is_time = rank_0_ended_for >= OTHERS_HAVE
        return TrialOfRanks(_while_others_end(first.seen, running), running if is_time else (),
                            waits=bool(running))
    if failed is None:
        failed = _first_failed(ranks)
    if failed is not None:
        return _failed(ranks, running, failed)
    return TrialOfRanks(_going_on(ranks))


def why_it_failed(state: RankState) -> Reason:
    """The rank and its machine, how it ended, and its last lines."""
    said = "" if state.seen is None else state.seen.message or ""
    return Reason("rank_failed", rank=state.rank, machine=state.machine, said=said or "It was ended.",
                  last_lines=state.last_lines, ended=state.end_reason, **because_of(said))


def failed_rank(state: RankState, why: str) -> RankState:
    """A rank that failed without a word of its keeper: it could not be started, or its machine is gone."""
    return replace(state, seen=Observation(TrialJobStatus.FAILED, message=why), end_reason="")


def rank_by_file(told: Mapping[str, Any]) -> RankState:
    """A rank as ``trialkeeper.rank_launcher`` writes it down: rank, machine, exit (its EXIT_FILE) and is_running."""
    rank, machine, told_end = told.get("rank"), read_text(told.get("machine")), told.get("exit")
    rank = rank if isinstance(rank, int) and 0 <= rank < 2**31 else 0
    if not isinstance(told_end, dict) or not told_end:
        return RankState(rank, machine, None, Observation(TrialJobStatus.RUNNING) if told.get("is_running") else None)
    end, seen = read_exit(told_end), observed_exit(told_end)
    return RankState(rank, machine, None, Observation(seen.status, message=seen.message, exit_code=seen.exit_code),
                     end_reason=end["reason"], last_lines=end["last_lines"], ended_at=end["at"])


def with_failed_rank(seen: Observation, told: Mapping[str, Any] | None) -> Observation:
    """The end of a job whose ranks a launcher has started, with the rank that failed first (None: none did).

    What the platform did to the job (a time limit, a node that failed) is the cause of all that its ranks did then.
    """
    if told is None or seen.cause or seen.status is TrialJobStatus.SUCCEEDED:
        return seen
    why = why_it_failed(rank_by_file(told))
    return replace(seen, status=TrialJobStatus.FAILED, message=why, cause=why, ended_by_itself=True)


def rows_of(ranks: Sequence[RankState]) -> list[dict[str, Any]]:
    """For ``platform_state``: see ``options.rank_rows``."""
    return [{"rank": state.rank, "machine": state.machine,
             "gpu_indices": None if state.gpu_indices is None else list(state.gpu_indices),
             "status": "" if state.seen is None else state.seen.status.value,
             "exit_code": None if state.seen is None else state.seen.exit_code,
             "message": "" if state.seen is None else str(state.seen.message or "")[:500]} for state in ranks]


def _canceled(ranks: Sequence[RankState], running: tuple[int, ...]) -> TrialOfRanks:
    if not running:
        end = ranks[0].seen
        assert end is not None
        return TrialOfRanks(end)
    seen = ranks[0].seen
    is_going_on = seen is None or seen.status.is_end
    return TrialOfRanks(Observation(TrialJobStatus.RUNNING) if is_going_on or seen is None else seen, running)


def _while_others_end(end: Observation, running: tuple[int, ...]) -> Observation:
    if not running:
        return end
    return replace(end, status=TrialJobStatus.RUNNING, message=None, end_time=None, exit_code=None)


def _failed(ranks: Sequence[RankState], running: tuple[int, ...], failed: int) -> TrialOfRanks:
    why = why_it_failed(ranks[failed])
    if running:
        return TrialOfRanks(Observation(TrialJobStatus.RUNNING, message=why), running, failed)
    end = ranks[0].seen
    return TrialOfRanks(Observation(
        TrialJobStatus.FAILED, message=why, cause=why, ended_by_itself=True,
        exit_code=None if end is None else end.exit_code,
        start_time=None if end is None else end.start_time), (), failed)


def _first_failed(ranks: Sequence[RankState]) -> int | None:
    """Of several that were seen at once: one that nobody stopped, and of those the one that ended first."""
    failed = [state for state in ranks if state.has_failed]
    return min(failed, key=lambda state: (
        state.end_reason == contract.STOPPED, state.ended_at or float("inf"), state.rank)).rank if failed else None


def _going_on(ranks: Sequence[RankState]) -> Observation:
    """Of a trial with ranks that run, wait, have succeeded, or cannot be asked about."""
    first = ranks[0].seen
    for state in ranks:
        if state.seen is not None and state.seen.status is TrialJobStatus.UNKNOWN:
            said = f"Rank {state.rank}: {state.seen.message}"
            return Observation(TrialJobStatus.UNKNOWN, message=_with_rank(state, said))
    if first is None:
        return Observation(TrialJobStatus.WAITING)
    for state in ranks[1:]:
        if state.seen is not None and state.seen.status is TrialJobStatus.WAITING and state.seen.message:
            return replace(first, message=state.seen.message)
    return first


def _with_rank(state: RankState, said: str) -> Reason:
    message = "" if state.seen is None else state.seen.message or ""
    return Reason("machine_unreachable", platform="remote", said=said, **because_of(message))
