"""Results of earlier experiments where several objectives are searched by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from nniweb.tuning.guidance.objective_directions import along, best_of_all_directions
from nniweb.tuning.process.experiment_tuning import ExperimentTuning
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.space import point_key
from nniweb.tuning.tuner_base.pareto_front import ParetoFront, dominates

SPACE: dict[str, Any] = {
    "lr": {"_type": "loguniform", "_value": [1e-5, 1]}, "layers": {"_type": "randint", "_value": [1, 9]},
    "act": {"_type": "choice", "_value": ["relu", "tanh"]}}
Point = dict[str, Any]
Values = list[float]
NAMES = ("Auto", "TPE", "NSGAII")
ARGUMENTS: dict[str, dict[str, Any]] = {"NSGAII": {"population_size": 4}}


def values(point: Point) -> Values:
    """Accuracy (more is better) and time (less is better)."""
    off = (math.log10(point["lr"]) + 2) ** 2 + (point["act"] == "relu")
    return [point["layers"] / (2 + point["layers"]) - 0.1 * off, point["layers"] + 0.2 * off]


def inverted(point: Point) -> Values:
    return [-value for value in values(point)]


def results(of: Callable[[Point], Values] = values, count: int = 60) -> list[Any]:
    chance, parsed = np.random.default_rng(2), parse_search_space(SPACE)
    points = [parsed.sample(chance) for _ in range(count)]
    return [[point, of(point)] for point in points]


def tuning(name: str = "TPE", earlier: Sequence[Any] = (), **more: Any) -> ExperimentTuning:
    return ExperimentTuning({
        "search_space": SPACE, "tuner": {"name": name, "class_args": ARGUMENTS.get(name, {})}, "assessor": None,
        "optimize_mode": "maximize", "objective_modes": ["maximize", "minimize"], "seed": 5, "earlier": earlier,
        **more})


def ask(experiment: ExperimentTuning, number: int) -> Point:
    [point] = experiment.ask(number, 1)["parameters"]
    return dict(point)


def tell(experiment: ExperimentTuning, number: int, point: Point, given: Values | None) -> dict[str, Any]:
    event = {"number": number, "parameters": point, "value": given[0] if given else None, "values": given,
             "status": "SUCCEEDED"}
    experiment.tell(**event)
    return {"event": "tell", **event}


def run(experiment: ExperimentTuning, count: int, of: Callable[[Point], Values] = values) -> list[Point]:
    points = []
    for number in range(count):
        points.append(ask(experiment, number))
        tell(experiment, number, points[-1], of(points[-1]))
    return points


def hypervolume(points: Sequence[Point]) -> float:
    """Of the box below accuracy 0 and time 10."""
    front: ParetoFront[int] = ParetoFront()
    for number, point in enumerate(points):
        accuracy, time = values(point)
        front.add(number, (-max(accuracy, 0.0), min(time, 10.0)))
    area, height = 0.0, 10.0
    for accuracy, time in sorted(front.points.values()):
        area += -accuracy * (height - time)
        height = time
    return area


@pytest.mark.parametrize("name", NAMES)
def test_it_opens_with_points_of_the_earlier_front_and_a_restart_changes_nothing(name: str) -> None:
    earlier = [results()]
    experiment, history = tuning(name, earlier), []
    running: list[tuple[int, Point]] = []
    for number in range(20):
        point = ask(experiment, number)
        history.append({"event": "ask", "number": number, "parameters": point})
        running.append((number, point))
        if len(running) == 4:  # four at a time; the second one ends first, and one of them fails
            ended, its = running.pop(1)
            history.append(tell(experiment, ended, its, None if ended == 3 else values(its)))
        restarted = tuning(name, earlier)
        restarted.restore(history)
        assert ask(restarted, number + 1) == ask(experiment, number + 1)
    points = [event["parameters"] for event in history if event["event"] == "ask"]
    assert len({point_key(point) for point in points}) == len(points)
    losses = {point_key(point): (-found[0], found[1]) for point, found in earlier[0]}
    opened = [losses[point_key(points[number])] for number in (0, 2)]
    assert not any(dominates(other, one) for one in opened for other in losses.values())


@pytest.mark.parametrize("name", NAMES)
def test_agreement_leads_most_proposals_and_finds_a_larger_front_sooner(name: str) -> None:
    led, alone = tuning(name, [results()]), tuning(name)
    found = [hypervolume(run(one, 18)) for one in (led, alone)]
    [agreement] = led.ask(18, 1)["agreements"]
    assert agreement["compared"] == 18
    assert agreement["weight"] > 0.7
    assert found[0] > found[1]


@pytest.mark.parametrize("name", NAMES)
def test_after_misleading_results_the_tuner_proposes_by_itself(name: str) -> None:
    misled, alone = tuning(name, [results(inverted)]), tuning(name)
    points = run(misled, 14)
    [agreement] = misled.ask(14, 1)["agreements"]
    assert agreement["correlation"] < 0
    assert agreement["weight"] == 0
    for number, point in enumerate(points):  # the tuner that was told the same proposes the same
        alone.restore([{"event": "ask", "number": number, "parameters": point}])
        tell(alone, number, point, values(point))
    assert ask(alone, 14) == ask(misled, 14)


def test_an_experiment_may_agree_in_one_objective_only() -> None:
    half = tuning("TPE", [results(lambda point: [values(point)[0], -values(point)[1]])])
    points = run(half, 18)
    [agreement] = half.ask(18, 1)["agreements"]
    assert 0.1 < agreement["weight"] < 0.6
    assert agreement["correlation"] > 0.3  # of the one in which it agrees
    assert hypervolume(points) > 0.9 * hypervolume(run(tuning("TPE"), 18))


def test_two_earlier_experiments_are_weighed_by_themselves() -> None:
    both = tuning("TPE", [results(inverted), results()])
    run(both, 14)
    first, second = both.ask(14, 1)["agreements"]
    assert (first["weight"], second["weight"] > 0.6) == (0.0, True)


def test_constraints_and_a_new_search_space_hold_for_what_follows_from_earlier_results() -> None:
    led = tuning("TPE", [results()], constraints=["layers <= 5"])
    points = run(led, 12)
    led.update_search_space({**SPACE, "layers": {"_type": "randint", "_value": [1, 3]}})
    later = []
    for number in range(12, 20):
        later.append(ask(led, number))
        tell(led, number, later[-1], values(later[-1]))
    assert all(point["layers"] <= 5 for point in points)
    assert all(point["layers"] < 3 for point in later)


def test_results_of_which_none_is_feasible_are_searched_all_the_same() -> None:
    led, count = tuning("TPE", [results()]), 10
    for number in range(count):
        point = ask(led, number)
        led.tell(number=number, parameters=point, value=1.0, values=values(point), status="SUCCEEDED",
                 violation=1.0 + number)
    assert ask(led, count)


@pytest.mark.parametrize("objectives", [2, 3])
def test_the_front_comes_first_in_the_order_of_all_directions(objectives: int) -> None:
    losses = np.random.default_rng(1).random((60, objectives)) * [1, 1000, 0.001][:objectives]
    order = best_of_all_directions(losses)
    assert sorted(order) == list(range(60))
    best = {int(losses[:, column].argmin()) for column in range(objectives)}
    assert best <= set(order[:objectives + 1])
    first = order[:6]
    assert not any(dominates(losses[other], losses[one]) for one in first for other in range(60))


def test_a_direction_counts_the_worst_objective_most() -> None:
    found = along(np.array([[0.5, 0.5], [0.0, 1.0], [0.5, 0.4]]), np.array([0.5, 0.5]))
    assert found.argsort().tolist() == [2, 0, 1]
