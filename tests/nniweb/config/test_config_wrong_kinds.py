"""Values of the wrong kind: the sentence names each kind that the field takes, and what may be meant."""

from pathlib import Path

import pytest

from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.config.parsing import parse_experiment_config

BASE = "trialCommand: python3 t.py\ntrialConcurrency: 1\ntrainingService: {platform: local}\n"
SPACE = "searchSpace: {x: {_type: uniform, _value: [0, 1]}}\n"


def refused(text: str, folder: Path, space: str = SPACE) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        parse_experiment_config(BASE + space + text, folder)
    [error] = caught.value.errors
    return f"{error.field}: {error.message}"


@pytest.mark.parametrize(("text", "said"), [
    ("replicates: 0", "replicates: must be a group of fields or a number that is at least 1, not 0; such a group is "
                      "{n: ...}"),
    ("failedTrials: {tellTuner: best}", 'failedTrials.tellTuner: must be nothing, worst or a number, not "best"'),
    ("tuner: TPE", 'tuner: must be a group of fields, not "TPE"; such a group is {name: TPE}'),
    ("retry: 3", "retry: must be a group of fields, not 3; such a group is {onPlatformFailure: 3}"),
    ("objectives: [a]", 'objectives[0]: must be a group of fields, not "a"; such a group is {metric: a, '
                        "optimizeMode: ...}"),
    ("description: !!binary aGVsbG8=", "description: is binary data, which a config cannot contain; put it in quotes "
                                       "to make it text"),
    ("tuner: &a {classArgs: *a}", "tuner.classArgs.classArgs: is nested more than 50 levels deep"),
    ("logCollection: http", "logCollection: belongs to NNI's v1 form and has no effect; the output of trials is always "
                            "collected; remove it"),
])
def test_what_the_field_takes_is_said(tmp_path: Path, text: str, said: str) -> None:
    assert refused(text, tmp_path) == said


def test_a_file_that_is_no_search_space_is_not_called_a_config(tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text("[1, 2]")
    assert refused("", tmp_path, "searchSpaceFile: space.json") == \
        "searchSpaceFile: in space.json: the search space must be a mapping of names to values"


def test_the_article_of_an_assessor_is_an(tmp_path: Path) -> None:
    assert "An assessor of your own" in refused("assessor: {name: Absent}", tmp_path)


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../x", "out/../../x", "$NNI_OUTPUT_DIR/../job.json"])
def test_files_to_keep_that_keepers_would_not_take_are_refused(tmp_path: Path, pattern: str) -> None:
    assert refused(f"keepFiles: [{pattern}]", tmp_path).startswith(
        f'keepFiles[0]: "{pattern}" leaves the trial\'s folder, and only files within it are kept.')


@pytest.mark.parametrize("pattern", ["out/**/*.pt", "a/../b", "$NNI_OUTPUT_DIR/*.pt", "..data"])
def test_files_to_keep_within_the_folder_are_taken(tmp_path: Path, pattern: str) -> None:
    found = parse_experiment_config(f"{BASE}{SPACE}keepFiles: [{pattern}]", tmp_path)
    assert found.settings.keep_files == (pattern,)


@pytest.mark.parametrize(("written", "field", "message"), [
    ("checkpoints: {keep: 0}", "checkpoints.keep", "must be at least 1, not 0"),
    ("replicates: {n: x}", "replicates.n", 'must be a whole number, not "x"'),
    (f"warmStart: [{', '.join(['os'] * 1001)}]", "warmStart", "must have at most 200 entries"),
    ("warmStart: [1]", "warmStart[0]", "must be text, not 1; put it in quotes"),
    ("checkpoints: 3", "checkpoints", "must be true or false or a group of fields, not 3")])
def test_a_field_of_several_kinds_is_judged_by_the_kind_of_what_was_given(tmp_path, written, field, message):
    with pytest.raises(ConfigInvalid) as invalid:
        parse_experiment_config(f"{BASE}{SPACE}{written}", tmp_path)
    [error] = invalid.value.errors
    assert error.field == field
    assert error.message.startswith(message)
