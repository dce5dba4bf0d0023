"""Searches that start from points and from an earlier experiment, through the whole server, eight trials at a time.

The server is killed on the way.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nniweb.tuning.process.experiment_tuning import ExperimentTuning
from tests.end_to_end.running_server import RunningServer

TRIAL = """\
import nni

given = nni.get_next_parameter()
nni.report_final_result((given["x"] - 1) ** 2 + (given["y"] + 2) ** 2)
"""
SPACE = {name: {"_type": "uniform", "_value": [-5, 5]} for name in ("x", "y")}
POINTS = [{"x": 4.0, "y": 4.0}, {"x": -4.0, "y": 4.0}]
CONFIG: dict[str, Any] = {
    "experimentName": "earlier", "searchSpace": SPACE, "trialCommand": "python3 trial.py", "trialConcurrency": 8,
    "maxTrialNumber": 40, "seed": 5, "startPoints": POINTS,
    "trainingService": {"platform": "local"}}


def history(server: RunningServer, experiment: str) -> tuple[list[dict[str, Any]], list[Any]]:
    """What the experiment's tuner was asked and told, in order, and the earlier results that it was given."""
    of = "WHERE experiment_id = (SELECT id FROM experiments_experiment WHERE public_id = ?)"
    with closing(sqlite3.connect(f"file:{server.data_folder}/nniweb.sqlite3?mode=ro", uri=True)) as database:
        events = database.execute(f"SELECT data FROM experiments_tunerevent {of} ORDER BY number", [experiment])
        found = [json.loads(row) for (row,) in events.fetchall()]
        earlier = database.execute(f"SELECT results FROM experiments_earlierexperiment {of} ORDER BY place",
                                   [experiment])
        return found, [json.loads(row) for (row,) in earlier.fetchall()]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tuner", ["TPE", "Auto"])  # Auto proposes by GP here
def test_restarts_and_the_end_of_the_earlier_experiment_change_no_proposal(
        tuner: str, running_server: RunningServer, tmp_path: Path) -> None:
    server, code = running_server, tmp_path / "code"
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    config = {**CONFIG, "tuner": {"name": tuner, "classArgs": {"optimize_mode": "minimize"}}}
    earlier = server.launch(config, code)
    server.wait_for_experiment(earlier, patience=180)
    parameters = [trial["parameters"] for trial in server.get_all(f"experiments/{earlier}/trials/")]
    assert [point for point in POINTS if point not in parameters] == []

    started = server.launch({**config, "experimentName": "started", "startFrom": [earlier], "seed": 6}, code)
    server.wait_until(lambda: server.get(f"experiments/{started}/")["progress"]["ended"] >= 15, 120, "trials end")
    server.kill()
    server.start()
    assert server.request("DELETE", f"experiments/{earlier}/").status_code == 204
    document = server.wait_for_experiment(started, patience=180)
    [shown] = document["started_from"]
    assert (shown["id"], shown["available"], shown["taken"]) == (earlier, 40, 40)
    assert shown["reason"]["code"] == "earlier_agrees"

    events, results = history(server, started)
    asked = [event for event in events if event["event"] == "ask"]
    assert [event["parameters"] for event in asked[:2]] == POINTS
    for place, event in enumerate(events):
        if event["event"] == "ask":
            assert event["parameters"] in proposed(tuner, events[:place], event["number"], results)


def proposed(tuner: str, before: list[dict[str, Any]], number: int, earlier: list[Any]) -> Iterator[dict[str, Any]]:
    """What a new tuner of the same seed proposes after these events. A result that is recorded while the tuner is at
    work is told to it after its answer, and stands before that answer in the record: also without the last few of them.
    """
    told = [place for place, event in enumerate(before) if event["event"] == "tell"]
    for count in range(min(len(told), CONFIG["trialConcurrency"]) + 1):
        left_out = set(told[len(told) - count:])
        tuning = ExperimentTuning({
            "search_space": SPACE, "optimize_mode": "minimize", "seed": 6, "start_points": POINTS, "earlier": earlier,
            "tuner": {"name": tuner, "class_args": {"optimize_mode": "minimize"}}})
        tuning.restore(event for place, event in enumerate(before) if place not in left_out)
        yield tuning.ask(number, 1)["parameters"][0]
