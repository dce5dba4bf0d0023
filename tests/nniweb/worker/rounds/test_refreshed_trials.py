"""A person wants the platform asked about a trial: web writes the wish, the worker asks, the row says the answer."""

import threading
from typing import Any, ClassVar

import pytest

from nniweb.experiments.actions import intents
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Attempt, Trial
from tests.nniweb.worker.conftest import Rig, report
from trainingservice.errors import TemporaryError, UnknownTrialJob
from trainingservice.reasons import Reason
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus


class SilentService(DocileTrainingService):
    """Its jobs run without a ring: only who asks anew is told."""

    platform: ClassVar[str] = "silent"

    def update_trial_job(self, job_name: str, form: JobApplicationForm) -> TrialJobDetail:
        detail = super().update_trial_job(job_name, form)
        assert form.hyper_parameters.index == 0
        assert form.keeper.token == ""
        with self._lock:
            self._jobs[job_name] = detail = type(detail)(**{**vars(detail), "status": TrialJobStatus.RUNNING,
                                                            "machine": "node7", "start_time": 1.0})
        return detail


class FailingService(DocileTrainingService):
    platform: ClassVar[str] = "failing"
    error: ClassVar[Any] = None

    def update_trial_job(self, job_name: str, form: JobApplicationForm) -> TrialJobDetail:
        raise self.error


def attempt_now() -> Attempt:
    return Attempt.objects.select_related("trial").get()


def refreshed(rig: Rig) -> Attempt:
    rig.until(lambda: attempt_now().refreshed_at is not None)
    return attempt_now()


def test_what_the_platform_says_when_it_is_asked_is_what_the_trial_is(make_rig) -> None:
    rig = make_rig(SilentService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    before = trial.revision
    intents.refresh_trial(trial)
    assert attempt_now().refresh_asked_at is not None
    assert rig.service.calls.count("update_trial_job") == 0, "the web process asks nothing itself"
    attempt = refreshed(rig)
    assert (attempt.trial.status, attempt.machine_name) == ("RUNNING", "node7")
    assert (attempt.refresh_asked_at, attempt.refresh_problem) == (None, None)
    assert attempt.trial.revision > before, "pages hear of it"


def test_asking_again_while_it_is_due_asks_once(make_rig) -> None:
    rig = make_rig(SilentService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    intents.refresh_trial(trial)
    intents.refresh_trial(trial)
    refreshed(rig)
    rig.rounds()
    assert rig.service.calls.count("update_trial_job") == 1


@pytest.mark.parametrize(("error", "message", "code"), [
    (TemporaryError(Reason("unreachable", said="It is away.")), "It is away.", "unreachable"),
    (UnknownTrialJob("gone"), 'no trial job named "gone" is known here', "platform"),
    (ZeroDivisionError("a defect"), "The platform's code failed in update_trial_job (ZeroDivisionError: a defect). See "
     "the log.", "service_defect"),
])
def test_why_the_platform_could_not_be_asked_is_said_and_changes_nothing_else(make_rig, error, message, code) -> None:
    rig = make_rig(type("FailingService", (FailingService,), {"error": error}))
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    intents.refresh_trial(trial)
    attempt = refreshed(rig)
    assert attempt.refresh_problem["message"] == message
    assert attempt.refresh_problem["reason"]["code"] == code
    assert (attempt.trial.status, attempt.stage) == ("WAITING", "submitted")
    intents.refresh_trial(trial)
    assert attempt_now().refresh_asked_at is not None, "it can be wanted again"


def test_a_wish_survives_the_worker_that_was_asking(make_rig) -> None:
    hangs, released = threading.Event(), threading.Event()

    class HangingService(SilentService):
        def update_trial_job(self, job_name: str, form: JobApplicationForm) -> TrialJobDetail:
            if not hangs.is_set():
                hangs.set()
                released.wait()
                raise TemporaryError("Nobody hears this.")
            return super().update_trial_job(job_name, form)

    rig = make_rig(HangingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    intents.refresh_trial(trial)
    rig.until(hangs.is_set)
    rig.runner.work.host.join = lambda timeout: None  # it dies without waiting
    rig.runner._close()
    rig.runner = rig.new_runner("worker-2")
    assert refreshed(rig).trial.status == "RUNNING"
    released.set()


def test_of_a_trial_without_a_job_there_is_nothing_to_ask(make_rig) -> None:
    rig = make_rig()
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 0.5)
    with pytest.raises(Refused, match="The trial is SUCCEEDED and has no job"):
        intents.refresh_trial(trial)
    assert attempt_now().refresh_asked_at is None
    assert Trial.objects.get().status == "SUCCEEDED"
