"""A platform that goes wrong marks its cluster; it never stops the worker and never harms another cluster."""

import sys
import threading
from collections.abc import Callable

import pytest
from django.db import connection

from nniweb.experiments.actions import intents
from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial
from nniweb.experiments.queries import explanation
from nniweb.worker.cluster_host import service_host
from nniweb.worker.rounds import runner
from tests.nniweb.worker.conftest import report
from trainingservice.testing import misbehaving
from trainingservice.trial_job_status import TrialJobStatus


def trial_of(experiment: Experiment) -> Trial:
    return Trial.objects.filter(experiment=experiment).earliest("sequence_id")


def test_a_busy_platform_is_asked_again_and_the_trial_says_so(make_rig) -> None:
    rig = make_rig(misbehaving.BusyOnSubmitService)
    experiment = rig.experiment(trial_concurrency=1)
    rig.until(lambda: "submitted again" in (Trial.objects.filter(experiment=experiment).first() or Trial()).message)
    rig.skip(120)
    rig.until(lambda: rig.skip(120) or Attempt.objects.get().stage == "submitted")
    assert Trial.objects.count() == 1


def test_a_submission_that_is_refused_fails_the_trial_with_the_sentence(make_rig) -> None:
    rig = make_rig(misbehaving.RefusingOnSubmitService)
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=2)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    assert set(Trial.objects.values_list("status", flat=True)) == {"FAILED"}
    assert set(Trial.objects.values_list("reason", flat=True)) == {"refused"}
    messages = list(Trial.objects.values_list("message", flat=True))
    assert (len(messages), min(map(len, messages)) > 10) == (2, True)


def test_a_defect_of_a_platform_is_taken_for_a_temporary_fault(make_rig) -> None:
    rig = make_rig(misbehaving.BareExceptionService)
    experiment = rig.experiment(trial_concurrency=1)
    rig.until(lambda: Trial.objects.filter(experiment=experiment, message__contains="platform's code failed").exists())
    assert trial_of(experiment).status == "WAITING"


def test_a_platform_that_never_answers_marks_its_cluster_and_no_other(make_rig, monkeypatch) -> None:
    hanging, sound = make_rig(misbehaving.NeverAnsweringService), make_rig()
    stuck = hanging.experiment(trial_concurrency=1)
    fine = sound.experiment(trial_concurrency=1)
    hanging.until(lambda: Attempt.objects.filter(trial__experiment=stuck).exists() and hanging.runner.work.service)
    sound.submitted(fine, 1)
    monkeypatch.setattr(service_host, "SLOW_CALL_SECONDS", 0.0)
    hanging.until(lambda: hanging.skip(3) or "has not returned" in Cluster.objects.get(pk=hanging.cluster.pk).message)
    assert Cluster.objects.get(pk=hanging.cluster.pk).health == "away"
    assert trial_of(stuck).status == "WAITING"
    hanging.service.released.set()


def test_a_service_whose_run_dies_is_built_again_and_keeps_its_trials(make_rig) -> None:
    rig = make_rig(misbehaving.DyingRunService)
    experiment = rig.experiment(trial_concurrency=1)
    rig.until(lambda: rig.skip(5) or Trial.objects.filter(experiment=experiment).exists())
    for _ in range(2):
        rig.until(lambda: rig.runner.work.service is not None)
        dying = rig.service
        dying.dies.set()
        rig.until(lambda: rig.runner.work.service is not dying)  # noqa: B023  # used within this turn
        rig.skip(60)
    assert Trial.objects.filter(experiment=experiment).count() == 1
    assert trial_of(experiment).status == "WAITING"


