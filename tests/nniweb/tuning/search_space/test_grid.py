"""Which points a grid has, and in which order."""

import itertools
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given

from nniweb.tuning.search_space.grid import Grid
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.space import point_key
from tests.nniweb.tuning.search_space.search_space_strategies import search_spaces


def grid_points(raw: Any, at_most: int = 100_000) -> list[dict[str, Any]]:
    grid = Grid(parse_search_space(raw))
    return list(itertools.islice(itertools.takewhile(lambda p: p is not None, map(grid.point, itertools.count())),
                                 at_most))  # fmt: skip


def one(kind: str, *values: Any) -> dict[str, Any]:
    return {"x": {"_type": kind, "_value": list(values)}}


@given(search_spaces)
def test_grid_points_lie_inside_and_never_repeat(raw: Any) -> None:
    space = parse_search_space(raw)
    points = grid_points(space.to_json(), at_most=60)
    assert all(space.contains(point) for point in points)
    if not _has_equal_options(raw):
        assert len({point_key(point) for point in points}) == len(points)


def _has_equal_options(raw: Any) -> bool:
    if isinstance(raw, dict):
        options = raw.get("_value") if raw.get("_type") == "choice" else None
        if isinstance(options, list) and len({point_key(option) for option in options}) < len(options):
            return True
        return any(_has_equal_options(value) for value in raw.values())
    return isinstance(raw, list) and any(_has_equal_options(value) for value in raw)


def test_a_finite_space_is_covered_completely_in_the_order_of_its_values() -> None:
    raw = {
        "a": {"_type": "choice", "_value": ["p", "q"]},
        "b": {"_type": "randint", "_value": [0, 3]},
        "c": {"_type": "quniform", "_value": [1, 2, 0.5]},
    }
    expected = [dict(zip("abc", values, strict=True)) for values in itertools.product("pq", range(3), [1.0, 1.5, 2.0])]
    assert grid_points(raw) == expected


def test_a_continuous_parameter_is_tried_at_its_middle_then_at_the_quartiles_then_at_the_eighths() -> None:
    assert [point["x"] for point in grid_points(one("uniform", 0, 8), 7)] == [4, 2, 6, 1, 3, 5, 7]
    normal = NormalDist(1, 2)
    assert [point["x"] for point in grid_points(one("normal", 1, 2), 3)] == pytest.approx(
        [1, normal.inv_cdf(0.25), normal.inv_cdf(0.75)]
    )
    assert [point["x"] for point in grid_points(one("loguniform", 1, 10_000), 3)] == pytest.approx([100, 10, 1000])


def test_each_refinement_combines_old_and_new_values_and_leaves_out_what_was_tried() -> None:
    raw = {"a": {"_type": "choice", "_value": [5, 7]}, "y": {"_type": "uniform", "_value": [0, 8]},
           "z": {"_type": "uniform", "_value": [0, 8]}}  # fmt: skip
    points = grid_points(raw, 2 * 9)
    assert points[:2] == [{"a": 5, "y": 4, "z": 4}, {"a": 7, "y": 4, "z": 4}]
    assert {point_key(point) for point in points} == {
        point_key({"a": a, "y": y, "z": z}) for a in (5, 7) for y in (2, 4, 6) for z in (2, 4, 6)
    }


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("qloguniform", (1, 10, 1), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
        ("qloguniform", (0.5, 4.2, 2), {0.5, 2, 4}),
        ("qnormal", (0, 1, 10), {-10, 0, 10}),
        ("quniform", (1, 5, 2), {1, 2, 4}),
        ("quniform", (0, 1, 0.25), {0, 0.25, 0.5, 0.75, 1}),
    ],
)
def test_a_quantized_parameter_is_exhausted(kind: str, values: tuple[float, ...], expected: set[float]) -> None:
    points = [point["x"] for point in grid_points(one(kind, *values))]
    assert len(points) == len(set(points))
    assert set(points) == expected


def test_options_of_a_nested_choice_take_part_with_their_own_parameters_only() -> None:
    raw = {
        "layer": {"_type": "choice", "_value": [
            {"_name": "Empty"},
            {"_name": "Conv", "kernel": {"_type": "choice", "_value": [1, 3]},
             "pad": {"_type": "randint", "_value": [0, 2]}}]},
        "n": {"_type": "randint", "_value": [1, 3]},
    }  # fmt: skip
    conv = [{"_name": "Conv", "kernel": kernel, "pad": pad} for kernel in (1, 3) for pad in (0, 1)]
    layers = [{"_name": "Empty"}, *conv]
    assert grid_points(raw) == [{"layer": layer, "n": n} for layer in layers for n in (1, 2)]


def test_a_continuous_parameter_inside_an_option_is_refined_while_the_finite_options_are_done() -> None:
    raw = {"c": {"_type": "choice", "_value": [{"_name": "a"}, {"_name": "b", "x": {"_type": "uniform",
                                                                                  "_value": [0, 8]}}]}}  # fmt: skip
    names = [(point["c"]["_name"], point["c"].get("x")) for point in grid_points(raw, 5)]
    assert names == [("a", None), ("b", 4), ("b", 2), ("b", 6), ("b", 1)]


def test_a_huge_space_costs_nothing_until_it_is_walked() -> None:
    raw = {f"p{i}": {"_type": "randint", "_value": [0, 10**9]} for i in range(30)}
    raw["c"] = {"_type": "choice", "_value": [{"_name": "a", **raw}, {"_name": "b"}]}
    assert grid_points(raw, 2)[0]["p0"] == 0


def test_the_first_of_many_points_are_spread_over_all_parameters() -> None:
    raw = {f"p{i}": {"_type": "choice", "_value": list("abcde")} for i in range(7)}
    first = grid_points(raw, 40)
    assert all({point[name] for point in first} == set("abcde") for name in raw)
