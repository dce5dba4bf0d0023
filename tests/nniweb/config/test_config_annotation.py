"""``useAnnotation: true``: the search space of a config is the one that the annotations in the code give."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nniweb.experiments.config import parse_experiment_config, resolved_document
from nniweb.experiments.config.upgrade import upgraded

TRAIN = '"""@nni.variable(nni.choice(16, 32), name=units)"""\nunits = 8\n' \
        '"""@nni.variable(nni.loguniform(0.0001, 0.1), name=lr)"""\nlr = 0.01\n'
GENERATED = {"train/units/choice": {"_type": "choice", "_value": [16, 32]},
             "train/lr/loguniform": {"_type": "loguniform", "_value": [0.0001, 0.1]}}
V1 = """\
authorName: default
experimentName: example
trialConcurrency: 1
maxExecDuration: 1h
maxTrialNum: 10
#choice: local, remote, pai
trainingServicePlatform: local
#choice: true, false
useAnnotation: true
tuner:
  builtinTunerName: TPE
  classArgs:
    optimize_mode: maximize
trial:
  command: python3 train.py
  codeDir: code
  gpuNum: 0
"""
V2 = """\
useAnnotation: true
trialCommand: python3 train.py
trialCodeDirectory: code
trialConcurrency: 1
tuner:
  name: TPE
trainingService:
  platform: local
"""


@pytest.fixture(autouse=True)
def train(folder: Path) -> Path:
    path = folder / "code" / "train.py"
    path.write_text(TRAIN)
    return path


@pytest.mark.parametrize("text", [V1, V2], ids=["v1", "v2"])
def test_the_search_space_is_generated(folder: Path, text: str) -> None:
    parsed = parse_experiment_config(text, folder)
    assert (parsed.settings.search_space, parsed.settings.use_annotation) == (GENERATED, True)
    assert ("useAnnotation: the annotations give 2 parameters: train/units/choice, train/lr/loguniform. Each trial "
            "gets its own copy of the code.") in parsed.notes
    document = resolved_document(parsed.settings)
    assert (document["useAnnotation"], "searchSpace" in document) == (True, False)
    assert parse_experiment_config(document, folder).settings == parsed.settings


def test_the_v2_form_of_a_v1_file_keeps_it(folder: Path) -> None:
    document, _ = upgraded(V1)
    assert document["useAnnotation"] is True
    assert parse_experiment_config(document, folder).settings.search_space == GENERATED


@pytest.mark.parametrize(("text", "field", "line"), [
    (V1 + "searchSpacePath: space.json\n", "searchSpacePath", 18),
    (V2 + "searchSpaceFile: space.json\n", "searchSpaceFile", 9),
    (V2 + "searchSpace: {x: {_type: uniform, _value: [0, 1]}}\n", "searchSpace", 9)])
def test_a_search_space_beside_it_is_refused_as_by_nni(errors_of: Callable, text: str, field: str, line: int) -> None:
    [error] = errors_of(text)
    assert (error.field, error.line) == (field, line)
    assert error.message == ("must be left out with useAnnotation: true, which makes the search space from the "
                             "annotations in the code")


@pytest.mark.parametrize(("text", "line"), [(V1, 9), (V2, 1)], ids=["v1", "v2"])
def test_what_is_wrong_in_the_code_is_said_at_its_file_and_line(errors_of: Callable, train: Path, text: str, line: int
                                                                ) -> None:
    train.write_text("import os\n" + TRAIN.replace("name=lr", "name=rate") + "x = nni.choice(1)\n")
    first, second = errors_of(text)
    assert (first.field, first.line) == (second.field, second.line) == ("useAnnotation", line)
    assert first.message.startswith("train.py, line 4: the annotation is for rate, but the assignment after it")
    assert second.message.startswith("train.py, line 6: nni.choice needs a dict")


def test_values_that_no_search_space_can_have_are_said_at_their_annotation(errors_of: Callable, train: Path) -> None:
    train.write_text("#\n" + TRAIN.replace("0.0001, 0.1", "0, 0.1").replace("choice(16, 32)", "randint(2, 3, 5)"))
    messages = [error.message for error in errors_of(V2)]
    assert messages == [
        "train.py, line 2: train/units/randint._value: must have 2 numbers, the lower bound and the upper bound (which "
        "is never sampled itself), but has 3",
        "train.py, line 4: train/lr/loguniform._value[0]: the low bound of a logarithmic type must be greater than 0, "
        "not 0"]


def test_what_the_tuner_cannot_search_is_said_before_the_launch(errors_of: Callable, train: Path) -> None:
    [error] = errors_of(V2.replace("TPE", "BatchTuner"))
    assert error.field == "useAnnotation"
    assert error.message.startswith("BatchTuner needs exactly one parameter")
    train.write_text("\n" + TRAIN[:TRAIN.index("units = 8") + 10])
    [error] = errors_of(V2.replace("TPE", "BatchTuner"))
    assert error.message.startswith("train.py, line 2: train/units/choice")


def test_a_tuner_of_ones_own_gets_what_was_generated_unread(folder: Path, train: Path) -> None:
    train.write_text(TRAIN.replace("16, 32", "16").replace("0.0001, 0.1", "1, 2, 3"))
    (folder / "mine.py").write_text("")
    parsed = parse_experiment_config(V2.replace("name: TPE", "className: mine.Mine\n  codeDirectory: ."), folder)
    assert parsed.settings.search_space["train/lr/loguniform"]["_value"] == [1, 2, 3]


def test_code_without_annotations_is_refused(errors_of: Callable, train: Path) -> None:
    train.write_text("x = 1\n")
    [error] = errors_of(V2)
    assert (error.field, "no Python file of the code has an annotation" in error.message) == ("useAnnotation", True)


def test_without_a_folder_there_is_nothing_to_read(errors_of: Callable) -> None:
    [error] = errors_of(V2.replace("trialCodeDirectory: code\n", ""), base_directory=None)
    assert (error.field, error.message) == (
        "useAnnotation", "needs the code; name its folder in trialCodeDirectory, or send the code with the config")
    [error] = errors_of(V2.replace("code\n", "nowhere\n"))
    assert error.field == "trialCodeDirectory"


def test_a_folder_that_cannot_be_packed_is_the_folders_error(errors_of: Callable, folder: Path) -> None:
    (folder / "code" / "out").symlink_to("/etc")
    [error] = errors_of(V2)
    assert error.field == "trialCodeDirectory"
    assert "points out of the code folder" in error.message


def test_where_the_code_comes_later_the_search_space_does(folder: Path) -> None:
    parsed = parse_experiment_config(V2.replace("code", "later"), folder, must_exist=False)
    assert (parsed.settings.search_space, parsed.settings.use_annotation) == ({}, True)
    assert "useAnnotation: the search space is made when the code has been fetched." in parsed.notes


def test_files_that_may_not_be_named_are_not_read(errors_of: Callable, folder: Path, train: Path) -> None:
    train.write_text(TRAIN.replace("name=lr", "name=other"))
    errors = errors_of(V2, why_not_here=lambda platform, settings: [("trainingService.platform", "Not for you.")])
    assert [error.message for error in errors] == ["Not for you."]