@pytest.mark.parametrize("question", ["list_trial_jobs", "get_trial_job", "list_machines", "trouble"])
def test_a_defect_in_an_answer_from_memory_is_shown_on_its_cluster_until_it_is_mended(make_rig, question: str) -> None:
    failing, sound = make_rig(), make_rig()
    stuck, fine = failing.experiment(trial_concurrency=1), sound.experiment(trial_concurrency=1)
    [trial] = failing.submitted(stuck, 1)

    def fail(*_: object) -> None:
        raise KeyError("no such row")

    setattr(type(failing.service), question, property(fail) if question == "trouble" else fail)
    name = trial.attempts.get().job_name
    failing.until(lambda: failing.skip(3) or failing.runner.work.host._note_change(name)
                  or question in Cluster.objects.get(pk=failing.cluster.pk).message)
    cluster = Cluster.objects.get(pk=failing.cluster.pk)
    assert cluster.health == "away"
    assert f"The platform's code failed in {question} (KeyError: 'no such row'). See the log." == cluster.message
    sound.submitted(fine, 1)
    assert trial_of(stuck).status == "WAITING"
    delattr(type(failing.service), question)
    failing.until(lambda: failing.skip(31) or Cluster.objects.get(pk=failing.cluster.pk).health == "good")
    report(trial, 0.5)
    failing.until(lambda: trial_of(stuck).status == "SUCCEEDED")


def test_a_platform_that_cannot_forget_is_told_again_and_harms_no_trial(make_rig) -> None:
    rig = make_rig(type("Failing", (misbehaving.FailingAtStageService,), {"stage": "forget_trial_jobs"}))
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 0.5)
    rig.service.say(trial.public_id, TrialJobStatus.SUCCEEDED)
    rig.until(lambda: "forget_trial_jobs" in rig.runner.work.host.faults)
    assert trial_of(experiment).status == "SUCCEEDED"
    type(rig.service).stage = ""
    rig.until(lambda: rig.skip(31) or not rig.service.list_trial_jobs())
    assert "forget_trial_jobs" not in rig.runner.work.host.faults


def test_a_round_that_hangs_in_an_answer_from_memory_is_seen_by_another_thread(make_rig, monkeypatch) -> None:
    rig = make_rig()
    rig.submitted(rig.experiment(trial_concurrency=1), 1)
    rig.skip(31)
    rig.until(lambda: Cluster.objects.get(pk=rig.cluster.pk).health == "good")
    hanging, released = threading.Event(), threading.Event()

    def hang(_: object) -> list[object]:
        hanging.set()
        released.wait(60)
        return []

    monkeypatch.setattr(type(rig.service), "list_machines", hang)
    rig.skip(31)

    def one_round() -> None:
        try:
            rig.runner.round()
        finally:
            connection.close()

    thread = threading.Thread(target=one_round)
    thread.start()
    try:
        assert hanging.wait(60)
        rig.runner.show_hanging()
        assert Cluster.objects.get(pk=rig.cluster.pk).health == "good", "it is not yet long"
        for module in (service_host, runner):
            monkeypatch.setattr(module, "SLOW_CALL_SECONDS", -1.0)
        rig.runner.show_hanging()
        cluster = Cluster.objects.get(pk=rig.cluster.pk)
        assert (cluster.health, "A call to the platform (list_machines) has not returned" in cluster.message) == \
            ("away", True)
    finally:
        monkeypatch.undo()
        released.set()
        thread.join(60)
    rig.until(lambda: rig.skip(3) or Cluster.objects.get(pk=rig.cluster.pk).health == "good")


@pytest.mark.parametrize("stage", ["construction", "resume_trial_jobs"])
def test_a_service_that_cannot_start_says_why_on_the_cluster_and_the_experiment(make_rig, stage: str) -> None:
    service = type("Failing", (misbehaving.FailingAtStageService,), {"stage": stage})
    rig = make_rig(service)
    experiment = rig.experiment()
    rig.until(lambda: rig.skip(3) or "as it was told to" in Cluster.objects.get(pk=rig.cluster.pk).message)
    assert Cluster.objects.get(pk=rig.cluster.pk).health in ("away", "bad")
    experiment.refresh_from_db()
    assert experiment.status == "INITIALIZED"
    assert "as it was told to" in experiment.message


def test_a_job_that_rises_from_the_dead_stays_dead(make_rig) -> None:
    rig = make_rig(misbehaving.RisingFromTheDeadService)
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 0.5)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    rig.skip(31)
    rig.rounds()
    assert trial_of(experiment).status == "SUCCEEDED"


def test_a_lie_about_an_end_does_not_lose_the_keepers_word(make_rig) -> None:
    rig = make_rig(misbehaving.LyingAboutTheEndService)
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 0.5, end=False)
    rig.rounds()
    report(trial, 0.5, 0.7)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    assert (trial_of(experiment).status, trial_of(experiment).final_number) == ("SUCCEEDED", 0.7)


