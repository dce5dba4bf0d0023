"""Going through a search space as NNI's own algorithms do."""

import pytest
from numpy.random import RandomState

from nniweb.tuning.custom_algorithms.nni.utils import json2parameter, json2space, merge_parameter, split_index

SPACE = {"rate": {"_type": "uniform", "_value": [0, 1]},
         "layer": {"_type": "choice", "_value": [
             {"_name": "none"}, {"_name": "conv", "size": {"_type": "randint", "_value": [2, 5]}}]},
         "kind": {"_type": "choice", "_value": ["a", "b"]}}
NAMES = ["root[rate]-uniform", "root[layer]-choice[1][size]-randint", "root[layer]-choice", "root[kind]-choice"]


def test_every_parameter_of_a_space_has_a_name() -> None:
    assert json2space(SPACE) == NAMES


def test_the_names_of_parameters_are_those_of_the_options_that_were_chosen() -> None:
    drawn = {"rate": 0.5, "layer": {"_index": 0, "_value": {"_name": "none"}}, "kind": {"_index": 1, "_value": "b"}}
    assert json2space(SPACE, drawn) == [NAMES[0], NAMES[2], NAMES[3]]
    drawn["layer"] = {"_index": 1, "_value": {"_name": "conv", "size": 3}}
    assert json2space(SPACE, drawn) == NAMES


def test_parameters_are_drawn_from_the_whole_space() -> None:
    found = [json2parameter(SPACE, dict.fromkeys(NAMES, True), RandomState(seed)) for seed in range(50)]
    assert all(0 <= one["rate"] <= 1 and one["kind"]["_value"] in ("a", "b") for one in found)
    assert {one["layer"]["_value"].get("size") for one in found} == {None, 2, 3, 4}
    assert {str(split_index(one)["layer"]["_name"]) for one in found} == {"none", "conv"}


def test_only_the_named_parameters_are_drawn_anew() -> None:
    old = json2parameter(SPACE, {}, RandomState(0), Rand=True)
    which = {**dict.fromkeys(NAMES, False), "root[rate]-uniform": True}
    changed = [json2parameter(SPACE, which, RandomState(seed), old) for seed in range(5)]
    assert len({one["rate"] for one in changed}) == 5
    assert all((one["layer"], one["kind"]) == (old["layer"], old["kind"]) for one in changed)
    assert changed[0]["layer"] is not old["layer"]


def test_a_nested_option_needs_a_name() -> None:
    nameless = {"layer": {"_type": "choice", "_value": [{"size": 1}]}}
    with pytest.raises(RuntimeError, match="_name"):
        json2space(nameless)


def test_parameters_are_put_over_those_of_a_script() -> None:
    assert merge_parameter({"rate": 0.5, "kind": "a"}, {"rate": 1}) == {"rate": 1.0, "kind": "a"}
