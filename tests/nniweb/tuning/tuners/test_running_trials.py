"""What tuners make of trials that run: with several at once they search well, and alone as they always did."""

import functools
import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.search.objectives import OBJECTIVES
from benchmarks.search.runs import search
from benchmarks.search.searchers import ours
from nniweb.tuning.process.experiment_tuning import ExperimentTuning

#: Proposals before running trials were modelled in another way; ``at_once`` trials ran, of which the one at place
#: ``number * 7`` ended before proposal ``number``.
RECORDED = json.loads((Path(__file__).parents[3] / "recordings" / "tuners" / "proposals.json").read_text())
SPACES: dict[str, Any] = {
    "quadratic": {"x": {"_type": "uniform", "_value": [-5, 5]}, "y": {"_type": "loguniform", "_value": [0.001, 10]}},
    "mixed": {"lr": {"_type": "loguniform", "_value": [1e-5, 1]}, "layers": {"_type": "randint", "_value": [1, 9]},
              "act": {"_type": "choice", "_value": ["a", "b", "c"]},
              "q": {"_type": "quniform", "_value": [0, 10, 0.5]}},
    "nested": {"s": {"_type": "uniform", "_value": [0, 1]}, "m": {"_type": "choice", "_value": [
        {"_name": "one", "u": {"_type": "normal", "_value": [0, 2]}},
        {"_name": "two", "v": {"_type": "qloguniform", "_value": [1, 100, 1]},
         "w": {"_type": "randint", "_value": [0, 5]}}]}},
}


def leaves(parameters: dict[str, Any]) -> Iterator[Any]:
    for _, value in sorted(parameters.items()):
        if isinstance(value, dict):
            yield from leaves(value)
        else:
            yield value


def value(parameters: dict[str, Any]) -> float:
    return math.fsum((math.log(abs(leaf) + 0.1) - 0.3) ** 2 if isinstance(leaf, int | float)
                     else 0.1 * len(leaf) * ord(leaf[0]) / 97 for leaf in leaves(parameters))


def proposals(tuner: str, class_args: dict[str, Any], space: str, seed: int, count: int, at_once: int) -> list[Any]:
    tuning = ExperimentTuning({"search_space": SPACES[space], "tuner": {"name": tuner, "class_args": class_args},
                               "optimize_mode": "minimize", "seed": seed})
    running: list[tuple[int, dict[str, Any]]] = []
    found = []
    for number in range(count):
        while len(running) >= at_once:
            ended, parameters = running.pop((number * 7) % len(running))
            tuning.tell(number=ended, parameters=parameters, value=value(parameters), status="SUCCEEDED")
        [parameters] = tuning.ask(number, 1)["parameters"]
        found.append(parameters)
        running.append((number, parameters))
    return found


@pytest.mark.parametrize("recorded", [
    pytest.param(row, id=f"{row['tuner']} {row['space']} {row['at_once']} {index}")
    for index, row in enumerate(RECORDED)])
def test_what_was_good_is_proposed_as_before(recorded: dict[str, Any]) -> None:
    """One at a time, and several at once where NNI's rule for running trials is named."""
    found = proposals(recorded["tuner"], recorded["class_args"], recorded["space"], recorded["seed"],
                      len(recorded["proposals"]), recorded["at_once"])
    for one, other in zip(found, recorded["proposals"], strict=True):
        assert list(leaves(one)) == [leaf if isinstance(leaf, str) else pytest.approx(leaf, rel=1e-5, abs=1e-9)
                                     for leaf in leaves(other)]


def median_of_eight(name: str, seeds: int, trials: int, **args: Any) -> float:
    """The best of so many trials of a function in five dimensions, eight at once."""
    return statistics.median(search(OBJECTIVES["sphere"], ours(name, **args), seed, 8, (trials,)).best[0]
                             for seed in range(seeds))


@functools.cache
def tpe_with_eight() -> float:
    return median_of_eight("TPE", 7, 80)


@pytest.mark.slow
def test_with_eight_trials_at_once_tpe_is_much_better_than_random() -> None:
    assert tpe_with_eight() < median_of_eight("Random", 7, 80) / 4


@pytest.mark.slow
def test_with_eight_trials_at_once_nnis_lie_makes_tpe_worse() -> None:
    lying = {"tpe_args": {"constant_liar_type": "best"}}
    assert tpe_with_eight() < median_of_eight("TPE", 7, 80, **lying) / 2


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "args"), [("GP", {"selection_num_warm_up": 1000}), ("Metis", {})])
def test_with_eight_trials_at_once_a_gaussian_process_is_much_better_than_random(name: str,
                                                                                  args: dict[str, Any]) -> None:
    assert median_of_eight(name, 3, 50, **args) < median_of_eight("Random", 3, 50) / 10
