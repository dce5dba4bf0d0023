"""A tuner of the user's own reads the search space itself: none, an empty one and unknown types are all fine."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigError, parse_experiment_config, resolved_document

OWN_TYPES = {"net": {"_type": "graph", "_value": {"layers": [1, 2]}, "_hint": "x"}, "note": "free text"}
V2 = {"trialCommand": "true", "trialConcurrency": 1, "trainingService": {"platform": "local"}}
V1 = {"authorName": "a", "experimentName": "e", "trialConcurrency": 1, "trainingServicePlatform": "local",
      "useAnnotation": False, "trial": {"command": "true", "codeDir": "."}}


@pytest.fixture
def own_folder(folder: Path) -> Path:
    (folder / "mine.py").write_text("class Mine: pass\n")
    (folder / "own.json").write_text(json.dumps(OWN_TYPES))
    (folder / "empty.json").write_text("{}")
    (folder / "list.json").write_text("[1]")
    return folder


@pytest.mark.parametrize("section", ["tuner", "advisor"])
@pytest.mark.parametrize(("given", "space"), [
    ({}, {}), ({"searchSpace": {}}, {}), ({"searchSpace": OWN_TYPES}, OWN_TYPES),
    ({"searchSpaceFile": "own.json"}, OWN_TYPES), ({"searchSpaceFile": "empty.json"}, {}),
], ids=["none", "empty", "own types", "own types in a file", "empty file"])
def test_the_space_arrives_as_written(own_folder: Path, section: str, given: dict[str, Any], space: dict[str, Any]
                                      ) -> None:
    tuner = {"className": "mine.Mine", "codeDirectory": "."}
    settings = parse_experiment_config({**V2, section: tuner, **given}, own_folder).settings
    assert settings.search_space == space
    again = parse_experiment_config(json.loads(json.dumps(resolved_document(settings))), own_folder).settings
    assert again.search_space == space


@pytest.mark.parametrize("section", ["tuner", "advisor"])
@pytest.mark.parametrize(("given", "space"), [
    ({}, {}), ({"searchSpacePath": "own.json"}, OWN_TYPES), ({"searchSpacePath": "empty.json"}, {})])
def test_the_same_in_v1(own_folder: Path, section: str, given: dict[str, Any], space: dict[str, Any]) -> None:
    tuner = {"codeDir": ".", "classFileName": "mine.py", "className": "Mine"}
    assert parse_experiment_config({**V1, section: tuner, **given}, own_folder).settings.search_space == space


def test_what_is_no_object_is_still_refused(own_folder: Path, errors_of: Callable[..., list[ConfigError]]) -> None:
    config = {**V2, "tuner": {"className": "mine.Mine", "codeDirectory": "."}}
    assert [error.field for error in errors_of({**config, "searchSpace": [1]})] == ["searchSpace"]
    assert [error.field for error in errors_of({**config, "searchSpaceFile": "list.json"})] == ["searchSpaceFile"]


def test_a_built_in_tuner_needs_one_that_it_understands(own_folder: Path,
                                                        errors_of: Callable[..., list[ConfigError]]) -> None:
    config = {**V2, "tuner": {"name": "TPE"}}
    assert errors_of(config)[0].message.startswith("is required")
    assert "empty" in errors_of({**config, "searchSpace": {}})[0].message
    assert "is not a type" in errors_of({**config, "searchSpace": {"x": {"_type": "graph", "_value": []}}})[0].message
