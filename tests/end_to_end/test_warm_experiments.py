"""Experiments with warmStart, through the whole server: results are those of plain trials, and the history says how
trials were started.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import ROOT, RunningServer

SCRIPT = """
import decimal
import random

import nni

if __name__ == "__main__":
    parameters = nni.get_next_parameter()
    for step in range(3):
        nni.report_intermediate_result(float(decimal.Decimal(str(parameters["x"])) + step))
    nni.report_final_result({"default": parameters["x"] ** 2, "other": parameters["x"] - 1})
"""


def run(server: RunningServer, folder: Path, **more: Any) -> tuple[str, list[dict[str, Any]]]:
    """The experiment and its trials, in their order."""
    config = {"trialCommand": "python3 trial.py", "trialCodeDirectory": str(folder), "trialConcurrency": 2,
              "maxTrialNumber": 12, "tuner": {"name": "Random", "classArgs": {"seed": 3}},
              "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
              "trainingService": {"platform": "local"}, **more}
    experiment = server.launch(config, folder)
    server.wait_for_experiment(experiment, patience=110)
    return experiment, sorted(server.get_all(f"experiments/{experiment}/trials/"), key=lambda row: row["sequence_id"])


def metrics_of(server: RunningServer, rows: list[dict[str, Any]]) -> list[list[tuple[str, int, str]]]:
    return [[(one["kind"], one["sequence"], one["value"]) for one in server.get_all(f"trials/{row['id']}/metrics/")]
            for row in rows]


def started(server: RunningServer, experiment: str) -> dict[str, str]:
    """Kind -> message of the events that say how trials were started."""
    events = [event for event in server.get_all(f"experiments/{experiment}/events/")
              if event["kind"] in ("warm start", "plain start")]
    assert len({event["kind"] for event in events}) == len(events), "it is told once"
    return {event["kind"]: event["message"] for event in events}


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "trial.py").write_text(SCRIPT)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"trainingService": {"platform": "local", "snapshotCode": True}}])
def test_warm_trials_have_the_results_of_plain_ones(running_server: RunningServer, code: Path,
                                                    more: dict[str, Any]) -> None:
    _, plain = run(running_server, code, **more)
    experiment, warm = run(running_server, code, warmStart=True, **more)
    assert {row["status"] for row in [*plain, *warm]} == {"SUCCEEDED"}
    assert [row["parameters"] for row in warm] == [row["parameters"] for row in plain]
    assert metrics_of(running_server, warm) == metrics_of(running_server, plain)
    told = started(running_server, experiment)
    assert list(told) == ["warm start"]
    assert re.search(r"a process of [\d.]+ MB has imported \d+ modules", told["warm start"])


@pytest.mark.slow
def test_a_bundled_example_has_the_same_metrics_warm_and_plain(running_server: RunningServer) -> None:
    folder = ROOT / "examples" / "quadratic"
    space = json.loads((folder / "search_space.json").read_text())
    _, plain = run(running_server, folder, searchSpace=space)
    experiment, warm = run(running_server, folder, searchSpace=space, warmStart=["nni"])
    assert {row["status"] for row in [*plain, *warm]} == {"SUCCEEDED"}
    assert metrics_of(running_server, warm) == metrics_of(running_server, plain)
    assert list(started(running_server, experiment)) == ["warm start"]


@pytest.mark.slow
def test_the_history_says_why_trials_are_started_plainly(running_server: RunningServer, code: Path) -> None:
    experiment, rows = run(running_server, code, warmStart=["no_such_module"], maxTrialNumber=4)
    assert {row["status"] for row in rows} == {"SUCCEEDED"}
    told = started(running_server, experiment)
    assert list(told) == ["plain start"]
    assert "a module cannot be imported before the trial: no_such_module" in told["plain start"]
    assert "Correct the list in warmStart" in told["plain start"]
