"""Every tuner that learns finds the best region sooner than chance does: medians over twenty fixed seeds.

Random search gets as many trials as the tuner that it is compared with; where trials have budgets (BOHB), as much
budget, each of its trials the largest one.
"""

import functools
import math
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from nniweb.tuning.tuners import tpe
from tests.nniweb.tuning.tuners.test_tuners import MIXED, QUADRATIC, make, mixed, quadratic

SEEDS = 20
#: Enough for the light ones, whose proposals cost nothing.
TRIALS = 45
#: Those with a model of the results need fewer, and each of their proposals costs a training; not the neural network.
FEW_TRIALS = {"DNGO": TRIALS}
FEW_TRIALS_OF_OTHERS = 25
#: Results that TPE models where it shall not model all: a third of what it does mostly, because each takes time.
PART_OF_HISTORY = 100
Value = Callable[[dict[str, Any]], float]
PROBLEMS: dict[str, tuple[Any, Value]] = {"quadratic": (QUADRATIC, quadratic), "mixed conditional": (MIXED, mixed)}
#: With as few candidates and trainings as still show what the model is worth.
SLOW: list[tuple[str, dict[str, Any]]] = [
    ("TPE", {}),
    ("GP", {"selection_num_warm_up": 1000}),
    ("GP", {"selection_num_warm_up": 1000, "utility": "ucb", "kappa": 2.0}),
    ("GP", {"selection_num_warm_up": 1000, "utility": "poi", "xi": 0.01}),
    ("SMAC", {}),
    ("Metis", {"selection_num_starting_points": 300}),
    ("Metis", {"selection_num_starting_points": 300, "no_resampling": False}),
    ("DNGO", {"trials_per_update": 3, "num_epochs_per_training": 100, "sample_size": 500}),
]


def best_of(name: str, args: dict[str, Any], problem: str, seed: int, trials: int) -> float:
    """The lowest value among the first trials."""
    raw, value = PROBLEMS[problem]
    tuner, best = make(name, {**args, "optimize_mode": "minimize"}, raw, seed), math.inf
    for number in range(trials):
        parameters = tuner.ask(number)
        result = value(parameters)
        best = min(best, result)
        tuner.tell(number, parameters, result, "SUCCEEDED")
    return best


#: Of BOHB's trials: a third, or a ninth, of a training shows what it will be worth as through a bad glass.
LARGEST_BUDGET = 9


def after(budget: int, value: float, parameters: dict[str, Any]) -> float:
    return value + (1 - budget / LARGEST_BUDGET) * (1 + math.sin(7 * parameters["x"]))


def best_of_bohb(problem: str, seed: int, whole_trials: int) -> float:
    """The lowest value of a whole training, for the price of so many of them."""
    raw, value = PROBLEMS[problem]
    tuner, best = make("BOHB", {"optimize_mode": "minimize", "max_budget": LARGEST_BUDGET}, raw, seed), math.inf
    left, number = whole_trials * LARGEST_BUDGET, 0
    while (parameters := tuner.ask(number))["TRIAL_BUDGET"] <= left:
        left -= parameters["TRIAL_BUDGET"]
        result = after(parameters["TRIAL_BUDGET"], value(parameters), parameters)
        if parameters["TRIAL_BUDGET"] == LARGEST_BUDGET:
            best = min(best, result)
        tuner.tell(number, parameters, result, "SUCCEEDED")
        number += 1
    return best


@functools.cache
def chance(problem: str, trials: int = TRIALS) -> float:
    return median("Random", {}, problem, trials)


def median(name: str, args: dict[str, Any], problem: str, trials: int = TRIALS) -> float:
    return statistics.median(best_of(name, args, problem, seed, trials) for seed in range(SEEDS))


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(("name", "args"), [("Anneal", {}), ("Evolution", {"population_size": 8})])
def test_a_light_tuner_finds_the_best_region_better_than_random(name: str, args: dict[str, Any], problem: str) -> None:
    assert median(name, args, problem) < chance(problem) * 0.75


@pytest.mark.slow
def test_tpe_finds_the_best_region_better_than_random() -> None:
    assert median("TPE", {}, "quadratic") < chance("quadratic") / 2


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_tpe_goes_on_finding_better_ones_where_it_models_a_part_of_the_history(problem: str,
                                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpe, "MODELLED_TRIALS", PART_OF_HISTORY)
    all_of_it, part_of_it = (
        statistics.median(best_of("TPE", {}, problem, seed, trials) for seed in range(6))
        for trials in (PART_OF_HISTORY, 3 * PART_OF_HISTORY))
    assert part_of_it < all_of_it / 2
    assert part_of_it < chance(problem, 3 * PART_OF_HISTORY) / 50


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_tpe_finds_as_good_ones_with_a_part_of_the_history_as_with_all_of_it(problem: str,
                                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    trials = 2 * tpe.MODELLED_TRIALS

    def typical() -> float:
        return statistics.median(math.log10(best_of("TPE", {}, problem, seed, trials)) for seed in range(8))

    part_of_it = typical()
    monkeypatch.setattr(tpe, "MODELLED_TRIALS", trials)
    all_of_it = typical()
    # in powers of ten: from one seed to the next values differ by one or two
    assert part_of_it < all_of_it + 0.5


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(("name", "args"), SLOW)
def test_a_heavy_tuner_finds_the_best_region_better_than_random(name: str, args: dict[str, Any], problem: str) -> None:
    trials = FEW_TRIALS.get(name, FEW_TRIALS_OF_OTHERS)
    assert median(name, args, problem, trials) < chance(problem, trials) * 0.9


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_bohb_finds_the_best_region_better_than_random_for_the_same_budget(problem: str) -> None:
    found = statistics.median(best_of_bohb(problem, seed, FEW_TRIALS_OF_OTHERS) for seed in range(SEEDS))
    assert found < chance(problem, FEW_TRIALS_OF_OTHERS) * 0.75


@pytest.mark.parametrize(("name", "args"), [("Anneal", {}), ("Evolution", {"population_size": 8}), ("BOHB", {}), *SLOW])
def test_a_tuner_that_maximizes_the_negative_tries_the_same_points(name: str, args: dict[str, Any]) -> None:
    """So it finds the best region as well as one that minimizes."""
    up, down = (make(name, {**args, "optimize_mode": mode}, MIXED, 3) for mode in ("maximize", "minimize"))
    for number in range(18):
        parameters = down.ask(number)
        assert up.ask(number) == parameters
        down.tell(number, parameters, mixed(parameters), "SUCCEEDED")
        up.tell(number, parameters, -mixed(parameters), "SUCCEEDED")
