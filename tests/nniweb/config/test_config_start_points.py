"""startPoints in files: what they come to, and what is refused, at which place."""

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.config.parsing import ParsedConfig
from nniweb.experiments.config.resolved import resolved_document

SPACE = {"layers": {"_type": "randint", "_value": [1, 9]}, "lr": {"_type": "loguniform", "_value": [1e-5, 1]}}
NESTED = {"model": {"_type": "choice", "_value": [
    {"_name": "linear"}, {"_name": "forest", "trees": {"_type": "randint", "_value": [1, 100]}}]}}
LIST = {"sets": {"_type": "choice", "_value": [{"lr": 0.1, "layers": 3}, {"lr": 0.2, "layers": 4}]}}
GOOD = {"layers": 3, "lr": 0.1}


def parsed(folder: Path, **fields: Any) -> ParsedConfig:
    return parse_experiment_config({
        "searchSpace": SPACE, "trialCommand": "true", "trialConcurrency": 1, "tuner": {"name": "TPE"},
        "trainingService": {"platform": "local"}, **fields}, folder)


def refused(folder: Path, **fields: Any) -> dict[str, str]:
    with pytest.raises(ConfigInvalid) as invalid:
        parsed(folder, **fields)
    return {error.field: error.message for error in invalid.value.errors}


def test_they_are_kept_in_their_order_and_survive_a_round_trip(tmp_path: Path) -> None:
    points = [{"layers": 8, "lr": 0.5}, GOOD]
    settings = parsed(tmp_path, startPoints=points).settings
    assert list(settings.start_points) == points
    assert parse_experiment_config(resolved_document(settings)).settings == settings
    assert "startPoints" not in resolved_document(parsed(tmp_path).settings)


def test_names_of_parameters_are_taken_as_they_are_written(tmp_path: Path) -> None:
    space = {"Batch_Size": SPACE["layers"], "batchSize": SPACE["layers"]}
    point = {"Batch_Size": 2, "batchSize": 3}
    assert parsed(tmp_path, searchSpace=space, startPoints=[point]).settings.start_points == (point,)


@pytest.mark.parametrize(("point", "field", "said"), [
    ({"layers": 3}, "startPoints[1].lr", "is missing"),
    ({"layers": 9, "lr": 0.1}, "startPoints[1].layers", "9 is not a value of"),
    ({"layers": 3, "lr": 2}, "startPoints[1].lr", "2 is not a value of"),
    ({"layers": "3", "lr": 0.1}, "startPoints[1].layers", '"3" is not a value of'),
    ({**GOOD, "depth": 1}, "startPoints[1].depth", "is not a parameter of the search space"),
    (3, "startPoints[1]", "must be a group of fields"),
    ({"layers": 1, "lr": 0.5}, "startPoints[1]", "is the same point as the one at 0"),
    ({"layers": 5, "lr": 0.9}, "startPoints[1]", "layers * lr < 4"),
])
def test_a_wrong_one_is_refused_at_its_place(tmp_path: Path, point: Any, field: str, said: str) -> None:
    found = refused(tmp_path, startPoints=[{"layers": 1, "lr": 0.5}, point], constraints=["layers * lr < 4"])
    assert list(found) == [field]
    assert said in found[field]


def test_parameters_inside_a_choice_are_named_with_it(tmp_path: Path) -> None:
    good = {"model": {"_name": "forest", "trees": 7}}
    assert parsed(tmp_path, searchSpace=NESTED, startPoints=[good, {"model": {"_name": "linear"}}])
    wrong = {"model": {"_name": "forest", "trees": 100}}
    assert list(refused(tmp_path, searchSpace=NESTED, startPoints=[wrong])) == ["startPoints[0].model.trees"]


def test_a_list_of_parameter_sets_takes_its_own_sets_only(tmp_path: Path) -> None:
    batch = {"searchSpace": LIST, "tuner": {"name": "BatchTuner"}}
    assert parsed(tmp_path, startPoints=[{"layers": 4, "lr": 0.2}], **batch).settings.start_points
    found = refused(tmp_path, startPoints=[{"layers": 4, "lr": 0.1}], **batch)
    assert "is none of the parameter sets of the search space" in found["startPoints[0]"]


@pytest.mark.parametrize(("fields", "said"), [
    ({"tuner": {"name": "Hyperband", "classArgs": {"R": 4, "eta": 2}}}, "cannot be used with Hyperband"),
    ({"tuner": {"className": "mine.Mine", "codeDirectory": "."}}, "cannot be used with a custom tuner"),
    ({"startPoints": [GOOD] * 201}, "200"),
])
def test_where_they_cannot_be_used_the_file_is_refused(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    (tmp_path / "mine.py").write_text("")
    assert said in refused(tmp_path, **{"startPoints": [GOOD], **fields})["startPoints"]


def test_points_beyond_the_limit_of_trials_are_noted(tmp_path: Path) -> None:
    points = [{"layers": layers, "lr": 0.1} for layers in range(1, 6)]
    notes = parsed(tmp_path, startPoints=points, maxTrialNumber=8, replicates=2).notes
    assert any("startPoints: has 5 points, and maxTrialNumber leaves room for 4" in note for note in notes)
    assert not any("startPoints" in note for note in parsed(tmp_path, startPoints=points, maxTrialNumber=5).notes)
