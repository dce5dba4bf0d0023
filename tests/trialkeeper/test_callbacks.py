"""Callbacks for training libraries: the trials of docs/callbacks.md as they stand there, with the real libraries."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.official_nni import official_python
from tests.trialkeeper.test_nni_module import ROOT, Trial
from tests.trialkeeper.test_nni_module import for_trials as for_trials
from tests.trialkeeper.test_nni_module import trial as trial

PAGE = (ROOT / "docs" / "callbacks.md").read_text()
EXAMPLES = re.findall(r"^<!-- run -->\n```python\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
#: With a step in the name, as each library's callback, or the library itself, calls its checkpoints.
CHECKPOINTS = {"keras": "epoch-%d.keras", "lightning": "epoch-%d.ckpt", "transformers": "checkpoint-%d",
               "xgboost": "round-%d.ubj", "lightgbm": "round-%d.txt"}


def example(library: str, place: int = 0) -> str:
    """The text of its example. Skips where the library, or what it computes with, is not installed."""
    for name in [library, *{"keras": ["torch"], "transformers": ["torch", "accelerate"]}.get(library, [])]:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed, and a callback is tried with it")
    return [text for text in EXAMPLES if f"from nni.{library} import" in text][place]


def results(trial: Trial) -> tuple[list[Any], list[Any]]:
    """Intermediate and final results that were reported since the last call."""
    path = trial.folder / ".nni" / "metrics"
    found = trial.metrics()
    path.unlink()
    return tuple([json.loads(metric["value"]) for metric in found if metric["kind"] == kind]  # type: ignore[return-value]
                 for kind in ("PERIODICAL", "FINAL"))


def run(trial: Trial, code: str) -> tuple[list[Any], list[Any]]:
    """What a run of the trial reports. It has a folder for checkpoints."""
    folder = trial.folder / "checkpoints"
    folder.mkdir(exist_ok=True)
    trial.run(code, NNI_CHECKPOINT_DIR=str(folder), KERAS_BACKEND="torch", HOME=str(trial.folder), HF_HUB_OFFLINE="1")
    return results(trial)


def test_each_library_of_the_page_has_its_example_of_some_fifteen_lines() -> None:
    modules = re.findall(r"^\| \[.*?\| `nni\.(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted({*CHECKPOINTS, "sklearn"}) == sorted(modules)
    for module in modules:
        assert (ROOT / "trialkeeper" / "nni" / f"{module}.py").is_file()
        assert all(5 < len(text.splitlines()) <= 15 for text in EXAMPLES if f"nni.{module}" in text)


@pytest.mark.slow
@pytest.mark.parametrize(("library", "steps", "last_but_one"), [
    ("keras", 4, 2), ("lightning", 4, 2), ("transformers", 3, 16), ("xgboost", 10, 8), ("lightgbm", 10, 8)])
def test_each_step_is_reported_and_the_next_attempt_goes_on_from_a_checkpoint(
        trial: Trial, library: str, steps: int, last_but_one: int) -> None:
    trial.give({})
    code = example(library)
    intermediate, final = run(trial, code)
    assert len(intermediate) == steps
    assert all(isinstance(value, float) for value in intermediate)
    assert final == intermediate[-1:]
    # the machine was lost before its last checkpoint was sent
    name = CHECKPOINTS[library] % last_but_one
    assert (trial.folder / "checkpoints" / name).exists()
    (trial.folder / "checkpoints" / ".latest.json").write_text(json.dumps({"name": name, "step": last_but_one}))
    again, final_again = run(trial, code)
    assert (len(again), final_again) == (1, again)
    if library in ("xgboost", "lightgbm"):
        assert final_again == pytest.approx(final, abs=1e-6)


@pytest.mark.slow
def test_scikit_learn_reports_means_of_folds_and_scores_of_epochs(trial: Trial) -> None:
    trial.give({"C": 2.0})
    check = ("\nfrom sklearn.model_selection import cross_val_score\n"
             "assert sorted(cross_val_score(SVC(C=2.0), X, y, cv=5)) == sorted(cross_validate(SVC(C=2.0), X, y, cv=5,"
             " final=False))")
    intermediate, final = run(trial, example("sklearn") + check)
    assert (len(intermediate), final) == (10, intermediate[4:5])
    trial.give({})
    intermediate, final = run(trial, example("sklearn", 1))
    assert (len(intermediate), final) == (5, intermediate[-1:])
    assert final[0] > 0.85


@pytest.mark.slow
@pytest.mark.parametrize(("library", "rounds"), [("xgboost", "early_stopping_rounds=3,"),
                                                 ("lightgbm", "lightgbm.early_stopping(3, verbose=False),")])
def test_after_early_stopping_the_best_round_is_the_result(trial: Trial, library: str, rounds: str) -> None:
    trial.give({"eta": 0.9})
    code = example(library).replace("num_boost_round=10", "num_boost_round=200")
    code = code.replace("verbose_eval=False,", "verbose_eval=False, " + rounds) if library == "xgboost" else \
        code.replace("callbacks=[report", "callbacks=[" + rounds + " report")
    intermediate, final = run(trial, code)
    assert len(intermediate) < 200
    assert final == [max(intermediate)] != intermediate[-1:]


@pytest.mark.slow
def test_the_result_of_the_hugging_face_trainer_is_that_of_the_best_model_where_this_is_loaded(trial: Trial) -> None:
    trial.give({"lr": 5.0})  # it does not get better
    code = example("transformers").replace("save_total_limit=2", "load_best_model_at_end=True")
    intermediate, final = run(trial, code)
    assert final == [min(intermediate)]


@pytest.mark.slow
def test_of_several_metrics_the_first_one_is_the_result(trial: Trial) -> None:
    trial.give({})
    code = example("keras").replace('"val_loss", checkpoint_every=1', '["loss", "val_loss"]')
    intermediate, final = run(trial, code)
    assert [set(value) for value in intermediate] == [{"default", "loss", "val_loss"}] * 4
    assert [value["default"] for value in intermediate] == [value["loss"] for value in intermediate]
    assert final == intermediate[-1:]


@pytest.mark.slow
@pytest.mark.parametrize(("library", "name", "there"), [
    ("keras", "val_loss", "loss"), ("lightning", "val_loss", "val_loss"), ("xgboost", "valid-auc", "valid-auc"),
    ("lightgbm", "valid_0-auc", "valid_0-auc"), ("transformers", "eval_loss", "eval_loss")])
def test_a_metric_that_there_is_not_ends_the_training_with_the_names_of_those_that_there_are(
        trial: Trial, library: str, name: str, there: str) -> None:
    trial.give({})
    code = example(library).replace(f'Callback("{name}"', 'Callback("val_acc"')
    done = trial.run(code, check=False, KERAS_BACKEND="torch", HOME=str(trial.folder), HF_HUB_OFFLINE="1")
    assert done.returncode != 0
    assert "ValueError: there is no metric 'val_acc' to report; there are: " in done.stderr
    assert there in done.stderr.rpartition("there are: ")[2]


#: One metric, several, one that is missing, and the end, as a callback has them.
REPORTS = """
import nni, sys
from nni.reporter import Reporter
nni.get_next_parameter()
one, two = Reporter("loss"), Reporter(["acc", "loss"])
one.step({"loss": 0.5, "acc": 1})
two.step({"loss": 0.25, "acc": 1})
assert not one.step({}, may_follow=True)
one.end()
two.end(two.result([0.75, 0.5]))
Reporter("loss", final=False).end()
print(sorted(set(sys.modules) & {"keras", "lightning", "sklearn", "transformers", "xgboost", "lightgbm"}))
one.step({"b": 1, "a": 2})
"""
REPORTED = ([0.5, {"default": 1.0, "acc": 1.0, "loss": 0.25}], [0.5, {"default": 0.75, "acc": 0.75, "loss": 0.5}])


def test_what_the_callbacks_share_reports_one_metric_or_several_and_imports_no_library(trial: Trial) -> None:
    done = trial.run(REPORTS, check=False)
    assert done.stdout == "[]\n"
    assert done.stderr.endswith("ValueError: there is no metric 'loss' to report; there are: a, b\n")
    assert results(trial) == REPORTED


def test_a_training_without_a_result_and_a_callback_without_a_metric_are_errors(trial: Trial) -> None:
    done = trial.run("from nni.reporter import Reporter; Reporter('loss').end()", check=False)
    assert "ValueError: the training has ended and had no metric 'loss' to report" in done.stderr
    done = trial.run("from nni.reporter import Reporter; Reporter([])", check=False)
    assert "ValueError: metric must be the name of a metric or a list of names, not []" in done.stderr


def test_with_another_nni_the_callbacks_report_through_that_one(trial: Trial, tmp_path: Path) -> None:
    other = tmp_path / "other" / "nni"
    other.mkdir(parents=True)
    other.joinpath("__init__.py").write_text("from .trial import *\n")
    other.joinpath("trial.py").write_text("def report_intermediate_result(value): print('official', value)\n"
                                          "def report_final_result(value): print('official end', value)\n")
    checkpoints = trial.folder / "checkpoints"
    checkpoints.mkdir()
    done = trial.run("from nni.reporter import Reporter; from nni.checkpoints import load_checkpoint, save_checkpoint\n"
                     "reporter = Reporter('a'); reporter.step({'a': 2}); reporter.end()\n"
                     "with save_checkpoint(step=3) as path: open(path, 'w').close()\n"
                     "print(load_checkpoint().step)", NNI_CHECKPOINT_DIR=str(checkpoints),
                     PYTHONPATH=f"{trial.for_trials}:{other.parent}")
    assert done.stdout == "official 2.0\nofficial end 2.0\n3\n"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", ["3.0", "2.10.1", "1.9"])
def test_with_the_official_package_the_callbacks_report_through_it(trial: Trial, version: str) -> None:
    trial.python = str(official_python(version))
    checkpoints = trial.folder / "checkpoints"
    checkpoints.mkdir()
    trial.run("import nni; from nni.reporter import Reporter; from nni.checkpoints import save_checkpoint\n"
              "nni.get_next_parameter()\n"
              "reporter = Reporter('a'); reporter.step({'a': 2}); reporter.end()\n"
              "with save_checkpoint(step=3) as path: open(path, 'w').close()\n"
              "with open('which', 'w') as file: file.write(nni.__file__)",  # it takes stdout for its log
              NNI_CHECKPOINT_DIR=str(checkpoints))
    assert "site-packages" in (trial.folder / "which").read_text()
    assert results(trial) == ([2.0], [2.0])
    assert (checkpoints / "step-3").exists()
