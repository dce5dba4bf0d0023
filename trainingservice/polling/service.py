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

import contextlib
import logging
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from trainingservice.errors import MustWait, TemporaryError, TrainingServiceError, UnknownTrialJob, Unsupported
from trainingservice.polling import job_loop
from trainingservice.polling.job_loop import JobLoop
from trainingservice.polling.job_record import JobRecord, Observation, Stage
from trainingservice.trial_job import JobApplicationForm, ResumedJob, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = logging.getLogger(__name__)

__all__ = ["MustWait", "Observation", "PollingTrainingService"]  # what a platform needs


class PollingTrainingService(JobLoop):
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

    def ask_soon(self) -> None:
        """Something has happened on the platform: put the question now."""
        self.ask_within(0.0)

    def ask_within(self, seconds: float) -> None:
        """Something has happened on the platform: put the question in ``seconds`` at the latest."""
        with self._lock:
            is_sooner = self._questions.within(self._monotonic(), seconds)
        if is_sooner:
            self._wake.set()

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
            record.stop_due = self._monotonic() + (job_loop.REPEAT_STOP_AFTER if stage is Stage.SUBMITTED else 0)
            self._has_new_stops = True
        self._announce([record])
        if stage is Stage.SUBMITTED:
            self._stop(record)
        self._wake.set()

    def give_order(self, job_name: str, order: contract.Order) -> None:
        record = self._record(job_name)
        if record.stage is Stage.SUBMITTED and not record.detail.status.is_end:
            with contextlib.suppress(Unsupported):
                self.deliver_order(record.detail, order)

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


