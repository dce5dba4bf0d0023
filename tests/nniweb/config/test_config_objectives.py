"""Objectives in a config file: what they come to, and which tuners can search by several."""

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.config.resolved import resolved_document

TWO = [{"metric": "accuracy", "optimizeMode": "maximize"}, {"metric": "latency", "optimize_mode": "minimize"}]


def parsed(tmp_path: Path, **fields: Any) -> Any:
    return parse_experiment_config({
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "true", "trialConcurrency": 1,
        "tuner": {"name": "TPE"}, "trainingService": {"platform": "local"}, **fields}, tmp_path).settings


def test_the_first_objective_says_the_direction_and_the_form_is_kept(tmp_path: Path) -> None:
    settings = parsed(tmp_path, objectives=TWO)
    assert settings.optimize_mode == "maximize"
    assert settings.objectives == ({"metric": "accuracy", "optimize_mode": "maximize"},
                                   {"metric": "latency", "optimize_mode": "minimize"})
    assert parse_experiment_config(resolved_document(settings)).settings == settings


def test_without_them_everything_is_as_in_nni(tmp_path: Path) -> None:
    settings = parsed(tmp_path, tuner={"name": "TPE", "classArgs": {"optimize_mode": "maximize"}})
    assert (settings.optimize_mode, settings.objectives) == ("maximize", ())
    assert "objectives" not in resolved_document(settings)


def test_one_objective_may_be_named_with_any_tuner(tmp_path: Path) -> None:
    assert parsed(tmp_path, objectives=TWO[:1], tuner={"name": "Anneal"}).optimize_mode == "maximize"


@pytest.mark.parametrize(("fields", "words"), [
    ({"tuner": {"name": "Anneal"}}, "supports one objective, but there are 2. Auto, TPE"),
    ({"objectives": [{"metric": "a"}]}, "objectives[0].optimizeMode: is required"),
    ({"objectives": [{"metric": "", "optimizeMode": "maximize"}]}, "objectives[0].metric"),
    ({"tuner": {"name": "TPE", "classArgs": {"optimize_mode": "minimize"}}}, "leave one of them out"),
    ({"failedTrials": {"tellTuner": 3.5}}, "there are 2 objectives; give worst"),
])
def test_what_does_not_go_together_is_refused(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parsed(tmp_path, **{"objectives": TWO, **fields})
    assert words in str(refused.value)
