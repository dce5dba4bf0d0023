"""An experiment made by the real NNI 3.0 is imported and goes on here."""

import json
import os
import signal
import sqlite3
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer, free_port
from tests.fakes.official_nni import official_python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TRIAL = """
import nni
given = nni.get_next_parameter()
print("x is", given["x"], flush=True)
for step in range(3):
    nni.report_intermediate_result(given["x"] * (step + 1) / 3)
if given["n"] == 0:
    raise SystemExit(3)
nni.report_final_result({"default": given["x"], "other": 1})
"""
#: Until the file is there, which the test writes when the trial runs here.
ENDLESS_TRIAL = """
import nni, pathlib, time
given = nni.get_next_parameter()
nni.report_intermediate_result(given["x"])
while not pathlib.Path("go-on").exists():
    time.sleep(0.1)
nni.report_final_result(given["x"])
"""
MAKE = """
import pathlib, sys, time
from nni.experiment import Experiment
folder, port = pathlib.Path(sys.argv[1]), int(sys.argv[2])
experiment = Experiment("local")
config = experiment.config
config.experiment_name = "made by nni"
config.trial_command = sys.argv[3] + " trial.py"
config.trial_code_directory = folder / "code"
config.search_space = {"x": {"_type": "uniform", "_value": [0, 1]}, "n": {"_type": "choice", "_value": [0, 1, 2]}}
config.tuner.name = "GridSearch"
config.max_trial_number = 4
config.trial_concurrency = 1
config.experiment_working_directory = folder / "nni-experiments"
experiment.start(port)
def is_over():
    if sys.argv[4] == "interrupted":
        return any(job.status == "RUNNING" for job in experiment.list_trial_jobs()) and experiment.get_job_metrics()
    return experiment.get_status() in ("DONE", "ERROR")
while not is_over():
    time.sleep(0.5)
print("id", experiment.id, flush=True)
experiment.stop()
"""


def make_with_nni(folder: Path, trial: str, until: str) -> Path:
    """The folder of an experiment that NNI 3.0 made and stopped when it was "done", or "interrupted"."""
    python = official_python("3.0")
    (folder / "code").mkdir()
    (folder / "code" / "trial.py").write_text(trial)
    process = subprocess.Popen(
        [str(python), "-c", MAKE, str(folder), str(free_port()), str(python), until], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "HOME": str(folder), "NO_PROXY": "*",
             "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}, start_new_session=True)
    try:
        out, _ = process.communicate(timeout=600)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, out
    [experiment_id] = [line.split()[1] for line in out.splitlines() if line.startswith("id ")]
    return folder / "nni-experiments" / experiment_id


def rows(folder: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(folder / "db" / "nni.sqlite")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_counts_statuses_and_metrics_agree_and_continuing_adds_trials(
    tmp_path: Path, running_server: RunningServer
) -> None:
    server, made_by_nni = running_server, make_with_nni(tmp_path, TRIAL, "done")
    server.manage("import_nni", str(made_by_nni))
    [experiment] = server.get("experiments/")["results"]
    assert (experiment["name"], experiment["status"]) == ("made by nni", "DONE")
    trials = server.get_all(f"experiments/{experiment['id']}/trials/")
    ends = Counter(event for (event,) in rows(made_by_nni, "SELECT event FROM TrialJobEvent")
                   if event in ("SUCCEEDED", "FAILED"))
    assert Counter(trial["status"] for trial in trials) == ends
    assert len(trials) == 4
    assert ends["FAILED"] > 0
    reported = Counter((kind, json.loads(data))
                       for kind, data in rows(made_by_nni, "SELECT type, data FROM MetricData"))
    ours = Counter((metric["kind"], metric["value"]) for trial in trials
                   for metric in server.get_all(f"trials/{trial['id']}/metrics/"))
    assert ours == reported
    assert all((trial["final_number"] is None) == (trial["status"] == "FAILED") for trial in trials)

    for trial in trials:
        assert f"x is {trial['parameters']['x']}" in server.request("GET", f"trials/{trial['id']}/output/text/").text

    refused = server.manage("import_nni", str(made_by_nni), check=False)
    assert refused.returncode == 1
    assert "was already imported" in refused.stderr
    server.manage("import_nni", str(made_by_nni), "--continue", "--max-trial-number", "7")
    server.wait_for_experiment(experiment["id"], patience=110)
    trials = server.get_all(f"experiments/{experiment['id']}/trials/")
    assert [trial["sequence_id"] for trial in trials] == list(range(7))
    # the grid goes on: no point is tried twice
    assert len({json.dumps(trial["parameters"], sort_keys=True) for trial in trials}) == 7


def test_trials_that_ran_when_nni_was_stopped_are_canceled_and_the_search_goes_on(
    tmp_path: Path, running_server: RunningServer
) -> None:
    server, made_by_nni = running_server, make_with_nni(tmp_path, ENDLESS_TRIAL, "interrupted")
    (tmp_path / "code" / "go-on").touch()
    server.manage("import_nni", str(made_by_nni), "--continue")
    [experiment] = server.get("experiments/")["results"]
    server.wait_for_experiment(experiment["id"], patience=110)
    interrupted, *others = server.get_all(f"experiments/{experiment['id']}/trials/")
    assert (interrupted["status"], interrupted["final_number"]) == ("USER_CANCELED", None)
    assert len(server.get_all(f"trials/{interrupted['id']}/metrics/")) == 1
    assert [(trial["sequence_id"], trial["status"]) for trial in others] == [
        (number, "SUCCEEDED") for number in (1, 2, 3)]
