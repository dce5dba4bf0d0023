"""What a service says of a job is used: its times, its tags, its address, its folder."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nniweb.experiments.actions import intents
from nniweb.experiments.models import Attempt, Trial
from nniweb.worker.rounds.observing import observe_trials
from tests.nniweb.worker.conftest import report
from tests.nniweb.worker.rounds.test_services_without_keepers import EmittingService
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job_status import TrialJobStatus

RUNNING, SUCCEEDED, FAILED = TrialJobStatus.RUNNING, TrialJobStatus.SUCCEEDED, TrialJobStatus.FAILED


@pytest.fixture(autouse=True)
def services_are_asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe_trials, "FULL_LOOK_SECONDS_WITHOUT_KEEPERS", 0.1)


def status(trial: Trial) -> str:
    return Trial.objects.get(pk=trial.pk).status


def begun(rig: Any, hours_ago: float = 1.0) -> Trial:
    """A trial that was submitted so long ago."""
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1), 1)
    Attempt.objects.update(created_at=datetime.now(UTC) - timedelta(hours=hours_ago))
    return trial


def ago(seconds: float) -> float:
    return datetime.now(UTC).timestamp() - seconds


def lasted(trial: Trial) -> tuple[float, float]:
    """By the trial's times, and by its attempt's duration, in seconds."""
    row, attempt = Trial.objects.get(pk=trial.pk), Attempt.objects.get()
    assert row.ended_at is not None
    assert row.started_at is not None
    assert attempt.duration is not None
    return (row.ended_at - row.started_at).total_seconds(), attempt.duration


@pytest.mark.parametrize("service", [EmittingService, DocileTrainingService])
def test_a_job_has_the_times_that_its_service_says(make_rig, service: type[DocileTrainingService]) -> None:
    rig = make_rig(service)
    trial = begun(rig)
    began, ended = ago(1000), ago(400)
    rig.service.say(trial.public_id, RUNNING, start_time=began)
    rig.until(lambda: status(trial) == "RUNNING")
    started_at = Trial.objects.get().started_at
    assert started_at is not None
    assert started_at.timestamp() == pytest.approx(began, abs=0.001)
    rig.service.say(trial.public_id, FAILED, start_time=began, end_time=ended)
    rig.until(lambda: Attempt.objects.get().observed_end)
    rig.skip(61)
    rig.until(lambda: status(trial) == "FAILED")
    assert lasted(trial) == pytest.approx((600, 600), abs=0.01)


def test_a_job_that_was_never_seen_running_has_its_times_too(make_rig) -> None:
    rig = make_rig(EmittingService)
    trial = begun(rig)
    rig.service.say(trial.public_id, FAILED, start_time=ago(100), end_time=ago(60))
    rig.until(lambda: status(trial) == "FAILED")
    assert lasted(trial) == pytest.approx((40, 40), abs=0.01)


def test_a_job_whose_end_time_is_not_said_ends_when_that_was_seen_not_when_its_keeper_was_given_up(make_rig) -> None:
    rig = make_rig()
    trial = begun(rig)
    rig.service.say(trial.public_id, RUNNING)
    rig.until(lambda: status(trial) == "RUNNING")
    rig.service.say(trial.public_id, FAILED, end_time=None)
    rig.until(lambda: Attempt.objects.get().observed_end)
    rig.skip(120)
    rig.until(lambda: status(trial) == "FAILED")
    assert max(lasted(trial)) < 30


def test_a_trial_whose_keeper_was_killed_has_the_time_from_its_start_to_its_end(make_rig) -> None:
    rig = make_rig()
    trial = begun(rig)
    report(trial, 0.5, end=False)
    began = datetime.now(UTC) - timedelta(seconds=500)
    Attempt.objects.update(started_at=began)
    Trial.objects.update(started_at=began)
    rig.service.say(trial.public_id, FAILED, start_time=ago(3000), end_time=ago(100))
    rig.until(lambda: Attempt.objects.get().observed_end)
    rig.skip(61)
    rig.until(lambda: status(trial) == "FAILED")
    assert lasted(trial) == pytest.approx((400, 400), abs=2)


def test_a_lost_keepers_own_successor_tells_the_time_that_it_knows(make_rig) -> None:
    rig = make_rig()
    trial = begun(rig)
    report(trial, end=False)
    began = datetime.now(UTC) - timedelta(seconds=500)
    Attempt.objects.update(started_at=began)
    Trial.objects.update(started_at=began)
    report(trial, exit_code=None, reason="lost")
    assert Attempt.objects.get().duration == 1.0, "as it was told"


@pytest.mark.parametrize("times", [
    {"start_time": ago(-3600), "end_time": ago(-72000)}, {"start_time": ago(10 ** 9), "end_time": ago(10 ** 9)},
    {"start_time": float("nan"), "end_time": float("inf")}, {"start_time": 1e300, "end_time": -1e300},
    {"start_time": ago(0) * 1000, "end_time": ago(0) * 1000}, {"start_time": "now", "end_time": [1]}])
def test_times_that_cannot_be_true_are_not_used(make_rig, times: dict[str, Any]) -> None:
    rig = make_rig(EmittingService)
    trial = begun(rig)
    rig.service.say(trial.public_id, RUNNING, start_time=times["start_time"])
    rig.until(lambda: status(trial) == "RUNNING")
    rig.service.say(trial.public_id, FAILED, **times)
    rig.until(lambda: status(trial) == "FAILED")
    assert max(lasted(trial)) < 30


def test_of_a_platform_whose_clock_is_ahead_the_time_between_both_counts(make_rig) -> None:
    rig = make_rig(EmittingService)
    trial = begun(rig)
    rig.service.say(trial.public_id, FAILED, start_time=ago(-7200), end_time=ago(-7230))
    rig.until(lambda: status(trial) == "FAILED")
    assert lasted(trial) == pytest.approx((30, 30), abs=0.01)


def test_tags_of_a_job_are_tags_of_its_trial_and_what_a_person_took_away_stays_away(make_rig) -> None:
    rig = make_rig(EmittingService)
    trial = begun(rig)
    intents.tag_trial(trial, ["mine"])
    rig.service.say(trial.public_id, RUNNING, tags=("spot", "zone-b", "mine"))
    rig.until(lambda: Trial.objects.get().tags == ["mine", "spot", "zone-b"])
    intents.tag_trial(trial, ["mine", "spot"])
    revision = Trial.objects.get().revision
    rig.service.say(trial.public_id, RUNNING, tags=("spot", "zone-b", "mine", "gold"))
    rig.until(lambda: Trial.objects.get().tags == ["mine", "spot", "gold"])
    assert Trial.objects.get().revision > revision, "pages hear of it"


@pytest.mark.parametrize("tags", [("", " ", "x" * 65, "nul \x00"), tuple(map(str, range(1000))), None, [7, 7]])
def test_tags_are_bounded(make_rig, tags: Any) -> None:
    rig = make_rig(EmittingService)
    trial = begun(rig)
    rig.service.say(trial.public_id, RUNNING, tags=tags)
    rig.until(lambda: status(trial) == "RUNNING")
    expected = {4: [], 1000: list(map(str, range(20))), 2: ["7"]}[len(tags)] if tags else []
    assert Trial.objects.get().tags == expected


def test_address_and_folder_of_a_job_are_those_that_its_service_says(make_rig) -> None:
    rig = make_rig(EmittingService)
    trial = begun(rig)
    rig.service.say(trial.public_id, RUNNING, url="https://jobs.example/7", working_directory="/jobs/7", machine="m7")
    rig.until(lambda: Attempt.objects.get().url)
    attempt = Attempt.objects.get()
    assert (attempt.url, attempt.working_directory, attempt.machine_name) == ("https://jobs.example/7", "/jobs/7", "m7")
