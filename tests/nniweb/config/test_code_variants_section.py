"""``codeVariants`` says which changes to the code trials may bring."""

from __future__ import annotations

from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.config.resolved import resolved_document


def parsed(asked: Any, **more: Any) -> Any:
    return parse_experiment_config({
        "trialCommand": "true", "trialConcurrency": 1, "trainingService": {"platform": "local"},
        "tuner": {"name": "External"}, "searchSpace": {"x": {"_type": "choice", "_value": [1]}},
        "trialCodeDirectory": "/", "codeVariants": asked, **more}).settings


@pytest.mark.parametrize(("asked", "paths", "most"), [
    (True, ["*"], 65536), ({}, ["*"], 65536), ({"paths": ["*.py", "!x.py"]}, ["*.py", "!x.py"], 65536),
    ({"maxBytes": "128 KB"}, ["*"], 131072), ({"max_bytes": 1000}, ["*"], 1000), ({"maxBytes": "12"}, ["*"], 12)])
def test_it_is_resolved_to_paths_and_bytes(asked: Any, paths: list[str], most: int) -> None:
    settings = parsed(asked)
    assert settings.code_variants == {"paths": paths, "maxBytes": most}
    again = parse_experiment_config(resolved_document(settings)).settings
    assert again.code_variants == settings.code_variants


@pytest.mark.parametrize("asked", [False, None])
def test_without_it_none_are_permitted(asked: Any) -> None:
    assert parsed(asked).code_variants == {}


@pytest.mark.parametrize(("asked", "more", "field", "problem"), [
    ({"paths": []}, {}, "codeVariants.paths", "at least 1"),
    ({"paths": ["#x"]}, {}, "codeVariants.paths[0]", "no pattern"),
    ({"maxBytes": "1MB"}, {}, "codeVariants.maxBytes", "64KB"),
    ({"maxBytes": "257KB"}, {}, "codeVariants.maxBytes", "262144"),
    ({"path": ["*"]}, {}, "codeVariants.path", "not a known field"), ("*.py", {}, "codeVariants", "true or false"),
    (True, {"multiPhase": True, "tuner": {"name": "Random"}}, "codeVariants", "together with multiPhase"),
])
def test_what_is_wrong_is_told_at_its_place(asked: Any, more: Any, field: str, problem: str) -> None:
    with pytest.raises(ConfigInvalid) as invalid:
        parsed(asked, **more)
    assert [problem in error.message for error in invalid.value.errors if error.field == field] == [True], \
        invalid.value.errors
