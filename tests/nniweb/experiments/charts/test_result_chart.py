"""What charts and sparklines get: thinned where there is much, the best always exact."""

import random
from collections.abc import Callable

import pytest
from django.utils import timezone

from nniweb.experiments.charts.result_chart import chart_of
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.results.best_so_far import MOST_POINTS, evenly, improvements_of

Make = Callable[..., Experiment]


def add_trials(experiment: Experiment, values: list[float | None], status: str = "SUCCEEDED") -> None:
    first = Trial.objects.filter(experiment=experiment).count()
    Trial.objects.bulk_create(
        Trial(experiment=experiment, sequence_id=first + number, final_number=value, status=status,
              created_at=timezone.now(), ended_at=timezone.now())
        for number, value in enumerate(values))


@pytest.mark.parametrize(("mode", "expected"), [("maximize", [(0, 2.0), (2, 3.0), (4, 5.0)]),
                                                ("minimize", [(0, 2.0), (1, 1.0), (3, 0.5)])])
def test_improvements_are_those_better_than_all_before(make_experiment: Make, mode: str,
                                                       expected: list[tuple[int, float]]) -> None:
    experiment = make_experiment(optimize_mode=mode)
    add_trials(experiment, [2.0, 1.0, 3.0, 0.5, 5.0, 5.0])
    add_trials(experiment, [100.0, -100.0], status="FAILED")
    assert improvements_of([experiment.pk]) == {experiment.pk: expected}


def test_all_sparklines_of_a_page_take_one_query(make_experiment: Make, django_assert_num_queries: Callable[..., object]
                                                 ) -> None:
    experiments = [make_experiment() for _ in range(3)]
    for experiment in experiments:
        add_trials(experiment, [3.0, 2.0, 1.0])
    with django_assert_num_queries(1):  # type: ignore[attr-defined]
        found = improvements_of([experiment.pk for experiment in experiments])
    assert found == {experiment.pk: [(0, 3.0), (1, 2.0), (2, 1.0)] for experiment in experiments}


def test_a_sparkline_has_few_points_and_keeps_both_ends(make_experiment: Make) -> None:
    experiment = make_experiment(optimize_mode="maximize")
    add_trials(experiment, [float(number) for number in range(500)])
    points = improvements_of([experiment.pk])[experiment.pk]
    assert len(points) == MOST_POINTS
    assert (points[0], points[-1]) == ((0, 0.0), (499, 499.0))


def test_few_are_all_kept() -> None:
    assert evenly([1, 2, 3], 3) == [1, 2, 3]
    assert evenly(range(10), 2) == [0, 9]


@pytest.mark.parametrize("mode", ["maximize", "minimize"])
def test_a_thinned_chart_keeps_every_improvement(make_experiment: Make, mode: str,
                                                 django_assert_num_queries: Callable[..., object]) -> None:
    experiment = make_experiment(optimize_mode=mode)
    chance = random.Random(7)
    add_trials(experiment, [None if chance.random() < 0.1 else chance.gauss(0, 1) for _ in range(3000)])
    add_trials(experiment, [None] * 5, status="RUNNING")
    with django_assert_num_queries(5):  # type: ignore[attr-defined]
        chart = chart_of(experiment, most=200)
    assert 100 < len([point for point in chart.points if point.value is not None]) <= 200
    assert chart.left_out == 3000 - len(chart.points)
    shown = {(point.sequence_id, point.value) for point in chart.points}
    improvements = improvements_of([experiment.pk], most=10_000)[experiment.pk]
    assert len(improvements) > 3
    assert set(improvements) <= shown
    order = [point.sequence_id for point in chart.points]
    assert order == sorted(order)


def test_a_small_chart_has_every_trial_that_has_something_to_show(make_experiment: Make) -> None:
    experiment = make_experiment()
    add_trials(experiment, [1.0, 2.0])
    add_trials(experiment, [None], status="FAILED")
    add_trials(experiment, [None], status="WAITING")
    add_trials(experiment, [None], status="RUNNING")
    Trial.objects.filter(status="RUNNING").update(latest_number=0.5)
    chart = chart_of(experiment)
    assert [(point.status, point.value, point.counts) for point in chart.points] == [
        ("SUCCEEDED", 1.0, True), ("SUCCEEDED", 2.0, True), ("FAILED", None, False), ("RUNNING", 0.5, False)]
    assert chart.left_out == 0
