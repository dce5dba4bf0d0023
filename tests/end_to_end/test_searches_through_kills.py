"""Searches with constraints through the whole server, eight trials at a time, that is killed on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.repeated_proposals import assert_proposals_follow, tuner_events
from tests.end_to_end.running_server import RunningServer

#: One trial in nine fails, and one reports what is no number.
TRIAL = """\
import nni

given = nni.get_next_parameter()
if given["kind"] == "c" and given["x"] > 0:
    raise SystemExit(1)
value = (given["x"] - 1) ** 2 + (given["y"] + 2) ** 2 + "abc".index(given["kind"])
nni.report_final_result(float("nan") if given["y"] > 3 else value)
"""
SPACE: dict[str, Any] = {**{name: {"_type": "uniform", "_value": [-5, 5]} for name in ("x", "y")},
                         "kind": {"_type": "choice", "_value": ["a", "b", "c"]}}
CONSTRAINTS = ["x + y <= 4", 'kind != "b" or x > -3']
CONFIG: dict[str, Any] = {
    "experimentName": "killed", "searchSpace": SPACE, "trialCommand": "python3 trial.py", "trialConcurrency": 8,
    "maxTrialNumber": 36, "seed": 5, "constraints": CONSTRAINTS, "trainingService": {"platform": "local"}}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tuner", ["Auto", "TPE", "Anneal", "Evolution", "SMAC", "Metis"])
def test_proposals_follow_from_the_seed_and_the_results_over_kills(
        tuner: str, running_server: RunningServer, tmp_path: Path) -> None:
    server, code = running_server, tmp_path / "code"
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    arguments = {"optimize_mode": "minimize"}
    experiment = server.launch({**CONFIG, "tuner": {"name": tuner, "classArgs": arguments}}, code)
    for at_least in (9, 22):
        server.wait_until(lambda: server.get(f"experiments/{experiment}/")["progress"]["ended"] >= at_least,  # noqa: B023
                          180, "trials end")
        server.kill()
        server.start()
    server.wait_for_experiment(experiment, patience=240)

    trials = server.get_all(f"experiments/{experiment}/trials/")
    assert len(trials) == 36
    points = [trial["parameters"] for trial in trials]
    assert len({str(sorted(point.items())) for point in points}) == 36, "none was proposed twice"
    for point in points:
        assert point["x"] + point["y"] <= 4
        assert point["kind"] != "b" or point["x"] > -3
    events = tuner_events(server, experiment)
    assert sum(event["event"] == "ask" for event in events) == 36
    told = [event["number"] for event in events if event["event"] == "tell"]
    assert sorted(told) == list(range(36)), "each end was told once"
    assert_proposals_follow(events, {
        "search_space": SPACE, "optimize_mode": "minimize", "seed": 5, "constraints": CONSTRAINTS,
        "tuner": {"name": tuner, "class_args": arguments}}, at_once=8)
