"""Trials that are frozen: what the worker and the reports of keepers make of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from nniweb.experiments.actions import freezing, intents
from nniweb.experiments.launch.job_forms import application_form
from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial, Worker
from nniweb.experiments.queries.trial_advice import advice_for
from tests.nniweb.worker.conftest import Rig, report
from trainingservice.base import ServiceContext
from trainingservice.cluster_settings import ClusterSettings
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job import KeeperAccess
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


class OrderedTrainingService(DocileTrainingService):
    """Notes the orders that it shall bring, and the jobs that it shall end."""

    def __init__(self, settings: ClusterSettings, context: ServiceContext) -> None:
        super().__init__(settings, context)
        self.orders: list[tuple[str, str]] = []
        self.canceled: list[str] = []

    def give_order(self, job_name: str, order: contract.Order) -> None:
        self.orders.append((job_name, order["order"]))

    def cancel_trial_job(self, job_name: str, is_early_stopped: bool = False) -> None:
        self.canceled.append(job_name)  # the test says what comes of it


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig(OrderedTrainingService)


def frozen(trial: Trial, **more: Any) -> None:
    """Its keeper, which has reported one value, has frozen it."""
    report(trial, 0.5, reason="frozen", final=False, **more)


def stages(trial: Trial) -> list[tuple[str, str]]:
    return list(Attempt.objects.filter(trial=trial).order_by("number").values_list("job_name", "stage"))


def one_trial(rig: Rig, **fields: object) -> Trial:
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, **{"max_trial_number": 1, **fields}), 1)
    return trial


def advised(trial: Trial) -> str:
    return " ".join(advice.message for advice in advice_for(trial.pk, timezone.now()))


def freeze(trial: Trial) -> None:
    assert freezing.freeze_trials(trial.experiment, [trial.pk]) == {trial.pk}


def thaw(trial: Trial) -> None:
    assert freezing.thaw_trials(trial.experiment, [trial.pk]) == {trial.pk}


def runs_as(rig: Rig, trial: Trial, number: int) -> None:
    rig.until(lambda: Attempt.objects.filter(trial=trial, number=number, stage="submitted").exists())
    trial.refresh_from_db()


def test_a_running_trial_is_told_by_the_answer_to_its_report_and_waits_when_it_has_ended(rig: Rig) -> None:
    trial = one_trial(rig)
    report(trial, 0.5, end=False)
    freeze(trial)
    rig.rounds()
    assert rig.service.orders == [(trial.public_id, "freeze")], "brought by the platform as well, once"
    assert [order["order"] for order in report(trial, end=False).body["orders"]] == ["freeze"]
    assert "It has 10 seconds to save a checkpoint" in advised(trial)
    frozen(trial, exit_code=None)
    trial.refresh_from_db()
    assert (trial.status, trial.target, trial.reason) == ("WAITING", "FROZEN", "frozen")
    assert "has saved no checkpoint" in advised(trial)
    assert list(trial.events.order_by("pk").values_list("kind", flat=True))[-2:] == ["to be frozen", "frozen"]
    rig.rounds()
    assert stages(trial) == [(trial.public_id, "ended")]
    assert rig.service.canceled == []


def test_a_thawed_trial_waits_for_a_slot_like_others_and_goes_on(rig: Rig) -> None:
    trial = one_trial(rig, max_trial_number=2)
    report(trial, 0.5, end=False)
    freeze(trial)
    frozen(trial)
    [_, other] = rig.submitted(trial.experiment, 2)  # its slot is free
    thaw(trial)
    rig.rounds()
    trial.refresh_from_db()
    assert (trial.status, trial.target, trial.reason) == ("WAITING", "RUN", "free_slot")
    now = timezone.now()
    Cluster.objects.update(health=Cluster.Health.GOOD)
    Worker.objects.create(id="one", host="h", pid=1, started_at=now, heard_at=now + timedelta(hours=1))
    assert "when another trial ends" in advised(trial)
    report(other, 0.25)
    runs_as(rig, trial, 2)
    assert stages(trial)[1] == (f"{trial.public_id}r2", "submitted")


def test_what_was_frozen_is_no_failure_and_costs_no_retry(rig: Rig) -> None:
    trial = one_trial(rig, retry={"onPlatformFailure": 1})
    for number in (1, 2):
        report(trial, 0.5, end=False, journal=f"journal {number}")
        freeze(trial)
        frozen(trial, journal=f"journal {number}", exit_code=143)
        thaw(trial)
        runs_as(rig, trial, number + 1)
    report(trial, reason="lost", exit_code=None, journal="journal 3")
    runs_as(rig, trial, 4)
    report(trial, 0.5, journal="journal 4")
    rig.until(lambda: Experiment.objects.get(pk=trial.experiment_id).status == "DONE")


def test_a_trial_that_ends_by_itself_before_it_hears_of_it_has_ended(rig: Rig) -> None:
    trial = one_trial(rig)
    report(trial, 0.5, end=False)
    freeze(trial)
    report(trial, 0.5, 0.75)
    trial.refresh_from_db()
    assert (trial.status, trial.final_number) == ("SUCCEEDED", 0.75)


def test_a_trial_with_a_result_that_ends_well_when_it_is_told_to_has_succeeded(rig: Rig) -> None:
    trial = one_trial(rig)
    freeze(trial)
    report(trial, 0.75, reason="frozen", exit_code=0)
    trial.refresh_from_db()
    assert trial.status == "SUCCEEDED"


def test_a_keeper_that_is_killed_meanwhile_leaves_the_trial_frozen(rig: Rig) -> None:
    trial = one_trial(rig)
    report(trial, 0.5, end=False)
    freeze(trial)
    report(trial, 0.5, reason="lost", exit_code=None, final=False)
    trial.refresh_from_db()
    assert (trial.status, trial.target) == ("WAITING", "FROZEN")


def test_a_job_that_waits_on_its_platform_is_removed_and_may_be_thawed_at_once(rig: Rig) -> None:
    trial = one_trial(rig)
    freeze(trial)
    rig.until(lambda: rig.service.canceled == [trial.public_id])
    thaw(trial)  # before the platform has said what became of the job
    rig.service.say(trial.public_id, TrialJobStatus.USER_CANCELED)
    rig.rounds()
    rig.skip(61)  # nothing is to come of a keeper
    runs_as(rig, trial, 2)
    assert trial.status == "WAITING"


def test_a_frozen_trial_is_stopped_with_its_experiment(rig: Rig) -> None:
    trial = one_trial(rig)
    report(trial, 0.5, end=False)
    freeze(trial)
    frozen(trial)
    intents.stop(trial.experiment)
    rig.until(lambda: Experiment.objects.get(pk=trial.experiment_id).status == "STOPPED")
    trial.refresh_from_db()
    assert trial.status == "USER_CANCELED"


def test_a_pause_that_freezes_is_ended_by_resume_and_leaves_alone_what_a_person_froze(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=2)
    first, second = rig.submitted(experiment, 2)
    for trial in (first, second):
        report(trial, 0.5, end=False)
    freeze(first)
    intents.pause(experiment, freeze=True)
    for trial in (first, second):
        frozen(trial)
    intents.resume(experiment)
    runs_as(rig, second, 2)
    first.refresh_from_db()
    assert (first.target, second.target, len(stages(first))) == ("FROZEN", "RUN", 1)


def test_one_that_is_thawed_before_it_has_ended_waits_for_the_paused_experiment(rig: Rig) -> None:
    trial = one_trial(rig)
    report(trial, 0.5, end=False)
    freeze(trial)
    intents.pause(trial.experiment)
    thaw(trial)
    frozen(trial)
    trial.refresh_from_db()
    assert (trial.status, trial.reason, trial.reason_arguments["status"]) == ("WAITING", "experiment_held", "PAUSED")
    intents.resume(trial.experiment)
    trial.refresh_from_db()
    assert trial.reason == "free_slot"


def test_how_long_it_ran_before_it_was_frozen_counts_towards_its_time_limit(rig: Rig) -> None:
    trial = one_trial(rig, max_trial_duration=3600)
    report(trial, 0.5, end=False)
    freeze(trial)
    frozen(trial)
    Attempt.objects.filter(trial=trial).update(duration=3000.0)
    thaw(trial)
    runs_as(rig, trial, 2)
    attempt = Attempt.objects.select_related("trial__experiment__code").get(trial=trial, number=2)
    form = application_form(attempt, None, DocileTrainingService, KeeperAccess(urls=(), token=""))
    assert form.limits.max_trial_duration == 600
