"""Experiments of higher priority: their trials go first, and trials of lower priority are frozen for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.clusters import editing
from nniweb.experiments.models import Attempt, Checkpoint, Experiment, Quota, Trial
from nniweb.worker.rounds.preemption import AGAIN_AFTER, BACK_AFTER, preempt
from tests.nniweb.worker.conftest import Rig, report
from trainingservice.reasons import Reason
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

BUSY = Reason("machines_busy", asked=1, machines=[])


class OrderedTrainingService(DocileTrainingService):
    def give_order(self, job_name: str, order: contract.Order) -> None:
        """Tests say what comes of it."""

    def cancel_trial_job(self, job_name: str, is_early_stopped: bool = False) -> None:
        self.say(job_name, TrialJobStatus.USER_CANCELED, start_time=None)


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig(OrderedTrainingService)


def saved(trial: Trial) -> None:
    """It has a checkpoint on the server."""
    attempt = Attempt.objects.filter(trial=trial).latest("number")
    Checkpoint.objects.create(attempt=attempt, trial=trial, manifest=f"{trial.pk:064x}", name="step-1", size=1, k=1,
                              file_count=1, created_at=timezone.now(), stored_at=timezone.now(), confirmed_n=9,
                              confirmed_at=timezone.now())


def running(rig: Rig, count: int = 1, **fields: Any) -> list[Trial]:
    """Trials that run and have saved a checkpoint each."""
    experiment = rig.experiment(**{"trial_concurrency": count, "max_trial_number": count, **fields})
    trials = rig.submitted(experiment, count)
    for trial in trials:
        report(trial, 0.5, end=False, journal=trial.public_id)
        saved(trial)
    return trials


def frozen(trial: Trial, times: int = 1) -> None:
    report(trial, 0.5, reason="frozen", final=False, journal=f"{trial.public_id}")


def target_of(trial: Trial) -> str:
    return str(Trial.objects.values_list("target", flat=True).get(pk=trial.pk))


def under_way(experiment: Experiment) -> int:
    return Attempt.objects.under_way().filter(trial__experiment=experiment).count()


# --- a limit of this server ------------------------------------------------------------------


def test_the_only_slot_goes_to_the_urgent_experiment_and_comes_back(rig: Rig) -> None:
    editing.change_cluster(rig.cluster, {"max_trials": 1})
    [low] = running(rig)
    urgent = rig.experiment(priority=5, trial_concurrency=1, max_trial_number=1)
    rig.until(lambda: target_of(low) == "PREEMPTED")
    low.refresh_from_db()
    assert low.message == ("Frozen because an experiment of higher priority (5) needs its place. The trial continues "
                           "from its last checkpoint when there is room.")
    rig.rounds()
    [waits] = Trial.objects.filter(experiment=urgent)
    assert waits.reason == "preempting"
    assert waits.message.startswith("1 trial of lower priority is being frozen to make room. Waits for the limit")
    frozen(low)
    [first] = rig.submitted(urgent, 1)
    rig.rounds()
    assert under_way(low.experiment) == 0
    report(first, 0.25)
    rig.until(lambda: Attempt.objects.filter(trial=low, number=2, stage="submitted").exists())
    assert target_of(low) == "RUN"


def test_what_is_frozen_is_what_costs_least(rig: Rig) -> None:
    editing.change_cluster(rig.cluster, {"max_trials": 3})
    first, second, third = running(rig, 3)
    Checkpoint.objects.filter(trial=second).delete()
    saved(second)  # the latest one
    rig.experiment(priority=1, trial_concurrency=1, max_trial_number=1)
    rig.until(lambda: target_of(second) == "PREEMPTED")
    rig.rounds()
    assert (target_of(first), target_of(third)) == ("RUN", "RUN")


@pytest.mark.parametrize(("preemptible", "has_saved", "gives_way"), [
    (None, False, False), ("checkpoints", True, True), ("always", False, True), ("never", True, False)])
def test_only_trials_that_lose_little_give_way_unless_the_config_says_otherwise(
        rig: Rig, preemptible: str | None, has_saved: bool, gives_way: bool) -> None:
    editing.change_cluster(rig.cluster, {"max_trials": 1})
    [low] = running(rig, config={} if preemptible is None else {"preemptible": preemptible})
    if not has_saved:
        Checkpoint.objects.all().delete()
    rig.experiment(priority=5, trial_concurrency=1, max_trial_number=1)
    rig.rounds(5)
    assert (target_of(low) == "PREEMPTED") is gives_way


def test_equal_priorities_freeze_nothing_and_cost_no_question(rig: Rig) -> None:
    editing.change_cluster(rig.cluster, {"max_trials": 1})
    [low] = running(rig, priority=3)
    other = rig.experiment(priority=3, trial_concurrency=1, max_trial_number=1)
    rig.rounds(5)
    assert target_of(low) == "RUN"
    experiments = [low.experiment, other]
    with CaptureQueriesContext(connection) as asked:
        preempt(rig.runner.work, experiments, {})
    assert not asked.captured_queries


@pytest.mark.parametrize("most", [5, 1], ids=["the other searches", "the other has made all of its trials"])
def test_an_urgent_experiment_keeps_its_place_between_two_trials(rig: Rig, most: int) -> None:
    """Though the trial that ends leaves a free slot before the tuner has proposed the next one."""
    editing.change_cluster(rig.cluster, {"max_trials": 1})
    [low] = running(rig, max_trial_number=most)
    urgent = rig.experiment(priority=5, trial_concurrency=1, max_trial_number=4)
    rig.until(lambda: target_of(low) == "PREEMPTED")
    frozen(low)
    for number in range(4):
        trial = rig.submitted(urgent, number + 1)[number]
        assert under_way(low.experiment) == 0
        report(trial, 0.25)
        assert target_of(low) == "PREEMPTED"
    rig.until(lambda: under_way(low.experiment) == 1)


def test_a_trial_that_gave_way_takes_its_place_back_when_its_experiment_is_the_more_urgent_one(rig: Rig) -> None:
    """Though it is the only one that its experiment has left."""
    editing.change_cluster(rig.cluster, {"max_trials": 1})
    [low] = running(rig)
    other = rig.experiment(priority=4, trial_concurrency=1, max_trial_number=1)
    rig.until(lambda: target_of(low) == "PREEMPTED")
    frozen(low)
    [first] = rig.submitted(other, 1)
    report(first, 0.5, end=False, journal=first.public_id)
    saved(first)
    rig.rounds(3)
    assert target_of(first) == "RUN"
    Experiment.objects.filter(pk=low.experiment_id).update(priority=5)
    rig.until(lambda: target_of(first) == "PREEMPTED")
    frozen(first)
    rig.until(lambda: Attempt.objects.filter(trial=low, number=2, stage="submitted").exists())
    rig.rounds(5)
    assert (target_of(low), target_of(first)) == ("RUN", "PREEMPTED")


def test_the_place_that_a_trial_takes_back_is_kept_for_it(rig: Rig) -> None:
    """Also from trials of lower priority whose experiment is older: the round comes to it first."""
    editing.change_cluster(rig.cluster, {"max_trials": 1})
    older = rig.experiment(trial_concurrency=3, max_trial_number=3)
    [first] = rig.submitted(older, 1)
    report(first, 0.5, end=False, journal=first.public_id)
    saved(first)
    urgent = rig.experiment(priority=5, trial_concurrency=1, max_trial_number=1)
    rig.until(lambda: target_of(first) == "PREEMPTED")
    frozen(first)
    [back] = rig.submitted(urgent, 1)
    report(back, 0.5, end=False, journal=back.public_id)
    saved(back)
    Trial.objects.filter(experiment=older, pk=first.pk).update(target="RUN")
    Trial.objects.filter(pk=back.pk).update(target="PREEMPTED")
    frozen(back)
    Experiment.objects.filter(pk=urgent.pk).update(status="NO_MORE_TRIAL")
    assert under_way(older) == under_way(urgent) == 0
    rig.until(lambda: under_way(older) + under_way(urgent) == 1)
    assert (under_way(older), under_way(urgent)) == (0, 1)


def test_a_persons_quota_is_shared_by_priority_too(rig: Rig, admin: Any) -> None:
    Quota.objects.create(user=admin, max_trials=1)
    [low] = running(rig, priority=-1)
    rig.experiment(trial_concurrency=1, max_trial_number=1)
    rig.until(lambda: target_of(low) == "PREEMPTED")


# --- the platform has no room ----------------------------------------------------------------


def test_a_trial_that_its_platform_has_no_room_for_has_one_frozen(rig: Rig) -> None:
    low, other = running(rig, 2, gpus_of_a_trial=1)
    urgent = rig.experiment(priority=5, trial_concurrency=1, max_trial_number=1, gpus_of_a_trial=1)
    [waits] = rig.submitted(urgent, 1)
    rig.service.say(waits.public_id, TrialJobStatus.WAITING, message=BUSY)
    rig.rounds(3)
    assert (target_of(low), target_of(other)) == ("RUN", "RUN"), "it may start at once"
    rig.skip(4)
    rig.until(lambda: "PREEMPTED" in (target_of(low), target_of(other)))
    assert waits.events.filter(kind="preempting").count() == 1
    victim, stays = (low, other) if target_of(low) == "PREEMPTED" else (other, low)
    frozen(victim)
    rig.rounds(3)
    rig.skip(AGAIN_AFTER / 2)
    rig.rounds(3)
    assert target_of(stays) == "RUN", "one makes room for one"
    report(waits, 0.25)
    rig.skip(BACK_AFTER + 1)
    rig.until(lambda: Attempt.objects.filter(trial=victim, number=2, stage="submitted").exists())


def test_trials_of_lower_priority_in_the_queue_leave_it(rig: Rig) -> None:
    low = rig.experiment(trial_concurrency=1, max_trial_number=3, gpus_of_a_trial=1)
    [queued] = rig.submitted(low, 1)
    rig.service.say(queued.public_id, TrialJobStatus.WAITING, message=BUSY)
    urgent = rig.experiment(priority=5, trial_concurrency=1, max_trial_number=1, gpus_of_a_trial=1)
    [waits] = rig.submitted(urgent, 1)
    rig.service.say(waits.public_id, TrialJobStatus.WAITING, message=BUSY)
    rig.rounds(3)
    rig.skip(4)
    rig.until(lambda: target_of(queued) == "PREEMPTED" and under_way(low) == 0)
    rig.rounds(3)
    assert Trial.objects.filter(experiment=low).count() == 1, "nothing new is started meanwhile"


def test_a_trial_of_several_gpus_has_a_whole_machine_freed_or_none(rig: Rig) -> None:
    trials = running(rig, 3, gpus_of_a_trial=1)
    for trial, machine in zip(trials, ("a", "b", "b"), strict=True):
        Attempt.objects.filter(trial=trial).update(machine_identity=machine)
    urgent = rig.experiment(priority=5, trial_concurrency=2, max_trial_number=2, gpus_of_a_trial=2)
    for waits in rig.submitted(urgent, 2):
        rig.service.say(waits.public_id, TrialJobStatus.WAITING, message=BUSY)
    rig.rounds(3)
    rig.skip(4)
    rig.until(lambda: target_of(trials[1]) == "PREEMPTED")
    rig.rounds(3)
    assert [target_of(trial) for trial in trials] == ["RUN", "PREEMPTED", "PREEMPTED"]


@pytest.mark.parametrize("reason", [
    Reason("container_waits", pod="p", image="i", cause="ContainerCreating", said="it is being created"),
    Reason("scheduler", scheduler="Slurm", cause="JobHeldUser", said="you hold it")])
def test_a_trial_that_waits_for_something_else_has_nothing_frozen(rig: Rig, reason: Reason) -> None:
    [low] = running(rig)
    urgent = rig.experiment(priority=5, trial_concurrency=1, max_trial_number=1)
    [waits] = rig.submitted(urgent, 1)
    rig.service.say(waits.public_id, TrialJobStatus.WAITING, message=reason)
    rig.rounds(3)
    rig.skip(30)
    rig.rounds(5)
    assert target_of(low) == "RUN"
