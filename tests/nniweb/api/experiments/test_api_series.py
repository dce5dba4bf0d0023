"""Curves of several trials in one call."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.experiments.charts.intermediate_series import thinned
from nniweb.experiments.models import Attempt, Experiment, Metric, Trial, User

Make = Callable[..., Attempt]


def report(attempt: Attempt, values: list[float | None], sequences: list[int] | None = None) -> None:
    now, first = timezone.now(), attempt.metrics.count()
    Metric.objects.bulk_create(
        Metric(attempt=attempt, n=first + place, kind="PERIODICAL", value=str(value), number=value, recorded_at=now,
               sequence=place if sequences is None else sequences[place], received_at=now)
        for place, value in enumerate(values))
    Trial.objects.filter(pk=attempt.trial_id).update(intermediate_count=first + len(values))


def series(api: APIClient, experiment: Experiment, **query: Any) -> Any:
    answer = api.get(f"/api/v1/experiments/{experiment.public_id}/series/", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.fixture
def five(make_experiment: Callable[..., Experiment], make_attempt: Make) -> Experiment:
    """0.3, 0.1, stopped at 0.9, running, failed; each with two intermediate results but the failed one."""
    experiment = make_experiment()
    for status, final in [("SUCCEEDED", 0.3), ("SUCCEEDED", 0.1), ("EARLY_STOPPED", 0.9), ("RUNNING", None),
                          ("FAILED", None)]:
        attempt = make_attempt(experiment, status=status, final_number=final)
        if status != "FAILED":
            report(attempt, [1.0, 0.5])
    return experiment


def test_chosen_trials_come_in_the_order_they_were_asked_for(api: APIClient, five: Experiment) -> None:
    first, second = Trial.objects.order_by("sequence_id")[:2]
    answer = series(api, five, trials=f"{second.public_id},{first.public_id},t00000000000,{second.public_id}")
    assert answer["trials"] == [
        {"id": trial.public_id, "sequence_id": trial.sequence_id, "status": "SUCCEEDED", "final": trial.final_number,
         "steps": [0, 1], "values": [1.0, 0.5], "seconds": [0.0, 0.0], "left_out": 0,
             "removed_at": None} for trial in (second, first)]
    assert answer["total"] == 2
    by_number = series(api, five, trials=f"1,{first.public_id},0,77,9999999999")
    assert [trial["sequence_id"] for trial in by_number["trials"]] == [1, 0]


def test_points_say_how_long_after_the_start_they_came(api: APIClient, make_attempt: Make) -> None:
    attempt = make_attempt(status="RUNNING")
    report(attempt, [1.0, 0.5])
    began = attempt.metrics.earliest("n").recorded_at - timedelta(seconds=90)
    Attempt.objects.filter(pk=attempt.pk).update(started_at=began)
    attempt.metrics.filter(n=1).update(recorded_at=began + timedelta(seconds=100))
    [trial] = series(api, attempt.trial.experiment, which="running")["trials"]
    assert trial["seconds"] == [90.0, 100.0]


@pytest.mark.parametrize(("which", "expected"), [("top", [1, 0, 2]), ("running", [3]), ("stopped", [2]),
                                                 ("latest", [3, 2, 1, 0])])
def test_trials_are_chosen_by_what_they_are(api: APIClient, five: Experiment, which: str, expected: list[int]) -> None:
    answer = series(api, five, which=which)
    assert [trial["sequence_id"] for trial in answer["trials"]] == expected
    few = series(api, five, which=which, count=1)
    assert [trial["sequence_id"] for trial in few["trials"]] == expected[:1]
    assert few["total"] == len(expected)


def test_a_curve_is_the_last_attempts_with_the_last_value_of_each_step(api: APIClient, make_attempt: Make) -> None:
    first = make_attempt(status="RUNNING")
    report(first, [9.0, 9.0, 9.0])
    experiment, trial = first.trial.experiment, first.trial
    again = Attempt.objects.create(trial=trial, number=2, job_name="again", created_at=timezone.now())
    assert series(api, experiment, trials=trial.public_id)["trials"][0]["steps"] == []
    report(again, [1.0, 2.0, None, 3.0], [0, 1, 2, 0])
    found = series(api, experiment, trials=trial.public_id)["trials"][0]
    assert (found["steps"], found["values"]) == ([0, 1], [3.0, 2.0])


def test_a_long_curve_is_thinned_and_keeps_its_peaks(api: APIClient, make_attempt: Make) -> None:
    attempt = make_attempt()
    values = [float(number % 7) for number in range(1000)]
    values[400], values[733] = 100.0, -100.0
    report(attempt, list(values))
    found = series(api, attempt.trial.experiment, trials=attempt.trial.public_id, points=50)["trials"][0]
    assert len(found["steps"]) == len(found["values"]) <= 50
    assert found["left_out"] == 1000 - len(found["steps"])
    assert (found["steps"][0], found["steps"][-1]) == (0, 999)
    assert {(400, 100.0), (733, -100.0)} <= set(zip(found["steps"], found["values"], strict=True))
    assert found["steps"] == sorted(found["steps"])


@pytest.mark.parametrize("most", [4, 5, 17])
def test_a_thinned_curve_is_never_longer_than_asked(most: int) -> None:
    for length in range(60):
        curve = [(step, float(step * step % 11)) for step in range(length)]
        assert len(thinned(curve, most)) <= most
        assert not curve or thinned(curve, most)[-1] == curve[-1]


def test_the_number_of_queries_does_not_grow_with_the_curves(api: APIClient, five: Experiment,
                                                             make_attempt: Make) -> None:
    def queries(**query: Any) -> int:
        with CaptureQueriesContext(connection) as found:
            assert series(api, five, **query)["trials"]
        return len([query for query in found if 'FROM "experiments_trial"' in query["sql"]
                    or 'FROM "experiments_metric"' in query["sql"]])

    series(api, five, which="latest")
    for _ in range(30):
        report(make_attempt(five), [1.0])
    assert queries(which="latest", count=100) == queries(which="latest", count=1) == 2
    ids = ",".join(Trial.objects.values_list("public_id", flat=True))
    assert queries(trials=ids) == 2


@pytest.mark.parametrize(("query", "field"), [({}, "trials"), ({"which": "top", "trials": "t1"}, "trials"),
                                              ({"which": "worst"}, "which"), ({"which": "top", "points": 3}, "points"),
                                              ({"trials": ",".join(["t1"] * 101)}, "trials")])
def test_a_wrong_choice_is_refused_by_name(api: APIClient, five: Experiment, query: dict[str, Any], field: str
                                           ) -> None:
    answer = api.get(f"/api/v1/experiments/{five.public_id}/series/", query)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


def test_a_stranger_gets_no_curves(as_user: Callable[[User], APIClient], charlie: User, five: Experiment) -> None:
    assert as_user(charlie).get(
        f"/api/v1/experiments/{five.public_id}/series/", {"which": "top"}).status_code == 404
