"""Constraints in a config file: what they come to, and what is refused, at which place."""

import time
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.config.resolved import resolved_document

SPACE = """
searchSpace:
  layers: {_type: randint, _value: [1, 9]}
  units: {_type: choice, _value: [16, 64, 2048]}
"""
REST = """
trialCommand: "true"
trialConcurrency: 1
tuner: {name: TPE}
trainingService: {platform: local}
"""
OWN = {"className": "mine.Mine", "codeDirectory": "."}


def parsed(tmp_path: Path, text: str = "", **fields: Any) -> Any:
    if text:
        return parse_experiment_config(SPACE + REST + text, tmp_path)
    return parse_experiment_config({
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "true", "trialConcurrency": 1,
        "tuner": {"name": "TPE"}, "trainingService": {"platform": "local"}, **fields}, tmp_path)


@pytest.mark.parametrize(("texts", "place", "said"), [
    (["latency < 5", "size < 3", "latency > 10"], 2, "contradicts latency < 5: no value of latency satisfies both"),
    (["5 > latency and size > 1", "latency >= 5"], 1, "contradicts 5 > latency and size > 1"),
    (["a > 0", "a < 0.5", "a = 0.5"], 2, "contradicts a < 0.5"),
    (["a >= 1", "a <= 1", "a != 1"], 2, "contradicts the constraints before it"),
    (["-1 < a < -2"], 0, "no value of a satisfies it"),
    (["a = 1 and 2 = a"], 0, "no value of a satisfies it"),
    ([" and ".join(f"a > {number}" for number in range(150)), "a <= 149"], 1, "contradicts a > 0 and a > 1 and"),
])
def test_constraints_on_outcomes_that_contradict_each_other_are_refused(tmp_path: Path, texts: list[str], place: int,
                                                                        said: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parsed(tmp_path, outcomeConstraints=texts)
    [error] = refused.value.errors
    assert error.field == f"outcomeConstraints[{place}]"
    assert said in error.message


@pytest.mark.parametrize("texts", [
    ["latency < 5", "latency > 1"], ["latency < 5 or latency > 10", "latency > 7"], ["not (a < 1)", "a >= 1"],
    ["a <= 1", "a >= 1"], ["a * b < 5", "a * b > 10"], ["a < b", "b < a"], ["a = none", "a < 1"],
    ["a < 1e308", "a > -1e308"]])
def test_constraints_on_outcomes_that_a_result_may_satisfy_are_taken(tmp_path: Path, texts: list[str]) -> None:
    assert parsed(tmp_path, outcomeConstraints=texts).settings.outcome_constraints == tuple(texts)


def test_both_kinds_are_kept_as_written_and_survive_a_round_trip(tmp_path: Path) -> None:
    settings = parsed(tmp_path, 'constraints: ["layers * units <= 4096"]\n'
                                'outcomeConstraints: ["latency <= 20"]\n').settings
    assert settings.constraints == ("layers * units <= 4096",)
    assert settings.outcome_constraints == ("latency <= 20",)
    assert parse_experiment_config(resolved_document(settings)).settings == settings
    assert "constraints" not in resolved_document(parsed(tmp_path).settings)


@pytest.mark.parametrize(("lines", "field", "said"), [
    ('  - layers <= 8\n  - "layers * units <="\n', "constraints[1]", "character 18: ends too early; expected: a value"),
    ("  - layer < 3\n", "constraints[0]",
     'character 1 (layer): is no parameter of the search space. Did you mean "layers"?'),
    ("  - layers * units > 99999\n", "constraints[0]", "none of 24 points of the search space satisfies it"),
    ("  - layers < 4\n  - layers > 5\n", "constraints", "none of 24 points of the search space satisfies all of them"),
    ("  - 3\n", "constraints[0]", "must be text"),
])
def test_a_wrong_one_is_refused_at_its_place_in_the_file(tmp_path: Path, lines: str, field: str, said: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parsed(tmp_path, "constraints:\n" + lines)
    [error] = refused.value.errors
    assert error.field == field
    assert said in error.message
    written = (SPACE + REST + "constraints:\n" + lines).splitlines()
    assert error.line is not None
    assert written[error.line - 1].strip().startswith(("-", "constraints"))


@pytest.mark.parametrize(("fields", "said"), [
    ({"constraints": "x < 1"}, "constraints: must be a list"),
    ({"constraints": ["x < 1"] * 51}, "constraints"),
    ({"outcomeConstraints": ["latency"] * 51}, "outcomeConstraints"),
    ({"outcomeConstraints": ["latency <= 20 ms"]},
     'outcomeConstraints[0]: character 15 (ms): "ms" is not expected here'),
    ({"outcomeConstraints": ["latency <= 20"], "multiPhase": True}, "outcomeConstraints: excludes multiPhase"),
    ({"constraints": ["x < 1"], "multiPhase": True, "tuner": OWN},
     "constraints: excludes multiPhase with a custom tuner"),
    ({"constraints": ["x < "], "tuner": OWN}, "constraints[0]: character 5: ends too early"),
    ({"constraints": ["x > " + "(" * 1_000_000]}, "constraints[0]: character 2001: is longer than 2000 characters"),
    ({"constraints": ["x > " + "-" * 1900 + "1"]}, "is nested more than 30 deep"),
])
def test_what_cannot_be_is_refused_at_once(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def generate_parameters(self, parameter_id, **kwargs): pass\n")
    began = time.process_time()
    with pytest.raises(ConfigInvalid) as refused:
        parsed(tmp_path, **fields)
    assert said in str(refused.value)
    assert time.process_time() - began < 5


def test_the_names_of_a_custom_tuners_space_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def generate_parameters(self, parameter_id, **kwargs): pass\n")
    assert parsed(tmp_path, constraints=["anything < 3"], tuner=OWN).settings.constraints == ("anything < 3",)


def test_little_room_is_remarked_on(tmp_path: Path) -> None:
    [note] = [note for note in parsed(tmp_path, constraints=["abs(x - 0.5) < 0.001"]).notes if "constraints" in note]
    assert "of the search space satisfies them" in note


def test_an_error_in_the_search_space_is_said_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parsed(tmp_path, constraints=["y < 1"], searchSpace={"x": {"_type": "unifrom", "_value": [0, 1]}})
    assert [error.field for error in refused.value.errors] == ["searchSpace.x._type"]
