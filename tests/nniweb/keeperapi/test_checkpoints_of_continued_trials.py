"""A trial that continues another one is given that one's checkpoints, and those of nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from nniweb.experiments.models import Attempt, Checkpoint, Trial, TrialEvent
from nniweb.keeperapi.application import KeeperApplication
from tests.nniweb.keeperapi.test_checkpoint_calls import STARTED, report, retry_of, send
from tests.nniweb.keeperapi.test_keeper_application import call
from trainingservice.testing.keeper_protocol import saved
from trialkeeper import contract

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def application() -> Iterator[KeeperApplication]:
    application = KeeperApplication()
    yield application
    application.group_commit.close()


def save(application, attempt: Attempt, content: bytes, *, n: int = 2, step: int = 3, sequence: int = 4,
         name: str = "step-3", journal_id: str = "j1") -> str:
    """The id of a checkpoint that counts."""
    checkpoint_id = send(application, attempt, content, name=name)
    report(application, attempt, *([STARTED] if n == 2 else []),
           saved(n, checkpoint_id, k=n - 1, step=step, sequence=sequence), journal_id=journal_id)
    return checkpoint_id


def job(application, attempt: Attempt) -> dict[str, Any]:
    return json.loads(call(application, "GET", f"trials/{attempt.job_name}/job")[2])["checkpoints"]


def chunks_of(checkpoint_id: str) -> set[str]:
    return set(Checkpoint.objects.filter(manifest=checkpoint_id).values_list("uses__chunk__sha256", flat=True))


def status_of(application, attempt: Attempt, checkpoint_id: str) -> set[int]:
    """How the manifest and its chunks are answered for."""
    return {call(application, "GET", f"trials/{attempt.job_name}/{path}")[0] for path in [
        f"checkpoints/{checkpoint_id}", *(f"chunks/{chunk}" for chunk in chunks_of(checkpoint_id))]}


def test_it_is_told_of_its_own_first_and_then_of_those_of_the_trials_that_it_continues(
        application, make_attempt) -> None:
    first = make_attempt()
    experiment = first.trial.experiment
    second = make_attempt(experiment, continues=first.trial)
    third = make_attempt(experiment, continues=second.trial)
    ids = [save(application, first, b"first", step=1)]
    assert [one["id"] for one in job(application, second)["resume"]] == ids, "of the trial before"
    ids.append(save(application, second, b"second", step=2))
    assert [one["step"] for one in job(application, third)["resume"]] == [2, 1]
    ids.append(save(application, third, b"third"))
    assert [one["id"] for one in job(application, retry_of(third))["resume"]] == ids[::-1]


def test_it_may_fetch_those_and_no_others(application, make_attempt) -> None:
    parent = make_attempt()
    experiment = parent.trial.experiment
    child = make_attempt(experiment, continues=parent.trial)
    sibling, stranger = make_attempt(experiment), make_attempt()
    of_parent, of_child = save(application, parent, b"parent"), save(application, child, b"child")
    of_sibling, of_stranger = save(application, sibling, b"sibling"), save(application, stranger, b"stranger")
    again = retry_of(child)
    assert [status_of(application, again, one) for one in (of_parent, of_child, of_sibling, of_stranger)] == [
        {200}, {200}, {404}, {404}]
    assert status_of(application, parent, of_child) == {404}, "not the other way round"


def test_the_attempt_says_from_which_trial_it_went_on_and_its_curve_begins_there(
        application, make_attempt) -> None:
    parent = make_attempt()
    child = make_attempt(parent.trial.experiment, continues=parent.trial)
    checkpoint_id = save(application, parent, b"weights", step=7, sequence=5)
    restored = {"n": 2, "at": 3.0, "type": "checkpoint", "event": "restored", "id": checkpoint_id, "k": 0,
                "name": "step-3", "step": 7, "size": 7}
    report(application, child, STARTED, restored)
    child.refresh_from_db()
    assert (child.resumed_from.manifest, child.first_sequence) == (checkpoint_id, 5)
    event = TrialEvent.objects.get(kind="resumed")
    assert (event.trial, event.message) == (
        child.trial, f'It went on from the checkpoint "step-3" (step 7) of trial {parent.trial.sequence_id}.')
    assert Trial.objects.get(pk=child.trial_id).intermediate_count == 5


def test_what_another_trial_saved_is_no_beginning_for_one_that_does_not_continue_it(
        application, make_attempt) -> None:
    other = make_attempt()
    attempt = make_attempt(other.trial.experiment)
    checkpoint_id = save(application, other, b"weights")
    report(application, attempt, STARTED, {
        "n": 2, "at": 3.0, "type": "checkpoint", "event": "restored", "id": checkpoint_id, "k": 0, "name": "step-3",
        "step": 7, "size": 7})
    attempt.refresh_from_db()
    assert attempt.resumed_from is None


@pytest.fixture
def population(make_experiment):
    return make_experiment(tuner={"name": "PBT", "class_args": {"population_size": 2}})


def test_a_population_loads_what_the_one_before_handed_on_and_goes_on_with_its_own(
        application, make_attempt, population) -> None:
    first = make_attempt(population)
    own = save(application, first, b"own", name="step-1")
    handed_on = save(application, first, b"handed on", n=3, name=contract.HANDED_ON)
    second = make_attempt(population, continues=first.trial)
    third = make_attempt(population, continues=second.trial)
    told = job(application, second)
    assert told["resume"] == []
    assert [one["id"] for one in told["folders"]["load"]] == [handed_on]
    assert (told["folders"]["load_parameter"], told["folders"]["save_parameter"]) == (
        "load_checkpoint_dir", "save_checkpoint_dir")
    assert job(application, third)["folders"]["load"] == [], "the one before has handed on nothing"
    assert status_of(application, second, handed_on) == {200}
    assert status_of(application, third, handed_on) == {404}
    again = job(application, retry_of(first))
    assert ([one["id"] for one in again["resume"]], again["folders"]["load"]) == ([own], [])


def test_trials_that_share_a_folder_are_told_of_none(application, make_attempt, make_experiment) -> None:
    shared = make_experiment(tuner={"name": "PBT", "class_args": {"all_checkpoint_dir": "/mnt/share"}})
    first = make_attempt(shared)
    save(application, first, b"own")
    told = job(application, make_attempt(shared, continues=first.trial))
    assert told["resume"] == []
    assert "folders" not in told
