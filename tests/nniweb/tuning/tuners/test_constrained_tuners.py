"""Constraints below every tuner: no proposal breaks one, the best allowed point is found, feasible results lead."""

import itertools
import math
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import optuna
import pytest

from nniweb.tuning.algorithms import EXTERNAL, TUNERS, build_tuner
from nniweb.tuning.search_space.space import NothingAllowed, Parameters
from nniweb.tuning.search_space.uninterpreted_space import read_space
from nniweb.tuning.tuner_base.learning_tuner import LearningTuner
from nniweb.tuning.tuner_base.tuner import NoMoreParameters, ResultsNeeded, Tuner

SPACES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "mixed": ({"layers": {"_type": "randint", "_value": [1, 20]},
               "units": {"_type": "choice", "_value": [16, 64, 256, 1024]},
               "lr": {"_type": "loguniform", "_value": [1e-5, 1]},
               "opt": {"_type": "choice", "_value": ["sgd", "adam"]},
               "momentum": {"_type": "uniform", "_value": [0, 1]}},
              ["layers * units <= 4096", "opt != 'sgd' or momentum > 0.2"]),
    "narrow": ({"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "normal", "_value": [0, 1]}},
               ["abs(x + y - 1) < 0.02"]),
    "nested": ({"o": {"_type": "choice", "_value": [
        {"_name": "adam", "beta": {"_type": "uniform", "_value": [0, 1]}},
        {"_name": "sgd", "m": {"_type": "quniform", "_value": [0, 0.9, 0.1]}}]},
        "w": {"_type": "qloguniform", "_value": [1, 1000, 1]}},
               ["o.m * w < 100", "o = 'sgd' or o.beta > 0.5", "w % 2 = 0"]),
    "divided": ({"a": {"_type": "randint", "_value": [0, 60]}, "b": {"_type": "randint", "_value": [0, 60]}},
                ["a / b >= 0.5", "a % 3 != 1", "a + b < 70"]),
}
#: Arguments that keep the slow ones quick.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "PBT": {"all_checkpoint_dir": "/checkpoints", "population_size": 10}, "NSGAII": {"population_size": 10},
    "DNGO": {"num_epochs_per_training": 30}, "GP": {"selection_num_warm_up": 300}}
#: All that propose something, and search a space.
NAMES = [tuner.name for tuner in TUNERS if not tuner.takes_a_list and tuner.name != EXTERNAL]
#: Those that cost a tenth of a second and more for each proposal.
SLOW = {"Auto", "GP", "Metis", "SMAC", "DNGO"}


def tuner_of(name: str, raw: Mapping[str, Any], texts: list[str], seed: int = 3, mode: str = "minimize") -> Tuner:
    space = read_space(raw, is_uninterpreted=False, constraints=texts)
    return build_tuner(name, ARGUMENTS.get(name, {}), space, mode, seed)


def value_of(point: Mapping[str, Any]) -> float:
    """Better the more constraints would be broken: small numbers, but much of layers, units, x and a."""
    numbers = {name: value for name, value in point.items() if isinstance(value, int | float)}
    return -sum(value if name in ("layers", "units", "x", "a", "w") else -value for name, value in numbers.items())


def proposals(tuner: Tuner, count: int) -> list[Parameters]:
    """So many, or until there are no more; every fifth trial gives no result."""
    made = []
    for number in range(count):
        try:
            point = tuner.ask(number)
        except (NoMoreParameters, NothingAllowed):
            break
        made.append(point)
        tuner.tell(number, point, None if number % 5 == 4 else value_of(point),
                   "FAILED" if number % 5 == 4 else "SUCCEEDED")
    return made


def broken(tuner: Tuner, points: list[Parameters]) -> list[Parameters]:
    return [point for point in points if not tuner.space.allows(point)]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("name", NAMES)
def test_no_proposal_breaks_a_constraint(name: str, space: str) -> None:
    tuner = tuner_of(name, *SPACES[space])
    made = proposals(tuner, 25 if name in SLOW else 60)
    assert broken(tuner, made) == []
    assert len(made) == (25 if name in SLOW else 60)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_none_of_10000_proposals_breaks_a_constraint() -> None:
    count = 0
    for name, space in itertools.product(NAMES, SPACES):
        tuner = tuner_of(name, *SPACES[space], seed=17)
        made = proposals(tuner, 80 if name in SLOW else 250)
        assert broken(tuner, made) == [], name
        count += len(made)
    assert count >= 10_000


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*SLOW, "GridSearch")])
def test_a_search_goes_on_where_random_draws_hit_nothing(name: str) -> None:
    """One random point in ten thousand is allowed, and there is no last one."""
    raw = {name: {"_type": "uniform", "_value": [0, 1]} for name in ("x", "y")}
    tuner = tuner_of(name, raw, ["x < 2e-4 and y < 0.5"])
    made = proposals(tuner, 12)
    assert broken(tuner, made) == []
    assert len(made) == 12
    if name not in ("Hyperband", "BOHB", "ASHA", "PBT"):
        assert len({str(point) for point in made}) == 12
        assert max(point["y"] for point in made) - min(point["y"] for point in made) > 0.1, "they spread"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("Hyperband", "BOHB", "ASHA", "PBT")])
