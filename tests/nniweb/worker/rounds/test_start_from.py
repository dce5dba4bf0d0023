"""Experiments that start from the results of earlier ones: what their tuners propose, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from nniweb.documents.started_from import started_from
from nniweb.experiments.earlier.source_results import results_for
from nniweb.experiments.earlier.start_from import Taken, keep
from nniweb.experiments.models import EarlierExperiment, Experiment, Trial, TrialParameters
from nniweb.experiments.retention.removal import Pace
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.worker.housekeeping.remove_rows import remove_rows_of
from tests.nniweb.worker.conftest import Rig, end, report

SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "uniform", "_value": [0, 1]}}
POINTS = [{"x": x / 7, "y": y / 7} for x in range(8) for y in range(8)]


def value(point: dict[str, Any]) -> float:
    return float((point["x"] - 3 / 7) ** 2 + (point["y"] - 5 / 7) ** 2)


def ended(experiment: Experiment, points: list[dict[str, Any]], of: Callable[[dict[str, Any]], float] = value) -> None:
    for number, point in enumerate(points):
        trial = Trial.objects.create(experiment=experiment, sequence_id=number, status="SUCCEEDED",
                                     created_at=timezone.now(), final_number=of(point), taught=True)
        TrialParameters.objects.create(trial=trial, parameter_id=number, value=point)


@pytest.fixture
def earlier(rig: Rig) -> Experiment:
    found = rig.experiment(status="DONE", search_space=SPACE)
    ended(found, POINTS)
    return found


def started(rig: Rig, earlier: Experiment, **fields: Any) -> Experiment:
    made = rig.experiment(search_space=SPACE, tuner={"name": "TPE"}, trial_concurrency=1, max_trial_number=40,
                          config={"startFrom": [earlier.public_id]}, **fields)
    found = results_for(earlier, parse_search_space(SPACE))
    keep(made, [Taken(earlier.public_id, earlier.name, found)], None)
    return made


def run(rig: Rig, experiment: Experiment, numbers: range, of: Callable[[dict[str, Any]], float] = value
        ) -> list[dict[str, Any]]:
    """The parameters of these trials, which run one after the other and report their values."""
    points = []
    for number in numbers:
        trial = rig.submitted(experiment, number + 1)[number]
        points.append(trial.parameter_sets.get().value)
        report(trial, of(points[-1]))
        end(rig, trial)
        rig.until(Trial.objects.filter(pk=trial.pk, taught=True).exists)
    return points


def test_the_best_earlier_point_comes_first_and_agreement_is_kept(rig: Rig, earlier: Experiment) -> None:
    experiment = started(rig, earlier)
    points = run(rig, experiment, range(8))
    assert points[0] == pytest.approx({"x": 3 / 7, "y": 5 / 7})
    row = EarlierExperiment.objects.get(experiment=experiment)
    assert row.compared >= 7
    assert row.weight > 0.5
    [shown] = started_from(experiment)
    assert (shown["id"], shown["taken"], shown["available"]) == (earlier.public_id, 64, 64)
    assert shown["reason"]["code"] == "earlier_agrees"


def test_results_that_mislead_are_not_used_for_long(rig: Rig, earlier: Experiment) -> None:
    experiment = started(rig, earlier)
    run(rig, experiment, range(10), lambda point: -value(point))
    row = EarlierExperiment.objects.get(experiment=experiment)
    assert row.correlation is not None
    assert row.correlation < 0
    assert row.weight == 0
    assert started_from(experiment)[0]["reason"]["code"] == "earlier_disagrees"


def test_what_becomes_of_the_earlier_experiment_changes_nothing(rig: Rig, earlier: Experiment) -> None:
    first = run(rig, started(rig, earlier, seed=5), range(6))
    deleted = started(rig, earlier, seed=5)
    assert remove_rows_of(earlier, timezone.now(), Pace(sleep=lambda seconds: None), lambda: False)
    Experiment.objects.filter(pk=earlier.pk).delete()
    again = run(rig, deleted, range(3))
    rig.runner.work.tuners.forget(deleted.pk)  # its tuner is made again from the record
    again += run(rig, deleted, range(3, 6))
    assert again == first


def test_what_was_taken_goes_with_its_experiment(rig: Rig, earlier: Experiment) -> None:
    experiment = started(rig, earlier, status="DONE")
    assert remove_rows_of(experiment, timezone.now(), Pace(sleep=lambda seconds: None), lambda: False)
    assert not EarlierExperiment.objects.exists()
