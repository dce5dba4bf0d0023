"""The misbehaving services do what their names say, and nothing else: host tests rest on that."""

import threading

import pytest

from trainingservice.base import ServiceContext
from trainingservice.errors import PermanentError, TemporaryError, UnknownTrialJob
from trainingservice.testing import misbehaving
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess
from trainingservice.trial_job_status import TrialJobStatus

NAME = "taaaaaaaaaaa"
FORM = JobApplicationForm(job_name=NAME, trial_job_id=NAME, experiment_id="eaaaaaaaaaaa", sequence_id=0, command="true",
                          hyper_parameters=HyperParameters("{}"), keeper=KeeperAccess((), "token"))


@pytest.fixture
def make(tmp_path):
    def make(service_class):
        return service_class(misbehaving.DocileSettings(), ServiceContext("c", tmp_path, on_change=changes.append))

    changes = []
    make.changes = changes
    return make


def test_a_docile_service_does_what_it_is_told_and_says_so(make):
    service = make(misbehaving.DocileTrainingService)
    assert service.submit_trial_job(FORM) == service.submit_trial_job(FORM)
    service.say(NAME, TrialJobStatus.RUNNING)
    service.cancel_trial_job(NAME, is_early_stopped=True)
    service.cancel_trial_job(NAME)
    job = service.get_trial_job(NAME)
    assert (job.status, job.is_early_stopped) == (TrialJobStatus.EARLY_STOPPED, True)
    assert job.start_time <= job.end_time
    assert make.changes == [NAME, NAME]
    service.clean_up_experiment(FORM.experiment_id)
    with pytest.raises(UnknownTrialJob):
        service.get_trial_job(NAME)


def test_a_docile_run_ends_with_clean_up(make):
    service = make(misbehaving.DocileTrainingService)
    thread = threading.Thread(target=service.run)
    thread.start()
    service.clean_up()
    thread.join(60)
    assert not thread.is_alive()


def test_one_that_never_answers_hangs_until_it_is_released(make):
    service = make(misbehaving.NeverAnsweringService)
    ended = []

    def submit():
        with pytest.raises(TemporaryError):
            service.submit_trial_job(FORM)
        ended.append(True)

    thread = threading.Thread(target=submit)
    thread.start()
    assert service.hanging.wait(90)
    assert not ended
    service.released.set()
    thread.join(60)
    assert ended
    assert service.list_trial_jobs() == []


def test_a_slow_one_answers_late_but_at_once_when_it_is_closed(make):
    service = make(misbehaving.SlowlyAnsweringService)
    service.delay = 0.05
    assert service.submit_trial_job(FORM).status is TrialJobStatus.WAITING
    service.delay = 3600
    service.clean_up()
    service.cancel_trial_job(NAME)
    assert service.get_trial_job(NAME).status is TrialJobStatus.USER_CANCELED


def test_a_busy_one_takes_a_job_after_it_has_refused_it_often_enough(make):
    service = make(misbehaving.BusyOnSubmitService)
    for _ in range(2):
        with pytest.raises(TemporaryError) as refusal:
            service.submit_trial_job(FORM)
        assert refusal.value.retry_after == 0.05
    assert service.submit_trial_job(FORM).id == NAME


def test_a_refusing_one_says_why(make):
    with pytest.raises(PermanentError, match="GPUs"):
        make(misbehaving.RefusingOnSubmitService).submit_trial_job(FORM)


def test_a_defective_one_raises_what_nobody_expects(make):
    service = make(misbehaving.BareExceptionService)
    for call in (lambda: service.submit_trial_job(FORM), lambda: service.update_trial_job(NAME, FORM),
                 lambda: service.cancel_trial_job(NAME)):
        with pytest.raises(KeyError):
            call()


@pytest.mark.parametrize("stage", ["construction", "set_cluster_metadata", "resume_trial_jobs", "run",
                                   "list_trial_jobs", "submit_trial_job", "after_submit", "cancel_trial_job",
                                   "forget_trial_jobs", "rehearse", "clean_up_experiment", "clean_up"])
def test_one_fails_exactly_at_the_stage_it_is_told(make, monkeypatch, stage):
    monkeypatch.setattr(misbehaving.FailingAtStageService, "stage", stage)
    reached = []

    def live():
        service = make(misbehaving.FailingAtStageService)
        steps = {"set_cluster_metadata": lambda: service.set_cluster_metadata("k", "v"),
                 "resume_trial_jobs": lambda: service.resume_trial_jobs([]),
                 "submit_trial_job": lambda: service.submit_trial_job(FORM),
                 "list_trial_jobs": service.list_trial_jobs, "cancel_trial_job": lambda: service.cancel_trial_job(NAME),
                 "forget_trial_jobs": lambda: service.forget_trial_jobs([NAME]),
                 "rehearse": service.rehearse, "clean_up_experiment": lambda: service.clean_up_experiment("e"),
                 "clean_up": service.clean_up, "run": service.run}
        for name, step in steps.items():
            reached.append(name)
            step()

    with pytest.raises(RuntimeError, match=stage):
        live()
    assert reached[-1:] == {"construction": [], "after_submit": ["submit_trial_job"]}.get(stage, [stage])


def test_a_run_that_dies_returns_by_itself(make):
    service = make(misbehaving.DyingRunService)
    service.dies.set()
    service.run()
    assert not service._closed.is_set()


def test_one_that_never_closes_stays_in_run_until_it_is_released(make):
    service = make(misbehaving.NeverClosingService)
    thread = threading.Thread(target=service.run)
    thread.start()
    service.clean_up()
    thread.join(0.05)
    assert thread.is_alive()
    service.released.set()
    thread.join(60)
    assert not thread.is_alive()


def test_a_forgetful_one_forgets(make):
    service = make(misbehaving.ForgetfulService)
    service.submit_trial_job(FORM)
    service.forget(NAME)
    assert service.list_trial_jobs() == []


def test_a_liar_shows_an_end_that_is_none(make):
    assert make(misbehaving.LyingAboutTheEndService).submit_trial_job(FORM).status is TrialJobStatus.SUCCEEDED


def test_the_dead_rise_at_each_look(make):
    service = make(misbehaving.RisingFromTheDeadService)
    service.submit_trial_job(FORM)
    assert [service.list_trial_jobs()[0].status for _ in range(2)] == ["WAITING", "WAITING"]
    service.say(NAME, TrialJobStatus.SUCCEEDED)
    assert [service.list_trial_jobs()[0].status for _ in range(4)] == ["SUCCEEDED", "RUNNING", "FAILED", "SUCCEEDED"]
