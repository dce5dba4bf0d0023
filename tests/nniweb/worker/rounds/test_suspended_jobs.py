"""A job that is suspended on its platform: its trial waits, and the next run is an attempt of its own."""

from typing import ClassVar

import pytest

from nniweb.experiments.ingest import reports
from nniweb.experiments.ingest.one_report import Delivery
from nniweb.experiments.models import Attempt, Trial
from tests.nniweb.worker.conftest import Rig, report
from trainingservice.receiver.report_reading import read_report
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job_status import TrialJobStatus

REASON = "The Job is suspended. It starts when somebody resumes it."


class Suspending(DocileTrainingService):
    suspends_jobs: ClassVar[bool] = True


@pytest.fixture
def rig(make_rig) -> Rig:
    return make_rig(Suspending)


def running(rig: Rig, **fields: object) -> Trial:
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1, **fields), 1)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    report(trial, 0.1, 0.2, end=False)
    return trial


def stopped(trial: Trial) -> None:
    """Its keeper was told to end by somebody else."""
    report(trial, 0.1, 0.2, exit_code=143, reason="stopped")


def suspend(rig: Rig, trial: Trial) -> None:
    rig.service.say(trial.public_id, TrialJobStatus.WAITING, message=REASON, start_time=None, suspended=True)


def seen(trial: Trial) -> tuple:
    trial.refresh_from_db()
    return trial.status, trial.message, trial.latest_number, trial.intermediate_count


@pytest.mark.parametrize("keeper_first", [True, False, None])
def test_a_suspended_trial_waits_with_the_reason_and_its_next_run_counts(rig: Rig, keeper_first) -> None:
    trial = running(rig, retry={"onPlatformFailure": 1})
    if keeper_first:
        stopped(trial)
        rig.rounds()
        assert trial.attempts.get().stage == "submitted", "nobody knows yet what stopped it"
    suspend(rig, trial)
    rig.until(lambda: trial.attempts.count() == 2)
    if keeper_first is False:
        first = Attempt.objects.get(number=1)
        late = read_report({"keeper": {"version": 1, "journal_id": first.journal_id}, "entries": [
            {"n": 1, "at": 0.0, "type": "started", "pid": 1, "host": "box"}]})
        answer = reports.store([Delivery(trial.public_id, None, late, reports.received_now())])[0]
        assert (answer.status, answer.body["error"]) == (409, "claimed")
    assert seen(trial) == ("WAITING", REASON, None, 0)
    first, second = trial.attempts.order_by("number")
    assert (first.stage, first.end_reason, first.metrics.count()) == ("ended", "suspended", 2)
    assert (second.stage, second.job_name) == ("submitted", trial.public_id)
    assert second.token_hashes == first.token_hashes
    rig.skip(61)
    rig.rounds()
    assert seen(trial) == ("WAITING", REASON, None, 0), "it waits for as long as it takes"
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING, suspended=False)
    report(trial, 0.3, 0.5, journal="second")
    trial.refresh_from_db()
    assert (trial.status, trial.final_number, trial.intermediate_count) == ("SUCCEEDED", 0.5, 1)
    assert [event.kind for event in trial.events.order_by("pk")][1:] == ["RUNNING", "suspended", "RUNNING", "SUCCEEDED"]


def test_a_suspended_run_is_no_retry(rig: Rig) -> None:
    trial = running(rig, retry={"onPlatformFailure": 1})
    suspend(rig, trial)
    rig.until(lambda: trial.attempts.count() == 2)
    report(trial, reason="lost", exit_code=None, journal="second")
    rig.until(lambda: trial.attempts.count() == 3)
    assert trial.attempts.latest("number").job_name == f"{trial.public_id}r3"
    assert "The trial is run again (1 of 1)" in seen(trial)[1]


@pytest.mark.parametrize("keeper_first", [True, False])
def test_a_job_that_somebody_deletes_says_so_whoever_speaks_first(rig: Rig, keeper_first) -> None:
    trial = running(rig)
    sentence = "the job was deleted on the test platform by somebody else; rerun the trial if you still need it"
    if keeper_first:
        stopped(trial)
    rig.service.say(trial.public_id, TrialJobStatus.SYS_CANCELED, message=sentence)
    if not keeper_first:
        rig.until(lambda: Attempt.objects.get().observed_end)
        stopped(trial)
    rig.until(lambda: seen(trial)[0] == "SYS_CANCELED")
    attempt = trial.attempts.get()
    assert (trial.message, attempt.end_reason, attempt.exit_code, attempt.duration) == (sentence, "stopped", 143, 1.0)


def test_a_keeper_that_something_stopped_is_believed_where_the_platform_says_nothing(rig: Rig) -> None:
    trial = running(rig)
    stopped(trial)
    rig.skip(31)
    rig.rounds()
    rig.skip(61)
    rig.until(lambda: seen(trial)[0] == "SYS_CANCELED")
    assert "Something outside of this server stopped the trial's keeper" in trial.message


def test_a_trial_that_is_wanted_stopped_ends_at_once(rig: Rig) -> None:
    trial = running(rig)
    Trial.objects.filter(pk=trial.pk).update(target="USER_CANCELED", message="Stopped by a person.")
    stopped(trial)
    assert seen(trial)[:2] == ("USER_CANCELED", "Stopped by a person.")


@pytest.mark.parametrize("target", ["PREEMPTED", "FROZEN", "HELD"])
def test_a_trial_that_is_to_be_frozen_is_at_rest_where_its_platform_suspends_it_first(rig: Rig, target) -> None:
    trial = running(rig)
    Trial.objects.filter(pk=trial.pk).update(target=target, message="Something more urgent needs the place.")
    suspend(rig, trial)  # the last word of its keeper is lost: the server was away
    rig.until(lambda: rig.service.get_trial_job(trial.public_id).status is TrialJobStatus.USER_CANCELED)
    rig.rounds()
    rig.skip(61)
    rig.until(lambda: trial.attempts.earliest("number").stage == "ended")
    assert trial.attempts.earliest("number").end_reason == "frozen"
    if target == "PREEMPTED":  # there is room
        rig.until(lambda: trial.attempts.filter(number=2, stage="submitted").exists())
        return
    rig.rounds()
    trial.refresh_from_db()
    assert (trial.status, trial.target, trial.attempts.get().stage) == ("WAITING", target, "ended")
    assert trial.message == "Something more urgent needs the place."
