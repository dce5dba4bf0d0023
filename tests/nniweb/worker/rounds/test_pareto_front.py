"""Trials of an experiment with several objectives: the front is marked as they end, and what is missing is said."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from nniweb.client.words import front_lines
from nniweb.experiments.actions.imported_results import import_results
from nniweb.experiments.charts.pareto_chart import pareto_chart_of
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Experiment, Trial, TunerEvent
from nniweb.experiments.results.objectives import take_into_front, values_of
from nniweb.experiments.results.progress import progress_of
from nniweb.management.following import front_documents, progress_document
from tests.nniweb.worker.conftest import Rig, report

OBJECTIVES = [{"metric": "gain", "optimize_mode": "maximize"}, {"metric": "cost", "optimize_mode": "minimize"}]
SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}


def front(experiment: Experiment) -> list[int]:
    return sorted(Trial.objects.filter(experiment=experiment, on_front=True).values_list("sequence_id", flat=True))


def test_the_front_grows_and_forgets_as_trials_end(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=6, search_space=SPACE, objectives=OBJECTIVES,
                                tuner={"name": "TPE"}, optimize_mode="maximize", failed_trials={"tellTuner": "worst"})
    fronts = []
    for result in ({"gain": 1, "cost": 5}, {"gain": 2, "cost": 9}, {"gain": 0.5, "cost": 6},
                   {"gain": 2, "cost": 4, "size": 7}, {"gain": 3}, None):
        run_one(rig, experiment, result)
        fronts.append(front(experiment))
    assert fronts == [[0], [0, 1], [0, 1], [3], [3], [3]]
    lacking = Trial.objects.get(experiment=experiment, sequence_id=4)
    assert (lacking.status, "no finite number for the objective cost" in lacking.message) == ("SUCCEEDED", True)
    assert (lacking.reason, lacking.reason_arguments["missing"]) == ("objectives_missing", ["cost"])
    told = [event["values"] for event in TunerEvent.objects.filter(experiment=experiment, data__event="tell").order_by(
        "number").values_list("data", flat=True)]
    assert told == [[1, 5], [2, 9], [0.5, 6], [2, 4], None, [0.5, 9]]
    experiment.refresh_from_db()
    progress = progress_of([experiment], rig.runner.work.now())[experiment.pk]
    assert (progress.front, progress.best_value, progress.best_trial_id) == (1, None, None)
    head, line = front_lines(progress_document(experiment), front_documents(experiment))
    assert head == "Pareto front of gain (maximize), cost (minimize): 1 trial"
    assert "gain = 2, cost = 4; x=" in line
    chart = pareto_chart_of(experiment)
    assert [(point.sequence_id, point.on_front, point.values) for point in chart.points if point.on_front] == [
        (3, True, [2.0, 4.0])]
    assert [point.sequence_id for point in chart.points] == [0, 1, 2, 3]


def run_one(rig: Rig, experiment: Experiment, result: Any) -> None:
    place = Trial.objects.filter(experiment=experiment, taught=True).count()
    trial = rig.submitted(experiment, place + 1)[place]
    report(trial, *(() if result is None else (json.dumps(result),)), exit_code=1 if result is None else 0)
    rig.until(lambda: Trial.objects.get(pk=trial.pk).taught)


def test_a_tuner_that_is_made_again_goes_on_from_all_objectives(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=4, search_space=SPACE, objectives=OBJECTIVES,
                                tuner={"name": "NSGAII", "class_args": {"population_size": 2}},
                                optimize_mode="maximize")
    run_one(rig, experiment, {"gain": 1, "cost": 5})
    run_one(rig, experiment, {"gain": 2, "cost": 9})
    rig.runner.work.tuners.forget(experiment.pk)
    run_one(rig, experiment, {"gain": 2, "cost": 8})
    assert front(experiment) == [0, 2]
    experiment.refresh_from_db()
    assert experiment.status != "ERROR", experiment.message


@pytest.mark.django_db
def test_results_from_elsewhere_need_a_number_for_each_objective(make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment(objectives=OBJECTIVES, optimize_mode="maximize", tuner={"name": "TPE"})
    for wrong in (3, {"gain": 1}, {"default": 1}, '{"gain": 1, "cost": NaN}'):
        with pytest.raises(Refused, match="a finite number for each of gain, cost"):
            import_results(experiment, [{"parameter": {"x": 1}, "value": wrong}])
    assert import_results(experiment, [{"parameter": {"x": 1}, "value": {"gain": 1, "cost": 2}}]) == 1
    assert TunerEvent.objects.get().data["values"] == [1.0, 2.0]


@pytest.mark.django_db
def test_a_round_of_many_ends_marks_the_front_in_a_few_statements(
        make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Any],
        django_assert_max_num_queries: Callable[..., Any]) -> None:
    experiment = make_experiment(objectives=[OBJECTIVES[1]] + [OBJECTIVES[0]], optimize_mode="minimize")
    trials = [make_attempt(experiment, status="SUCCEEDED", final_number=float(place)).trial for place in range(20)]
    values = {trial.pk: [float(place), float(place % 7)] for place, trial in enumerate(trials)}
    with django_assert_max_num_queries(4):
        take_into_front(experiment, trials, values, 5)
    assert front(experiment) == [0, 1, 2, 3, 4, 5, 6]
    assert set(Trial.objects.filter(on_front=True).values_list("revision", flat=True)) == {5}
    assert values_of(experiment, trials)[trials[3].pk] == [3.0, None]
