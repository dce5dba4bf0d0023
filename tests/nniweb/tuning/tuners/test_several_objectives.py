"""Tuners for several objectives: near the front sooner than chance, and the same proposals after a restart."""

import statistics
import time
from typing import Any

import numpy as np
import pytest
from optuna._hypervolume import compute_hypervolume

from nniweb.tuning.algorithms import build_tuner
from nniweb.tuning.process.experiment_tuning import ExperimentTuning
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.tuner_base.pareto_front import ParetoFront, losses_of
from nniweb.tuning.tuner_base.several_objectives import ObjectivesTuner
from nniweb.tuning.tuner_base.tuner import Tuner
from tests.nniweb.tuning.tuners.test_tuners import FINITE, MIXED

#: ZDT1 with fewer variables: its front is second = 1 - sqrt(first), all further variables 0.
SIZE = 6
ZDT1 = {f"x{place}": {"_type": "uniform", "_value": [0, 1]} for place in range(SIZE)}
#: Both objectives at the worst; the front encloses 1 - 1/3 of the unit square below it, and 10.1 more up to here.
REFERENCE = np.array([1.1, 10.1])
ABLE = [("NSGAII", {"population_size": 6}), ("TPE", {"tpe_args": {"n_startup_jobs": 5}}), ("Random", {}),
        ("GridSearch", {})]


def zdt1(point: dict[str, Any]) -> list[float]:
    first = point["x0"]
    distance = 1 + 9 * sum(point[f"x{place}"] for place in range(1, SIZE)) / (SIZE - 1)
    return [first, distance * (1 - (first / distance) ** 0.5)]


def mixed(point: dict[str, Any]) -> list[float]:
    return [point["x"] + point["n"], -point["x"]]


def make(name: str, args: dict[str, Any], raw: Any, modes: tuple[str, ...] = ("minimize", "minimize"), seed: int = 7
         ) -> Tuner:
    return build_tuner(name, args, parse_search_space(raw), modes[0], seed, modes)


def tell(tuner: Tuner, number: int, point: dict[str, Any], values: list[float] | None) -> dict[str, Any]:
    event = {"event": "tell", "number": number, "parameters": point, "value": values[0] if values else None,
             "values": values, "status": "SUCCEEDED" if values else "FAILED"}
    tuner.tell_event(event)
    return event


def hypervolume(name: str, args: dict[str, Any], seed: int, trials: int) -> float:
    tuner, found = make(name, args, ZDT1, seed=seed), []
    for number in range(trials):
        point = tuner.ask(number)
        found.append(zdt1(point))
        tell(tuner, number, point, found[-1])
    return float(compute_hypervolume(np.array(found), REFERENCE))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "args"), [("NSGAII", {"population_size": 20}), ("TPE", {})])
def test_the_front_is_nearer_to_the_true_one_than_by_chance(name: str, args: dict[str, Any]) -> None:
    seeds = range(3)
    chance = statistics.median(hypervolume("Random", {}, seed, 150) for seed in seeds)
    found = statistics.median(hypervolume(name, args, seed, 150) for seed in seeds)
    best = 1.1 * 10.1 - 1 / 3
    assert found - chance > (best - chance) / 3, f"hypervolume {found:.3f}, by chance {chance:.3f}, at best {best:.3f}"


@pytest.mark.parametrize(("name", "args"), ABLE)
@pytest.mark.parametrize("raw", [ZDT1, MIXED])
def test_a_restarted_tuner_proposes_what_it_would_have_proposed(name: str, args: dict[str, Any], raw: Any) -> None:
    value = zdt1 if raw is ZDT1 else mixed
    tuner, events, running = make(name, args, raw), [], {}
    for number in range(16):
        point = running[number] = tuner.ask(number)
        events.append({"event": "ask", "number": number, "parameters": point})
        if number % 3 == 2:  # three at a time, of which one fails now and then
            for told in list(running):
                parameters = running.pop(told)
                events.append(tell(tuner, told, parameters, None if told % 7 == 6 else value(parameters)))
    again = make(name, args, raw)
    again.restore(events)
    expected = tuner.ask(16)
    assert again.ask(16) == expected
    # results in another order than that in which they came make no difference
    shuffled = make(name, args, raw)
    shuffled.restore([event for event in events if event["event"] == "ask"]
                     + [event for event in reversed(events) if event["event"] == "tell"])
    assert shuffled.ask(16) == expected


