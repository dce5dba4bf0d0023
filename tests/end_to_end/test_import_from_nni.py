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
for step in range(3):
    nni.report_intermediate_result(given["x"] * (step + 1) / 3)
if given["n"] == 0:
    raise SystemExit(3)
nni.report_final_result({"default": given["x"], "other": 1})
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
while experiment.get_status() not in ("DONE", "ERROR"):
    time.sleep(0.5)
print("id", experiment.id, flush=True)
experiment.stop()
"""


@pytest.fixture
def made_by_nni(tmp_path: Path) -> Path:
    """The folder of a finished experiment."""
    python = official_python("3.0")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "trial.py").write_text(TRIAL)
    process = subprocess.Popen(
        [str(python), "-c", MAKE, str(tmp_path), str(free_port()), str(python)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "HOME": str(tmp_path), "NO_PROXY": "*",
             "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}, start_new_session=True)
    try:
        out, _ = process.communicate(timeout=600)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, out
    [experiment_id] = [line.split()[1] for line in out.splitlines() if line.startswith("id ")]
    return tmp_path / "nni-experiments" / experiment_id


def rows(folder: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(folder / "db" / "nni.sqlite")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_counts_statuses_and_metrics_agree_and_continuing_adds_trials(
    made_by_nni: Path, running_server: RunningServer
) -> None:
    server = running_server
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

    refused = server.manage("import_nni", str(made_by_nni), "--continue", check=False)
    assert refused.returncode == 1
    assert "was imported already" in refused.stderr
    server.request("DELETE", f"experiments/{experiment['id']}/")
    server.manage("import_nni", str(made_by_nni), "--continue", "--max-trial-number", "7")
    [again] = server.wait_until(lambda: [found for found in server.get("experiments/")["results"]
                                         if found["id"] != experiment["id"]])
    server.wait_for_experiment(again["id"], patience=110)
    trials = server.get_all(f"experiments/{again['id']}/trials/")
    assert [trial["sequence_id"] for trial in trials] == list(range(7))
    # the grid goes on: no point is tried twice
    assert len({json.dumps(trial["parameters"], sort_keys=True) for trial in trials}) == 7
