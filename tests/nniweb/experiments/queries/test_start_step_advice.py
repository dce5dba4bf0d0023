"""What an experiment's page and REST say of Medianstop's start_step."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from nniweb.experiments.models import Attempt, Experiment, Metric, User
from nniweb.experiments.queries import start_step
from nniweb.experiments.queries.start_step import StartStepAdvice, start_step_advice

pytestmark = pytest.mark.django_db
Make = Callable[..., Experiment]
MakeAttempt = Callable[..., Attempt]


@pytest.fixture
def ended(make_experiment: Make, make_attempt: MakeAttempt) -> Callable[..., Experiment]:
    """An experiment with Medianstop whose trials ended: one in ten starts slowly and is the best."""

    def ended(count: int, status: str = "SUCCEEDED", **class_args: Any) -> Experiment:
        experiment = make_experiment(optimize_mode="maximize", assessor={
            "name": "Medianstop", "class_args": class_args})
        for number in range(count):
            curve = [1.0, 2.0, 8.5, 9.0 + number] if number % 10 == 0 else [5.0, 6.0, 7.0, 7.5]
            attempt = make_attempt(experiment, status=status, final_number=curve[-1])
            type(attempt.trial).objects.filter(pk=attempt.trial_id).update(intermediate_count=len(curve))
            Metric.objects.bulk_create(Metric(
                attempt=attempt, n=step, kind="PERIODICAL", sequence=step, value=str(value), number=value,
                recorded_at=attempt.created_at, received_at=attempt.created_at) for step, value in enumerate(curve))
        return experiment

    return ended


def test_a_start_step_that_loses_slow_starters_is_advised_against(ended: Callable[..., Experiment]) -> None:
    assert start_step_advice(ended(20)) == StartStepAdvice(set_to=0, suggested=3, lost=2, best=4, curves=20)
    assert start_step_advice(ended(20, start_step="auto")) == StartStepAdvice(
        set_to=None, suggested=3, lost=2, best=4, curves=20)


def test_one_that_is_later_than_it_need_be_is_named_and_the_right_one_is_not(ended: Callable[..., Experiment]) -> None:
    assert start_step_advice(ended(20, start_step=4)) == StartStepAdvice(
        set_to=4, suggested=3, lost=0, best=4, curves=20)
    assert start_step_advice(ended(20, start_step=3)) is None


def test_nothing_is_said_after_few_trials_or_with_another_assessor(ended: Callable[..., Experiment]) -> None:
    assert start_step_advice(ended(start_step.FEWEST_CURVES - 1)) is None
    assert start_step_advice(ended(20, status="FAILED")) is None
    experiment = ended(20)
    experiment.assessor = {"name": "Curvefitting", "class_args": {}}
    assert start_step_advice(experiment) is None
    experiment.assessor = None
    assert start_step_advice(experiment) is None


def test_however_many_trials_there_are_a_bounded_number_of_values_is_read(
    ended: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_step, "MOST_VALUES", 48)
    with CaptureQueriesContext(connection) as queries:
        advice = start_step_advice(ended(30))
    assert advice is not None
    assert advice.curves == 48 // 4
    asked = [query["sql"] for query in queries if query["sql"].startswith(("SELECT", "DECLARE"))]
    assert len([sql for sql in asked if "experiments_metric" in sql]) == 1


def test_page_and_rest_say_the_same(ended: Callable[..., Experiment], admin: User) -> None:
    experiment = ended(20)
    client = Client()
    client.force_login(admin)
    page, rest = (f"/experiments/{experiment.public_id}/intermediate/",
                  f"/api/v1/experiments/{experiment.public_id}/start-step/")
    said = client.get(page).content.decode()
    assert "Of the 4 best of 20 trials that succeeded, Medianstop would have stopped 2 with start_step 0" in said
    assert "With start_step 3 it would have stopped none" in said
    assert client.get(rest).json() == {"advice": {"start_step": 0, "suggested": 3, "lost": 2, "best": 4, "trials": 20}}
    Experiment.objects.filter(pk=experiment.pk).update(assessor={"name": "Medianstop", "class_args": {"start_step": 3}})
    assert 'id="start-step"' not in client.get(page).content.decode()
    assert client.get(rest).json() == {"advice": None}
