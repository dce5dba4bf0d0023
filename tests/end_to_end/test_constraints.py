"""Constraints of both kinds through the whole server, killed in the middle; and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer

TRIAL = """\
import nni
point = nni.get_next_parameter()
size = point["layers"] * point["units"]
nni.report_final_result({"default": size * (1 - point["drop"]), "latency": size / 100 + point["layers"]})
"""
CONFIG: dict[str, Any] = {
    "experimentName": "constrained", "trialCommand": "python3 trial.py", "trialConcurrency": 1, "maxTrialNumber": 14,
    "searchSpace": {"layers": {"_type": "randint", "_value": [1, 20]},
                    "units": {"_type": "choice", "_value": [16, 64, 256, 1024]},
                    "drop": {"_type": "uniform", "_value": [0, 0.5]}},
    "constraints": ["layers * units <= 4096", "units < 1024 or drop > 0.1"], "outcomeConstraints": ["latency <= 20"],
    "tuner": {"name": "TPE", "classArgs": {"optimize_mode": "maximize", "tpe_args": {"n_startup_jobs": 4}}},
    "seed": 5, "trainingService": {"platform": "local"}}


def launched(server: RunningServer, folder: Path, **fields: Any) -> str:
    return server.launch(json.dumps({**CONFIG, **fields}), folder)


def trials_of(server: RunningServer, experiment: str) -> list[dict[str, Any]]:
    return sorted(server.get_all(f"experiments/{experiment}/trials/"), key=lambda trial: int(trial["sequence_id"]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    code = tmp_path / "code"
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    return code


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_search_with_constraints_goes_on_the_same_after_a_crash(running_server: RunningServer, folder: Path) -> None:
    server = running_server
    whole = launched(server, folder)
    server.wait_for_experiment(whole, "DONE", patience=240)
    interrupted = launched(server, folder)
    server.wait_until(lambda: len([trial for trial in trials_of(server, interrupted) if trial["ended_at"]]) >= 6,
                      what="six trials have ended", patience=240)
    server.kill()
    server.start()
    server.wait_for_experiment(interrupted, "DONE", patience=240)
    found = [trials_of(server, experiment) for experiment in (whole, interrupted)]
    assert [trial["parameters"] for trial in found[0]] == [trial["parameters"] for trial in found[1]]
    for experiment, trials in zip((whole, interrupted), found, strict=True):
        assert {trial["status"] for trial in trials} == {"SUCCEEDED"}
        for trial in trials:
            point, metrics = trial["parameters"], trial["metrics"]
            assert point["layers"] * point["units"] <= 4096
            assert point["units"] < 1024 or point["drop"] > 0.1
            assert trial["feasible"] is (metrics["latency"]["final"] <= 20)
            assert (trial["reason"] or {}).get("code") == (None if trial["feasible"] else "outcome_broken")
        feasible = [trial for trial in trials if trial["feasible"]]
        assert 0 < len(feasible) < len(trials)
        best = max(feasible, key=lambda trial: float(trial["final_number"]))
        progress = server.get(f"experiments/{experiment}/")["progress"]
        assert (progress["best_value"], progress["best_trial_id"]) == (best["final_number"], best["id"])
        text = server.request("GET", f"experiments/{experiment}/export/", params={"format": "csv"}).text
        rows = {row["id"]: row["feasible"] for row in csv.DictReader(io.StringIO(text))}
        assert rows == {trial["id"]: str(trial["feasible"]) for trial in trials}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_eight_at_a_time_none_is_infeasible(running_server: RunningServer, folder: Path) -> None:
    for tuner in ("Anneal", "NSGAII"):
        experiment = launched(running_server, folder, trialConcurrency=8, maxTrialNumber=24, tuner={
            "name": tuner, "classArgs": {"optimize_mode": "maximize", **(
                {"population_size": 8} if tuner == "NSGAII" else {})}})
        running_server.wait_for_experiment(experiment, "DONE", patience=240)
        points = [trial["parameters"] for trial in trials_of(running_server, experiment)]
        assert len(points) == 24
        assert all(point["layers"] * point["units"] <= 4096 and (point["units"] < 1024 or point["drop"] > 0.1)
                   for point in points)


def test_what_breaks_a_constraint_is_refused(running_server: RunningServer, folder: Path) -> None:
    server = running_server
    check = server.request("POST", "experiments/check/", json={"config": json.dumps(
        {**CONFIG, "constraints": ["layers * unit <= 4096"]}), "base_directory": str(folder)})
    [error] = check.json()["errors"]
    assert error["field"] == "constraints[0]"
    assert 'character 10 (unit): is no parameter of the search space. Did you mean "units"?' in error["message"]
    experiment = launched(server, folder, maxTrialNumber=1)
    answer = server.request("POST", f"experiments/{experiment}/trials/", json={
        "parameters": {"layers": 10, "units": 1024, "drop": 0.3}})
    assert answer.status_code in (400, 409)
    assert "layers * units <= 4096" in answer.text
    found = server.get(f"experiments/{experiment}/")
    assert (found["constraints"], found["outcome_constraints"]) == (CONFIG["constraints"], CONFIG["outcomeConstraints"])
