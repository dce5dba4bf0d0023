"""Constraints beside the search space that they are for."""

import time
from typing import Any

import numpy as np
import pytest

from nniweb.tuning.constraints.constraint import read_constraints
from nniweb.tuning.search_space.constraint_check import check_constraints
from nniweb.tuning.search_space.grid import Grid
from nniweb.tuning.search_space.nearest_allowed import nearest_allowed
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.space import NothingAllowed, SearchSpace
from nniweb.tuning.search_space.uninterpreted_space import read_space

SPACE: dict[str, Any] = {
    "layers": {"_type": "randint", "_value": [1, 9]}, "learning rate": {"_type": "loguniform", "_value": [1e-4, 1]},
    "size": {"_type": "choice", "_value": ["small", "large", None]},
    "opt": {"_type": "choice", "_value": [{"_name": "adam"}, {"_name": "sgd", "momentum": {
        "_type": "uniform", "_value": [0, 1]}}]},
    "shape": {"_type": "choice", "_value": [{"rows": 2}, {"rows": 3}]}}


def problems(*texts: str, space: Any = SPACE, is_list: bool = False) -> list[tuple[int | None, str]]:
    return check_constraints(texts, parse_search_space(space), is_list=is_list).problems


def test_names_of_options_and_of_objects_in_options_are_known() -> None:
    assert problems("layers < 5", "`learning rate` < 0.1", "opt = 'sgd' or layers > 2", "opt.momentum < 0.9",
                    "opt._name != 'adam' or layers < 9", "shape.rows = 2", "size != none") == []


@pytest.mark.parametrize(("text", "said"), [
    ("layer < 5", 'character 1 (layer): is no parameter of the search space. Did you mean "layers"? Its parameters: '
                  "layers, `learning rate`, size, opt, opt.momentum, shape, shape.rows. A text is written in quotes"),
    ("opt = sgd", "character 7 (sgd): is no parameter"), ("opt.beta > 0", "character 1 (opt.beta): is no parameter"),
    ("layers > 8", "none of 10,000 random points satisfies it. Widen it, or the search space"),
    ("size < 3", "It cannot be computed for any of them: a division by zero, a number"),
])
def test_what_does_not_fit_is_refused(text: str, said: str) -> None:
    [(place, message)] = problems("layers > 0", text)
    assert place == 1
    assert said in message


def test_a_small_space_is_looked_at_whole() -> None:
    small = {"a": {"_type": "randint", "_value": [0, 90]}, "b": {"_type": "choice", "_value": [1, 2, 3]}}
    assert problems("a = 89 and b = 3", space=small) == []
    assert problems("a = 89 and b = 4", space=small) == [
        (0, "none of 270 points of the search space satisfies it. Widen it, or the search space")]
    assert problems("a < 10", "a > 50", space=small) == [
        (None, "none of 270 points of the search space satisfies all of them at once. Widen them, or the search space")]


def test_what_is_left_out_and_how_little_is_left_are_said() -> None:
    space = {"a": {"_type": "randint", "_value": [0, 4]}, "x": {"_type": "uniform", "_value": [0, 1]}}
    undefined, = check_constraints(["x / a < 10"], parse_search_space(space)).notes
    assert undefined.startswith("constraints[0]: cannot be computed for ")
    assert undefined.endswith("(a division by zero, a number that is compared with nothing, a text that is compared by "
                              "<, or the like); such points are left out.")
    [(_, alone)] = problems("x", space=space)
    assert "a number that is compared with nothing" in alone
    few, = check_constraints(["abs(x - 0.5) < 0.001"], parse_search_space(space)).notes
    assert few.startswith("constraints: only about 0.")
    assert "% of the search space satisfies them" in few
    sets = {"params": {"_type": "choice", "_value": [{"a": 1, "b": 2}, {"a": 5}, {"a": 7}]}}
    assert check_constraints(["a < 6"], parse_search_space(sets), is_list=True).notes == [
        "constraints: 1 of 3 parameter sets break a constraint and are left out."]
    assert problems("a > 9", space=sets, is_list=True) == [
        (0, "none of 3 parameter sets satisfies it. Widen it, or the search space")]
    assert "is no parameter" in problems("params.a > 9", space=sets, is_list=True)[0][1]
    plain = {"gpu": {"_type": "choice", "_value": [1, 2, 4]}}
    assert problems("gpu != 2", space=plain, is_list=True) == []
    assert problems("gpu > 5", space=plain, is_list=True) != []
    assert problems("a > 5", is_list=True) == []  # that the space is no list is said elsewhere


