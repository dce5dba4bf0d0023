"""multiPhase in files: what it comes to, and what it does not go together with."""

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.config.resolved import resolved_document
from nniweb.tuning.algorithms import TUNERS

V1 = {"authorName": "someone", "experimentName": "phases", "trialConcurrency": 1, "maxTrialNum": 2,
      "searchSpacePath": "space.json", "tuner": {"builtinTunerName": "TPE"},
      "trial": {"command": "true", "codeDir": ".", "gpuNum": 0}, "useAnnotation": False, "multiPhase": True,
      "trainingServicePlatform": "local"}


def parsed(tmp_path: Path, **fields: Any) -> Any:
    return parse_experiment_config({
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "true", "trialConcurrency": 1,
        "multiPhase": True, "tuner": {"name": "TPE"}, "trainingService": {"platform": "local"}, **fields},
        tmp_path).settings


def refused(tmp_path: Path, **fields: Any) -> str:
    with pytest.raises(ConfigInvalid) as invalid:
        parsed(tmp_path, **fields)
    return str(invalid.value)


def test_a_file_in_nnis_first_form_and_one_in_ours_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    first = parse_experiment_config(V1, tmp_path)
    assert first.settings.multi_phase
    assert not any("multiPhase" in note for note in first.notes)
    assert parsed(tmp_path).multi_phase
    assert not parsed(tmp_path, multiPhase=False).multi_phase
    assert "multiPhase" not in resolved_document(parsed(tmp_path, multiPhase=False))
    assert parse_experiment_config(resolved_document(first.settings)).settings == first.settings


@pytest.mark.parametrize("tuner", [entry.name for entry in TUNERS])
def test_tuners_that_give_one_set_only_are_refused(tmp_path: Path, tuner: str) -> None:
    able = {"Auto", "TPE", "Random", "GridSearch", "Anneal", "Evolution", "BatchTuner", "SMAC", "Metis", "Hyperband",
            "BOHB"}
    fields: dict[str, Any] = {"tuner": {"name": tuner, "classArgs": {"R": 4, "eta": 2} if tuner == "Hyperband" else {}}}
    if tuner == "BOHB":
        fields["tuner"]["classArgs"] = {"min_budget": 1, "max_budget": 4}
    if tuner == "BatchTuner":
        fields["searchSpace"] = {"all": {"_type": "choice", "_value": [{"x": 1}, {"x": 2}]}}
    if tuner in able:
        assert parsed(tmp_path, **fields).multi_phase
    else:
        assert f"tuner.name: {tuner} gives a trial one parameter set" in refused(tmp_path, **fields)


def test_a_class_of_ones_own_that_takes_no_trial_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def generate_parameters(self, parameter_id): ...\n"
                                      "class Good:\n    def generate_parameters(self, parameter_id, **kwargs): ...\n")
    own = {"className": "mine.Mine", "codeDirectory": "."}
    assert "tuner.className: mine.Mine gives a trial one parameter set" in refused(tmp_path, tuner=own)
    assert not parsed(tmp_path, tuner=own, multiPhase=False).multi_phase
    assert parsed(tmp_path, tuner={**own, "className": "mine.Good"}).multi_phase


@pytest.mark.parametrize("platform", ["kubernetes", "kubeflow", "frameworkcontroller", "adl", "azureml"])
def test_platforms_that_cannot_do_it_are_refused(tmp_path: Path, platform: str) -> None:
    assert f"multiPhase: The platform {platform} cannot give a running trial" in refused(
        tmp_path, trainingService={"platform": platform})


def test_several_objectives_do_not_go_with_it(tmp_path: Path) -> None:
    assert "multiPhase: excludes several objectives" in refused(tmp_path, objectives=[
        {"metric": "a", "optimizeMode": "maximize"}, {"metric": "b", "optimizeMode": "maximize"}])
