"""The examples are valid experiments, and their trials run alone, with a ``nni`` module that notes reports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.config.settings import ExperimentSettings

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CHECKPOINTS = ROOT / "trialkeeper" / "nni" / "checkpoints.py"

NNI = """
import importlib.util, json, os
spec = importlib.util.spec_from_file_location("nni.checkpoints", os.environ["CHECKPOINTS"])
checkpoints = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checkpoints)
checkpoints._announce = lambda name, step: None
load_checkpoint, save_checkpoint = checkpoints.load_checkpoint, checkpoints.save_checkpoint
def get_next_parameter():
    return json.loads(os.environ["PARAMETERS"])
def _note(kind, value):
    with open(os.environ["REPORTS"], "a") as file:
        file.write(json.dumps([kind, value]) + "\\n")
def report_intermediate_result(value):
    _note("intermediate", value)
def report_final_result(value):
    _note("final", value)
"""


def settings_of(config: str) -> ExperimentSettings:
    path = EXAMPLES / config
    return parse_experiment_config(path.read_text(), path.parent).settings


def run_trial(script: str, parameters: dict[str, Any], folder: Path, **variables: str) -> tuple[list[Any], Any]:
    """Intermediate results and the final one of a trial that runs in a copy of its example."""
    shutil.copytree((EXAMPLES / script).parent, folder / "code")
    (folder / "nni.py").write_text(NNI)
    reports = folder / "reports"
    environment = {**os.environ, "PYTHONPATH": str(folder), "PARAMETERS": json.dumps(parameters),
                   "REPORTS": str(reports), "CHECKPOINTS": str(CHECKPOINTS), **variables}
    before = sorted((folder / "code").iterdir())
    subprocess.run([sys.executable, Path(script).name], cwd=folder / "code", env=environment, check=True, timeout=100)
    assert sorted((folder / "code").iterdir()) == before, "a trial leaves nothing in the code folder"
    lines = [json.loads(line) for line in reports.read_text().splitlines()]
    assert [kind for kind, _ in lines] == ["intermediate"] * (len(lines) - 1) + ["final"]
    return [value for _, value in lines[:-1]], lines[-1][1]


def test_the_digits_are_twelve_trials_two_at_a_time() -> None:
    settings = settings_of("digits/config.yml")
    assert (settings.max_trial_number, settings.trial_concurrency) == (12, 2)
    assert settings.optimize_mode == "maximize"


def test_the_quadratic_is_two_hundred_trials_eight_at_a_time_and_lower_is_better() -> None:
    settings = settings_of("quadratic/config.yml")
    assert (settings.max_trial_number, settings.trial_concurrency, settings.tuner.name) == (200, 8, "Random")
    assert settings.optimize_mode == "minimize"


def test_the_beam_has_two_objectives_and_reports_a_number_for_each(tmp_path: Path) -> None:
    settings = settings_of("beam/config.yml")
    wanted = [objective["metric"] for objective in settings.objectives]
    steps, final = run_trial("beam/trial.py", {"diameter": 80.0, "wall": 1.0, "material": "oak"}, tmp_path)
    assert (len(steps), set(wanted) < set(final)) == (8, True)
    assert all(number > 0 for number in final.values())


def test_both_forms_of_the_quadratic_are_the_same_experiment() -> None:
    new, old = settings_of("quadratic/config.yml"), settings_of("quadratic/config_v1.yml")
    # A seed is the one thing that NNI's v1 form has no word for.
    assert old == new.model_copy(update={"tuner": old.tuner, "seed": old.seed})
    assert old.tuner.name == new.tuner.name


@pytest.mark.slow
def test_a_network_learns_to_read_digits(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: see examples/digits/requirements.txt")
    parameters = {"hidden_units": 32, "learning_rate": 0.005, "alpha": 0.0001, "batch_size": 64, "activation": "relu"}
    folder = {"NNI_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    for name in ("checkpoints", "first", "second"):
        (tmp_path / name).mkdir()
    curve, final = run_trial("digits/train.py", parameters, tmp_path / "first", **folder)
    assert len(curve) == 20
    assert curve[0] < curve[-1] == final
    assert final > 0.9
    # an interrupted one goes on after its last checkpoint, and gets where it would have got
    assert run_trial("digits/train.py", parameters, tmp_path / "second", **folder) == (curve[15:], final)


@pytest.mark.parametrize("start", ["near", "far"])
def test_gradient_descent_gets_down(start: str, tmp_path: Path) -> None:
    curve, final = run_trial("quadratic/trial.py", {"learning_rate": 0.08, "momentum": 0.3, "start": start}, tmp_path)
    assert len(curve) == 10
    assert final == min(curve) < curve[0]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("learning_rate", [0.001, 0.12])
def test_no_corner_of_the_search_space_flies_apart(learning_rate: float, momentum: float, tmp_path: Path) -> None:
    parameters = {"learning_rate": learning_rate, "momentum": momentum, "start": "far"}
    curve, _ = run_trial("quadratic/trial.py", parameters, tmp_path)
    assert max(curve) < 200
