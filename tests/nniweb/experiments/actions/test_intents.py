"""What people ask for, and when it is refused."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from nniweb.experiments.actions import change_and_undo, intents
from nniweb.experiments.actions.imported_results import import_results
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Experiment, ExperimentEvent, Trial, TrialEvent
from nniweb.experiments.models.trial import TrialTarget

pytestmark = pytest.mark.django_db


def test_the_history_says_who_asked(make_experiment, admin) -> None:
    experiment = make_experiment()
    intents.pause(experiment, admin)
    event = ExperimentEvent.objects.get(experiment=experiment, kind="PAUSED")
    assert event.actor == admin


def test_each_change_takes_a_new_revision(make_experiment) -> None:
    experiment = make_experiment()
    revisions = [experiment.revision]
    for step in (lambda: intents.pause(experiment), lambda: intents.resume(experiment),
                 lambda: change_and_undo.change(experiment, {"trial_concurrency": 7}),
                 lambda: intents.submit_trial(experiment, {"x": 1})):
        step()
        experiment.refresh_from_db()
        revisions.append(experiment.revision)
    assert revisions == sorted(set(revisions))


@pytest.mark.parametrize("status", ["DONE", "STOPPED", "ERROR", "STOPPING"])
def test_only_what_is_going_on_can_be_paused(make_experiment, status: str) -> None:
    experiment = make_experiment(status=status)
    with pytest.raises(Refused, match=status):
        intents.pause(experiment)
    experiment.refresh_from_db()
    assert (experiment.status, experiment.target) == (status, "RUN")


def test_a_done_experiment_at_its_limit_is_not_resumed_but_told_what_to_do(make_experiment) -> None:
    experiment = make_experiment(status="DONE", max_trial_number=3, next_sequence_id=3)
    with pytest.raises(Refused, match="Raise the limit"):
        intents.resume(experiment)


def test_stopping_twice_is_harmless(make_experiment) -> None:
    experiment = make_experiment()
    intents.stop(experiment)
    intents.stop(experiment)
    experiment.refresh_from_db()
    assert (experiment.status, experiment.target) == ("STOPPING", "STOP")
    assert ExperimentEvent.objects.filter(kind="STOPPING").count() == 1


def test_stopping_what_has_ended_changes_nothing(make_experiment) -> None:
    experiment = make_experiment(status="DONE")
    intents.stop(experiment)
    experiment.refresh_from_db()
    assert (experiment.status, experiment.target) == ("DONE", "RUN")


def test_the_first_wish_to_end_a_trial_stands(make_attempt) -> None:
    trial = make_attempt().trial
    Trial.objects.filter(pk=trial.pk).update(target=TrialTarget.EARLY_STOPPED)
    intents.cancel_trial(trial)
    trial.refresh_from_db()
    assert trial.target == TrialTarget.EARLY_STOPPED


def test_canceling_an_ended_trial_changes_nothing(make_attempt) -> None:
    trial = make_attempt(status="SUCCEEDED").trial
    intents.cancel_trial(trial)
    trial.refresh_from_db()
    assert (trial.status, trial.target) == ("SUCCEEDED", "RUN")
    assert not TrialEvent.objects.filter(trial=trial).exists()


def test_a_running_trial_is_not_run_again(make_attempt) -> None:
    with pytest.raises(Refused, match="RUNNING"):
        intents.rerun_trial(make_attempt(status="RUNNING").trial)


@pytest.mark.parametrize("status", ["STOPPED", "ERROR"])
def test_nothing_is_submitted_to_an_experiment_that_ended_badly(make_experiment, status: str) -> None:
    with pytest.raises(Refused, match="resume it"):
        intents.submit_trial(make_experiment(status=status), {})
    assert not Trial.objects.exists()


def test_a_trial_submitted_to_a_done_experiment_takes_it_up_again(make_experiment) -> None:
    experiment = make_experiment(status="DONE", next_sequence_id=2)
    trial = intents.submit_trial(experiment, {"x": 1})
    experiment.refresh_from_db()
    assert (experiment.status, trial.sequence_id, experiment.next_sequence_id) == ("RUNNING", 2, 3)


def test_a_change_that_changes_nothing_leaves_no_trace(make_experiment) -> None:
    experiment = make_experiment(trial_concurrency=2)
    change_and_undo.change(experiment, {"trial_concurrency": 2})
    assert not ExperimentEvent.objects.exists()


def test_what_may_be_running_is_not_deleted(make_experiment, make_attempt) -> None:
    running = make_experiment()
    stopped_with_a_trial = make_experiment(status="STOPPED")
    make_attempt(stopped_with_a_trial, status="RUNNING")
    for experiment in (running, stopped_with_a_trial):
        with pytest.raises(Refused, match="stop it"):
            intents.delete(experiment)
    assert Experiment.objects.filter(deleted_at=None).count() == 2


def test_only_what_has_ended_is_archived(make_experiment) -> None:
    with pytest.raises(Refused, match="stop it"):
        intents.set_archived(make_experiment(), True)
    ended = make_experiment(status="DONE")
    intents.set_archived(ended, True)
    intents.set_archived(ended, False)
    assert not Experiment.objects.get(pk=ended.pk).archived


def test_a_trial_that_waits_in_a_paused_experiment_says_so(make_experiment) -> None:
    experiment = make_experiment()
    before = intents.submit_trial(experiment, {"x": 0.5})
    assert before.reason == "free_slot"
    intents.pause(experiment)
    after = intents.submit_trial(experiment, {"x": 0.25})
    for trial in (before, after):
        trial.refresh_from_db()
        assert trial.message == "The experiment is PAUSED. The trial is submitted when the experiment is resumed."
    experiment.refresh_from_db()
    intents.resume(experiment)
    assert {trial.reason for trial in Trial.objects.filter(experiment=experiment)} == {"free_slot"}


@pytest.mark.parametrize("wish", [
    lambda it: intents.resume(it), lambda it: intents.submit_trial(it, {"x": 0.5}),
    lambda it: change_and_undo.change(it, {"max_trial_number": 99}),
    lambda it: import_results(it, [{"parameter": {"x": 1}, "value": 1}])], ids=["resume", "submit", "change", "import"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_wish_that_comes_while_its_experiment_is_deleted_is_refused_and_changes_nothing(
        make_experiment: Callable[..., Experiment], wish: Callable[[Experiment], Any], is_gone: bool) -> None:
    experiment = make_experiment(status="DONE", ended_at=timezone.now(), max_trial_number=9)
    intents.delete(Experiment.objects.get(pk=experiment.pk))
    if is_gone:  # the worker has removed its rows
        Experiment.objects.filter(pk=experiment.pk).delete()
    with pytest.raises(Refused, match="was deleted"):
        wish(experiment)
    assert not Trial.objects.exists()
    assert is_gone or Experiment.objects.get(pk=experiment.pk).status == "DONE"
