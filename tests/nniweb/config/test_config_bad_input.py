"""Each wrong thing is told by the caller's own name for the field, with what to do; all of them at once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.config.findings import MOST_ERRORS

LEFT_OUT = object()


def changed(config: dict[str, Any], field: str, value: object) -> dict[str, Any]:
    *groups, key = field.split(".")
    place = config
    for group in groups:
        place = place.setdefault(group, {})
    if value is LEFT_OUT:
        place.pop(key, None)
    else:
        place[key] = value
    return config


@pytest.mark.parametrize(("field", "value", "words"), [
    ("trialConcurency", 2, "did you mean trialConcurrency?"),
    ("traningService", {}, "did you mean trainingService?"),
    ("trial", {"command": "x"}, "v1 form"),
    ("trialConcurrency", LEFT_OUT, "required"),
    ("trialConcurrency", 0, "greater than 0"),
    ("trialConcurrency", -1, "greater than 0"),
    ("trialConcurrency", 10**6, "at most 99999"),
    ("trialConcurrency", "2", 'a whole number, not "2"'),
    ("trialConcurrency", 1.5, "a whole number, not 1.5"),
    ("trialConcurrency", True, "a whole number, not true"),
    ("trialConcurrency", [1], "a whole number, not a list"),
    ("objectives", [{"metric": "a", "optimizeMode": "maximize"}] * 2, "names the metric a twice"),
    ("trialCommand", "", "is empty"),
    ("trialCommand", "  \n", "is empty"),
    ("trialCommand", LEFT_OUT, "is required"),
    ("trialCommand", 5, "text"),
    ("trialCodeDirectory", "nowhere", "there is no folder"),
    ("trialCodeDirectory", "space.json", "is not a folder"),
    ("trialCodeDirectory", "", "empty"),
    ("trialCodeDirectory", "~no-such-user/x", "no user of this name"),
    ("trialCodeDirectory", "x" * 5000, "cannot be used"),
    ("trialGpuNumber", -1, "at least 0"),
    ("maxExperimentDuration", "1 fortnight", "duration"),
    ("maxExperimentDuration", 0, "longer than 0"),
    ("maxTrialDuration", 1.5, "duration"),
    ("maxTrialNumber", 0, "greater than 0"),
    ("debug", "yes", "true or false"),
    ("logLevel", "inof", "did you mean info?"),
    ("experimentType", "nas", "hpo"),
    ("useAnnotation", "yes", "true or false"),
    ("seed", -1, "at least 0"),
    ("tags", "one", "a list"),
    ("tags[0]", [""], "not be empty"),
    ("tunerGpuIndices", "0,x", "GPU numbers"),
    ("tunerGpuIndices", [0, 0], "twice"),
    ("searchSpaceFile", "nowhere.json", "there is no file"),
    ("searchSpaceFile", "code", "is not a file"),
    ("tuner", "TPE", 'a group of fields, not "TPE"'),
    ("tuner.name", "TEP", "TPE"),
    ("tuner.name", "PPO", "not available"),
    ("tuner.name", LEFT_OUT, "is required"),
    ("tuner.nmae", "TPE", "did you mean name?"),
    ("tuner.classArgs.optimize_mode", "max", "maximize"),
    ("tuner.classArgs.sead", 1, "seed"),
    ("tuner.classArgs", [], "group of fields"),
    ("advisor", {"name": "TPE"}, "together with tuner"),
    ("assessor.name", "Medianstopp", "Medianstop"),
    ("assessor.classArgs.start_step", "x", "must be a whole number"),
    ("trainingService", LEFT_OUT, "is required"),
    ("trainingService", "local", 'not "local"'),
    ("trainingService", [], "is an empty list"),
    ("trainingService.platform", "locla", "local"),
    ("trainingService.platform", LEFT_OUT, "is required"),
    ("trainingService.platform", 3, "name of a platform"),
    ("trainingService.gpuIndcies", 3, "did you mean gpuIndices?"),
    ("trainingService.gpuIndices", "a", "GPU indices"),
    ("trainingService.maxTrialNumberPerGpu", 0, "at least 1"),
    ("trainingService.useActiveGpu", "no", "true or false"),
    ("trainingService.reuseMode", "no", "true or false"),
    ("cluster", "ours", "together with trainingService"),
    ("trialOptions", {}, "cluster"),
])
def test_a_wrong_v2_field_is_named(v2: dict, errors_of: Callable, field: str, value: object, words: str) -> None:
    errors = errors_of(changed(v2, field.removesuffix("[0]"), value))
    assert any(error.field == field and words in error.message for error in errors), errors


@pytest.mark.parametrize(("field", "value", "named", "words"), [
    ("trialConcurency", 2, "trialConcurency", "did you mean trialConcurrency?"),
    ("maxtrialnum", 2, "maxtrialnum", "did you mean maxTrialNum?"),
    ("trialConcurrency", LEFT_OUT, "trialConcurrency", "required"),
    ("trialConcurrency", "2", "trialConcurrency", "whole number"),
    ("maxExecDuration", "0h", "maxExecDuration", "longer than 0"),
    ("maxTrialNum", 0, "maxTrialNum", "greater than 0"),
    ("trainingServicePlatform", "locla", "trainingServicePlatform", "local"),
    ("trainingServicePlatform", None, "trainingServicePlatform", "required"),
    ("searchSpacePath", "nowhere.json", "searchSpacePath", "there is no file"),
    ("searchSpacePath", LEFT_OUT, "searchSpacePath", "is required"),
    ("useAnnotation", True, "searchSpacePath", "must be left out with useAnnotation: true"),
    ("multiPhase", "perhaps", "multiPhase", "true or false"),
    ("tuner", LEFT_OUT, "tuner", "is required"),
    ("tuner.builtinTunerName", "TEP", "tuner.builtinTunerName", "TPE"),
    ("tuner.builtinTunerName", "PPOTuner", "tuner.builtinTunerName", "not available"),
    ("tuner.builtinTunerName", LEFT_OUT, "tuner.builtinTunerName", "is required"),
    ("tuner.classArgs.sead", 1, "tuner.classArgs.sead", "seed"),
    ("tuner.gpuIndices", "x", "tuner.gpuIndices", "GPU numbers"),
    ("tuner.codeDir", "code", "tuner.builtinTunerName", "cannot be given together"),
    ("tuner.className", "Mine", "tuner.classFileName", "is required"),
    ("trial", LEFT_OUT, "trial.command", "is required"),
    ("trial", "python train.py", "trial", "group of fields"),
    ("trial.command", "", "trial.command", "is empty"),
    ("trial.comand", "x", "trial.comand", "did you mean command?"),
    ("trial.codeDir", "nowhere", "trial.codeDir", "there is no folder"),
    ("trial.gpuNum", -1, "trial.gpuNum", "at least 0"),
    ("localConfig.gpuIndices", "a", "localConfig.gpuIndices", "GPU indices"),
    ("localConfig.maxTrialNumPerGpu", 0, "localConfig.maxTrialNumPerGpu", "at least 1"),
    ("localConfig.useactivegpu", True, "localConfig.useactivegpu", "did you mean useActiveGpu?"),
    ("machineList", [], "machineList", "not a known field"),
    ("machineList[]", {}, "machineList[]", "not a known field"),
])
def test_a_wrong_v1_field_has_its_v1_name(v1: dict, errors_of: Callable, field: str, value: object, named: str,
                                          words: str) -> None:
    errors = errors_of(changed(v1, field, value))
    assert any(error.field == named and words in error.message for error in errors), errors


@pytest.mark.parametrize(("space", "field", "words"), [
    ({}, "searchSpace", "empty"),
    ({"x": {"_type": "choice", "_value": []}}, "searchSpace.x._value", "empty"),
    ({"x": {"_type": "uniform", "_value": [2, 1]}}, "searchSpace.x._value[1]", "at least"),
    ({"x": {"_type": "unifrom", "_value": [1, 2]}}, "searchSpace.x._type", "uniform"),
    ({"a.b": {"_type": "uniform", "_value": [2, 1]}}, "searchSpace.a.b._value[1]", "at least"),
    ([1], "searchSpace", "a group of fields, not a list"),
])
def test_a_wrong_search_space_is_told_down_to_the_value(v2: dict, errors_of: Callable, space: object, field: str,
                                                        words: str) -> None:
    del v2["searchSpaceFile"]
    [error] = errors_of(yaml.safe_dump(v2 | {"searchSpace": space}, sort_keys=False))
    assert error.field == field
    assert words in error.message
    assert error.line is not None


@pytest.mark.parametrize(("content", "words"), [
    (b'{"x": {"_type": "choice", "_value": []}}', "x._value"), (b"{'x': [", "line 1"), (b"\xff\xfe", "UTF-8"),
    (b"", "empty"), (b'{"x": NaN}', "finite"), (b"[1]", "mapping"),
])
def test_a_wrong_search_space_file_is_named_with_the_place_in_it(folder: Path, v2: dict, errors_of: Callable,
                                                                 content: bytes, words: str) -> None:
    (folder / "space.json").write_bytes(content)
    [error] = errors_of(v2)
    assert error.field == "searchSpaceFile"
    assert "space.json" in error.message
    assert words in error.message


def test_one_of_the_two_forms_of_the_search_space_is_needed(v2: dict, errors_of: Callable) -> None:
    del v2["searchSpaceFile"]
    [error] = errors_of(v2)
    assert error.field == "searchSpace"
    assert "searchSpaceFile" in error.message


def test_a_relative_path_needs_a_folder_to_start_from(v2: dict, errors_of: Callable) -> None:
    errors = errors_of(v2, base_directory=None)
    assert [error.field for error in errors] == ["searchSpaceFile", "trialCodeDirectory"]
    assert all("choose the code folder" in error.message for error in errors)


def test_all_errors_are_told_at_once_in_the_order_of_the_file(errors_of: Callable) -> None:
    errors = errors_of(
        "experiment_name: 5\n"
        "searchSpace:\n"
        "  lr: {_type: uniform, _value: [2, 1]}\n"
        "trial_command: ''\n"
        "trial_concurrency: none\n"
        "tuner: {name: TEP}\n"
        "trainingService: {platform: local, gpu_index: 1}\n")
    assert [(error.field, error.line) for error in errors] == [
        ("experiment_name", 1), ("searchSpace.lr._value[1]", 3), ("trial_command", 4), ("trial_concurrency", 5),
        ("tuner.name", 6), ("trainingService.gpu_index", 7)]


def test_two_spellings_of_one_field_are_refused(v2: dict, errors_of: Callable) -> None:
    [error] = errors_of(v2 | {"trial_concurrency": 2})
    assert error.field == "trial_concurrency"
    assert "trialConcurrency" in error.message


def test_a_missing_field_of_a_group_has_the_place_of_the_group(errors_of: Callable, v2: dict) -> None:
    text = yaml.safe_dump(v2, sort_keys=False).replace("  name: Medianstop\n", "")
    [error] = errors_of(text)
    assert error.field == "assessor.name"
    assert error.line == text[:text.index("assessor:")].count("\n") + 1


def test_a_wrong_value_has_its_line_and_column(errors_of: Callable, v2: dict) -> None:
    text = yaml.safe_dump(v2, sort_keys=False).replace("trialConcurrency: 2", "trialConcurrency: two")
    [error] = errors_of(text)
    assert (error.line, error.column) == (5, 19)
    assert str(error) == 'line 5, column 19: trialConcurrency: must be a whole number, not "two"'


@pytest.mark.parametrize(("own", "field", "words"), [
    ({"className": "mine.Tuner", "codeDirectory": "code"}, "tuner.codeDirectory", "no module mine.py"),
    ({"className": "mine.Tuner", "codeDirectory": "nowhere"}, "tuner.codeDirectory", "there is no folder"),
    ({"className": "Tuner", "codeDirectory": "code"}, "tuner.className", "such as my_tuner.MyTuner"),
    ({"className": "mine.Tuner; x", "codeDirectory": "code"}, "tuner.className", "such as my_tuner.MyTuner"),
    ({"codeDirectory": "code"}, "tuner.className", "is required"),
    ({"name": "TPE", "codeDirectory": "code"}, "tuner.name", "cannot be given together with tuner.codeDirectory"),
    ({"name": "TPE", "className": "mine.Tuner"}, "tuner.name", "cannot be given together with tuner.className"),
    ({"className": "mine.Tuner", "name": "TPE"}, "tuner.name", "cannot be given together"),
])  # fmt: skip
def test_a_wrong_algorithm_of_ones_own_is_named(v2: dict, errors_of: Callable, own: dict, field: str, words: str
                                                ) -> None:
    [error] = errors_of(v2 | {"tuner": own})
    assert error.field == field
    assert words in error.message


def test_an_algorithm_of_ones_own_is_read_in_both_forms(v2: dict, v1: dict, folder: Path) -> None:
    (folder / "code" / "mine.py").write_text("")
    own = {"className": "mine.Tuner", "codeDirectory": "code", "classArgs": {"optimize_mode": "minimize", "seed": "x"}}
    own_v1 = {"codeDir": "code", "classFileName": "mine.py", "className": "Tuner", "classArgs": own["classArgs"]}
    for document in (v2 | {"tuner": own}, v1 | {"tuner": own_v1}):
        settings = parse_experiment_config(document, folder).settings
        assert settings.tuner.class_name == "mine.Tuner"
        assert settings.tuner.code_directory == (folder / "code").resolve()
        assert settings.optimize_mode == "minimize"


@pytest.mark.parametrize(("given", "seed"), [(2**63 - 1, 2**63 - 1), (-5, -5), (10**30, 10**30 % 2**63), (2**63, 0),
                                             (-2**63 - 1, 2**63 - 1)])
def test_the_seed_of_an_own_class_may_be_any_whole_number(v2: dict, folder: Path, given: int, seed: int) -> None:
    (folder / "code" / "mine.py").write_text("")
    own = {"className": "mine.Tuner", "codeDirectory": "code", "classArgs": {"seed": given}}
    settings = parse_experiment_config(v2 | {"tuner": own}, folder).settings
    assert settings.seed == seed, "what a column of the database can hold"
    assert settings.tuner.class_args["seed"] == given, "the class gets what was written"


@pytest.mark.parametrize(("field", "longest", "words"), [
    ("environment.DATA", "x" * (131_071 - len("DATA=")), "write it to a file, and give the file's path"),
    ("environment.DATA", "é" * 65_533, "has 131074 bytes with its name; at most 131071"),
    ("trialCommand", "true " + "x" * (131_071 - len("true ")), "write it to a script, and run the script"),
])
def test_what_no_program_can_be_started_with_is_refused(errors_of: Callable, v2: dict, folder: Path, field: str,
                                                        longest: str, words: str) -> None:
    assert parse_experiment_config(changed(v2, field, longest), folder) is not None
    [error] = errors_of(changed(v2, field, f"{longest}xxx"))
    assert error.field == field
    assert words in error.message


def test_of_a_file_in_which_nearly_everything_is_wrong_so_much_is_told(v2, errors_of) -> None:
    assert len(errors_of({**v2, **{f"unknown{number}": 1 for number in range(20_000)}})) == MOST_ERRORS
    space = {f"p{number}": {"_type": "uniform", "_value": [1, 0]} for number in range(2 * MOST_ERRORS)}
    errors = errors_of(json.dumps({**v2, "searchSpaceFile": None, "searchSpace": space}))
    assert (len(errors), errors[-1].line) == (MOST_ERRORS, 1)


def test_a_very_long_name_is_compared_with_none(v2, errors_of) -> None:
    [error] = errors_of({**v2, "trialConcurrency" * 30: 2})
    assert error.message == "is not a known field here"


@pytest.mark.parametrize("written", [json.dumps, yaml.safe_dump, dict])
def test_a_name_that_would_stand_in_too_many_paths_is_refused(v2, errors_of, written: Callable) -> None:
    options = [{"_name": "a", "x": 1}] * 100
    errors = errors_of(written({**v2, "searchSpaceFile": None, "searchSpace": {
        "k" * 100_000: {"_type": "choice", "_value": options}}}))
    assert [error.message for error in errors] == ["has a key of 100000 characters; at most 1000 are read"]