def test_a_forgotten_job_that_is_canceled_ends(make_rig) -> None:
    rig = make_rig(misbehaving.ForgetfulService)
    experiment = rig.experiment(trial_concurrency=1)
    [trial] = rig.submitted(experiment, 1)
    rig.service.forget(trial.public_id)
    intents.cancel_trial(trial)
    rig.until(lambda: trial_of(experiment).status == "USER_CANCELED")


def test_nothing_of_a_stopped_trial_is_remembered_once_its_job_has_ended(make_rig) -> None:
    rig = make_rig()
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    intents.cancel_trial(trial)
    rig.until(lambda: rig.skip(31) or trial_of(experiment).status == "USER_CANCELED")
    assert "cancel_trial_job" in rig.service.calls
    rig.until(lambda: rig.skip(31) or not rig.service.list_trial_jobs())
    assert rig.runner.work.stops_sent == set()


def test_another_worker_takes_over_what_the_first_left(make_rig) -> None:
    rig = make_rig()
    experiment = rig.experiment(trial_concurrency=2)
    rig.submitted(experiment, 2)
    half = Attempt.objects.latest("pk")
    Attempt.objects.filter(pk=half.pk).update(stage="submitting")
    rig.runner.lease.release()
    rig.close()
    rig.runner = rig.new_runner("worker-2")
    rig.until(lambda: Attempt.objects.get(pk=half.pk).stage == "submitted")
    assert Trial.objects.count() == 2
    assert len(Attempt.objects.get(pk=half.pk).token_hashes) == 2, "the running job may hold the older one"
    assert set(rig.service._jobs) == set(Attempt.objects.values_list("job_name", flat=True))
    first = trial_of(experiment)
    report(first, 0.5)
    rig.until(lambda: Trial.objects.count() == 3)
    assert Trial.objects.latest("sequence_id").ask_number == 2


class WithoutWords(Exception):
    """As the errors of some libraries, which cannot be made a text."""

    def __str__(self) -> str:
        return None  # type: ignore[return-value]


def fail_without_words(*_: object) -> None:
    raise WithoutWords


@pytest.mark.parametrize(("method", "defect", "said"), [
    ("submit_trial_job", fail_without_words, "WithoutWords"),
    ("__init__", fail_without_words, "WithoutWords"),
    ("list_trial_jobs", fail_without_words, "WithoutWords"),
    ("submit_trial_job", lambda *_: None, "it returned None instead of a TrialJobDetail"),
    ("submit_trial_job", lambda *_: sys.exit(3), "SystemExit: 3"),
    ("run", lambda *_: sys.exit(3), "SystemExit: 3"),
    ("__init__", lambda *_: sys.exit(3), "SystemExit: 3"),
    ("list_trial_jobs", lambda *_: sys.exit(3), "SystemExit: 3"),
    ("list_trial_jobs", lambda *_: [None, 3, "x"], "it returned None instead of a TrialJobDetail"),
    ("list_trial_jobs", lambda *_: 3, "it returned a value of the type int instead of a list")])
def test_a_methods_defect_is_said_on_the_cluster_and_the_experiment_with_one_traceback(
        make_rig, monkeypatch, caplog, method: str, defect: Callable[..., object], said: str) -> None:
    monkeypatch.setattr(service_host, "REBUILD_PAUSES", (1.0, 2.0, 5.0))
    rig = make_rig(type("Defective", (misbehaving.DocileTrainingService,), {method: defect}))
    experiment = rig.experiment(trial_concurrency=1)
    words = f"The platform's code failed in {method} ("
    rig.until(lambda: rig.skip(3) or words in Cluster.objects.get(pk=rig.cluster.pk).message)
    cluster = Cluster.objects.get(pk=rig.cluster.pk)
    assert cluster.health in ("away", "bad")
    assert (cluster.reason, said in cluster.message) == ("service_defect", True)
    assert said in explanation._of_cluster(Experiment.objects.get(pk=experiment.pk)), "its experiments say it, too"
    for _ in range(4):
        rig.skip(35)
        rig.rounds()
    assert sum(record.exc_info is not None for record in caplog.records) == 1
