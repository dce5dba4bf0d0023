"""The loop of a platform that is asked: stops, submissions and one question at a time, each when it is due.

``step`` calls ``_carry_out_stops``, ``_drain_queue`` and ``_observe_if_due`` in this order. What they find out becomes
a change of a ``JobRecord``, of which the host is told (``_announce``).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from trainingservice import tracing
from trainingservice.base import ServiceContext
from trainingservice.cluster_settings import ClusterSettings
from trainingservice.errors import MustWait, TemporaryError, TrainingServiceError
from trainingservice.polling.fair_queue import FairQueue
from trainingservice.polling.job_record import JobRecord, Observation, Stage
from trainingservice.polling.poll_schedule import PollSchedule, pause_after
from trainingservice.polling.polled_platform import PolledPlatform
from trainingservice.reasons import Reason
from trainingservice.reasons import refusal as reason_of_refusal
from trainingservice.trial_job_status import TrialJobStatus

logger = logging.getLogger(__name__)

#: So many jobs in a row that could not be handed over are taken for a fault of the cluster.
CLUSTER_FAULT_AFTER = 3
#: A stop that was accepted is said again after so many seconds, until the end is seen.
REPEAT_STOP_AFTER = 60.0
#: The tombstone of a job that was never started is tried so often.
TOMBSTONE_TRIES = 10


class JobLoop(PolledPlatform):
    """What ``PollingTrainingService`` does in its own thread. ``_lock`` guards the jobs and what is known of them."""

    def __init__(self, settings: ClusterSettings, context: ServiceContext, *,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings, context)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._jobs: dict[str, JobRecord] = {}
        self._accepted: dict[str, int] = {}
        self._has_new_stops = False
        self._waiting_for_room: set[str] = set()  # names: each end asks for them, of however many jobs there are
        self._untold: set[str] = set()  # names of jobs that have changed without the host's hearing of it
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._running = threading.Lock()  # held while run is inside its loop
        self._close_once = threading.Lock()
        self._is_closed = False
        self._faults_in_a_row = 0
        self._no_start_before = 0.0
        self._questions = PollSchedule(self.poll_interval, self.back_off)
        self._start_fault = ""

    @property
    def trouble(self) -> str:
        return self._questions.fault or (self._start_fault if self._faults_in_a_row >= CLUSTER_FAULT_AFTER else "")

    @property
    def unanswered_since(self) -> float | None:
        """Seconds since 1970 since when no question was answered; None while the platform answers."""
        return self._questions.unanswered_since

    # --- the loop ----------------------------------------------------------------------------

    def step(self) -> float:
        """Do what is due: stops, submissions, one question. Returns the seconds until something is due again."""
        self._carry_out_stops()
        self._drain_queue()
        self._observe_if_due()
        return self._pause()

    def _pause(self) -> float:
        with self._lock:
            # the stop of a job that is being handed over waits for that, whose end wakes the loop
            due = [record.stop_due for record in self._jobs.values()
                   if record.stop_due is not None and record.stage is not Stage.STARTING]
            due += [max(record.next_try, self._no_start_before) for record in self._jobs.values()
                    if record.stage is Stage.QUEUED]
            if any(record.stage in (Stage.SUBMITTED, Stage.SOUGHT) for record in self._jobs.values()):
                due.append(self._questions.next)
        return min(60.0, max(0.0, min(due, default=float("inf")) - self._monotonic()))

    # --- submissions -------------------------------------------------------------------------

    def _drain_queue(self) -> None:
        """Try each job of the queue that is due once. The highest priority goes first, then the experiment with the
        fewest jobs on the platform, counted anew after each start; of one experiment those that were tried longest ago.
        """
        now = self._monotonic()
        with self._lock:
            due = [record for record in self._jobs.values() if record.stage is Stage.QUEUED and record.next_try <= now]
            if not due:
                return  # of many running jobs nothing is counted for a queue that is empty
            turns: FairQueue[JobRecord] = FairQueue(record.detail.form.experiment_id for record in self._jobs.values()
                                            if record.stage in (Stage.STARTING, Stage.SUBMITTED))
        for waiting in sorted(due, key=lambda record: record.tried_at):  # stable: then by submission
            turns.add(waiting.detail.form.experiment_id, waiting, waiting.detail.form.priority)
        while (record := turns.next()) is not None:
            with self._lock:
                if self._closed.is_set() or self._no_start_before > self._monotonic():
                    return
                if record.stage is not Stage.QUEUED:  # canceled meanwhile
                    continue
                record.stage = Stage.STARTING
            self._start(record)
            self._announce([record])
            if record.stage is Stage.SUBMITTED:
                turns.started(record.detail.form.experiment_id)
            if self._has_new_stops:  # a long queue does not hold back a cancel
                self._carry_out_stops()

    def _start(self, record: JobRecord) -> TrainingServiceError | None:
        """Hand one job over; the host is not told. Returns the error if it can never run (the job is FAILED then)."""
        refusal: TrainingServiceError | None = None
        seen: Observation | None = None
        fault: TemporaryError | None = None
        try:
            form = record.detail.form
            with tracing.span("start", experiment=form.experiment_id, trial=form.trial_job_id, job=record.name,
                              platform=self.platform):
                seen = self.start_job(record.detail)
        except TemporaryError as error:
            fault = error
        except TrainingServiceError as error:
            refusal = error
        except Exception as error:
            logger.exception("the %s platform failed on the start of job %s", self.platform, record.name)
            fault = TemporaryError(f"the start failed and will be tried again: {type(error).__name__}: {error}")
        with self._lock:
            now = self._monotonic()
            record.tried_at = now
            record.stage = Stage.SUBMITTED
            noted, record.noted = record.noted, []
            if seen is not None:
                self._faults_in_a_row = 0
                record.failures = 0
                self._waiting_for_room.discard(record.name)
                record.say("")  # why it waited until now
                for observation in (seen, *noted):
                    record.apply(observation, self.context.clock())
                if record.given_back is not None:
                    self._requeue(record, record.given_back)
                self._questions.after_a_deed(now)
            elif refusal is not None:
                self._faults_in_a_row = 0
                record.apply(_refused(refusal), self.context.clock())
            elif fault is not None:
                self._put_back(record, fault, now, of_the_cluster=fault.of_the_cluster)
        self._deliver_waiting(record)
        return refusal

    def _put_back(self, record: JobRecord, fault: TemporaryError, now: float, *, of_the_cluster: bool) -> None:
        """A job could not be handed over now (the lock is held). ``of_the_cluster``: others would fare no better."""
        record.stage = Stage.QUEUED
        record.say(fault.reason)
        if record.canceled:
            record.apply(Observation(record.canceled_status(), message=""), self.context.clock())
            record.stop_due = now
            self._has_new_stops = True
        elif isinstance(fault, MustWait):
            self._waiting_for_room.add(record.name)
            record.next_try = now + (5.0 if fault.retry_after is None else fault.retry_after)
        else:
            self._waiting_for_room.discard(record.name)
            record.failures += 1
            pause = pause_after(record.failures, self.back_off, fault)
            record.next_try = now + pause
            if not of_the_cluster:
                return
            self._faults_in_a_row += 1
            self._start_fault = fault.reason
            if self._faults_in_a_row >= CLUSTER_FAULT_AFTER:
                self._no_start_before = now + pause_after(
                    self._faults_in_a_row - CLUSTER_FAULT_AFTER + 1, self.back_off, fault)

    def _requeue(self, record: JobRecord, fault: TrainingServiceError) -> None:
        """The lock is held."""
        record.given_back = None
        record.detail = replace(record.detail, machine="", gpu_indices=None, url="", platform_state={})
        if not isinstance(fault, TemporaryError):
            record.apply(_refused(fault), self.context.clock())
            return
        self._put_back(record, fault, self._monotonic(), of_the_cluster=False)

    def room_may_be_free(self) -> None:
        """Try the jobs again that wait for room."""
        with self._lock:
            for name in self._waiting_for_room:
                if (record := self._jobs.get(name)) is not None:
                    record.next_try = 0.0
        self._wake.set()

    def _deliver_waiting(self, record: JobRecord) -> None:
        while record.stage is Stage.SUBMITTED and record.undelivered:
            parameters = record.undelivered[0]
            try:
                self.deliver_parameters(record.detail, parameters)
            except TrainingServiceError as error:
                logger.warning("parameters %d of job %s wait: %s", parameters.index, record.name, error)
                return
            record.undelivered = record.undelivered[1:]

    # --- stops -------------------------------------------------------------------------------

    def _carry_out_stops(self) -> None:
        now = self._monotonic()
        self._has_new_stops = False
        with self._lock:
            due = [record for record in self._jobs.values() if record.stop_due is not None and record.stop_due <= now
                   and record.stage is not Stage.STARTING]
        for record in due:
            self._stop(record)

    def _stop(self, record: JobRecord) -> None:
        failure: TemporaryError | None = None
        try:
            self.stop_job(record.detail)
        except TemporaryError as error:
            failure = error
        except Exception as error:
            if not isinstance(error, TrainingServiceError):
                logger.exception("the %s platform failed on the stop of job %s", self.platform, record.name)
            failure = TemporaryError(str(error))
        with self._lock:
            now = self._monotonic()
            ended = record.stage is Stage.ENDED
            if failure is None:
                record.stop_failures = 0
                record.stop_due = None if ended else now + REPEAT_STOP_AFTER
                self._questions.after_a_deed(now)
            else:
                record.stop_failures += 1
                record.stop_due = now + pause_after(record.stop_failures, self.back_off, failure)
                if ended and record.stop_failures >= TOMBSTONE_TRIES:
                    record.stop_due = None
        if failure is not None:
            logger.warning("job %s cannot be stopped yet: %s", record.name, failure)

    # --- questions ---------------------------------------------------------------------------

    def _observe_if_due(self) -> None:
        now = self._monotonic()
        with self._lock:
            if now < self._questions.next:
                return
            asked = {record.name: record for record in self._jobs.values()
                     if record.stage in (Stage.SUBMITTED, Stage.SOUGHT)}
            waiting = [record for record in asked.values() if record.undelivered]
            untold, self._untold = [asked[name] for name in self._untold if name in asked], set()
            if not asked:
                self._questions.next = float("inf")
        if not asked:
            return
        self._announce(untold)
        for record in waiting:
            self._deliver_waiting(record)
        try:
            changed = self._apply(asked, self.observe_jobs([record.detail for record in asked.values()]))
        except Exception as error:
            if not isinstance(error, TrainingServiceError):
                logger.exception("the %s platform failed on a question", self.platform)
            fault = error if isinstance(error, TemporaryError) else TemporaryError(
                error.reason if isinstance(error, TrainingServiceError) else str(error))
            with self._lock:
                self._questions.failed(self._monotonic(), self.context.clock(), fault)
            logger.warning("the %s platform (cluster %s) cannot be asked; the last states of its trials remain: %s",
                           self.platform, self.context.cluster_id, error)
            return
        with self._lock:
            self._questions.answered(self._monotonic(), changed=changed)

    def _apply(self, asked: Mapping[str, JobRecord], answers: Mapping[str, Observation | None]) -> bool:
        """Apply the answers to a question. True if anything changed."""
        changed = []
        with self._lock:
            for name, record in asked.items():
                if name in answers and self._apply_one(record, answers[name]):
                    changed.append(record)
        self._announce(changed)
        return bool(changed)

    def _apply_one(self, record: JobRecord, seen: Observation | None) -> bool:
        now = self.context.clock()
        if record.stage not in (Stage.SUBMITTED, Stage.SOUGHT):
            return False
        if seen is not None:
            record.stage = Stage.SUBMITTED
            return record.apply(seen, now)
        if record.canceled:
            return record.apply(Observation(record.canceled_status(), message=""), now)
        if record.stage is Stage.SUBMITTED:
            return record.apply(Observation(TrialJobStatus.SYS_CANCELED, message=Reason(
                "stopped_on_platform", platform=self.platform, said=(
                    f"the job was deleted on the {self.platform} platform by somebody else; rerun the trial if you "
                    "still need it"))), now)
        if self._monotonic() - record.sought_since >= self.search_time:
            record.stage = Stage.QUEUED if record.resubmitted else Stage.ABSENT
            record.detail = replace(record.detail, status=TrialJobStatus.WAITING,
                                    message=Reason(
                                        "submission_lost", platform=self.platform,
                                        said="the submission did not reach the platform; it is sent again"))
            return True
        return False

    # --- news --------------------------------------------------------------------------------

    def _announce(self, records: Iterable[JobRecord]) -> None:
        """Tell the host that details have changed; ended jobs let go of what they held and make room."""
        for record in records:
            self._announce_end(record)
            try:
                self.context.on_change(record.name)
            except Exception:
                logger.exception("the host failed to process a change of job %s", record.name)

    def _announce_end(self, record: JobRecord) -> None:
        """Of a job that has ended, once: what it held is given back."""
        with self._lock:
            has_ended = record.detail.status.is_end and not record.end_announced
            record.end_announced |= has_ended
        if has_ended:
            try:
                self.job_ended(record.detail)
            except Exception:
                logger.exception("the resources of job %s could not be released", record.name)
            self.room_may_be_free()


def _refused(why: TrainingServiceError) -> Observation:
    """The end of a job that the platform will never take."""
    return Observation(TrialJobStatus.FAILED, message=reason_of_refusal(why.reason), ended_by_itself=True,
                       refused=True)
