"""Spaces like those of NNI's own tests: what NNI takes is taken, and every tuner stays within it."""

import math
from typing import Any

import numpy as np
import pytest

from nniweb.tuning import algorithms
from nniweb.tuning.search_space.grid import Grid
from nniweb.tuning.search_space.parser import parse_search_space

PARAMETERS: dict[str, list[Any]] = {
    "texts": ["choice", ["oak", "elm", "ash"]],
    "whole": ["choice", [12, 13, -1]],
    "mixed": ["choice", [0.3, "oak", 1, None]],
    "one option": ["choice", [1]],
    "below zero": ["randint", [-2, 3]],
    "one number": ["randint", [10, 11]],
    "range": ["uniform", [-1.0, 1.5]],
    "equal ends": ["uniform", [99.9, 99.9]],
    "steps": ["quniform", [0.0, 10.0, 2.5]],
    "clipped": ["quniform", [2.0, 10.0, 5.0]],
    "clipped below zero": ["quniform", [-5.5, -0.5, 6]],
    "equal ends, steps": ["quniform", [3, 3, 2]],
    "magnitudes": ["loguniform", [0.001, 100]],
    "equal ends, log": ["loguniform", [1, 1]],
    "magnitudes, steps": ["qloguniform", [0.001, 100, 1]],
    "equal ends, log, steps": ["qloguniform", [2, 2, 1]],
    "bell": ["normal", [-1.0, 5.0]],
    "bell, steps": ["qnormal", [-1.5, 5.0, 0.1]],
    "bell, log": ["lognormal", [-1.0, 5.0]],
    "bell, log, steps": ["qlognormal", [-1.5, 5.0, 0.1]],
}
SPACE = {name: {"_type": kind, "_value": value} for name, (kind, value) in PARAMETERS.items()}
ONE_VALUE = {"equal ends": 99.9, "equal ends, steps": 3.0, "equal ends, log": 1.0, "equal ends, log, steps": 2.0}


def is_near(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=1e-12)


@pytest.mark.parametrize("name", [one.name for one in algorithms.TUNERS if not one.takes_a_list and one.takes_results
                                  and one.name != algorithms.EXTERNAL])
def test_every_tuner_stays_within_what_it_takes(name: str) -> None:
    tuner = algorithms.find_tuner(name)
    space = parse_search_space({key: spec for key, spec in SPACE.items() if spec["_type"] in tuner.types})
    assert len(space.parameters) >= 12
    built = algorithms.build_tuner(name, {}, space, "maximize", 7)
    for number in range(25):
        point = built.ask(number)
        assert space.problems_with({key: value for key, value in point.items() if key != "TRIAL_BUDGET"}) == []
        assert all(is_near(point[key], value) for key, value in ONE_VALUE.items() if key in point)
        built.tell_event({"event": "tell", "number": number, "parameters": point, "value": float(number % 7),
                          "status": "SUCCEEDED"})


def test_equal_ends_leave_one_value_to_a_grid_and_to_chance() -> None:
    space = parse_search_space({key: SPACE[key] for key in ONE_VALUE})
    assert not space.is_endless()
    grid = Grid(space)
    assert grid.point(0) is not None
    assert grid.point(1) is None
    drawn = space.sample(np.random.default_rng(1))
    assert space.coordinates(drawn).keys() == space.coordinates(grid.point(0) or {}).keys()
    assert all(is_near(drawn[key], value) for key, value in ONE_VALUE.items())


def test_draws_as_large_as_a_logarithmic_bell_gives_are_multiples_of_the_step_where_floats_tell() -> None:
    space = parse_search_space({"x": SPACE["bell, log, steps"]})
    rng = np.random.default_rng(3)
    for _ in range(2000):
        point = space.sample(rng)
        assert space.contains(point)
        assert point["x"] >= 0
