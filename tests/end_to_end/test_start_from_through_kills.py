"""Searches that start from points and from an earlier experiment, through the whole server, eight trials at a time.

The server is killed on the way.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.repeated_proposals import assert_proposals_follow, tuner_events
from tests.end_to_end.running_server import RunningServer

TRIAL = """\
import nni

given = nni.get_next_parameter()
nni.report_final_result((given["x"] - 1) ** 2 + (given["y"] + 2) ** 2)
"""
TRIAL_OF_TWO = """\
import nni

given = nni.get_next_parameter()
nni.report_final_result({"near": (given["x"] - 1) ** 2 + (given["y"] + 2) ** 2,
                         "gain": -(given["x"] + 3) ** 2 - (given["y"] + 1) ** 2})
"""
SPACE = {name: {"_type": "uniform", "_value": [-5, 5]} for name in ("x", "y")}
POINTS = [{"x": 4.0, "y": 4.0}, {"x": -4.0, "y": 4.0}]
CONFIG: dict[str, Any] = {
    "experimentName": "earlier", "searchSpace": SPACE, "trialCommand": "python3 trial.py", "trialConcurrency": 8,
    "maxTrialNumber": 40, "seed": 5, "startPoints": POINTS,
    "trainingService": {"platform": "local"}}


def earlier_results(server: RunningServer, experiment: str) -> list[Any]:
    """What was copied from each earlier experiment, as the experiment's tuner is given it."""
    with closing(sqlite3.connect(f"file:{server.data_folder}/nniweb.sqlite3?mode=ro", uri=True)) as database:
        return [json.loads(row) for (row,) in database.execute(
            "SELECT results FROM experiments_earlierexperiment WHERE experiment_id = "
            "(SELECT id FROM experiments_experiment WHERE public_id = ?) ORDER BY place", [experiment])]


def end_both(server: RunningServer, config: dict[str, Any], code: Path) -> tuple[str, str]:
    """The ids of an experiment and of one that starts from it. The server is killed when 15 trials of the second one
    have ended, and the first one is deleted then.
    """
    earlier = server.launch(config, code)
    server.wait_for_experiment(earlier, patience=180)
    started = server.launch({**config, "experimentName": "started", "startFrom": [earlier], "seed": 6}, code)
    server.wait_until(lambda: server.get(f"experiments/{started}/")["progress"]["ended"] >= 15, 120, "trials end")
    server.kill()
    server.start()
    assert server.request("DELETE", f"experiments/{earlier}/").status_code == 204
    [shown] = server.wait_for_experiment(started, patience=180)["started_from"]
    assert (shown["id"], shown["available"], shown["taken"]) == (earlier, 40, 40)
    assert shown["reason"]["code"] == "earlier_agrees"
    return earlier, started


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tuner", ["TPE", "Auto"])  # Auto proposes by GP here
def test_restarts_and_the_end_of_the_earlier_experiment_change_no_proposal(
        tuner: str, running_server: RunningServer, tmp_path: Path) -> None:
    server, code = running_server, tmp_path / "code"
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    config = {**CONFIG, "tuner": {"name": tuner, "classArgs": {"optimize_mode": "minimize"}}}
    _, started = end_both(server, config, code)
    events = tuner_events(server, started)
    asked = [event for event in events if event["event"] == "ask"]
    assert [event["parameters"] for event in asked[:2]] == POINTS
    assert_proposals_follow(events, {
        "search_space": SPACE, "optimize_mode": "minimize", "seed": 6, "start_points": POINTS,
        "earlier": earlier_results(server, started), "tuner": {"name": tuner, "class_args": {
            "optimize_mode": "minimize"}}}, at_once=CONFIG["trialConcurrency"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_holds_with_two_objectives(running_server: RunningServer, tmp_path: Path) -> None:
    server, code = running_server, tmp_path / "code"
    code.mkdir()
    (code / "trial.py").write_text(TRIAL_OF_TWO)
    objectives = [{"metric": "near", "optimizeMode": "minimize"}, {"metric": "gain", "optimizeMode": "maximize"}]
    _, started = end_both(server, {**CONFIG, "objectives": objectives}, code)
    results = earlier_results(server, started)
    assert {len(values) for points in results for _, values in points} == {2}
    assert_proposals_follow(tuner_events(server, started), {
        "search_space": SPACE, "optimize_mode": "minimize", "objective_modes": ["minimize", "maximize"], "seed": 6,
        "start_points": POINTS, "earlier": results, "tuner": {"name": "Auto", "class_args": {}}},
        at_once=CONFIG["trialConcurrency"])
