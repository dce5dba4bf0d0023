"""What a polling service keeps about one job, and how an observation changes it. No threads, no platform."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from trainingservice.errors import TrainingServiceError
from trainingservice.reasons import Reason
from trainingservice.trial_job import HyperParameters, Interpreter, Timestamp, TrialJobDetail
from trainingservice.trial_job_status import MOVES, TrialJobStatus


@dataclass(frozen=True)
class Observation:
    """What a platform said about one job. None and "" mean: nothing new about this.

    ``ended_by_itself`` matters for ends only: True where the platform is sure that the trial was
    not ended by a cancel, so that a cancel that came too late does not rewrite its status.
    """

    status: TrialJobStatus
    message: str | None = None
    start_time: Timestamp | None = None
    end_time: Timestamp | None = None
    exit_code: int | None = None
    url: str = ""
    working_directory: str = ""
    machine: str = ""
    gpu_indices: tuple[int, ...] | None = None
    interpreter: Interpreter | None = None
    platform_state: dict[str, Any] | None = None
    ended_by_itself: bool = False
    #: Of ends only: what the platform alone knows of why the trial ended, a sentence (out of memory, evicted).
    cause: str = ""
    #: With WAITING only: somebody suspended it on the platform, nothing of it runs, and its next run begins anew.
    suspended: bool = False
    #: With WAITING only: the platform ended a run, nothing of it runs, and its next run goes on with the same journal.
    interrupted: bool = False
    #: With FAILED only: the platform will never take it, and nothing of it was started.
    refused: bool = False


class Stage(Enum):
    """How far a job has come between the service and the platform."""

    SOUGHT = "sought"        #: resumed, its submission had begun: the platform is asked whether it knows the job
    ABSENT = "absent"        #: sought and not there: waits for the host to submit it again
    QUEUED = "queued"        #: accepted, not yet handed to the platform
    STARTING = "starting"    #: a thread is handing it to the platform right now
    SUBMITTED = "submitted"  #: the platform has it
    ENDED = "ended"          #: nothing is asked about it any more


@dataclass
class JobRecord:
    """One job. Guarded by the service's lock; ``detail`` is replaced, never changed."""

    detail: TrialJobDetail
    stage: Stage
    #: Monotonic time before which no attempt to start it is made, and how many have failed in a row.
    next_try: float = 0.0
    tried_at: float = float("-inf")
    failures: int = 0
    #: The platform must still be told to stop it, not before this monotonic time.
    stop_due: float | None = None
    stop_failures: int = 0
    #: The host submitted it again while it was sought.
    resubmitted: bool = False
    #: When the search for it began (monotonic).
    sought_since: float = 0.0
    #: Parameters of later phases that came before the job was started.
    undelivered: list[HyperParameters] = field(default_factory=list)
    delivered_indices: set[int] = field(default_factory=set)
    #: What the platform told by itself while the job was STARTING: newer than the start's own answer.
    noted: list[Observation] = field(default_factory=list)
    #: The platform gave it back while it was STARTING.
    given_back: TrainingServiceError | None = None
    #: ``job_ended`` was called.
    end_announced: bool = False

    @property
    def name(self) -> str:
        return self.detail.id

    @property
    def canceled(self) -> bool:
        """A cancel was asked for."""
        return self.detail.is_early_stopped is not None

    def canceled_status(self) -> TrialJobStatus:
        """The end of a job that was canceled."""
        return TrialJobStatus.EARLY_STOPPED if self.detail.is_early_stopped else TrialJobStatus.USER_CANCELED

    def say(self, message: str) -> bool:
        """Give the job another message. True if this changed anything."""
        if self.detail.message == message:
            return False
        self.detail = replace(self.detail, message=message)
        return True

    def apply(self, seen: Observation, now: Timestamp) -> bool:
        """Take an observation. True if the detail changed. An end is final: later observations change nothing."""
        before = self.detail
        if before.status.is_end:
            return False
        status = seen.status
        if status.is_end and self.canceled and not seen.ended_by_itself:
            status, seen = self.canceled_status(), replace(seen, message=_unless_stopped_from_outside(seen.message))
        if status != before.status and status not in MOVES[before.status]:
            return False
        suspended = seen.suspended and status is TrialJobStatus.WAITING
        start_time = None if suspended else before.start_time or seen.start_time
        if start_time is None and status is TrialJobStatus.RUNNING:
            start_time = now
        end_time = (seen.end_time or now) if status.is_end else None
        message = seen.message
        if message is None:  # what was said of a status does not outlive it
            message = before.message if status == before.status else ""
        found: dict[str, Any] = {
            "status": status, "start_time": start_time, "end_time": end_time, "message": message,
            "exit_code": before.exit_code if seen.exit_code is None else seen.exit_code,
            "url": seen.url or before.url, "working_directory": seen.working_directory or before.working_directory,
            "machine": seen.machine or before.machine,
            "gpu_indices": before.gpu_indices if seen.gpu_indices is None else seen.gpu_indices,
            "interpreter": seen.interpreter or before.interpreter,
            "platform_state": before.platform_state if seen.platform_state is None else seen.platform_state,
            "cause": seen.cause if status.is_end else "", "suspended": suspended,
            "interrupted": seen.interrupted and status is TrialJobStatus.WAITING,
            "refused": seen.refused and status is TrialJobStatus.FAILED}
        changed = {name: value for name, value in found.items() if getattr(before, name) != value}
        if not changed:
            return False  # what is mostly found of a running job costs no new detail
        self.detail = replace(before, **changed)
        if status.is_end:
            self.stage = Stage.ENDED
            self.stop_due = None
            self.undelivered.clear()
        return True


def _unless_stopped_from_outside(message: str | None) -> str | None:
    """A keeper does not know who sent it SIGTERM: here it was the service."""
    return "" if isinstance(message, Reason) and message.code == "keeper_stopped" else message
