"""What a person is told about a search space that cannot be used."""

from typing import Any

import pytest

from nniweb.tuning.search_space.parser import SearchSpaceError, parse_search_space
from nniweb.tuning.search_space.problem import MOST_PROBLEMS

NESTED_WITH_FAULT = {
    "_type": "choice",
    "_value": [{"_name": "A"}, {"_name": "B", "k": {"_type": "uniform", "_value": [2, 1]}}],
}


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        ({"_type": "choice", "_value": []}, "x._value", "empty"),
        ({"_type": "choice", "_value": "a"}, "x._value", "must be a list"),
        ({"_type": "choice", "_value": [{"_name": "a"}, "b"]}, "x._value[1]", 'no "_name"'),
        ({"_type": "choice", "_value": [1, float("nan")]}, "x._value[1]", "NaN"),
        (NESTED_WITH_FAULT, "x._value[1].k._value[1]", "must be at least the low bound 2"),
        ({"_type": "uniform", "_value": [3, 1]}, "x._value[1]", "high bound 1 must be at least the low bound 3"),
        ({"_type": "qnormal", "_value": [0, 1e308, 1e-5]}, "x._value", "larger than a number"),
        ({"_type": "qnormal", "_value": [0, 1e306, 1e-5]}, "x._value[2]", "too small"),
        ({"_type": "uniform", "_value": [-1e308, 1e308]}, "x._value[1]", "wider"),
        ({"_type": "uniform", "_value": [0]}, "x._value", "must have 2 numbers"),
        ({"_type": "quniform", "_value": [0, 1]}, "x._value", "the step q"),
        ({"_type": "quniform", "_value": [0, 1, 0]}, "x._value[2]", "greater than 0"),
        ({"_type": "quniform", "_value": [0, 1, 1e-300]}, "x._value[2]", "too small"),
        ({"_type": "uniform", "_value": [0, "much"]}, "x._value[1]", 'finite number, not "much"'),
        ({"_type": "uniform", "_value": [0, True]}, "x._value[1]", "not true"),
        ({"_type": "uniform", "_value": [0, float("inf")]}, "x._value[1]", "finite"),
        ({"_type": "uniform", "_value": {"low": 0}}, "x._value", "must be a list, not an object"),
        ({"_type": "loguniform", "_value": [0, 1]}, "x._value[0]", "greater than 0"),
        ({"_type": "qloguniform", "_value": [-1, 1, 1]}, "x._value[0]", "greater than 0"),
        ({"_type": "normal", "_value": [0, 0]}, "x._value[1]", "sigma must be greater than 0"),
        ({"_type": "lognormal", "_value": [1000, 1]}, "x._value", "of the logarithm"),
        ({"_type": "randint", "_value": [5, 5]}, "x._value[1]", "itself is never sampled"),
        ({"_type": "randint", "_value": [0, 1e300]}, "x._value[1]", "too large"),
        ({"_type": "unifrom", "_value": [0, 1]}, "x._type", 'Did you mean "uniform"?'),
        ({"_type": "Uniform", "_value": [0, 1]}, "x._type", 'Did you mean "uniform"?'),
        ({"_type": "layer_choice", "_value": ["a"]}, "x._type", "architecture search"),
        ({"_type": 3, "_value": [0, 1]}, "x._type", "must be the name of a type"),
        ({"_type": ["choice"], "_value": [0, 1]}, "x._type", "must be the name of a type"),
        ({"_type": "uniform"}, "x", 'has no "_value"'),
        ({"_type": "uniform", "_values": [0, 1]}, "x", '"_values" a slip'),
        ({"_value": [1]}, "x", 'has no "_type"'),
        ([0, 1], "x", "must be an object"),
        (None, "x", "must be an object"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_place_and_what_is_wrong(spec: Any, path: str, words: str) -> None:
    with pytest.raises(SearchSpaceError) as caught:
        parse_search_space({"x": spec, "fine": {"_type": "uniform", "_value": [0, 1]}})
    [problem] = caught.value.problems
    assert problem.path == path
    assert words in problem.message
    assert path in str(caught.value)


@pytest.mark.parametrize("raw", [[], None, "text", 3])
def test_a_space_that_is_no_object_is_refused(raw: Any) -> None:
    with pytest.raises(SearchSpaceError, match="must be an object of parameter names"):
        parse_search_space(raw)


def test_an_empty_space_is_refused_with_an_example() -> None:
    with pytest.raises(SearchSpaceError, match="give at least one parameter"):
        parse_search_space({})


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(SearchSpaceError) as caught:
        parse_search_space(
            {"a": {"_type": "choice", "_value": []}, "b": {"_type": "loguniform", "_value": [0, -1]}, "c": 5}
        )
    assert [problem.path for problem in caught.value.problems] == ["a._value", "b._value[0]", "b._value[1]", "c"]


def test_endless_nesting_is_refused_instead_of_exhausting_the_stack() -> None:
    spec: dict[str, Any] = {"_type": "choice", "_value": [1]}
    for _ in range(300):
        spec = {"_type": "choice", "_value": [{"_name": "deeper", "x": spec}]}
    with pytest.raises(SearchSpaceError, match="nested more than 20 levels"):
        parse_search_space({"x": spec})


def test_so_many_faults_are_reported_and_a_name_that_would_stand_in_many_paths_is_one_of_them() -> None:
    with pytest.raises(SearchSpaceError) as caught:
        parse_search_space({f"p{number}": number for number in range(10_000)})
    assert len(caught.value.problems) == MOST_PROBLEMS
    options = [{"_name": "a", "x": 1}] * 100
    with pytest.raises(SearchSpaceError) as caught:
        parse_search_space({"k" * 1001: {"_type": "choice", "_value": options}})
    assert [problem.path for problem in caught.value.problems] == ["k" * 50]


def test_of_a_point_so_many_faults_are_told() -> None:
    space = parse_search_space({"x": {"_type": "choice", "_value": [1]}})
    assert len(space.problems_with({"x": 1} | {f"other{number}": 1 for number in range(10_000)})) == MOST_PROBLEMS
