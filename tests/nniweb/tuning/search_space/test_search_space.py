"""What a search space means: draws, membership, and the JSON form."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.space import Numeric, SearchSpace, point_key
from tests.nniweb.tuning.search_space.search_space_strategies import search_spaces

DRAWS = 4000
NESTED = {
    "layer": {
        "_type": "choice",
        "_value": [
            {"_name": "Empty"},
            {"_name": "Conv", "kernel": {"_type": "choice", "_value": [1, 3, 5]}},
            {"_name": "Pool", "size": {"_type": "randint", "_value": [2, 4]},
             "kind": {"_type": "choice", "_value": [{"_name": "max"},
                                                    {"_name": "mean", "p": {"_type": "uniform", "_value": [0, 1]}}]}},
        ],
    },
    "lr": {"_type": "loguniform", "_value": [1e-4, 1e-1]},
}  # fmt: skip


def space_of(kind: str, *values: Any) -> SearchSpace:
    return parse_search_space({"x": {"_type": kind, "_value": list(values)}})


def draws(space: SearchSpace, count: int = DRAWS, seed: int = 1) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [space.sample(rng)["x"] for _ in range(count)]


@given(search_spaces, st.integers(0, 2**32))
def test_a_sampled_point_is_always_inside_also_after_a_journey_through_json(raw: Any, seed: int) -> None:
    space = parse_search_space(raw)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        point = space.sample(rng)
        assert space.problems_with(point) == []
        assert space.contains(json.loads(json.dumps(point)))


@given(search_spaces)
def test_a_json_round_trip_gives_the_same_space(raw: Any) -> None:
    space = parse_search_space(raw)
    again = parse_search_space(json.loads(json.dumps(space.to_json())))
    assert again == space
    assert again.sample(np.random.default_rng(7)) == space.sample(np.random.default_rng(7))


@given(search_spaces, st.integers(0, 2**32))
def test_coordinates_lead_back_to_the_same_point(raw: Any, seed: int) -> None:
    space = parse_search_space(raw)
    point = space.sample(np.random.default_rng(seed))
    known = space.coordinates(point)
    rebuilt = space.build(lambda path, parameter: known[path])
    assert space.coordinates(rebuilt).keys() == known.keys()
    for path, value in space.coordinates(rebuilt).items():
        assert value == pytest.approx(known[path], abs=0.02)


@given(search_spaces, st.floats(0, 1), st.floats(0, 1))
def test_a_greater_quantile_never_gives_a_smaller_value(raw: Any, one: float, other: float) -> None:
    for parameter in parse_search_space(raw).parameters.values():
        if isinstance(parameter, Numeric):
            assert parameter.value_at(min(one, other)) <= parameter.value_at(max(one, other))


@pytest.mark.parametrize(
    ("kind", "values", "distribution"),
    [
        ("uniform", (-2, 6), stats.uniform(-2, 8)),
        ("loguniform", (1e-4, 10), stats.loguniform(1e-4, 10)),
        ("normal", (3, 2), stats.norm(3, 2)),
        ("lognormal", (1, 0.5), stats.lognorm(0.5, scale=math.e)),
    ],
)
def test_continuous_draws_follow_their_distribution(kind: str, values: tuple[float, ...], distribution: Any) -> None:
    assert stats.kstest(draws(space_of(kind, *values)), distribution.cdf).pvalue > 0.01


@pytest.mark.parametrize(
    ("kind", "values", "distribution", "bounds"),
    [
        ("quniform", (1, 10, 2), stats.uniform(1, 9), (1, 10)),
        ("qloguniform", (1, 20, 3), stats.loguniform(1, 20), (1, 20)),
        ("qnormal", (0, 2, 1), stats.norm(0, 2), None),
        ("qlognormal", (0, 1, 0.5), stats.lognorm(1), None),
    ],
)
def test_quantized_draws_follow_the_rounded_distribution(
    kind: str, values: tuple[float, float, float], distribution: Any, bounds: tuple[float, float] | None
) -> None:
    q = values[2]
    found = draws(space_of(kind, *values))
    expected: dict[float, float] = {}
    for multiple in range(-40, 400):
        share = distribution.cdf((multiple + 0.5) * q) - distribution.cdf((multiple - 0.5) * q)
        value = multiple * q if bounds is None else min(max(multiple * q, bounds[0]), bounds[1])
        expected[value] = expected.get(value, 0.0) + share
    common = [value for value, share in expected.items() if share * DRAWS >= 5]
    counts = [sum(1 for draw in found if draw == pytest.approx(value)) for value in common]
    shares = [expected[value] * DRAWS for value in common]
    rest = (DRAWS - sum(counts), DRAWS - sum(shares))
    assert stats.chisquare([*counts, rest[0] + 5], [*shares, rest[1] + 5]).pvalue > 0.01


@pytest.mark.parametrize(
    ("kind", "values", "options"),
    [("choice", ("a", 2, None, [1]), ["a", 2, None, [1]]), ("randint", (-1, 4), [-1, 0, 1, 2, 3])],
)
def test_each_option_is_equally_probable(kind: str, values: tuple[Any, ...], options: list[Any]) -> None:
    found = draws(space_of(kind, *values))
    counts = [found.count(option) for option in options]
    assert sum(counts) == DRAWS
    assert stats.chisquare(counts).pvalue > 0.01


def test_an_option_of_a_nested_choice_is_as_probable_as_any_other_and_brings_its_own_parameters() -> None:
    space, rng = parse_search_space(NESTED), np.random.default_rng(3)
    points = [space.sample(rng)["layer"] for _ in range(3000)]
    by_name = {name: [point for point in points if point["_name"] == name] for name in ("Empty", "Conv", "Pool")}
    assert stats.chisquare([len(found) for found in by_name.values()]).pvalue > 0.01
    assert all(point == {"_name": "Empty"} for point in by_name["Empty"])
    assert {point["kernel"] for point in by_name["Conv"]} == {1, 3, 5}
    assert {point["size"] for point in by_name["Pool"]} == {2, 3}
    assert any(point["kind"] == {"_name": "max"} for point in by_name["Pool"])
    assert all(0 <= point["kind"]["p"] <= 1 for point in by_name["Pool"] if point["kind"]["_name"] == "mean")


def test_rounding_is_half_to_even_and_clipping_comes_last() -> None:
    assert sorted(set(draws(space_of("quniform", 1, 5, 2)))) == [2.0, 4.0]
    assert sorted(set(draws(space_of("quniform", 2, 10, 5)))) == [2.0, 5.0, 10.0]
    assert sorted(set(draws(space_of("quniform", 0, 10, 2.5)))) == [0.0, 2.5, 5.0, 7.5, 10.0]
    assert all(isinstance(value, float) for value in draws(space_of("quniform", 1, 5, 2), 20))


def test_randint_bounds_that_are_not_whole_are_rounded_up_and_the_upper_one_is_never_drawn() -> None:
    assert set(draws(space_of("randint", 0.5, 3.2), 200)) == {1, 2, 3}


def test_numbers_written_as_text_are_taken_as_yaml_leaves_them_behind() -> None:
    assert space_of("loguniform", "1e-4", "1e-1") == space_of("loguniform", 1e-4, 1e-1)


@pytest.mark.parametrize(
    ("point", "path"),
    [
        ({"layer": {"_name": "Conv", "kernel": 2}, "lr": 0.01}, "layer.kernel"),
        ({"layer": {"_name": "Conv"}, "lr": 0.01}, "layer.kernel"),
        ({"layer": {"_name": "Dense"}, "lr": 0.01}, "layer"),
        ({"layer": {"_name": "Empty", "kernel": 3}, "lr": 0.01}, "layer.kernel"),
        ({"layer": {"_name": "Empty"}, "lr": 1.0}, "lr"),
        ({"layer": {"_name": "Empty"}, "lr": True}, "lr"),
        ({"layer": {"_name": "Empty"}, "lr": 10**400}, "lr"),
        ({"layer": {"_name": "Empty"}, "lr": float("nan")}, "lr"),
        ({"layer": {"_name": "Empty"}, "lr": 0.01, "typo": 1}, "typo"),
        ({"layer": {"_name": "Pool", "size": 4, "kind": {"_name": "max"}}, "lr": 0.01}, "layer.size"),
        ("not an object", ""),
    ],
)
def test_a_point_outside_is_refused_by_the_name_of_what_is_wrong(point: Any, path: str) -> None:
    space = parse_search_space(NESTED)
    assert [problem.path for problem in space.problems_with(point)] == [path]
    assert not space.contains(point)


def test_true_one_and_one_point_zero_are_different_options() -> None:
    space = space_of("choice", True, 1, "1")
    assert space.coordinates({"x": True}) == {("x",): 0}
    assert space.coordinates({"x": 1}) == {("x",): 1}
    assert space.coordinates({"x": 1.0}) == {("x",): 1}
    assert space.coordinates({"x": "1"}) == {("x",): 2}
    assert point_key({"a": 2.0, "b": 1}) == point_key({"b": 1.0, "a": 2})
    assert point_key({"a": 1e20}) == point_key({"a": 10**20})
    assert len({point_key(value) for value in (2**53, 2**53 + 1, 10**400, 10**400 + 1)}) == 4


def test_coordinates_leave_out_what_an_edited_space_no_longer_has() -> None:
    space = parse_search_space(NESTED)
    assert space.coordinates({"layer": {"_name": "Dense", "units": 4}, "lr": 0.01, "gone": 1}).keys() == {("lr",)}
