"""Services that go wrong in one telling way each, for the tests of a host. All else of them works.

They run no processes: ``DocileTrainingService`` keeps its jobs in memory, and a test says how they
fare (``say``). Each other class is a docile one with one fault. A host must survive all of them: it
marks the cluster, never stops the worker, never loses or doubles a trial of another cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from trainingservice.base import RehearsalFinding, ServiceContext, TrainingService
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.errors import PermanentError, TemporaryError, UnknownTrialJob
from trainingservice.trial_job import JobApplicationForm, ResumedJob, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus


class DocileSettings(ClusterSettings):
    platform_name: ClassVar[str] = "docile"


class DocileTrainingService(TrainingService):
    """Does nothing by itself: jobs wait until ``say`` is called. Right in every other respect."""

    platform: ClassVar[str] = "docile"
    settings_model: ClassVar[type[ClusterSettings]] = DocileSettings
    keepers_report: ClassVar[bool] = True
    needs_public_url: ClassVar[bool] = False

    def __init__(self, settings: ClusterSettings, context: ServiceContext) -> None:
        super().__init__(settings, context)
        self._lock = threading.RLock()
        self._jobs: dict[str, TrialJobDetail] = {}
        self._closed = threading.Event()
        self.calls: list[str] = []  #: names of the members as the host called them

    # --- for the test ----------------------------------------------------------------------

    def say(self, job_name: str, status: TrialJobStatus, **fields: Any) -> TrialJobDetail:
        """From now on the job is shown with this status; the host is told."""
        with self._lock:
            now = self.context.clock()
            job = self._jobs[job_name]
            times: dict[str, Any] = {}
            if status is not TrialJobStatus.WAITING and job.start_time is None:
                times["start_time"] = now
            if status.is_end:
                times["end_time"] = now
            self._jobs[job_name] = replace(job, status=status, **{**times, **fields})
        self.context.on_change(job_name)
        return self._jobs[job_name]

    # --- the interface ---------------------------------------------------------------------

    def list_trial_jobs(self) -> list[TrialJobDetail]:
        with self._lock:
            return list(self._jobs.values())

    def get_trial_job(self, job_name: str) -> TrialJobDetail:
        with self._lock:
            if job_name not in self._jobs:
                raise UnknownTrialJob(job_name)
            return self._jobs[job_name]

    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        self.calls.append("submit_trial_job")
        with self._lock:
            return self._jobs.setdefault(form.job_name, TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form,
                                                                      submit_time=self.context.clock()))

    def update_trial_job(self, job_name: str, form: JobApplicationForm) -> TrialJobDetail:
        self.calls.append("update_trial_job")
        return self.get_trial_job(job_name)

    def cancel_trial_job(self, job_name: str, is_early_stopped: bool = False) -> None:
        self.calls.append("cancel_trial_job")
        if not self.get_trial_job(job_name).status.is_end:
            self.say(job_name, TrialJobStatus.EARLY_STOPPED if is_early_stopped else TrialJobStatus.USER_CANCELED,
                     is_early_stopped=is_early_stopped)

    def forget_trial_jobs(self, job_names: Collection[str]) -> None:
        with self._lock:
            for name in job_names:
                self._jobs.pop(name, None)

    @property
    def is_multi_phase_job_supported(self) -> bool:
        return True

    def run(self) -> None:
        self.calls.append("run")
        self._closed.wait()

    def clean_up(self) -> None:
        self.calls.append("clean_up")
        self._closed.set()

    def resume_trial_jobs(self, jobs: Sequence[ResumedJob]) -> None:
        self.calls.append("resume_trial_jobs")
        with self._lock:
            for job in jobs:
                self._jobs[job.detail.id] = job.detail

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        return [RehearsalFinding("connection", True, "There is nothing to connect to.")]

    def clean_up_experiment(self, experiment_id: str) -> None:
        self.calls.append("clean_up_experiment")
        with self._lock:
            self._jobs = {name: job for name, job in self._jobs.items() if job.form.experiment_id != experiment_id}


# --- that hang -----------------------------------------------------------------------------


class NeverAnsweringService(DocileTrainingService):
    """Each call that would reach the platform hangs until the test sets ``released``; then it fails."""

    platform: ClassVar[str] = "never_answering"

    def __init__(self, settings: ClusterSettings, context: ServiceContext) -> None:
        super().__init__(settings, context)
        self.released = threading.Event()
        self.hanging = threading.Event()  #: set as soon as a call hangs

    def _hang(self) -> None:
        self.hanging.set()
        self.released.wait()
        raise TemporaryError("The platform never answered.")

    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        self._hang()
        return super().submit_trial_job(form)

    def update_trial_job(self, job_name: str, form: JobApplicationForm) -> TrialJobDetail:
        self._hang()
        return super().update_trial_job(job_name, form)

    def cancel_trial_job(self, job_name: str, is_early_stopped: bool = False) -> None:
        self._hang()

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        try:
            self._hang()
        except TemporaryError as error:
            return [RehearsalFinding("connection", False, str(error), temporary=True)]
        return []


class SlowlyAnsweringService(DocileTrainingService):
    """Each call that would reach the platform takes ``delay`` seconds, unless the service is closed before."""

    platform: ClassVar[str] = "slowly_answering"
    delay: float = 2.0

    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        self._closed.wait(self.delay)
        return super().submit_trial_job(form)

    def update_trial_job(self, job_name: str, form: JobApplicationForm) -> TrialJobDetail:
        self._closed.wait(self.delay)
        return super().update_trial_job(job_name, form)

    def cancel_trial_job(self, job_name: str, is_early_stopped: bool = False) -> None:
        self._closed.wait(self.delay)
        super().cancel_trial_job(job_name, is_early_stopped)


class NeverClosingService(DocileTrainingService):
    """``run`` does not return after ``clean_up``, until the test sets ``released``."""

    platform: ClassVar[str] = "never_closing"

    def __init__(self, settings: ClusterSettings, context: ServiceContext) -> None:
        super().__init__(settings, context)
        self.released = threading.Event()

    def run(self) -> None:
        super().run()
        self.released.wait()


# --- that fail -----------------------------------------------------------------------------


class BusyOnSubmitService(DocileTrainingService):
    """The first ``refusals`` submissions of each job raise TemporaryError, with a pause to keep."""

    platform: ClassVar[str] = "busy_on_submit"
    refusals: int = 2
    retry_after: float | None = 0.05

    def __init__(self, settings: ClusterSettings, context: ServiceContext) -> None:
        super().__init__(settings, context)
        self._refused: dict[str, int] = {}

    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        with self._lock:
            self._refused[form.job_name] = self._refused.get(form.job_name, 0) + 1
            if self._refused[form.job_name] <= self.refusals:
                self.calls.append("refused")
                raise TemporaryError("The platform is busy; the submission will be tried again.", self.retry_after)
        return super().submit_trial_job(form)


class RefusingOnSubmitService(DocileTrainingService):
    """Each submission raises PermanentError with a sentence."""

    platform: ClassVar[str] = "refusing_on_submit"
    SENTENCE: ClassVar[str] = "This trial asks for 4 GPUs, but no machine has more than 2; lower trialGpuNumber."

    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        raise PermanentError(self.SENTENCE)


class BareExceptionService(DocileTrainingService):
    """Each call that would reach the platform raises something that is no TrainingServiceError: a defect."""

    platform: ClassVar[str] = "bare_exception"

    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        raise KeyError("a defect of the platform in submit_trial_job")

    def update_trial_job(self, job_name: str, form: JobApplicationForm) -> TrialJobDetail:
        raise KeyError("a defect of the platform in update_trial_job")

    def cancel_trial_job(self, job_name: str, is_early_stopped: bool = False) -> None:
        raise KeyError("a defect of the platform in cancel_trial_job")


class FailingAtStageService(DocileTrainingService):
    """Fails where ``stage`` says: the name of a member, "construction", or "after_submit".

    "after_submit": the job reaches the platform, but the answer does not reach the host. ``stage`` is
    set on a subclass or on the class by the test, e.g. with monkeypatch.
    """

    platform: ClassVar[str] = "failing_at_stage"
    stage: ClassVar[str] = "run"

    def __init__(self, settings: ClusterSettings, context: ServiceContext) -> None:
        super().__init__(settings, context)
        self._fail_at("construction")

    def _fail_at(self, stage: str) -> None:
        if self.stage == stage:
            raise RuntimeError(f"fails at the stage {stage}, as it was told to")

    def set_cluster_metadata(self, key: str, value: str) -> None:
        self._fail_at("set_cluster_metadata")

    def resume_trial_jobs(self, jobs: Sequence[ResumedJob]) -> None:
        self._fail_at("resume_trial_jobs")
        super().resume_trial_jobs(jobs)

    def run(self) -> None:
        self._fail_at("run")
        super().run()

    def list_trial_jobs(self) -> list[TrialJobDetail]:
        self._fail_at("list_trial_jobs")
        return super().list_trial_jobs()

    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        self._fail_at("submit_trial_job")
        detail = super().submit_trial_job(form)
        self._fail_at("after_submit")
        return detail

    def cancel_trial_job(self, job_name: str, is_early_stopped: bool = False) -> None:
        self._fail_at("cancel_trial_job")
        super().cancel_trial_job(job_name, is_early_stopped)

    def forget_trial_jobs(self, job_names: Collection[str]) -> None:
        self._fail_at("forget_trial_jobs")
        super().forget_trial_jobs(job_names)

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        self._fail_at("rehearse")
        return super().rehearse(quick, options)

    def clean_up_experiment(self, experiment_id: str) -> None:
        self._fail_at("clean_up_experiment")
        super().clean_up_experiment(experiment_id)

    def clean_up(self) -> None:
        super().clean_up()
        self._fail_at("clean_up")


class DyingRunService(DocileTrainingService):
    """``run`` returns by itself as soon as the test sets ``dies``: a thread that ended unseen."""

    platform: ClassVar[str] = "dying_run"

    def __init__(self, settings: ClusterSettings, context: ServiceContext) -> None:
        super().__init__(settings, context)
        self.dies = threading.Event()

    def run(self) -> None:
        self.calls.append("run")
        while not (self.dies.is_set() or self._closed.is_set()):
            self._closed.wait(0.02)


# --- that lie ------------------------------------------------------------------------------


class ForgetfulService(DocileTrainingService):
    """A job is not listed any more, and unknown, once the test has called ``forget``."""

    platform: ClassVar[str] = "forgetful"

    def forget(self, job_name: str) -> None:
        with self._lock:
            self._jobs.pop(job_name)
        self.context.on_change(job_name)


class LyingAboutTheEndService(DocileTrainingService):
    """Shows each job as SUCCEEDED from its submission on, whatever its trial does."""

    platform: ClassVar[str] = "lying_about_the_end"

    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        super().submit_trial_job(form)
        return self.say(form.job_name, TrialJobStatus.SUCCEEDED, exit_code=0)


class RisingFromTheDeadService(DocileTrainingService):
    """An ended job is shown RUNNING again, and then with another end, each time it is asked for."""

    platform: ClassVar[str] = "rising_from_the_dead"

    def list_trial_jobs(self) -> list[TrialJobDetail]:
        with self._lock:
            shown = super().list_trial_jobs()
            order = [TrialJobStatus.SUCCEEDED, TrialJobStatus.RUNNING, TrialJobStatus.FAILED]
            for job in shown:
                if job.status in order:
                    following = order[(order.index(job.status) + 1) % len(order)]
                    self._jobs[job.id] = replace(job, status=following)
            return shown
