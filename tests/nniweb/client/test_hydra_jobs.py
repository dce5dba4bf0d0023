"""Overrides of Hydra as parameters and back, and search spaces that have them. With Hydra: tests/end_to_end."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from nniweb.client.hydra_jobs import parameters_of, returned, search_space_of, with_all_names
from nniweb.tuning.search_space.parser import parse_search_space
from trialkeeper.nni.hydra import overrides_of, quoted, result_of

OVERRIDES = ["x=1", "y=-2.5", "lr=1e-05", "one=1.0", "zero=010", "text=a b,'c'=d", "flag=true", "none=null",
             "list=[1,2]", "+added=3", "~removed", "empty=", "huge=1e999", "digits=12345678901234567890", "minus=-0",
             "db@one=mysql"]


def test_a_job_gets_the_overrides_that_it_had_though_numbers_travel_as_json() -> None:
    parameters = parameters_of(OVERRIDES)
    assert {name: value for name, value in parameters.items() if isinstance(value, int | float)} == {
        "x": 1, "y": -2.5, "lr": 1e-05, "+added": 3}
    assert overrides_of(json.loads(json.dumps(parameters))) == OVERRIDES
    with pytest.raises(ValueError, match="The job has two overrides of x"):
        parameters_of(["x=1", "x=2"])


@pytest.mark.parametrize(("before", "jobs", "space"), [
    (None, [1, 5], {"_type": "randint", "_value": [1, 6]}),
    (None, [1, 2.5], {"_type": "uniform", "_value": [1, 2.5]}),
    (None, [1, "a", 1], {"_type": "choice", "_value": [1, "a"]}),
    ({"_type": "randint", "_value": [1, 6]}, [9], {"_type": "randint", "_value": [1, 10]}),
    ({"_type": "randint", "_value": [1, 6]}, [3], {"_type": "randint", "_value": [1, 6]}),
    ({"_type": "randint", "_value": [1, 6]}, [0.5], {"_type": "uniform", "_value": [0.5, 5]}),
    ({"_type": "uniform", "_value": [1, 3]}, [2], {"_type": "uniform", "_value": [1, 3]}),
    ({"_type": "choice", "_value": [1, "a"]}, [2], {"_type": "choice", "_value": [1, "a", 2]}),
])
def test_the_search_space_has_all_jobs_and_becomes_wider_with_each_batch(before: Any, jobs: list[Any], space: Any
                                                                         ) -> None:
    found = search_space_of([{"x": value} for value in jobs], {"x": before} if before else None)
    assert found == {"x": space}
    assert all(parse_search_space(found).contains({"x": value}) for value in jobs)


def test_jobs_with_different_overrides_are_points_of_one_search_space() -> None:
    jobs = [parameters_of(OVERRIDES), parameters_of(["x=2"]), parameters_of(["new=7"])]
    space = search_space_of(jobs[2:], search_space_of(jobs[:2]))
    for job in jobs:
        point = with_all_names(job, space)
        assert parse_search_space(space).problems_with(point) == []
        assert overrides_of(point) == overrides_of(job)


def test_what_a_function_returns_is_the_result_and_comes_back() -> None:
    assert (result_of(3), returned(result_of(3))) == (3.0, 3.0)
    assert (result_of([1, 2])["default"], returned(result_of((1, 2)))) == (1.0, (1.0, 2.0))
    assert returned({"default": 0.5, "loss": 2}) == 0.5
    assert returned(None) is None
    assert math.isnan(result_of("nan"))
    assert quoted("/a'b\\c") == "'/a\\'b\\\\c'"