@pytest.mark.parametrize("name", ["NSGAII", "TPE"])
def test_a_finite_space_is_searched_without_repeats(name: str) -> None:
    tuner, seen = make(name, {}, FINITE), []
    for number in range(8):
        point = tuner.ask(number)
        assert point not in seen
        seen.append(point)
        tell(tuner, number, point, [float(point["n"]), -float(point["n"])])


def test_the_direction_of_each_objective_counts() -> None:
    tuner = make("NSGAII", {"population_size": 4}, ZDT1, ("maximize", "minimize"))
    assert isinstance(tuner, ObjectivesTuner)
    points = [tuner.ask(number) for number in range(3)]
    for number, values in enumerate([[1.0, 1.0], [2.0, 1.0], [3.0, 5.0]]):
        tell(tuner, number, points[number], values)
    assert sorted(tuner.front.points) == [1, 2]


def test_what_has_no_number_for_an_objective_is_no_result() -> None:
    tuner = make("TPE", {}, ZDT1)
    assert isinstance(tuner, ObjectivesTuner)
    tell(tuner, 0, tuner.ask(0), None)
    tell(tuner, 1, tuner.ask(1), [float("inf"), 1.0])
    assert (tuner.told, len(tuner.records), tuner.records[0].is_running) == (0, 2, False)


def test_nsga_searches_by_one_objective_too() -> None:
    tuner = build_tuner("nsga-ii", {"population_size": 5, "optimize_mode": "maximize"}, parse_search_space(ZDT1),
                        "maximize", 3)
    for number in range(20):
        point = tuner.ask(number)
        tuner.tell(number, point, point["x1"], "SUCCEEDED")
    assert isinstance(tuner, ObjectivesTuner)
    assert set(tuner.front.points.values()) == {min(record.losses or () for record in tuner.records)}


def test_the_tuner_process_builds_it_from_the_experiments_modes() -> None:
    tuning = ExperimentTuning({"search_space": ZDT1, "tuner": {"name": "TPE"}, "optimize_mode": "minimize", "seed": 1,
                               "objective_modes": ["minimize", "maximize"]})
    [point] = tuning.ask(0, 1)["parameters"]
    tuning.tell(number=0, parameters=point, value=1.0, values=[1.0, 2.0], status="SUCCEEDED")
    assert len(tuning.ask(1, 2)["parameters"]) == 2


def test_the_front_is_the_same_in_any_order() -> None:
    rng = np.random.default_rng(5)
    points = {place: losses_of(list(rng.integers(0, 12, 3) / 4), ["minimize", "maximize", "minimize"])
              for place in range(200)}
    fronts = []
    for order in (list(points), list(reversed(points)), list(rng.permutation(200))):
        front: ParetoFront[int] = ParetoFront()
        for place in order:
            front.add(int(place), points[int(place)])
        fronts.append(set(front.points))
    assert fronts[0] == fronts[1] == fronts[2]
    # by its definition: what is as good everywhere as a point, is that point's equal
    table = np.array(list(points.values()))
    expected = {place for place, losses in points.items()
                if not (((table <= losses).all(axis=1)) & ((table < losses).any(axis=1))).any()}
    assert fronts[0] == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NSGAII", "TPE"])
def test_a_proposal_after_ten_thousand_results_takes_a_moment(name: str) -> None:
    tuner = make(name, {}, ZDT1)
    rng = np.random.default_rng(1)
    points = [{f"x{place}": float(x) for place, x in enumerate(row)} for row in rng.random((10_000, SIZE))]
    tuner.restore([{"event": "tell", "number": number, "parameters": point, "value": 0.0, "values": zdt1(point),
                    "status": "SUCCEEDED"} for number, point in enumerate(points)])
    began = time.process_time()
    for number in range(10_000, 10_005):
        tuner.ask(number)
    seconds = (time.process_time() - began) / 5
    assert seconds < 2
