"""v1 and v2 are two spellings of the same experiment."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config, resolved_document
from nniweb.experiments.config.code_roots import CodeRoots
from trainingservice.local.config import LocalTrialOptions


def test_v1_and_v2_of_one_experiment_give_equal_settings(folder: Path, v1: dict, v2: dict) -> None:
    first, second = parse_experiment_config(v1, folder), parse_experiment_config(v2, folder)
    assert first.settings == second.settings
    assert (first.source_version, second.source_version) == ("v1", "v2")


def test_every_field_arrives(folder: Path, v2: dict) -> None:
    settings = parse_experiment_config(yaml.safe_dump(v2), folder).settings
    assert settings.experiment_name == "digits"
    assert settings.search_space["units"] == {"_type": "choice", "_value": [16, 32]}
    assert settings.trial_command == "python3 train.py"
    assert settings.trial_code_directory == folder / "code"
    assert (settings.trial_concurrency, settings.trial_gpu_number, settings.max_trial_number) == (2, 1, 10)
    assert (settings.max_experiment_duration, settings.max_trial_duration) == (5400, None)
    assert (settings.nni_manager_ip, settings.log_level, settings.debug) == ("10.0.0.1", "debug", False)
    assert settings.tuner.name == "TPE"
    assert settings.assessor is not None
    assert settings.assessor.class_args == {"start_step": 3}
    assert (settings.optimize_mode, settings.seed, settings.tuner_gpu_indices) == ("maximize", 7, (0, 1))
    assert settings.training_service is not None
    assert settings.training_service.platform == "local"
    assert settings.training_service.options == LocalTrialOptions(
        use_active_gpu=True, max_trial_number_per_gpu=2, gpu_indices=(0, 1))
    assert settings.cluster is None


def test_v2_keys_ignore_case_and_underscores(folder: Path, v2: dict) -> None:
    def respelt(value: Any) -> Any:
        return {key.upper() if key != "classArgs" else "class_args": item if key == "classArgs" else respelt(item)
                for key, item in value.items()} if isinstance(value, dict) else value

    assert parse_experiment_config(respelt(v2), folder).settings == parse_experiment_config(v2, folder).settings


def test_json_and_yaml_and_values_are_the_same(folder: Path, v2: dict) -> None:
    texts = [json.dumps(v2), json.dumps(v2, indent="\t"), yaml.safe_dump(v2), v2]
    assert len({repr(parse_experiment_config(text, folder).settings) for text in texts}) == 1


def test_the_resolved_document_gives_the_same_settings_again(folder: Path, v2: dict, v1: dict) -> None:
    v2 |= {"seed": 3, "tags": ["a", "b"], "description": "text", "maxTrialDuration": 61, "retry": {"onFailure": 2},
           "failedTrials": {"tellTuner": "worst", "giveUpAfter": 5}, "budget": {"gpuHours": 2.5, "trials": 9}}
    for source in (v2, v1):
        settings = parse_experiment_config(source, folder).settings
        document = json.loads(json.dumps(resolved_document(settings)))
        assert parse_experiment_config(document).settings == settings
    assert document["maxExperimentDuration"] == "90m"


def test_what_is_left_out_has_nnis_defaults(folder: Path) -> None:
    settings = parse_experiment_config({
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "true", "trialConcurrency": 1,
        "tuner": {"name": "random"}, "trainingService": {"platform": "local"}}, folder).settings
    assert settings.trial_code_directory == folder
    assert settings.trial_gpu_number is None
    assert (settings.max_experiment_duration, settings.max_trial_number, settings.max_trial_duration) == (None,) * 3
    assert (settings.debug, settings.log_level, settings.assessor) == (False, "info", None)
    assert settings.tuner.name == "Random"


@pytest.mark.parametrize(("tuner", "mode"), [
    ({"name": "TPE"}, "minimize"), ({"name": "Random"}, "maximize"),
    ({"name": "TPE", "classArgs": {"optimize_mode": "maximize"}}, "maximize"),
])
def test_the_direction_comes_from_the_tuner(folder: Path, v2: dict, tuner: dict, mode: str) -> None:
    del v2["assessor"]
    assert parse_experiment_config(v2 | {"tuner": tuner}, folder).settings.optimize_mode == mode


def test_debug_sets_the_log_level_where_none_is_given(folder: Path, v2: dict) -> None:
    del v2["logLevel"]
    assert parse_experiment_config(v2 | {"debug": True}, folder).settings.log_level == "debug"
    assert parse_experiment_config(v2 | {"debug": True, "logLevel": "error"}, folder).settings.log_level == "error"


def test_fields_without_a_value_count_as_left_out(folder: Path, v2: dict) -> None:
    v2["trainingService"]["gpuIndices"] = None
    settings = parse_experiment_config(v2 | {"maxTrialNumber": None, "assessor": None}, folder).settings
    assert (settings.max_trial_number, settings.assessor) == (None, None)


def test_the_section_may_hold_general_fields_and_wins(folder: Path, v2: dict) -> None:
    v2["trainingService"] |= {"trial_command": "echo section", "trialGpuNumber": 0}
    settings = parse_experiment_config(v2, folder).settings
    assert (settings.trial_command, settings.trial_gpu_number) == ("echo section", 0)


def test_the_search_space_may_stand_inside_or_in_a_yaml_file(folder: Path, v2: dict) -> None:
    (folder / "space.yml").write_text("lr: {_type: loguniform, _value: [1e-4, 0.1]}\n")
    expected = {"lr": {"_type": "loguniform", "_value": [0.0001, 0.1]}}
    from_file = parse_experiment_config(v2 | {"searchSpaceFile": "space.yml"}, folder).settings
    del v2["searchSpaceFile"]
    assert from_file.search_space == expected
    assert parse_experiment_config(v2 | {"searchSpace": expected}, folder).settings == from_file


def test_an_advisor_is_read_as_a_tuner_with_a_note(folder: Path, v2: dict) -> None:
    parsed = parse_experiment_config(v2 | {"advisor": v2.pop("tuner")}, folder)
    assert parsed.settings.tuner.name == "TPE"
    assert any(note.startswith("advisor:") for note in parsed.notes)


def test_nni_2_0_spelt_the_assessor_accessor(folder: Path, v2: dict) -> None:
    settings = parse_experiment_config(v2 | {"accessor": v2.pop("assessor")}, folder).settings
    assert settings.assessor is not None


def test_paths_may_be_absolute_or_begin_at_home(folder: Path, v2: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    v2 |= {"trialCodeDirectory": "~/code", "searchSpaceFile": str(folder / "space.json")}
    assert parse_experiment_config(v2).settings.trial_code_directory == folder / "code"


def test_folders_need_not_exist_where_they_are_not_looked_at(folder: Path, v2: dict) -> None:
    v2["trialCodeDirectory"] = "/nowhere/at/all"
    settings = parse_experiment_config(v2, folder, must_exist=False).settings
    assert settings.trial_code_directory == Path("/nowhere/at/all")


@pytest.mark.parametrize(("field", "value"), [
    ("authorName", "me"), ("multiThread", True), ("versionCheck", False), ("logCollection", "http"), ("logDir", "/tmp"),
    ("assessor.includeIntermediateResults", True), ("trial.nasMode", "classic_mode"), ("assessor.gpuIndices", 0),
])
def test_v1_fields_without_a_meaning_here_are_accepted_with_a_note(folder: Path, v1: dict, field: str,
                                                                   value: object) -> None:
    group, _, key = field.rpartition(".")
    (v1[group] if group else v1)[key] = value
    parsed = parse_experiment_config(v1, folder)
    assert [note for note in parsed.notes if note.startswith(f"{field}: ")]


def test_a_folder_without_a_meaning_here_may_lie_anywhere(folder: Path, v2: dict) -> None:
    v2["experimentWorkingDirectory"] = "~nobody-of-this-machine/nni-experiments"
    [note] = parse_experiment_config(v2, folder, roots=CodeRoots((folder,))).notes
    assert note.startswith("experimentWorkingDirectory: has no effect")


def test_reuse_mode_is_answered_with_what_it_means_here(folder: Path, v2: dict) -> None:
    v2["trainingService"]["reuse_mode"] = True
    [note] = parse_experiment_config(v2, folder).notes
    assert note.startswith("trainingService.reuse_mode: ")
    assert "no effect" in note


def test_gpus_in_use_need_not_be_mentioned_but_are_noted(folder: Path, v2: dict) -> None:
    del v2["trainingService"]["useActiveGpu"]
    [note] = parse_experiment_config(v2, folder).notes
    assert note.startswith("trainingService.useActiveGpu: ")


def test_the_original_text_is_kept_as_it_was_written(folder: Path, v2: dict) -> None:
    text = "# a comment\n" + yaml.safe_dump(v2)
    assert parse_experiment_config(text, folder).original_text == text


def test_a_search_space_file_wins_over_one_written_inside_and_a_note_says_so(folder: Path, v2: dict) -> None:
    parsed = parse_experiment_config(v2 | {"searchSpace": {"x": {"_type": "choice", "_value": [1]}}}, folder)
    assert set(parsed.settings.search_space) == {"lr", "units"}
    assert any("searchSpaceFile" in note for note in parsed.notes)


@pytest.mark.parametrize(("given", "kept"), [
    ({}, {}), ({"tellTuner": "nothing"}, {}), ({"tellTuner": "worst"}, {"tellTuner": "worst"}),
    ({"tellTuner": -1e3, "giveUpAfter": 3}, {"tellTuner": -1000.0, "giveUpAfter": 3})])
def test_what_failed_trials_mean_arrives(folder: Path, v2: dict, given: dict, kept: dict) -> None:
    assert parse_experiment_config(v2 | {"failedTrials": given}, folder).settings.failed_trials == kept


@pytest.mark.parametrize("wrong", [{"tellTuner": "best"}, {"tellTuner": float("nan")}, {"giveUpAfter": 0}])
def test_what_failed_trials_cannot_mean_is_an_error_at_its_field(folder: Path, v2: dict, wrong: dict) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        parse_experiment_config(v2 | {"failedTrials": wrong}, folder)
    assert [error.field for error in raised.value.errors] == [f"failedTrials.{name}" for name in wrong]


@pytest.mark.parametrize(("wrong", "field"), [
    ({"gpuHours": 0}, "gpuHours"), ({"money": -1}, "money"), ({"trials": 1.5}, "trials"), ({"hours": 1}, "hours"),
    ({"wallHours": float("inf")}, "wallHours"), ({"cpuHours": 1e-7}, "cpuHours")])
def test_a_budget_that_allows_nothing_or_is_no_number_is_an_error_at_its_field(
        folder: Path, v2: dict, wrong: dict, field: str) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        parse_experiment_config(v2 | {"budget": wrong}, folder)
    assert [error.field for error in raised.value.errors] == [f"budget.{field}"]
