"""Points that a person gives are proposed first, by every tuner, and no tuner repeats them."""

from typing import Any

import pytest

from nniweb.tuning.algorithms import TUNERS, start_points_problem
from nniweb.tuning.process.experiment_tuning import ExperimentTuning
from nniweb.tuning.search_space.space import point_key

SPACE: dict[str, Any] = {"x": {"_type": "uniform", "_value": [0, 1]}, "n": {"_type": "randint", "_value": [0, 20]}}
SMALL: dict[str, Any] = {"a": {"_type": "choice", "_value": [1, 2, 3]}, "b": {"_type": "choice", "_value": [1, 2]}}
LIST: dict[str, Any] = {"sets": {"_type": "choice", "_value": [{"a": 1}, {"a": 2}, {"a": 3}]}}
POINTS = [{"x": 0.25, "n": 3}, {"x": 0.5, "n": 7}, {"x": 0.75, "n": 11}]
NAMES = [tuner.name for tuner in TUNERS if not tuner.takes_a_list and not start_points_problem(tuner)]
ARGUMENTS: dict[str, dict[str, Any]] = {
    "DNGO": {"num_epochs_per_training": 20}, "GP": {"selection_num_warm_up": 200}, "NSGAII": {"population_size": 4}}


def tuning(name: str = "TPE", space: dict[str, Any] = SPACE, points: Any = POINTS, **more: Any) -> ExperimentTuning:
    return ExperimentTuning({
        "search_space": space, "tuner": {"name": name, "class_args": ARGUMENTS.get(name, {})}, "assessor": None,
        "optimize_mode": "minimize", "seed": 5, "start_points": points, **more})


def asked(experiment: ExperimentTuning, first: int, count: int) -> list[dict[str, Any]]:
    return list(experiment.ask(first, count)["parameters"])


def tell(experiment: ExperimentTuning, number: int, point: dict[str, Any]) -> dict[str, Any]:
    event = {"number": number, "parameters": point, "value": abs(point["x"] - 0.3) + point["n"], "status": "SUCCEEDED"}
    experiment.tell(**event)
    return {"event": "tell", **event}


@pytest.mark.parametrize("name", NAMES)
def test_they_come_first_and_what_follows_a_restart_is_the_same(name: str) -> None:
    experiment, history = tuning(name), []
    for number in range(14):
        [point] = asked(experiment, number, 1)
        history.append({"event": "ask", "number": number, "parameters": point})
        if number < len(POINTS):
            assert point == POINTS[number]
        if number != 1:  # one of them runs for long
            history.append(tell(experiment, number, point))
        restarted = tuning(name)
        restarted.restore(history)
        assert asked(restarted, number + 1, 1) == asked(experiment, number + 1, 1)
    points = [point_key(event["parameters"]) for event in history if event["event"] == "ask"]
    assert len(set(points)) == len(points)


@pytest.mark.parametrize("name", ["GridSearch", "Random", "TPE"])
def test_a_space_that_can_be_exhausted_has_each_point_once(name: str) -> None:
    experiment = tuning(name, SMALL, [{"a": 3, "b": 2}, {"a": 1, "b": 1}])
    answer = experiment.ask(0, 10)
    assert answer["exhausted"]
    assert answer["parameters"][:2] == [{"a": 3, "b": 2}, {"a": 1, "b": 1}]
    assert len({point_key(point) for point in answer["parameters"]}) == len(answer["parameters"]) == 6


def test_a_list_begins_with_them_and_has_each_set_once() -> None:
    answer = tuning("BatchTuner", LIST, [{"a": 3}]).ask(0, 10)
    assert answer["parameters"] == [{"a": 3}, {"a": 1}, {"a": 2}]
    assert answer["exhausted"]


def test_one_that_a_new_search_space_does_not_have_is_left_out() -> None:
    experiment = tuning()
    assert asked(experiment, 0, 1) == POINTS[:1]
    experiment.update_search_space({**SPACE, "n": {"_type": "randint", "_value": [8, 20]}})
    second, third = asked(experiment, 1, 2)
    assert second != POINTS[1]
    assert second["n"] >= 8
    assert third == POINTS[2]


def test_an_advisor_chosen_since_the_launch_proposes_by_itself() -> None:
    [point] = asked(tuning("Hyperband"), 0, 1)
    assert "TRIAL_BUDGET" in point


def test_a_tuner_that_chooses_among_others_still_says_which_one() -> None:
    experiment = tuning("Auto")
    experiment.ask(0, len(POINTS))
    assert experiment.ask(len(POINTS), 1)["chosen"]["tuner"]
