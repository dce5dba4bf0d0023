"""Looks at all jobs of a cluster: what did not ring is found, and a large cluster is looked at in several rounds."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from django.db import OperationalError

from nniweb.experiments.models import Attempt, Trial
from nniweb.worker.rounds.observing import observe_trials
from tests.nniweb.worker.conftest import Rig
from trainingservice.trial_job_status import TrialJobStatus

RUNNING, WAITING = TrialJobStatus.RUNNING, TrialJobStatus.WAITING


@pytest.fixture
def five(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """Trials that run, of which each round looks at two."""
    trials = rig.submitted(rig.experiment(trial_concurrency=5, max_trial_number=5), 5)
    for trial in trials:
        rig.service.say(trial.public_id, RUNNING)
    rig.until(lambda: statuses() == ["RUNNING"] * 5)
    rig.rounds()
    monkeypatch.setattr(observe_trials, "LOOKED_AT_ONCE", 2)
    monkeypatch.setattr(observe_trials, "READ_AT_ONCE", 2)
    return trials


def statuses() -> list[str]:
    return list(Trial.objects.order_by("sequence_id").values_list("status", flat=True))


def change_without_ringing(rig: Rig, trials: Sequence[Trial], status: TrialJobStatus) -> None:
    with rig.service._lock:
        for trial in trials:
            rig.service._jobs[trial.public_id] = replace(rig.service._jobs[trial.public_id], status=status)


def test_many_jobs_are_looked_at_in_several_rounds(rig: Rig, five: list[Trial]) -> None:
    change_without_ringing(rig, five, WAITING)
    rig.skip(observe_trials.FULL_LOOK_SECONDS + 1)
    found = []
    for _ in range(3):
        rig.rounds(1)
        found.append(statuses().count("WAITING"))
    assert found == [2, 4, 5]
    change_without_ringing(rig, five, RUNNING)
    rig.rounds()
    assert statuses().count("WAITING") == 5  # the next look is not due
    rig.skip(observe_trials.FULL_LOOK_SECONDS)
    rig.rounds()
    assert statuses() == ["RUNNING"] * 5


def test_a_job_that_changes_after_it_was_listed_is_not_taken_for_what_it_was(rig: Rig, five: list[Trial]) -> None:
    change_without_ringing(rig, five, WAITING)
    rig.skip(observe_trials.FULL_LOOK_SECONDS + 1)
    rig.rounds(1)
    looked_at = [trial for trial in five if Trial.objects.get(pk=trial.pk).status == "WAITING"]
    assert len(looked_at) == 2
    change_without_ringing(rig, [trial for trial in five if trial not in looked_at], RUNNING)
    rig.rounds(2)
    assert statuses().count("WAITING") == 2


def test_a_job_that_rings_does_not_wait_for_the_others(rig: Rig, five: list[Trial]) -> None:
    rig.skip(observe_trials.FULL_LOOK_SECONDS + 1)
    rig.rounds(1)
    last = list(rig.runner.work.listed.left)[-1].id
    rig.service.say(last, WAITING)
    rig.rounds(1)
    assert Attempt.objects.get(job_name=last).trial.status == "WAITING"
    rig.rounds(2)
    assert statuses().count("WAITING") == 1


def round_on_a_full_disk(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One round, of which nothing can be written; afterwards there is room again."""
    def full(*_: object) -> None:
        raise OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(observe_trials, "_write", full)
        with pytest.raises(OperationalError):
            rig.rounds(1)


def test_what_could_not_be_written_in_one_round_is_looked_at_in_the_next(
        rig: Rig, five: list[Trial], monkeypatch: pytest.MonkeyPatch) -> None:
    change_without_ringing(rig, five, WAITING)
    rig.skip(observe_trials.FULL_LOOK_SECONDS + 1)
    rig.rounds(1)
    round_on_a_full_disk(rig, monkeypatch)
    rig.rounds(2)
    assert statuses() == ["WAITING"] * 5


def test_what_the_platform_says_beside_a_status_is_compared_too(rig: Rig, five: list[Trial]) -> None:
    with rig.service._lock:
        for trial, change in zip(five, ({"platform_state": {"queue": "fast"}}, {"tags": ("spot",)}, {"machine": "box"},
                                        {"url": "http://127.0.0.1/1"}, {}), strict=True):
            rig.service._jobs[trial.public_id] = replace(rig.service._jobs[trial.public_id], **change)
    rig.skip(observe_trials.FULL_LOOK_SECONDS + 1)
    rig.rounds()
    assert list(Attempt.objects.order_by("trial__sequence_id").values_list(
        "platform_state", "tags", "machine_name", "url")) == [
            ({"queue": "fast"}, [], "", ""), ({}, ["spot"], "", ""), ({}, [], "box", ""),
            ({}, [], "", "http://127.0.0.1/1"), ({}, [], "", "")]
    with rig.service._lock:
        rig.service._jobs[five[0].public_id] = replace(rig.service._jobs[five[0].public_id],
                                                       platform_state={"queue": "slow"})
    rig.skip(observe_trials.FULL_LOOK_SECONDS + 1)
    rig.rounds()
    assert Attempt.objects.get(trial=five[0]).platform_state == {"queue": "slow"}


def test_after_a_round_that_could_not_be_written_jobs_are_listed_anew(
        rig: Rig, five: list[Trial], monkeypatch: pytest.MonkeyPatch) -> None:
    change_without_ringing(rig, five, WAITING)
    rig.skip(observe_trials.FULL_LOOK_SECONDS + 1)
    round_on_a_full_disk(rig, monkeypatch)
    change_without_ringing(rig, five, RUNNING)  # meanwhile, however long that was
    rig.rounds()
    assert statuses() == ["RUNNING"] * 5
