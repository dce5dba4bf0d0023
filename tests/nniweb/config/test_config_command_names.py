"""Names of parameters in trialCommand."""

from __future__ import annotations

import pytest

from nniweb.experiments.config import parse_experiment_config
from nniweb.tuning.search_space.flat_names import names_in_space

NESTED = {"lr": {"_type": "uniform", "_value": [0, 1]},
          "model": {"_type": "choice", "_value": [
              {"_name": "forest", "trees": {"_type": "randint", "_value": [1, 9]}},
              {"_name": "svm", "kernel": {"_type": "choice", "_value": [{"_name": "rbf"}, {"_name": "poly", "degree": {
                  "_type": "randint", "_value": [2, 5]}}]}}]},
          "batch": {"_type": "choice", "_value": [{"size": 1, "steps": [1]}, {"size": 2}]}}


def test_names_of_nested_choices_have_dots():
    assert names_in_space(NESTED) == ["lr", "model", "model.trees", "model.kernel", "model.kernel.degree", "batch.size",
                                      "batch.steps"]


def test_names_that_are_too_long_for_a_command_are_left_out_with_all_below_them():
    below = {"x": {"_type": "choice", "_value": [1]}}
    assert names_in_space({"a": below, "k" * 1001: below, "k" * 999: below}) == ["a.x"]


@pytest.mark.parametrize("command", ["python3 t.py {lr} --trees={model.trees} {args} {hydra} {{other}}",
                                     "python3 t.py ${l_r} ${lr}", "python3 t.py {a,b} {} {1..2}"])
def test_right_names_and_other_braces_are_not_remarked_on(v2, folder, command):
    config = {**v2, "searchSpaceFile": None, "searchSpace": NESTED, "trialCommand": command}
    assert not [note for note in parse_experiment_config(config, folder).notes if "{" in note]


def test_a_misspelt_name_is_an_error(v2, errors_of):
    [error] = errors_of({**v2, "trialCommand": "python3 t.py --u={unit}"})
    assert error.field == "trialCommand"
    assert "did you mean {units}?" in error.message


@pytest.mark.parametrize("command", ["awk '{unit}' x", "t {print}"])
def test_an_unknown_name_that_may_mean_something_else_is_a_note(v2, folder, command):
    notes = parse_experiment_config({**v2, "trialCommand": command}, folder).notes
    assert any("is left as it is, because no parameter has this name" in note for note in notes)


def test_only_so_many_different_names_are_told(v2, folder):
    command = " ".join(["t {print}"] * 100 + [f"'{{other{number}}}'" for number in range(1000)])
    notes = parse_experiment_config({**v2, "trialCommand": command}, folder).notes
    assert len([note for note in notes if "because no parameter has this name" in note]) == 50


def test_a_parameter_where_none_can_be_put_in_is_a_note(v2, folder):
    notes = parse_experiment_config({**v2, "trialCommand": "echo `echo {lr}`"}, folder).notes
    assert any("Use the variable NNI_PARAM_LR there" in note for note in notes)


def test_a_v1_file_is_told_in_its_own_words(v1, errors_of):
    [error] = errors_of({**v1, "trial": {**v1["trial"], "command": "python3 t.py {unitz}"}})
    assert error.field == "trial.command"


def test_nothing_is_said_where_a_tuner_of_ones_own_names_the_parameters(v2, folder):
    config = {**v2, "tuner": {"className": "mine.Tuner", "codeDirectory": "code"}, "trialCommand": "t {unit}"}
    (folder / "code" / "mine.py").write_text("class Tuner: pass\n")
    assert not [note for note in parse_experiment_config(config, folder).notes if "{unit}" in note]


def test_options_of_batchtuner_are_whole_sets(v2, folder):
    space = {"all": {"_type": "choice", "_value": [{"lr": 1, "n": 2}, {"lr": 2, "n": 3}]}}
    config = {**v2, "searchSpaceFile": None, "searchSpace": space, "tuner": {"name": "BatchTuner"}, "assessor": None,
              "trialCommand": "t {lr} {n}"}
    assert not [note for note in parse_experiment_config(config, folder).notes if "{" in note]
