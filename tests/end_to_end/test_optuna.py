"""Studies of Optuna and experiments: the programs of docs/optuna-and-hydra.md, as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from tests.end_to_end.running_server import ROOT, RunningServer

PAGE = (ROOT / "docs" / "optuna-and-hydra.md").read_text()
LEADS, WRITES = re.findall(r"^<!-- run -->\n```python\n(.*?optuna.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)[:2]
CONFIG = re.findall(r"^```yaml\n(tuner: \{name: External.*?)```$", PAGE, re.MULTILINE | re.DOTALL)[0]
CONFIG += "trialCodeDirectory: .\ntrainingService: {platform: local}\n"
#: A trial of a quadratic; every fifth one fails after its first intermediate result.
TRIAL = """
import nni
x = nni.get_next_parameter()["x"]
nni.report_intermediate_result(2 * x * x)
if nni.get_sequence_id() % 5 == 4:
    raise SystemExit(3)
nni.report_intermediate_result(x * x)
nni.report_final_result(x * x)
"""


def program(text: str, folder: Path, server: RunningServer) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
    return subprocess.Popen([sys.executable, "-c", text], cwd=folder, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env={**kept, "PYTHONPATH": str(ROOT), "NNIWEB_SERVER": server.url,
                                                         "NNIWEB_TOKEN": server.token})


def ended(process: subprocess.Popen[str]) -> str:
    """What it printed. It must have ended well."""
    try:
        output, errors = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    return output


def trials_of(folder: Path, file: str, name: str | None = None) -> list[FrozenTrial]:
    storage = f"sqlite:///{folder / file}"
    [found] = [name or study.study_name for study in optuna.get_all_study_summaries(storage)]
    return optuna.load_study(study_name=found, storage=storage).trials


def must_be_the_same(server: RunningServer, trials: list[FrozenTrial]) -> None:
    """The experiment's trials and the study's agree in parameters, values, intermediate values and states."""
    [experiment] = server.get_all("experiments/")
    here = {row["parameters"]["x"]: row for row in server.get_all(f"experiments/{experiment['id']}/trials/")}
    assert (experiment["status"], len(here)) == ("DONE", 20)
    assert {trial.params["x"] for trial in trials} == set(here)
    for trial in trials:
        row, square = here[trial.params["x"]], trial.params["x"] ** 2
        if row["sequence_id"] % 5 == 4:
            assert (row["status"], trial.state, trial.value) == ("FAILED", TrialState.FAIL, None)
            assert trial.intermediate_values == {0: 2 * square}
        else:
            assert (row["status"], trial.state, trial.value) == ("SUCCEEDED", TrialState.COMPLETE, square)
            assert trial.intermediate_values == {0: 2 * square, 1: square}


@pytest.mark.slow
def test_a_study_leads_an_experiment_though_its_program_is_killed_and_the_experiment_is_written_as_a_study(
        running_server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text(CONFIG)
    (tmp_path / "trial.py").write_text(TRIAL)
    first = program(LEADS, tmp_path, running_server)

    def told() -> int:
        return sum(row["status"] == "SUCCEEDED" for experiment in running_server.get_all("experiments/")
                   for row in running_server.get_all(f"experiments/{experiment['id']}/trials/"))
    try:
        running_server.wait_until(lambda: told() > 2, what="some trials have ended")
    finally:
        first.kill()
        first.communicate()
    output = ended(program(LEADS, tmp_path, running_server))
    assert "number" in output
    trials = trials_of(tmp_path, "study.db")
    # the one that the first process was asking for when it was killed may not have got its parameter
    must_be_the_same(running_server, [trial for trial in trials if trial.params])
    assert len([trial for trial in trials if not trial.params]) <= 1
    assert re.fullmatch(r".* 20\n", ended(program(WRITES, tmp_path, running_server)))
    must_be_the_same(running_server, trials_of(tmp_path, "experiments.db"))
    ended(program(WRITES, tmp_path, running_server))
    assert len(trials_of(tmp_path, "experiments.db")) == 20, "nothing is added twice"


@pytest.mark.slow
def test_two_processes_lead_an_experiment_together(running_server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text(CONFIG)
    (tmp_path / "trial.py").write_text(TRIAL)
    launch = "".join(LEADS.partition("run_study(study,")[0])
    ended(program(launch, tmp_path, running_server))
    both = [program(LEADS, tmp_path, running_server) for _ in range(2)]
    for process in both:
        ended(process)
    trials = trials_of(tmp_path, "study.db")
    ran = [trial for trial in trials if trial.state == TrialState.COMPLETE or trial.intermediate_values]
    must_be_the_same(running_server, ran)
    # both may have asked for the last one
    assert {trial.state for trial in trials if trial not in ran} <= {TrialState.FAIL}


@pytest.mark.slow
def test_a_running_experiment_is_brought_up_to_date_in_its_study(
        running_server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "trial.py").write_text(
        "import nni, os, time\nx = nni.get_next_parameter()['x']\nnni.report_intermediate_result(x + 1)\n"
        f"while not os.path.exists('{tmp_path}/go'): time.sleep(0.05)\nnni.report_final_result(x)\n")
    config = CONFIG.replace("External", "Random").replace("20", "2").replace("Concurrency: 4", "Concurrency: 2")
    experiment = running_server.post("experiments/", {
        "config": config, "base_directory": str(tmp_path / "code")})

    def reported() -> bool:
        rows = running_server.get_all(f"experiments/{experiment['id']}/trials/")
        return [row["intermediate_count"] for row in rows] == [1, 1]
    running_server.wait_until(reported, what="both trials have reported")
    ended(program(WRITES, tmp_path, running_server))
    trials = trials_of(tmp_path, "experiments.db")
    assert [(trial.state, trial.value) for trial in trials] == [(TrialState.RUNNING, None)] * 2
    assert [trial.intermediate_values for trial in trials] == [{0: trial.params["x"] + 1} for trial in trials]
    (tmp_path / "go").touch()
    running_server.wait_until(lambda: running_server.get(f"experiments/{experiment['id']}/")["status"] == "DONE")
    ended(program(WRITES, tmp_path, running_server))
    trials = trials_of(tmp_path, "experiments.db")
    assert [(trial.state, trial.value) for trial in trials] == [
        (TrialState.COMPLETE, trial.params["x"]) for trial in trials]
    assert [trial.user_attrs["status"] for trial in trials] == ["SUCCEEDED"] * 2