def test_a_search_ends_when_every_allowed_point_was_tried(name: str) -> None:
    raw = {"a": {"_type": "randint", "_value": [0, 40]}, "b": {"_type": "randint", "_value": [0, 40]}}
    tuner = tuner_of(name, raw, ["a + b = 40", "a > b"])
    made = proposals(tuner, 60)
    assert sorted(point["a"] for point in made) == list(range(21, 40))


def test_a_list_is_run_without_what_constraints_forbid() -> None:
    sets = [{"a": 1}, {"a": 5}, {"a": 2, "b": 3}, {"a": 7}]
    tuner = tuner_of("BatchTuner", {"sets": {"_type": "choice", "_value": sets}}, ["a < 6", "b != 3"])
    assert proposals(tuner, 9) == [{"a": 1}, {"a": 5}]


@pytest.mark.parametrize("name", NAMES)
def test_with_constraints_of_both_kinds_a_restored_tuner_goes_on_the_same(name: str) -> None:
    def run(until: int, history: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
        tuner = tuner_of(name, *SPACES["mixed"])
        tuner.restore(history)
        events = list(history)
        for number in range(until, until + count):
            try:
                point = tuner.ask(number)
            except ResultsNeeded:
                break
            events.append({"event": "ask", "number": number, "parameters": point})
            if number % 3 != 1:  # some go on running
                event = {"event": "tell", "number": number, "parameters": point, "value": value_of(point),
                         "status": "SUCCEEDED", "violation": 0.25 if point["layers"] > 8 else 0.0}
                tuner.tell_event(event)
                events.append(event)
        return events

    count = 16 if name in SLOW else 30
    whole = run(0, [], count)
    asked = [place for place, event in enumerate(whole) if event["event"] == "ask"]
    cut = asked[min(12, len(asked) - 1)]
    assert run(whole[cut]["number"], whole[:cut], count - whole[cut]["number"]) == whole


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_the_best_allowed_point_is_found_within_100_trials(seed: int) -> None:
    """Maximize x + 2 y inside the circle of radius 1: sqrt(5) = 2.236; the corner (1, 1) of the square is outside."""
    raw = {"x": {"_type": "uniform", "_value": [-2, 2]}, "y": {"_type": "uniform", "_value": [-2, 2]}}
    tuner = tuner_of("TPE", raw, ["x**2 + y**2 <= 1"], seed=seed, mode="maximize")
    best = -math.inf
    for number in range(100):
        point = tuner.ask(number)
        value = point["x"] + 2 * point["y"]
        tuner.tell(number, point, value, "SUCCEEDED")
        best = max(best, value)
    assert best > 2.236 * 0.98


@pytest.mark.parametrize("name", ["TPE", "NSGAII", *(
    pytest.param(name, marks=pytest.mark.slow) for name in ("Anneal", "Evolution", "GP", "SMAC"))])
def test_a_search_stays_where_results_are_feasible_though_better_ones_are_not(name: str) -> None:
    """Minimize (x - 0.9)^2 + (y - 0.9)^2 where x + y <= 1 is needed of the result: 0.32 at (0.5, 0.5)."""
    raw = {"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "uniform", "_value": [0, 1]}}
    count = 50 if name in SLOW else 100
    best, feasible = [], 0
    for seed in range(3):
        tuner, found = tuner_of(name, raw, [], seed=seed), math.inf
        for number in range(count):
            point = tuner.ask(number)
            value, violation = (point["x"] - 0.9) ** 2 + (point["y"] - 0.9) ** 2, max(0.0, point["x"] + point["y"] - 1)
            tuner.tell(number, point, value, "SUCCEEDED", violation)
            found = min(found, value if violation == 0 else math.inf)
            feasible += number >= count - 20 and violation == 0
        best.append(found)
    assert np.median(best) < 0.38
    assert feasible >= 20  # of 60; near (0.9, 0.9) there is none


@pytest.mark.parametrize("told", [
    [(5.0, 0.0), (-100.0, 0.5), (7.0, 0.0), (-1.0, 0.1)], [(3.0, 0.9), (1.0, 0.2)], [(2.0, 0.0), (1.0, 0.3)],
    [(-1e308, 0.0), (1e308, 0.0), (0.0, 0.5)], [(0.0, 0.2), (0.0, 0.0), (50.0, 0.0), (1.0, 3.0), (-9.0, 0.0)]])
def test_feasible_results_rank_before_all_others_and_those_by_their_violation(told: list[tuple[float, float]]) -> None:
    tuner: Any = tuner_of("Anneal", {"x": {"_type": "uniform", "_value": [0, 1]}}, [])
    for number, (value, violation) in enumerate(told):
        tuner.tell(number, tuner.ask(number), value, "SUCCEEDED", violation)
    ranked = [tuner.records.index(record) for record in tuner.best(len(told))]
    assert [told[place] for place in ranked] == sorted(told, key=lambda one: (one[1], one[0] if one[1] == 0 else 0))
    assert all(math.isfinite(record.loss) for record in tuner.records)
    assert [record.loss for record, (value, violation) in zip(tuner.records, told, strict=True) if violation == 0] == [
        value for value, violation in told if violation == 0]


@pytest.mark.parametrize("name", ["Anneal", "TPE"])
def test_a_long_history_with_constraints_is_restored_quickly(name: str) -> None:
    tuner = tuner_of(name, *SPACES["mixed"])
    points = [tuner.space.sample(tuner.rng(number)) for number in range(3000)]
    began = time.process_time()
    tuner.restore({"event": kind, "number": number, "parameters": point, "value": float(number % 97),
                   "status": "SUCCEEDED", "violation": number % 3 / 10}
                  for number, point in enumerate(points) for kind in ("ask", "tell"))
    assert tuner.space.allows(tuner.ask(3000))
    assert time.process_time() - began < 10


def test_with_one_objective_tpe_proposes_as_optunas_rule_for_constraints_does() -> None:
    raw = {"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "uniform", "_value": [0, 1]}}
    tuner = tuner_of("TPE", raw, [])
    rng = np.random.default_rng(5)
    told = []
    for number in range(40):
        point = {"x": float(rng.random()), "y": float(rng.random())}
        told.append((point, value_of(point), max(0.0, point["x"] - 0.6)))
        tuner.note_asked(number, point)
        tuner.tell(number, *told[-1][:2], "SUCCEEDED", told[-1][2])
    seed = int(tuner.rng(40).integers(2**32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=1))
    unit = optuna.distributions.FloatDistribution(0, 1)
    space = {'["x"]': unit, '["y"]': unit}
    for point, value, violation in told:
        study.add_trial(optuna.trial.create_trial(value=value, params={'["x"]': point["x"], '["y"]': point["y"]},
                                                  distributions=space, constraints={"outcome": violation}))
    trial = study.ask()
    wanted = {"x": trial.suggest_float('["x"]', 0, 1), "y": trial.suggest_float('["y"]', 0, 1)}
    assert tuner.propose(40) == pytest.approx(wanted)


def test_a_result_that_breaks_a_constraint_is_never_on_the_front_and_no_parent_of_it() -> None:
    raw = {"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "uniform", "_value": [0, 1]}}
    for name in ("TPE", "NSGAII"):
        space = read_space(raw, is_uninterpreted=False)
        tuner: Any = build_tuner(name, ARGUMENTS.get(name, {}), space, "minimize", 1, ["minimize", "minimize"])
        late = []
        for number in range(60):
            point = tuner.ask(number)
            violation = max(0.0, 0.5 - point["x"])
            tuner.tell_event({"number": number, "parameters": point, "value": None, "status": "SUCCEEDED",
                              "values": [point["x"], point["y"]], **({"violation": violation} if violation else {})})
            late += [violation == 0] if number >= 30 else []
        assert all(tuner.records[place].violation == 0 for place in tuner.front.points)
        assert sum(late) > 0.6 * len(late)


def test_a_bracket_promotes_feasible_configurations_first() -> None:
    raw = {"x": {"_type": "uniform", "_value": [0, 1]}}
    tuner = build_tuner("Hyperband", {"R": 9, "eta": 3}, read_space(raw, is_uninterpreted=False), "minimize", 1)
    first = [tuner.ask(number) for number in range(9)]
    for number, point in enumerate(first):
        feasible = number in (2, 5)
        tuner.tell(number, point, 10.0 if feasible else -5.0, "SUCCEEDED", 0.0 if feasible else 1.0 - number / 10)
    promoted = [tuner.ask(9 + place)["x"] for place in range(3)]
    assert sorted(promoted) == sorted(first[place]["x"] for place in (2, 5, 8))


def test_a_population_takes_over_from_feasible_members() -> None:
    raw = {"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "uniform", "_value": [0, 1]}}
    tuner = build_tuner("PBT", {"all_checkpoint_dir": "/c", "population_size": 4, "fraction": 0.25},
                        read_space(raw, is_uninterpreted=False), "minimize", 1)
    for number in range(4):
        tuner.tell(number, tuner.ask(number), float(number), "SUCCEEDED", 0.0 if number == 3 else 0.5 + number / 10)
    loads = [tuner.ask(4 + place)["load_checkpoint_dir"] for place in range(4)]
    assert loads == ["/c/1/0", "/c/1/1", "/c/1/3", "/c/1/3"]


def test_without_constraints_a_search_is_as_it_was() -> None:
    """The losses of a learning tuner are what it was told as long as nothing violates anything."""
    raw = {"x": {"_type": "uniform", "_value": [0, 1]}}
    tuner = build_tuner("Anneal", {}, read_space(raw, is_uninterpreted=False), "maximize", 1)
    assert isinstance(tuner, LearningTuner)
    for number in range(5):
        tuner.tell(number, tuner.ask(number), float(number), "SUCCEEDED")
    assert [record.loss for record in tuner.records] == [0, -1, -2, -3, -4]
