"""Every tuner that learns finds the best region sooner than chance does: medians over twenty fixed seeds."""

import functools
import math
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from tests.nniweb.tuning.test_tuners import MIXED, QUADRATIC, make, mixed, quadratic

SEEDS = 20
TRIALS = 45
Value = Callable[[dict[str, Any]], float]
PROBLEMS: dict[str, tuple[Any, Value]] = {"quadratic": (QUADRATIC, quadratic), "mixed conditional": (MIXED, mixed)}
# Half of BOHB's trials try a configuration again, with more budget.
MORE = {"BOHB": 2}
SLOW: list[tuple[str, dict[str, Any]]] = [
    ("TPE", {}),
    ("BOHB", {}),
    ("GP", {}),
    ("GP", {"utility": "ucb", "kappa": 2.0}),
    ("GP", {"utility": "poi", "xi": 0.01}),
    ("SMAC", {}),
    ("Metis", {}),
    ("Metis", {"no_resampling": False}),
    ("DNGO", {"trials_per_update": 3, "num_epochs_per_training": 200}),
]


def best_of(name: str, args: dict[str, Any], problem: str, seed: int, mode: str) -> float:
    """The lowest value among the first trials, which a tuner that maximizes is told the negative of."""
    raw, value = PROBLEMS[problem]
    sign = 1 if mode == "minimize" else -1
    tuner, best = make(name, {**args, "optimize_mode": mode}, raw, seed), math.inf
    for number in range(TRIALS * MORE.get(name, 1)):
        parameters = tuner.ask(number)
        result = value(parameters)
        best = min(best, result)
        tuner.tell(number, parameters, sign * result, "SUCCEEDED")
    return best


@functools.cache
def chance(problem: str) -> float:
    return statistics.median(best_of("Random", {}, problem, seed, "minimize") for seed in range(SEEDS))


def median(name: str, args: dict[str, Any], problem: str, mode: str = "minimize") -> float:
    return statistics.median(best_of(name, args, problem, seed, mode) for seed in range(SEEDS))


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(("name", "args"), [("Anneal", {}), ("Evolution", {"population_size": 8})])
def test_a_light_tuner_finds_the_best_region_better_than_random(name: str, args: dict[str, Any], problem: str) -> None:
    assert median(name, args, problem) < chance(problem) * 0.75


def test_tpe_finds_the_best_region_better_than_random() -> None:
    assert median("TPE", {}, "quadratic") < chance("quadratic") / 2


@pytest.mark.parametrize("name", ["Anneal", "Evolution"])
def test_a_tuner_that_maximizes_does_as_well(name: str) -> None:
    args = {"population_size": 8} if name == "Evolution" else {}
    assert median(name, args, "quadratic", "maximize") == median(name, args, "quadratic", "minimize")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(("name", "args"), SLOW)
def test_a_heavy_tuner_finds_the_best_region_better_than_random(name: str, args: dict[str, Any], problem: str) -> None:
    assert median(name, args, problem) < chance(problem) * 0.9


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["TPE", "GP", "SMAC", "Metis", "DNGO"])
def test_a_heavy_tuner_that_maximizes_does_as_well(name: str) -> None:
    args = {"trials_per_update": 4, "num_epochs_per_training": 100} if name == "DNGO" else {}
    assert median(name, args, "quadratic", "maximize") < chance("quadratic") * 0.75
