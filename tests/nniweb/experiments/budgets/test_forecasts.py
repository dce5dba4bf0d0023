"""What an experiment will take: before its launch, and from its trials so far."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from nniweb.experiments.budgets.forecast import forecast, forecast_launch
from nniweb.experiments.budgets.forecast_words import amount_in_words, forecast_in_words
from nniweb.experiments.budgets.spending import Spending, Unit
from nniweb.experiments.lifecycle.transitions import end_attempt
from nniweb.experiments.lifecycle.trial_end import TrialEnd
from nniweb.experiments.models import Attempt, Budget, Cluster, Experiment, Price, User
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = pytest.mark.django_db
HOUR = 3_600_000


def ended(attempt: Attempt, seconds: float, **fields: Any) -> None:
    Attempt.objects.filter(pk=attempt.pk).update(started_at=timezone.now())
    assert end_attempt(attempt, TrialEnd(TrialJobStatus.SUCCEEDED, "", "exited", 0, seconds, by_keeper=True),
                       timezone.now(), revision=1)


@pytest.fixture
def half_way(make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt], admin: User
             ) -> Experiment:
    """Two of eight trials have ended, after an hour and after three; one runs."""
    experiment = make_experiment(owner=admin, gpus_of_a_trial=2, max_trial_number=8, trial_command="python train.py")
    Price.objects.create(cluster=experiment.cluster, gpu_hour=Decimal("0.5"))
    for seconds in (3600, 3 * 3600):
        ended(make_attempt(experiment), seconds)
    running = make_attempt(experiment)
    Attempt.objects.filter(pk=running.pk).update(started_at=timezone.now() - timedelta(hours=1))
    return Experiment.objects.get(pk=experiment.pk)


def launch(owner: User, cluster: Cluster, **fields: Any) -> Any:
    return forecast_launch(owner, None, None, **{
        "command": "python train.py", "cluster": cluster, "gpus": 4, "cpus": 2.0, "concurrency": 2, "max_trials": 3,
        "max_seconds": None, "max_trial_seconds": None, "now": timezone.now(), **fields})


def test_the_rest_is_expected_to_take_what_trials_took_so_far(half_way: Experiment, admin: User) -> None:
    budget = Budget.objects.create(user=admin, gpu_hours=Decimal(30), trials=100, period="total")
    found = forecast(half_way, timezone.now())
    assert (found.trials, found.seconds_per_trial, found.basis, found.known_trials) == (8, 7200.0, "trials", 2)
    assert found.used == Spending(2, 4 * HOUR, 8 * HOUR, 4000 * HOUR, 4_000_000)
    assert found.expected == Spending(8, 16 * HOUR, 32 * HOUR, 16_000 * HOUR, 16_000_000)
    [standing] = found.budgets
    assert (standing.held.budget, found.exceeds(standing)) == (budget, ["gpu_hours"])
    words = forecast_in_words(found)
    assert words[0] == ("Expected in all: 8 trials, 16 hours of trials, 32 GPU-hours, 16 of money (7200 s a trial, by "
                        "the 2 trials that have ended).")
    assert words[1].startswith("Of the budget of ada (30 GPU-hours in total), ")
    assert words[1].endswith("GPU-hours are left, which is less than expected: trials will wait.")


@pytest.mark.parametrize(("amount", "unit", "words"), [
    ("0", "trials", "0 trials"), ("1", "trials", "1 trial"), ("1.004", "wall_hours", "1 hour of trials"),
    ("0.0001", "wall_hours", "less than 0.01 hours of trials"), ("2.5", "gpu_hours", "2.5 GPU-hours"),
    ("1", "money", "1 of money")])
def test_an_amount_is_said_as_a_person_would(amount: str, unit: Unit, words: str) -> None:
    assert amount_in_words(Decimal(amount), unit) == words


def test_what_is_known_by_one_trial_is_said_so(make_experiment: Callable[..., Experiment],
                                               make_attempt: Callable[..., Attempt]) -> None:
    experiment = make_experiment()
    ended(make_attempt(experiment), 3600)
    [sentence] = forecast_in_words(forecast(experiment, timezone.now()))
    assert sentence.endswith("(3600 s a trial, by the trial that has ended).")


def test_the_time_limit_of_an_experiment_counts_and_without_limits_nothing_is_known(half_way: Experiment) -> None:
    Experiment.objects.filter(pk=half_way.pk).update(max_duration=4 * 3600.0, trial_concurrency=1, running_since=None,
                                                     running_seconds=0)
    half_way.refresh_from_db()
    assert forecast(half_way, timezone.now()).trials == 4
    Experiment.objects.filter(pk=half_way.pk).update(max_duration=None, max_trial_number=None)
    half_way.refresh_from_db()
    found = forecast(half_way, timezone.now())
    assert (found.trials, found.expected) == (None, None)
    assert forecast_in_words(found) == []
    Budget.objects.create(experiment=half_way, trials=9)
    assert forecast_in_words(forecast(half_way, timezone.now())) == [
        "What the experiment will take is not known: it has neither maxTrialNumber nor maxExperimentDuration."]


def test_what_has_ended_takes_what_it_took(half_way: Experiment) -> None:
    Experiment.objects.filter(pk=half_way.pk).update(status="DONE")
    found = forecast(Experiment.objects.get(pk=half_way.pk), timezone.now())
    assert found.expected == found.used + found.running


def test_before_a_launch_earlier_experiments_with_the_same_command_tell(half_way: Experiment, admin: User) -> None:
    found = launch(admin, half_way.cluster)
    assert (found.trials, found.seconds_per_trial, found.basis, found.known_trials) == (
        3, 7200.0, "earlier_experiments", 2)
    assert found.expected == Spending(3, 6 * HOUR, 24 * HOUR, 12_000 * HOUR, 12_000_000)
    assert launch(admin, half_way.cluster, max_seconds=7200.0).trials == 2
    stranger = User.objects.create(username="stranger")
    unknown = launch(stranger, half_way.cluster)
    assert (unknown.trials, unknown.seconds_per_trial, unknown.basis, unknown.expected) == (3, None, None, None)
    limited = launch(stranger, Cluster(name="new"), max_trial_seconds=1800.0)
    assert (limited.basis, limited.expected) == (
        "max_trial_duration", Spending(3, 3 * HOUR // 2, 6 * HOUR, 3000 * HOUR, 0))
    Budget.objects.create(trials=2)
    assert forecast_in_words(launch(stranger, half_way.cluster)) == [
        "What the experiment will take is not known: no earlier trial shows how long one takes."]


def test_rest_and_pages_show_it_and_to_others_not_the_budgets_of_the_owner(
        half_way: Experiment, admin: User, vision: Any, with_token: Callable[..., Any]) -> None:
    member = User.objects.create_user("mia", role="member")
    member.groups.add(vision)
    Experiment.objects.filter(pk=half_way.pk).update(group=vision)
    Budget.objects.create(user=admin, gpu_hours=Decimal(30), period="total")
    Budget.objects.create(trials=77)
    shared = Budget.objects.create(group=vision, trials=2)
    address = f"/api/v1/experiments/{half_way.public_id}/forecast/"
    document = with_token(admin).get(address).json()
    assert document["expected"] == {"gpu_hours": 32, "cpu_hours": 16, "trials": 8, "wall_hours": 16, "money": 16}
    assert [(one["user"], one["group"], one["exceeds"]) for one in document["budgets"]] == [
        ("ada", None, ["gpu_hours"]), (None, None, []), (None, "vision", ["trials"])]
    assert [one["id"] for one in with_token(member).get(address).json()["budgets"]] == [shared.pk]
    client = Client()
    client.force_login(member)
    page = client.get(f"/experiments/{half_way.public_id}/").content.decode()
    assert "The budget of the group vision" in page
    assert "(less than expected)" in page
    assert "the budget of ada" not in page.lower()
    usage = client.get("/usage/").content.decode()
    assert "The budget of the group vision" in usage
    assert "The budget that each person has" in usage
    assert "Ledger" not in usage, "what is in it was not shared with anybody then"
    client.force_login(admin)
    usage = client.get("/usage/").content.decode()
    assert f'<th scope="row">{timezone.now():%Y-%m}</th>' in usage