def test_so_many_unknown_names_are_compared_with_the_known_ones() -> None:
    texts = [" + ".join(f"other{number}" for number in range(50)) + " < 5"] * 2
    assert [place for place, _ in problems(*texts)] == [0] * 20


def test_a_check_has_bounded_work() -> None:
    space = {f"p{index}": {"_type": "uniform", "_value": [0, 1]} for index in range(30)}
    long = " + ".join(f"p{index}" for index in range(30))
    began = time.process_time()
    assert len(problems(*[f"{long} < 0.{index}" for index in range(30)], space=space)) == 30
    assert time.process_time() - began < 15
    assert problems(*[f"{long} + {long} + {long} < 0.1"] * 12, space=space) == [
        (10, "with this one the constraints have more than 1,000 names, numbers and operators in all")]


def constrained(space: Any, *texts: str) -> SearchSpace:
    return read_space(space, is_uninterpreted=False, constraints=texts)


def test_a_grid_leaves_out_what_is_not_allowed_and_skips_what_repeats_it() -> None:
    space = constrained({"a": {"_type": "randint", "_value": [0, 10_000]},
                         "b": {"_type": "randint", "_value": [0, 10_000]},
                         "c": {"_type": "randint", "_value": [0, 100]}}, "a >= 9998", "b % 5000 = 4999", "c in (3, 99)")
    grid, index, found = Grid(space), 0, []
    began = time.process_time()
    while (following := grid.first_allowed(index)) is not None:
        index = following[0] + 1
        found.append(tuple(following[1].values()))
    assert found == [(a, b, c) for a in (9998, 9999) for b in (4999, 9999) for c in (3, 99)]
    assert time.process_time() - began < 10


@pytest.mark.parametrize("texts", [(), ("x > 0.5",), ("x * n < 3", "o.m < 0.5"), ("o = 'a' or o.m > x",)])
def test_a_grid_of_allowed_points_is_the_grid_without_the_others(texts: tuple[str, ...]) -> None:
    raw = {"x": {"_type": "uniform", "_value": [0, 1]}, "n": {"_type": "randint", "_value": [1, 6]},
           "o": {"_type": "choice", "_value": [{"_name": "a"}, {"_name": "b", "m": {
               "_type": "quniform", "_value": [0, 1, 0.25]}}]}}
    space = constrained(raw, *texts)
    plain, grid, index, found = Grid(space), Grid(space), 0, []
    wanted = [point for place in range(1500) if (point := plain.point(place)) is not None and space.allows(point)]
    while len(found) < len(wanted):
        following = grid.first_allowed(index)
        assert following is not None
        index = following[0] + 1
        found.append(following[1])
    assert found == wanted
    assert len(wanted) > 100


def test_a_space_of_which_nothing_is_allowed_says_so_in_bounded_time() -> None:
    space = constrained({"x": {"_type": "uniform", "_value": [0, 1]}}, "x > 2")
    with pytest.raises(NothingAllowed):
        space.sample(np.random.default_rng(1))
    huge = constrained({name: {"_type": "randint", "_value": [0, 10**6]} for name in "abc"}, "a + b + c < 0")
    began = time.process_time()
    assert Grid(huge).first_allowed(0) is None
    assert time.process_time() - began < 15


def test_a_forbidden_point_moves_to_the_border_of_what_is_allowed() -> None:
    space = constrained({"x": {"_type": "uniform", "_value": [0, 10]}, "n": {"_type": "randint", "_value": [0, 100]},
                         "c": {"_type": "choice", "_value": ["a", "b"]}}, "x + n <= 50", "c = 'a'")
    found = nearest_allowed(space, {"x": 9.0, "n": 90, "c": "b"}, [{"x": 1.0, "n": 1, "c": "a"}])
    assert found is not None
    assert space.allows(found)
    assert 45 < found["x"] + found["n"] <= 50
    assert nearest_allowed(space, {"x": 9.0, "n": 90, "c": "a"}, []) is None
    assert read_constraints(["x > 1"]) == read_constraints(["x > 1"])
