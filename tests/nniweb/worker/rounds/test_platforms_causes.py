"""What only the platform knows of an end (out of memory, evicted) stands on the trial, whoever speaks first."""

import pytest

from nniweb.experiments.models import Attempt, Trial
from tests.nniweb.worker.conftest import Rig, report
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus

CAUSE = "OOMKilled: pod nnit-x was killed because it used more memory than its limit; raise memorySize, or use less."
KEEPERS = "The command was ended by SIGKILL. Often this means that the machine ran out of memory."


def one_trial(rig: Rig, **fields: object) -> Trial:
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1, **fields), 1)
    return trial


def platform_says(rig: Rig, trial: Trial, status: TrialJobStatus = TrialJobStatus.FAILED) -> None:
    rig.service.say(trial.public_id, status, message=f"The trial was ended. {CAUSE}", cause=CAUSE, exit_code=137)


@pytest.mark.parametrize(("reason", "status", "keepers"), [
    ("exited", "FAILED", KEEPERS),
    ("stopped", "SYS_CANCELED", "Something outside of this server stopped the trial's keeper (SIGTERM).")])
@pytest.mark.parametrize("keeper_first", [True, False])
def test_the_cause_stands_before_what_the_keeper_said(rig: Rig, reason, status, keepers, keeper_first) -> None:
    trial = one_trial(rig)
    report(trial, 0.1, end=False)
    if keeper_first:
        report(trial, 0.1, exit_code=137, reason=reason)
    platform_says(rig, trial, TrialJobStatus(status))
    rig.until(lambda: Attempt.objects.get().observed_end)
    if not keeper_first:
        report(trial, 0.1, exit_code=137, reason=reason)
    trial.refresh_from_db()
    assert (trial.status, trial.message) == (status, f"{CAUSE} {keepers}")
    rig.skip(31)  # a full look adds nothing
    rig.rounds()
    trial.refresh_from_db()
    assert trial.message == f"{CAUSE} {keepers}"


def test_a_trial_that_succeeded_is_given_no_cause(rig: Rig) -> None:
    trial = one_trial(rig)
    report(trial, 0.5)
    platform_says(rig, trial)
    rig.until(lambda: Attempt.objects.get().observed_end)
    trial.refresh_from_db()
    assert (trial.status, trial.message) == ("SUCCEEDED", "")


@pytest.mark.parametrize("keeper_first", [True, False])
def test_the_cause_of_an_attempt_that_is_followed_by_another_stays_in_the_history(rig: Rig, keeper_first) -> None:
    trial = one_trial(rig, retry={"onFailure": 1})
    report(trial, end=False)
    if keeper_first:
        report(trial, exit_code=137)
    platform_says(rig, trial)
    rig.until(lambda: Attempt.objects.get(number=1).observed_end)
    if not keeper_first:
        report(trial, exit_code=137)
    rig.until(lambda: Attempt.objects.filter(number=2, stage="submitted").exists())
    assert any(CAUSE in message for message in trial.events.values_list("message", flat=True))
    report(trial, 0.5)
    trial.refresh_from_db()
    assert (trial.status, trial.message) == ("SUCCEEDED", "")


@pytest.mark.parametrize("order", ["keeper first", "platform first", "platform alone"])
def test_the_code_of_the_cause_is_the_trials_and_the_end_stands_in_its_arguments(rig: Rig, order: str) -> None:
    trial = one_trial(rig)
    cause = Reason("out_of_memory", said=CAUSE, platform="Kubernetes")
    if order != "platform alone":
        report(trial, 0.1, end=False)
    if order == "keeper first":
        report(trial, 0.1, exit_code=137)
    rig.service.say(trial.public_id, TrialJobStatus.FAILED, message=cause, cause=cause, exit_code=137)
    rig.until(lambda: Attempt.objects.get().observed_end)
    if order == "platform first":
        report(trial, 0.1, exit_code=137)
    rig.skip(61)
    rig.until(lambda: Trial.objects.get().is_finished)
    trial.refresh_from_db()
    end = {} if order == "platform alone" else {
        "ended": KEEPERS, "end": {"code": "signal", "signal": 9, "last_words": ""}}
    assert (trial.status, trial.reason) == ("FAILED", "out_of_memory")
    assert trial.reason_arguments == {"said": CAUSE, "platform": "Kubernetes", **end}
    assert trial.message == (f"{CAUSE} {KEEPERS}" if end else CAUSE)
