"""Trials with ``trialMemorySize`` and ``trialCpuNumber`` through the whole server: booked, limited, told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer

MB = 1024 ** 2
TAKES = """
import os, time
import nni
megabytes = nni.get_next_parameter()["megabytes"]
held = bytearray(megabytes * 1024 ** 2)
time.sleep(2 if megabytes > 100 else 0)
nni.report_final_result(int(os.environ["OMP_NUM_THREADS"]))
"""


@pytest.mark.slow
def test_a_trial_that_takes_more_memory_than_it_asked_for_fails_and_the_others_do_not(
        running_server: RunningServer, tmp_path: Path) -> None:
    server, code = running_server, tmp_path / "code"
    code.mkdir()
    (code / "takes.py").write_text(TAKES)
    experiment = server.launch({
        "trialCommand": "python3 takes.py", "trialCodeDirectory": str(code), "trialConcurrency": 2, "maxTrialNumber": 2,
        "searchSpace": {"megabytes": {"_type": "choice", "_value": [5, 300]}}, "tuner": {"name": "GridSearch"},
        "trainingService": {"platform": "local", "trialMemorySize": "150mb", "trialCpuNumber": 0.5}}, code)
    server.wait_for_experiment(experiment)
    trials = server.get_all(f"experiments/{experiment}/trials/")
    ended = {trial["parameters"]["megabytes"]: trial for trial in trials}
    assert (ended[5]["status"], ended[300]["status"]) == ("SUCCEEDED", "FAILED")
    assert ended[300]["reason"]["code"] == "out_of_memory"
    assert "took more than the 150.0 MB of main memory that trialMemorySize lets it have" in ended[300]["message"]
    [attempt] = server.get_all(f"trials/{ended[300]['id']}/attempts/")
    assert (attempt["held_cpus"], attempt["held_memory"], attempt["out_of_memory"]) == (0.5, 150 * MB, "main")
    assert ended[5]["final_number"] == 1.0
