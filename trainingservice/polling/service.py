"""A platform that is asked at intervals. Most platforms need four methods only.

``PollingTrainingService`` brings what all of them share: the queue of submissions, back-off for a
job and for the whole cluster, poll intervals that grow while nothing happens, cancels that are
repeated until they are obeyed, and taking over the jobs of an earlier object. A platform adds
``start_job``, ``observe_jobs``, ``stop_job`` and ``remove_experiment``.

*Threads*: ``run`` repeats ``step`` in its own thread; ``cancel_trial_job``, ``update_trial_job`` and
``clean_up_experiment`` call the platform in the caller's thread, so the four methods may be called
from several threads at once. They are never called with a lock held.

*Not promised*: that two jobs are started in the order of submission (one that must wait is passed
by those behind it), and that a job's every intermediate status is seen.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from trainingservice.base import ServiceContext
from trainingservice.cluster_settings import ClusterSettings
from trainingservice.errors import MustWait, TemporaryError, TrainingServiceError, UnknownTrialJob, Unsupported
from trainingservice.polling.fair_queue import FairQueue
from trainingservice.polling.job_record import JobRecord, Observation, Stage
from trainingservice.polling.poll_schedule import PollSchedule, pause_after
from trainingservice.polling.polled_platform import PolledPlatform
from trainingservice.reasons import Reason
from trainingservice.reasons import refusal as reason_of_refusal
from trainingservice.trial_job import JobApplicationForm, ResumedJob, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

logger = logging.getLogger(__name__)

__all__ = ["MustWait", "Observation", "PollingTrainingService"]  # what a platform needs

#: So many jobs in a row that could not be handed over are taken for a fault of the cluster.
CLUSTER_FAULT_AFTER = 3
#: A stop that was accepted is said again after so many seconds, until the end is seen.
REPEAT_STOP_AFTER = 60.0
#: The tombstone of a job that was never started is tried so often.
TOMBSTONE_TRIES = 10


class PollingTrainingService(PolledPlatform):
    """Base of platforms that are asked. See the module's text; what a platform writes is in ``PolledPlatform``."""

    # --- what a platform may call ----------------------------------------------------------

    def note(self, job_name: str, seen: Observation, *, untold_for: float = 0.0) -> None:
        """The platform told by itself what it sees of a job (a watch, an event). From any thread.

        ``untold_for``: seconds for which the host need not hear of it, because the job's keeper tells it the same.
        """
        with self._lock:
            record = self._jobs.get(job_name)
            if record is None:
                return
            if record.stage is Stage.STARTING:  # applied after start_job's answer, which is older
                record.noted.append(seen)
                return
            if record.stage in (Stage.SOUGHT, Stage.ABSENT, Stage.QUEUED) and not seen.status.is_end:
                return
            changed = record.apply(seen, self.context.clock())
        if changed and untold_for > 0 and not seen.status.is_end:
            with self._lock:
                self._untold.add(job_name)
            self.ask_within(untold_for)
        elif changed:
            self._announce([record])

    def give_back(self, job_name: str, fault: TrainingServiceError) -> None:
        """A job that ``start_job`` took over could not be handed over after all, and certainly does not run.

        It is queued again and free for another place; after a PermanentError it is FAILED. From any thread.
        """
        with self._lock:
            record = self._jobs.get(job_name)
            if record is None or record.stage not in (Stage.STARTING, Stage.SUBMITTED) or record.detail.status.is_end:
                return
            if record.stage is Stage.STARTING:  # start_job has not returned yet
                record.given_back = fault
                return
            self._requeue(record, fault)
        self._announce([record])
        self._wake.set()

    def _requeue(self, record: JobRecord, fault: TrainingServiceError) -> None:
        """The lock is held."""
        record.given_back = None
        record.detail = replace(record.detail, machine="", gpu_indices=None, url="", platform_state={})
        if not isinstance(fault, TemporaryError):
            record.apply(_refused(fault), self.context.clock())
            return
        self._put_back(record, fault, self._monotonic(), of_the_cluster=False)

    def ask_soon(self) -> None:
        """Something has happened on the platform: put the question now."""
        self.ask_within(0.0)

    def ask_within(self, seconds: float) -> None:
        """Something has happened on the platform: put the question in ``seconds`` at the latest."""
        with self._lock:
            is_sooner = self._questions.within(self._monotonic(), seconds)
        if is_sooner:
            self._wake.set()

    def room_may_be_free(self) -> None:
        """Try the jobs again that wait for room."""
        with self._lock:
            for name in self._waiting_for_room:
                if (record := self._jobs.get(name)) is not None:
                    record.next_try = 0.0
        self._wake.set()

    # --- construction ----------------------------------------------------------------------

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

    # --- jobs ------------------------------------------------------------------------------

    def list_trial_jobs(self) -> list[TrialJobDetail]:
        with self._lock:
            return [record.detail for record in self._jobs.values()]

    def get_trial_job(self, job_name: str) -> TrialJobDetail:
        return self._record(job_name).detail

    def _record(self, job_name: str) -> JobRecord:
        with self._lock:
            record = self._jobs.get(job_name)
        if record is None:
            raise UnknownTrialJob(job_name)
        return record

    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        if self._closed.is_set():
            raise TemporaryError(f"the {self.platform} service was closed while job {form.job_name} was submitted; "
                                 "submit it to the next one")
        with self._lock:
            record = self._jobs.get(form.job_name)
            if record is not None and record.stage is Stage.SOUGHT:
                record.resubmitted = True
                # what was resumed has no token; the keeper that is started if the job is not there needs this one
                record.detail = replace(record.detail, form=form)
            if record is not None and record.stage is not Stage.ABSENT:
                return record.detail
            if record is None:
                record = JobRecord(TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, self.context.clock()),
                                   Stage.QUEUED)
                self._jobs[form.job_name] = record
            else:
                record.detail = replace(record.detail, form=form, message="")
            record.delivered_indices.add(form.hyper_parameters.index)
            at_once = self.submits_at_once and self._monotonic() >= self._no_start_before
            record.stage = Stage.STARTING if at_once else Stage.QUEUED
        if at_once:
            refusal = self._start(record)
            if refusal is not None:
                with self._lock:
                    self._jobs.pop(form.job_name, None)
                self._announce_end(record)
                raise refusal
        self._wake.set()
        return record.detail

    def update_trial_job(self, job_name: str, form: JobApplicationForm) -> TrialJobDetail:
        record = self._record(job_name)
        parameters = form.hyper_parameters
        with self._lock:
            is_new = parameters.index not in record.delivered_indices and not record.detail.status.is_end
            deliver_now = is_new and record.stage is Stage.SUBMITTED
            if is_new and self.is_multi_phase_job_supported:
                record.delivered_indices.add(parameters.index)
                if not deliver_now:
                    record.undelivered.append(parameters)
        if is_new and not self.is_multi_phase_job_supported:
            raise Unsupported(f"the {self.platform} platform cannot give a running trial further parameters; "
                              "run each set of parameters as a trial of its own")
        if deliver_now:
            try:
                self.deliver_parameters(record.detail, parameters)
            except Exception:
                record.delivered_indices.discard(parameters.index)
                raise
        if record.stage is Stage.SUBMITTED:
            self._apply({record.name: record}, self.observe_jobs([record.detail]))
        return record.detail

    def cancel_trial_job(self, job_name: str, is_early_stopped: bool = False) -> None:
        record = self._record(job_name)
        with self._lock:
            if record.detail.status.is_end:
                return
            if not record.canceled:
                record.detail = replace(record.detail, is_early_stopped=is_early_stopped)
            stage = record.stage
            if stage in (Stage.QUEUED, Stage.ABSENT):
                record.apply(Observation(record.canceled_status(), message=""), self.context.clock())
            # below it is told at once; the loop says it again if that comes to nothing
            record.stop_due = self._monotonic() + (REPEAT_STOP_AFTER if stage is Stage.SUBMITTED else 0)
            self._has_new_stops = True
        self._announce([record])
        if stage is Stage.SUBMITTED:
            self._stop(record)
        self._wake.set()

    def forget_trial_jobs(self, job_names: Collection[str]) -> None:
        with self._lock:
            for name in job_names:
                record = self._jobs.get(name)
                # not before its end was announced, which lets go of what it held, and while a stop is to be said again
                if record is not None and record.stage is Stage.ENDED and record.end_announced \
                        and record.stop_due is None and self.is_done_with(record.detail):
                    self._let_go(name)

    def _let_go(self, job_name: str) -> None:
        """The lock is held."""
        self._jobs.pop(job_name, None)
        self._accepted.pop(job_name, None)
        self._waiting_for_room.discard(job_name)
        self._untold.discard(job_name)

    def resume_trial_jobs(self, jobs: Sequence[ResumedJob]) -> None:
        now = self._monotonic()
        with self._lock:
            for job in jobs:
                stage = Stage.ENDED if job.ended else Stage.SUBMITTED if job.submitted else Stage.SOUGHT
                record = JobRecord(job.detail, stage, sought_since=now, end_announced=job.ended)
                record.delivered_indices.add(job.detail.form.hyper_parameters.index)
                if record.canceled and not job.ended:
                    record.stop_due = now
                self._jobs.setdefault(job.detail.id, record)
                if job.accepted is not None and not job.ended:
                    self._accepted[job.detail.id] = job.accepted
            self._questions.within(now, 0.0)
        self._observe_if_due()

    def accepted_when_resumed(self, job_names: Iterable[str]) -> dict[str, int]:
        """How much the server had of these jobs' journals when this object took them over, until ``seen_again``."""
        with self._lock:
            return {name: self._accepted[name] for name in job_names if name in self._accepted}

    def seen_again(self, job_name: str) -> None:
        """The platform has seen a resumed job's attempt and knows how much the server had of it."""
        with self._lock:
            self._accepted.pop(job_name, None)

    def clean_up_experiment(self, experiment_id: str) -> None:
        """As the base class. Raises TemporaryError when its running jobs do not end within their grace period."""
        def unfinished() -> list[TrialJobDetail]:
            return [job for job in self.list_trial_jobs()
                    if job.form.experiment_id == experiment_id and not job.status.is_end]

        running = unfinished()
        for job in running:
            self.cancel_trial_job(job.id)
        grace = max((job.form.limits.grace_period for job in running), default=0.0) + 15
        deadline = self._monotonic() + grace
        while running := unfinished():
            if self._monotonic() > deadline:
                names = ", ".join(job.id for job in running[:5])
                raise TemporaryError(f"{len(running)} trial(s) of experiment {experiment_id} were told to stop and "
                                     f"have not ended after {grace:.0f} s ({names}); try again later", retry_after=30)
            self._carry_out_stops()
            with self._lock:
                asked = {record.name: record for record in self._jobs.values()
                         if record.stage in (Stage.SUBMITTED, Stage.SOUGHT) and record.name in {j.id for j in running}}
            if asked:
                self._apply(asked, self.observe_jobs([record.detail for record in asked.values()]))
            if unfinished():
                time.sleep(0.05)
        with self._lock:
            known = [record.detail for record in self._jobs.values()
                     if record.detail.form.experiment_id == experiment_id]
        self.remove_experiment(experiment_id, known)
        with self._lock:
            for job in known:
                self._let_go(job.id)

    # --- the loop --------------------------------------------------------------------------

    def run(self) -> None:
        with self._running:
            if self._closed.is_set():
                return
            try:
                self.open()
            except Exception as error:
                logger.warning("the %s service (cluster %s) cannot be opened yet: %s", self.platform,
                               self.context.cluster_id, error, exc_info=not isinstance(error, TrainingServiceError))
            while not self._closed.is_set():
                self._wake.clear()
                pause = self.step()
                self._wake.wait(pause)

    def clean_up(self) -> None:
        self._closed.set()
        self._wake.set()
        # run may be inside a call of the platform: wait for it, but not forever
        returned = self._running.acquire(timeout=30)
        if returned:
            self._running.release()
        else:
            logger.warning("the %s service (cluster %s) still hangs in a call of its platform while it is closed",
                           self.platform, self.context.cluster_id)
        with self._close_once:
            if not self._is_closed:
                self._is_closed = True
                self.close()

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

    def _drain_queue(self) -> None:
        """Try each job of the queue that is due once. The experiment with the fewest jobs on the platform goes first,
        counted anew after each start; of one experiment those that were tried longest ago.
        """
        now = self._monotonic()
        with self._lock:
            due = [record for record in self._jobs.values() if record.stage is Stage.QUEUED and record.next_try <= now]
            turns: FairQueue[JobRecord] = FairQueue(record.detail.form.experiment_id for record in self._jobs.values()
                                            if record.stage in (Stage.STARTING, Stage.SUBMITTED))
        for waiting in sorted(due, key=lambda record: record.tried_at):  # stable: then by submission
            turns.add(waiting.detail.form.experiment_id, waiting)
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
                self._put_back(record, fault, now)
        self._deliver_waiting(record)
        return refusal

    def _put_back(self, record: JobRecord, fault: TemporaryError, now: float, *, of_the_cluster: bool = True) -> None:
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
            self._faults_in_a_row += of_the_cluster
            self._start_fault = fault.reason
            if of_the_cluster and self._faults_in_a_row >= CLUSTER_FAULT_AFTER:
                self._no_start_before = now + pause_after(
                    self._faults_in_a_row - CLUSTER_FAULT_AFTER + 1, self.back_off, fault)

    def _deliver_waiting(self, record: JobRecord) -> None:
        while record.stage is Stage.SUBMITTED and record.undelivered:
            parameters = record.undelivered[0]
            try:
                self.deliver_parameters(record.detail, parameters)
            except TrainingServiceError as error:
                logger.warning("parameters %d of job %s wait: %s", parameters.index, record.name, error)
                return
            record.undelivered = record.undelivered[1:]

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
            logger.warning("the %s platform (cluster %s) cannot be asked, the last answers stay: %s",
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
                    f"the job was deleted on the {self.platform} platform by somebody else; rerun the trial if it is "
                    "still wanted"))), now)
        if self._monotonic() - record.sought_since >= self.search_time:
            record.stage = Stage.QUEUED if record.resubmitted else Stage.ABSENT
            record.detail = replace(record.detail, status=TrialJobStatus.WAITING,
                                    message=Reason(
                                        "submission_lost", platform=self.platform,
                                        said="the submission had not reached the platform; it is made again"))
            return True
        return False

    def _announce(self, records: Iterable[JobRecord]) -> None:
        """Tell the host that details have changed; ended jobs let go of what they held and make room."""
        for record in records:
            self._announce_end(record)
            try:
                self.context.on_change(record.name)
            except Exception:
                logger.exception("the host failed on the news that job %s has changed", record.name)

    def _announce_end(self, record: JobRecord) -> None:
        """Of a job that has ended, once: what it held is given back."""
        with self._lock:
            has_ended = record.detail.status.is_end and not record.end_announced
            record.end_announced |= has_ended
        if has_ended:
            try:
                self.job_ended(record.detail)
            except Exception:
                logger.exception("what job %s held could not be let go of", record.name)
            self.room_may_be_free()


def _refused(why: TrainingServiceError) -> Observation:
    """The end of a job that the platform will never take."""
    return Observation(TrialJobStatus.FAILED, message=reason_of_refusal(why.reason), ended_by_itself=True)
