"""A trial whose job a real Slurm queues again: its next run is an attempt of its own, and only that one counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.slurm_cluster import SlurmCluster

CODE = """
import os, sys, time, nni
nni.get_next_parameter()
with open(sys.argv[1] + "/starts", "a") as stream:
    stream.write("start\\n")
runs = len(open(sys.argv[1] + "/starts").readlines())
nni.report_intermediate_result(runs)
while not os.path.exists(sys.argv[1] + "/go"):
    time.sleep(0.1)
nni.report_final_result(runs)
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("channel", ["auto", "storage"])
def test_its_second_run_counts(make_server: Callable[..., RunningServer], tmp_path: Path, channel: str) -> None:
    code, witness, shared = tmp_path / "code", tmp_path / "witness", tmp_path / "shared"
    for folder in (code, witness, shared):
        folder.mkdir()
    (code / "trial.py").write_text(CODE)
    with SlurmCluster() as cluster:
        server = make_server({"SLURM_CONF": str(cluster.config)}).start()
        experiment = server.launch({
            "trialCommand": f"python3 trial.py {witness}", "trialConcurrency": 1, "maxTrialNumber": 1,
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
            "trainingService": {"platform": "slurm", "workingFolder": str(shared), "requeue": True,
                                "channel": channel}}, code)

        def trial() -> dict:
            rows = server.get_all(f"experiments/{experiment}/trials/")
            return rows[0] if rows else {}

        server.wait_until(lambda: trial().get("latest_number") == 1, 120, "the first run reports")
        [job] = cluster.command("squeue", "-h", "-o", "%A").split()
        cluster.command("scontrol", "requeue", job)
        server.wait_until(lambda: (trial()["status"], trial()["attempt"]) == ("WAITING", 2), 120,
                          "the trial waits for its second attempt")
        assert "Slurm ended the job and queued it again" in trial()["message"]
        assert trial()["latest_number"] is None
        cluster.let_begin(job)
        server.wait_until(lambda: trial()["latest_number"] == 2, 120, "the second run reports")
        (witness / "go").touch()
        server.wait_for_experiment(experiment, patience=120)
        assert (trial()["status"], trial()["final_number"], trial()["attempt"]) == ("SUCCEEDED", 2, 2)
        assert (witness / "starts").read_text() == "start\nstart\n"
