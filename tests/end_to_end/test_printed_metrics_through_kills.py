"""Metrics that a script prints are stored once each, whatever is killed meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer

STEPS = 400
SCRIPT = f"""
import time
for step in range({STEPS}):
    print("step", step, "acc=%d" % step, "loss=%d" % (2 * step), flush=True)
    time.sleep(0.01)
"""


@pytest.mark.slow
def test_a_server_that_is_killed_while_trials_print_loses_and_doubles_nothing(running_server: RunningServer,
                                                                              tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(SCRIPT)
    config = {"trialCommand": "python3 train.py {args}", "searchSpace": {"lr": {"_type": "uniform", "_value": [0, 1]}},
              "metrics": {"stdout": r"step (?P<step>\d+) acc=(?P<acc>\S+) loss=(?P<loss>\S+)", "result": "acc"},
              "trialConcurrency": 2, "maxTrialNumber": 2, "trainingService": {"platform": "local"}}
    experiment = running_server.post("experiments/", {"config": config, "base_directory": str(code)})["id"]

    def trials() -> list[dict[str, Any]]:
        return running_server.get_all(f"experiments/{experiment}/trials/")

    def sequences(trial: dict[str, Any]) -> list[int]:
        told = running_server.get_all(f"trials/{trial['id']}/metrics/")
        return [one["sequence"] for one in told if one["kind"] == "PERIODICAL"]

    def has_told(count: int) -> bool:
        return len(trials()) == 2 and all(len(sequences(trial)) > count for trial in trials())

    for count in (10, 100):
        running_server.wait_until(lambda count=count: has_told(count))
        running_server.kill()
        running_server.start()
    running_server.wait_until(lambda: running_server.get(f"experiments/{experiment}/")["status"] == "DONE")
    assert [(trial["status"], trial["final_number"]) for trial in trials()] == [("SUCCEEDED", STEPS - 1.0)] * 2
    for trial in trials():
        assert sorted(sequences(trial)) == list(range(STEPS))
