"""Grids of which constraints leave a few points: these are found, wherever in the grid they are."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest

from nniweb.tuning.constraints.constraint import read_constraint
from nniweb.tuning.constraints.ranges import Range
from nniweb.tuning.process.experiment_tuning import ExperimentTuning
from nniweb.tuning.search_space import grid
from nniweb.tuning.search_space.grid import Grid
from nniweb.tuning.search_space.uninterpreted_space import read_space
from tests.own_time import takes_at_most

HUNDRED = {name: {"_type": "randint", "_value": [0, 100]} for name in "abc"}


def grid_search(space: dict[str, Any], *constraints: str) -> ExperimentTuning:
    return ExperimentTuning({"search_space": space, "tuner": {"name": "GridSearch", "class_args": {}}, "seed": 3,
                             "optimize_mode": "minimize", "constraints": constraints})


def proposals(tuning: ExperimentTuning, most: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for number in range(most):
        answer = tuning.ask(number, 1)
        if answer["exhausted"]:
            break
        [point] = answer["parameters"]
        tuning.tell(number=number, parameters=point, value=1.0, status="SUCCEEDED")
        found.append(tuple(point.values()))
    return found


@pytest.mark.parametrize(("text", "wanted"), [
    ("a + b + c >= 295", {point for point in itertools.product(range(90, 100), repeat=3) if sum(point) >= 295}),
    ("a * b * c = 99 * 98 * 97", set(itertools.permutations((97, 98, 99)))),
    ("max(a, b, c) < 2 and not a + b + c < 2", {(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1)}),
    ("abs(a - 70) + abs(b - 80) + sqrt(c) <= 1", {(70, 80, 0), (70, 80, 1), (69, 80, 0), (71, 80, 0), (70, 79, 0),
                                                  (70, 81, 0)}),
    ("a ** 2 + b ** 2 + c ** 2 >= 29200", {point for point in itertools.product(range(90, 100), repeat=3)
                                           if sum(one**2 for one in point) >= 29200}),
    ("a in (98, 99) and b / (c + 1) > 90", {(a, b, 0) for a in (98, 99) for b in range(91, 100)}),
])
def test_all_of_a_few_allowed_points_among_a_million_are_tried_once(text: str, wanted: set[Any]) -> None:
    began = time.process_time()
    found = proposals(grid_search(HUNDRED, text), 200)
    assert (sorted(found), len(set(found))) == (sorted(wanted), len(found))
    assert time.process_time() - began < 20


def test_a_tiny_box_of_a_continuous_space_is_searched_by_its_grid() -> None:
    space = {name: {"_type": "uniform", "_value": [0, 1]} for name in "xyz"}
    constraints = ("abs(x - 0.31) < 0.004", "abs(y - 0.77) < 0.004", "z > 0.995")
    found = proposals(grid_search(space, *constraints), 20)
    assert len(set(found)) == 20
    # each value is a quantile of the grid: a multiple of a power of two
    assert all(value * 2**20 == int(value * 2**20) for point in found for value in point)


def test_where_the_next_point_of_the_grid_is_too_far_allowed_points_are_tried_all_the_same() -> None:
    space = {name: {"_type": "randint", "_value": [0, 1000]} for name in "abc"}
    text = "a % 1000 + b % 1000 + c % 1000 >= 2850"  # nothing is known of ranges of remainders
    began = time.process_time()
    tuning, history = grid_search(space, text), []
    for number in range(12):
        [point] = tuning.ask(number, 1)["parameters"]
        history += [{"event": "ask", "number": number, "parameters": point},
                    {"event": "tell", "number": number, "parameters": point, "value": 1.0, "status": "SUCCEEDED"}]
        tuning.tell(**{key: value for key, value in history[-1].items() if key != "event"})
    points = [tuple(event["parameters"].values()) for event in history if event["event"] == "ask"]
    assert len(set(points)) == 12
    assert all(sum(point) >= 2850 for point in points)
    restarted = grid_search(space, text)
    restarted.restore(history)
    assert restarted.ask(12, 1) == tuning.ask(12, 1)
    assert time.process_time() - began < 60


@pytest.mark.parametrize("text", ["x * n < 0.3", "n >= 3 and x > 0.8", "o.m < 0.5 and n = 2", "k = 4 or x < 0.1",
                                  "x ** 2 + n <= 2.5", "k / n > 3", "k % 2 = n % 2",
                                  "o = 'b' and abs(x - n / 6) < 0.05"])
def test_what_is_skipped_is_not_allowed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "_MOST_SCATTERED", 0)  # in a scattered order nothing is skipped
    raw = {"n": {"_type": "randint", "_value": [1, 6]}, "x": {"_type": "uniform", "_value": [0, 1]},
           "o": {"_type": "choice", "_value": [{"_name": "a"}, {"_name": "b", "m": {
               "_type": "quniform", "_value": [0, 1, 0.25]}}]},
           "k": {"_type": "choice", "_value": [4, 9, 2, 7]}}
    space = read_space(raw, is_uninterpreted=False, constraints=[text])
    every, walked, index = Grid(space), Grid(space), 0
    wanted = [point for place in range(4000) if (point := every.point(place)) is not None and space.allows(point)]
    for point in wanted:
        following = walked.first_allowed(index)
        assert following is not None
        assert following[1] == point
        index = following[0] + 1
    assert len(wanted) > 20


TEXTS = ("a + 2 * b - c < 3", "a * b / c > 1", "a * b = c", "a - b != c", "min(a, b) >= max(b, c)", "abs(a - b) <= c",
         "not (a < b or b < c)", "a in (1, b, 3)", "a not in (b, c)", "sqrt(abs(a)) + exp(b / 9) < log(abs(c) + 2)",
         "floor(a) + ceil(b) = round(c)", "a ** 2 + b ** 2 < c", "(-a) ** 3 > b", "2 ** a > c", "a // 2 = b % 3",
         "a = 'text' or b > c", "a / b > c", "a < b < c")
_WITHOUT_RANGES = {"(-a) ** 3 > b", "2 ** a > c", "a // 2 = b % 3", "a = 'text' or b > c"}


@pytest.mark.parametrize("text", TEXTS)
def test_a_range_that_breaks_a_constraint_has_no_value_that_satisfies_it(text: str) -> None:
    constraint, chance, broken = read_constraint(text), np.random.default_rng(4), 0
    for _ in range(300):
        low = chance.integers(-6, 6, 3)
        high = low + chance.integers(0, 3, 3)
        ranges = {name: Range(float(first), float(last)) for name, first, last in zip("abc", low, high, strict=True)}
        if constraint.may_allow(lambda parts, ranges=ranges: ranges[parts[0]]):
            continue
        broken += 1
        halves = [np.arange(first, last + 0.5, 0.5) for first, last in zip(low, high, strict=True)]
        for values in itertools.product(*halves):
            assert not constraint.allows(dict(zip("abc", map(float, values), strict=True)))
    assert broken > 0 or text in _WITHOUT_RANGES


def test_a_grid_that_is_too_large_is_not_walked_twice() -> None:
    space = {name: {"_type": "randint", "_value": [0, 10**6]} for name in "abc"}
    parsed = read_space(space, is_uninterpreted=False, constraints=["a + b + c < 0"])
    with takes_at_most(1):
        assert Grid(parsed).first_allowed(0) is None  # no value of any parameter can be right
    tuning = grid_search(space, "a % 7 + b % 7 + c % 7 < 0")
    assert tuning.ask(0, 1)["exhausted"]
    began = time.process_time()
    assert tuning.ask(0, 1)["exhausted"]
    assert time.process_time() - began < 20
