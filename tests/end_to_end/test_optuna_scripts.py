"""Scripts that search with Optuna and stay as they are: ``python -m nniweb.client.optuna search.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import ROOT, RunningServer

SEARCH = """
import sys
import optuna

def objective(trial):
    kind = trial.suggest_categorical("kind", ["line", "square"])
    x = trial.suggest_float("x", -5, 5)
    trial.report(x * x, 0)
    if kind == "square":
        return x * x + trial.suggest_int("extra", 1, 3)
    trial.set_user_attr("is", "a line")
    return abs(x)

def tell(study, trial):
    print("ended", trial.number, trial.state.name)

if __name__ == "__main__":
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1, multivariate=True), storage=sys.argv[1],
                                study_name="found", load_if_exists=True)
    study.enqueue_trial({"kind": "square", "x": 2.5})
    study.optimize(objective, n_trials=12, n_jobs=3, callbacks=[tell])
    print("best", study.best_value, len(study.trials))
"""


def program(text: str, folder: Path, server: RunningServer, *arguments: str, options: Sequence[str] = ()
            ) -> subprocess.CompletedProcess[str]:
    (folder / "code").mkdir()
    (folder / "code" / "search.py").write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_", "NNI_"))}
    return subprocess.run(
        [sys.executable, "-m", "nniweb.client.optuna", *options, "code/search.py", *arguments], cwd=folder, text=True,
        capture_output=True, timeout=200, check=False, env={
            **kept, "PYTHONPATH": str(ROOT), "NNIWEB_SERVER": server.url, "NNIWEB_TOKEN": server.token,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])})


def trials_of(server: RunningServer) -> list[dict[str, Any]]:
    [experiment] = server.get_all("experiments/")
    return sorted(server.get_all(f"experiments/{experiment['id']}/trials/"), key=lambda row: row["sequence_id"])


@pytest.mark.slow
def test_the_trials_of_a_search_run_on_the_server_and_the_study_knows_them(running_server: RunningServer,
                                                                           tmp_path: Path) -> None:
    import optuna
    storage = f"sqlite:///{tmp_path}/study.db"
    done = program(SEARCH, tmp_path, running_server, storage)
    assert done.returncode == 0, done.stderr
    study = optuna.load_study(study_name="found", storage=storage)
    assert f"best {study.best_value} 12" in done.stdout
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("ended")) == sorted(
        f"ended {number} COMPLETE" for number in range(12))
    [experiment] = running_server.get_all("experiments/")
    running_server.wait_until(lambda: running_server.get(f"experiments/{experiment['id']}/")["status"] == "DONE")
    assert running_server.get(f"experiments/{experiment['id']}/")["search_space"] == {
        "optuna.number": {"_type": "randint", "_value": [0, 10 ** 9]},
        "kind": {"_type": "choice", "_value": ["line", "square"]}, "x": {"_type": "uniform", "_value": [-5, 5]},
        "extra": {"_type": "randint", "_value": [1, 4]}}
    rows = trials_of(running_server)
    assert {row["parameters"]["optuna.number"]: row["final_number"] for row in rows} == {
        trial.number: trial.value for trial in study.trials}
    assert (study.trials[0].params["kind"], study.trials[0].params["x"]) == ("square", 2.5), "the one that was enqueued"
    for trial in study.trials:
        assert ("extra" in trial.params) == (trial.params["kind"] == "square"), "as Optuna itself has it"
        assert trial.intermediate_values == {0: trial.params["x"] ** 2}
        assert trial.user_attrs == ({"is": "a line"} if trial.params["kind"] == "line" else {})
    known = [row["parameters"] for row in rows[1:]]
    assert all(row["x"] == study.trials[row["optuna.number"]].params["x"] for row in known)


@pytest.mark.slow
def test_an_objective_that_raises_ends_the_search_and_the_experiment(running_server: RunningServer,
                                                                      tmp_path: Path) -> None:
    text = SEARCH.replace("    trial.report(", "    assert trial.number != 1\n    trial.report(")
    done = program(text, tmp_path, running_server, f"sqlite:///{tmp_path}/study.db")
    assert done.returncode == 1
    assert f"Trial 1 has failed. Its page shows its output: {running_server.url}/experiments/" in done.stderr
    [experiment] = running_server.get_all("experiments/")
    running_server.wait_until(lambda: running_server.get(f"experiments/{experiment['id']}/")["status"] == "DONE")
    assert "FAILED" in [row["status"] for row in trials_of(running_server)]


@pytest.mark.slow
def test_several_objectives_are_those_of_the_experiment(running_server: RunningServer, tmp_path: Path) -> None:
    text = ("import optuna\nstudy = optuna.create_study(directions=['minimize', 'maximize'])\n"
            "study.optimize(lambda trial: (trial.suggest_float('x', 0, 1), 1 - trial.suggest_int('n', 1, 1)), 99, 0)\n"
            "print(len(study.best_trials), [trial.values for trial in study.trials])\n")
    done = program(text, tmp_path, running_server, options=["--trials", "4", "--timeout", "300"])
    assert done.returncode == 0, done.stderr
    [experiment] = running_server.get_all("experiments/")
    assert len(trials_of(running_server)) == 4
    objectives = running_server.get(f"experiments/{experiment['id']}/")["objectives"]
    assert [one["optimize_mode"] for one in objectives] == ["minimize", "maximize"]
    assert str([[row["final_number"], 0.0] for row in trials_of(running_server)]) in done.stdout


@pytest.mark.slow
def test_what_is_wrong_with_the_command_is_said(tmp_path: Path) -> None:
    (tmp_path / "search.py").write_text("")
    (tmp_path / "list.yml").write_text("- 1")
    for arguments, said in ((["none.py"], "there is no file none.py"), (["--code", "/usr", "search.py"], "is not in"),
                            (["--config", "list.yml", "search.py"], "list.yml is no config file of an experiment"),
                            (["--config", "none.yml", "search.py"], "none.yml cannot be read")):
        done = subprocess.run([sys.executable, "-m", "nniweb.client.optuna", *arguments], cwd=tmp_path, text=True,
                              capture_output=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
