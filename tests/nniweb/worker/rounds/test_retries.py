"""Trials whose attempt failed are tried again as often as the experiment says, and for what it says."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.ingest import reports
from nniweb.experiments.ingest.one_report import Delivery
from nniweb.experiments.models import Attempt, Checkpoint, Experiment, Trial, TunerEvent
from tests.nniweb.worker.conftest import Rig, report
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.reasons import Reason
from trainingservice.receiver.report_reading import read_report
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

PLATFORM, OWN = {"onPlatformFailure": 2}, {"onFailure": 1}


def attempts(trial: Trial) -> list[tuple[str, str]]:
    return list(Attempt.objects.filter(trial=trial).order_by("number").values_list("job_name", "stage"))


def tells(experiment: Experiment) -> int:
    return TunerEvent.objects.filter(experiment=experiment, data__event="tell").count()


def one_trial(rig: Rig, **fields: object) -> Trial:
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1, **fields), 1)
    return trial


def next_attempt(rig: Rig, trial: Trial, number: int) -> None:
    rig.until(lambda: Attempt.objects.filter(trial=trial, number=number, stage="submitted").exists())
    trial.refresh_from_db()


def test_a_command_that_failed_is_run_again_and_then_the_trial_fails(rig: Rig) -> None:
    trial = one_trial(rig, retry=OWN)
    report(trial, 0.1, 0.2, exit_code=3)
    trial.refresh_from_db()
    assert (trial.status, trial.started_at, trial.intermediate_count, trial.final_value) == ("WAITING", None, 0, None)
    assert trial.message == "The command ended with exit code 3. The trial is run again (1 of 1)."
    next_attempt(rig, trial, 2)
    assert attempts(trial) == [(trial.public_id, "ended"), (f"{trial.public_id}r2", "submitted")]
    assert tells(trial.experiment) == 0
    report(trial, exit_code=4)
    rig.until(lambda: tells(trial.experiment) == 1)
    trial.refresh_from_db()
    assert (trial.status, trial.message) == ("FAILED", "The command ended with exit code 4.")
    rig.until(lambda: Experiment.objects.get(pk=trial.experiment_id).status == "DONE")
    assert Trial.objects.filter(experiment=trial.experiment).count() == 1, "a retry is no further trial"


def test_the_second_attempts_result_is_the_trials(rig: Rig) -> None:
    trial = one_trial(rig, retry=OWN)
    report(trial, 0.1, 0.2, exit_code=1)
    next_attempt(rig, trial, 2)
    report(trial, 0.5, 0.75)
    trial.refresh_from_db()
    assert (trial.status, trial.final_number, trial.latest_number, trial.intermediate_count) \
        == ("SUCCEEDED", 0.75, 0.5, 1)
    kinds = list(trial.events.order_by("pk").values_list("kind", flat=True))
    assert [kind for kind in kinds if kind in ("RUNNING", "tried again", "SUCCEEDED")] \
        == ["RUNNING", "tried again", "RUNNING", "SUCCEEDED"]


@pytest.mark.parametrize(("retry", "reason", "exit_code"), [
    ({}, "exited", 1), (PLATFORM, "exited", 1), (OWN, "lost", None), (OWN | PLATFORM, "time_limit", None)])
def test_only_what_the_policy_names_is_tried_again(rig: Rig, retry: dict, reason: str, exit_code: int | None) -> None:
    trial = one_trial(rig, retry=retry)
    report(trial, exit_code=exit_code, reason=reason)
    trial.refresh_from_db()
    assert trial.is_finished
    assert len(attempts(trial)) == 1


def test_each_kind_of_failure_has_its_own_count(rig: Rig) -> None:
    trial = one_trial(rig, retry=OWN | PLATFORM)
    for number, (reason, exit_code) in enumerate(
            [("lost", None), ("exited", 1), ("stopped", None), ("lost", None)], start=1):
        next_attempt(rig, trial, number)
        report(trial, reason=reason, exit_code=exit_code, journal=f"journal {number}")
    trial.refresh_from_db()
    assert trial.status == "FAILED"
    assert len(attempts(trial)) == 4


def test_what_the_platform_says_it_lost_is_tried_again_after_the_drain_time(rig: Rig) -> None:
    trial = one_trial(rig, retry={"onPlatformFailure": 1})
    rig.service.say(trial.public_id, TrialJobStatus.FAILED, message="The machine was lost.")
    rig.rounds()
    assert len(attempts(trial)) == 1
    rig.skip(61)
    next_attempt(rig, trial, 2)
    assert trial.events.filter(kind="tried again",
                               message="The machine was lost. The trial is run again (1 of 1).").count() == 1
    rig.service.say(f"{trial.public_id}r2", TrialJobStatus.FAILED, message="The machine was lost.")
    rig.rounds()
    rig.skip(61)
    rig.until(lambda: Trial.objects.get(pk=trial.pk).status == "FAILED")


def test_a_keeper_that_comes_back_after_its_attempt_was_given_up_changes_nothing_and_is_told_to_stop(rig: Rig) -> None:
    trial = one_trial(rig, retry=OWN)
    report(trial, 0.1, end=False)
    first = Attempt.objects.get(trial=trial)
    Attempt.objects.filter(pk=first.pk).update(end_reason="exited", stage="ended")
    trial.refresh_from_db()
    Attempt.objects.create(trial=trial, number=2, job_name=f"{trial.public_id}r2", created_at=trial.created_at,
                           cluster=trial.experiment.cluster)
    before = Trial.objects.filter(pk=trial.pk).values().get()
    answer = reports.store([Delivery(first.job_name, None, read_report(
        {"keeper": {"version": 1, "journal_id": "journal"}, "entries": [
            {"n": 3, "at": 0.0, "type": "metric", "kind": "FINAL", "parameter_id": 0, "sequence": 0, "value": "9"}]}),
        timezone.now())])[0]
    assert answer.status == 200
    assert [order["order"] for order in answer.body["orders"]] == ["stop"]
    after = Trial.objects.filter(pk=trial.pk).values().get()
    assert after == before | {"revision": after["revision"]}


def test_a_trial_that_is_wanted_stopped_is_not_tried_again(rig: Rig) -> None:
    trial = one_trial(rig, retry=OWN)
    intents.cancel_trial(trial)
    report(trial, exit_code=1)
    trial.refresh_from_db()
    assert trial.is_finished
    assert len(attempts(trial)) == 1


def submissions(rig: Rig) -> int:
    return rig.service.calls.count("submit_trial_job")


def test_nothing_is_tried_again_while_the_experiment_is_paused_and_the_trial_says_so(rig: Rig) -> None:
    trial = one_trial(rig, retry=OWN)
    intents.pause(trial.experiment)
    report(trial, exit_code=1)
    rig.rounds()
    trial.refresh_from_db()
    assert (trial.status, trial.message) \
        == ("WAITING", "The experiment is PAUSED. The trial is submitted when the experiment is resumed.")
    revision = trial.revision
    rig.skip(31)
    rig.rounds()
    trial.refresh_from_db()
    assert (submissions(rig), trial.revision) == (1, revision), "said once"
    intents.resume(trial.experiment)
    next_attempt(rig, trial, 2)
    assert (submissions(rig), trial.message) == (2, "")


def test_a_trial_that_waits_in_a_paused_experiment_ends_with_its_stop(rig: Rig) -> None:
    trial = one_trial(rig, retry=OWN)
    intents.pause(trial.experiment)
    report(trial, exit_code=1)
    rig.rounds()
    intents.stop(trial.experiment)
    rig.until(lambda: Experiment.objects.get(pk=trial.experiment_id).status == "STOPPED")
    trial.refresh_from_db()
    assert (trial.status, submissions(rig)) == ("USER_CANCELED", 1)


def test_an_experiment_that_was_given_up_tries_nothing_again(rig: Rig) -> None:
    trial = one_trial(rig, retry=OWN)
    Experiment.objects.filter(pk=trial.experiment_id).update(status="ERROR")
    report(trial, exit_code=1)
    trial.refresh_from_db()
    assert (trial.status, len(attempts(trial))) == ("FAILED", 1)


@pytest.mark.parametrize("status", ["ERROR", "PAUSED"])
def test_a_submission_that_the_platform_put_off_is_not_repeated_until_the_experiment_goes_on(
        make_rig: Callable[..., Rig], status: str) -> None:
    rig = make_rig(Busy)
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    rig.until(lambda: Trial.objects.filter(message__startswith="it is busy").exists()
              and not rig.runner.work.submitting)
    Experiment.objects.filter(pk=experiment.pk).update(
        status=status, target="PAUSE" if status == "PAUSED" else "RUN")
    before = submissions(rig)
    rig.skip(120)
    rig.rounds(5)
    trial = Trial.objects.get()
    assert (trial.message.split(".")[0], submissions(rig)) == (f"The experiment is {status}", before)
    intents.resume(experiment)
    rig.until(lambda: submissions(rig) > before)  # though all trials of maxTrialNumber were made


def test_what_runs_in_a_paused_experiment_is_found_again_by_the_next_worker(rig: Rig) -> None:
    trial = one_trial(rig)
    report(trial, 0.1, end=False)
    Attempt.objects.update(stage=Attempt.Stage.SUBMITTING)  # the worker died between the call and its commit
    intents.pause(trial.experiment)
    rig.until(lambda: Attempt.objects.get().stage == "submitted")
    assert submissions(rig) == 2


class Busy(DocileTrainingService):
    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        self.calls.append("submit_trial_job")
        raise TemporaryError("it is busy")


class Refusing(DocileTrainingService):
    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        raise PermanentError("there is no such queue")


def test_what_a_platform_will_never_take_is_not_tried_again(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(Refusing)
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1, retry=OWN | PLATFORM)
    rig.until(lambda: Trial.objects.filter(experiment=experiment, status="FAILED").exists())
    assert Attempt.objects.filter(trial__experiment=experiment).count() == 1


@pytest.mark.parametrize(("has_saved", "number_of_attempts"), [(False, 1), (True, 2)])
def test_a_platforms_time_limit_is_the_trials_own_unless_it_saved_a_checkpoint_before(
        rig: Rig, has_saved: bool, number_of_attempts: int) -> None:
    """Without one the next attempt would begin at the same place, and end at the same place."""
    trial = one_trial(rig, retry=PLATFORM)
    report(trial, 0.1, end=False)
    if has_saved:
        now = timezone.now()
        Checkpoint.objects.create(attempt=Attempt.objects.get(trial=trial), trial=trial, manifest="a" * 64,
                                  name="step-1", size=1, file_count=1, k=1, created_at=now, stored_at=now,
                                  confirmed_n=2, confirmed_at=now)
    rig.service.say(trial.public_id, TrialJobStatus.FAILED, message=Reason(
        "platform_time_limit", said="Slurm ended the job at its time limit.", platform="Slurm", cause="TIMEOUT"))
    rig.rounds()
    rig.skip(61)
    rig.until(lambda: Attempt.objects.filter(trial=trial, stage="ended").exists())
    assert Attempt.objects.filter(trial=trial).count() == number_of_attempts
    trial.refresh_from_db()
    assert trial.status == ("WAITING" if has_saved else "FAILED")
    assert "Slurm ended the job at its time limit." in trial.message
