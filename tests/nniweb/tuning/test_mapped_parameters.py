"""Parameters of one search space in another: what fits, and what is said of the rest."""

from typing import Any

import pytest

from nniweb.tuning.guidance.mapped_parameters import map_parameters
from nniweb.tuning.search_space.parser import parse_search_space

SPACE = parse_search_space({
    "lr": {"_type": "loguniform", "_value": [1e-4, 1]}, "units": {"_type": "quniform", "_value": [16, 256, 16]},
    "layers": {"_type": "randint", "_value": [1, 9]}, "act": {"_type": "choice", "_value": ["relu", "tanh"]},
    "model": {"_type": "choice", "_value": [{"_name": "mlp"}, {"_name": "cnn", "kernel": {
        "_type": "choice", "_value": [3, 5]}}]}})
GOOD: dict[str, Any] = {"lr": 0.01, "units": 32, "layers": 3, "act": "relu", "model": {"_name": "cnn", "kernel": 3}}


def test_a_point_of_the_space_is_taken_as_it_is() -> None:
    mapped = map_parameters(SPACE, GOOD)
    assert (mapped.parameters, mapped.misfits, mapped.is_usable) == (GOOD, {}, True)


@pytest.mark.parametrize(("name", "value", "here"), [
    ("units", 70, 64), ("units", 39.9, 32), ("layers", 3.4, 3), ("layers", 3.0, 3), ("lr", 1, 1)])
def test_a_number_goes_to_the_nearest_value(name: str, value: float, here: float) -> None:
    mapped = map_parameters(SPACE, {**GOOD, name: value})
    assert mapped.parameters == {**GOOD, name: here}
    assert mapped.is_usable


@pytest.mark.parametrize(("change", "misfits"), [
    ({"lr": 2}, {"lr": "outside"}), ({"units": 300}, {"units": "outside"}), ({"layers": 9}, {"layers": "outside"}),
    ({"lr": "0.1"}, {"lr": "other_type"}), ({"lr": True}, {"lr": "other_type"}),
    ({"lr": 10**400}, {"lr": "other_type"}), ({"units": 10**400}, {"units": "other_type"}),
    ({"act": "gelu"}, {"act": "no_option"}), ({"model": {"_name": "rnn"}}, {"model": "no_option"}),
    ({"model": "cnn"}, {"model": "other_type"}),
    ({"model": {"_name": "cnn", "kernel": 7}}, {"model.kernel": "no_option"})])
def test_a_value_that_the_space_does_not_have_makes_the_result_unusable(
        change: dict[str, Any], misfits: dict[str, str]) -> None:
    mapped = map_parameters(SPACE, {**GOOD, **change})
    assert mapped.misfits == misfits
    assert not mapped.is_usable


def test_a_number_of_which_the_steps_cannot_be_counted_is_outside() -> None:
    space = parse_search_space({"x": {"_type": "quniform", "_value": [0, 1, 1e-10]}})
    assert map_parameters(space, {"x": 1e300}).misfits == {"x": "outside"}


def test_parameters_that_only_one_of_them_has_leave_the_rest() -> None:
    given = {"lr": 0.01, "model": {"_name": "cnn", "kernel": 3, "padding": 1}, "momentum": 0.9}
    mapped = map_parameters(SPACE, given)
    assert mapped.parameters == {"lr": 0.01, "model": {"_name": "cnn", "kernel": 3}}
    assert mapped.misfits == {"units": "missing", "layers": "missing", "act": "missing", "model.padding": "unknown",
                              "momentum": "unknown"}
    assert mapped.is_usable


def test_nothing_in_common_is_nothing_to_use() -> None:
    assert not map_parameters(SPACE, {"momentum": 0.9}).is_usable
