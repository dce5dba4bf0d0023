"""Tuners with budgets: what goes on goes on from its checkpoint, through the whole server, also where it is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer

#: Trains up to its budget, and writes each epoch into a file that outlives it.
TRIAL = """\
import nni, os, sys, time

parameters = nni.get_next_parameter()
saves = sys.argv[1] == "saves"
found = nni.load_checkpoint() if saves else None
first = 0 if found is None else found.step + 1
for epoch in range(first, parameters["TRIAL_BUDGET"]):
    time.sleep(0.02)
    with open(os.environ["RAN"], "a") as file:
        file.write("%.12f %d\\n" % (parameters["x"], epoch))
    nni.report_intermediate_result(parameters["x"] + epoch)
    if saves:
        with nni.save_checkpoint(step=epoch) as path, open(path, "w") as file:
            file.write(str(epoch))
nni.report_final_result(parameters["x"])
"""
HYPERBAND = {"name": "Hyperband", "classArgs": {"optimize_mode": "maximize", "R": 9, "exec_mode": "serial"}}
BOHB = {"name": "BOHB", "classArgs": {"optimize_mode": "maximize", "min_budget": 1, "max_budget": 9}}
ASHA = {"name": "ASHA", "classArgs": {"optimize_mode": "maximize", "max_budget": 9}}


def launch(server: RunningServer, folder: Path, tuner: dict[str, Any], trials: int, how: str = "saves") -> str:
    code = folder / how
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    return server.launch({
        "experimentName": "continued", "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "trialCommand": f"python3 trial.py {how}", "trialConcurrency": 3, "maxTrialNumber": trials, "seed": 3,
        "tuner": tuner, "environment": {"RAN": str(folder / f"{how} ran")},
        "trainingService": {"platform": "local"}}, code)


def epochs_of(folder: Path, how: str = "saves") -> Counter[str]:
    ran = folder / f"{how} ran"
    return Counter(ran.read_text().splitlines()) if ran.exists() else Counter()


def trials_of(server: RunningServer, experiment: str) -> list[dict[str, Any]]:
    return sorted(server.get_all(f"experiments/{experiment}/trials/"), key=lambda trial: trial["sequence_id"])


def must_have_trained_each_epoch_once(server: RunningServer, folder: Path, trials: list[dict[str, Any]]) -> int:
    """How many trials continue another one."""
    budgets: dict[float, int] = {}
    for trial in trials:
        x, budget = trial["parameters"]["x"], trial["parameters"]["TRIAL_BUDGET"]
        budgets[x] = max(budgets.get(x, 0), budget)
        series, = server.get(f"experiments/{trial['experiment']}/series/", trials=trial["id"], points=400)["trials"]
        assert list(zip(series["steps"], series["values"], strict=True)) == [
            (epoch, pytest.approx(x + epoch)) for epoch in range(budget)], "one curve, from the first epoch on"
    assert epochs_of(folder) == {f"{x:.12f} {epoch}": 1 for x, most in budgets.items() for epoch in range(most)}
    return sum(trial["continues"] is not None for trial in trials)


@pytest.mark.slow
def test_hyperband_trains_only_what_the_budget_is_larger_by(running_server: RunningServer, tmp_path: Path) -> None:
    server = running_server
    experiment = launch(server, tmp_path, HYPERBAND, 13)
    server.wait_until(lambda: epochs_of(tmp_path).total() > 4, what="some epochs")
    server.kill()
    server.start()
    server.wait_until(lambda: epochs_of(tmp_path).total() > 9, what="the second rung")
    server.kill()
    server.start()
    server.wait_for_experiment(experiment)
    trials = trials_of(server, experiment)
    assert [trial["parameters"]["TRIAL_BUDGET"] for trial in trials] == [1] * 9 + [3] * 3 + [9]
    assert must_have_trained_each_epoch_once(server, tmp_path, trials) == 4
    assert epochs_of(tmp_path).total() == 9 + 3 * 2 + 6, "and not 9 + 3 * 3 + 9"
    last = trials[-1]
    before = next(trial for trial in trials if trial["id"] == last["continues"]["id"])
    events = {event["kind"]: event["message"] for event in server.get(f"trials/{last['id']}/events/")["results"]}
    assert events["resumed"] == f'It went on from the checkpoint "step-2" (step 2) of trial {before["sequence_id"]}.'
    saved = server.get(f"trials/{before['id']}/checkpoints/")["results"]
    assert next(one for one in saved if one["step"] == 2)["resumed_trials"] == [last["id"]]


@pytest.mark.slow
def test_trials_without_checkpoints_run_as_before_and_the_tuner_proposes_the_same(
        running_server: RunningServer, tmp_path: Path) -> None:
    server = running_server
    experiments = [launch(server, tmp_path, HYPERBAND, 13, how) for how in ("saves", "starts anew")]
    found = []
    for experiment in experiments:
        server.wait_for_experiment(experiment)
        found.append(trials_of(server, experiment))
    assert Counter(str(trial["parameters"]) for trial in found[0]) == Counter(
        str(trial["parameters"]) for trial in found[1])
    assert (epochs_of(tmp_path).total(), epochs_of(tmp_path, "starts anew").total()) == (21, 27)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tuner", [BOHB, ASHA], ids=lambda tuner: tuner["name"])
def test_no_epoch_is_trained_twice_however_often_the_server_is_killed(running_server: RunningServer, tmp_path: Path,
                                                                      tuner: dict[str, Any]) -> None:
    server = running_server
    experiment = launch(server, tmp_path, tuner, 30)
    for count in (3, 12, 20, 28):
        server.wait_until(lambda count=count: epochs_of(tmp_path).total() > count, 120, f"{count} epochs")
        server.kill()
        server.start()
    server.wait_for_experiment(experiment, patience=240)
    trials = trials_of(server, experiment)
    assert {trial["status"] for trial in trials} == {"SUCCEEDED"}
    assert must_have_trained_each_epoch_once(server, tmp_path, trials) >= 1
    assert {trial["parameters"]["TRIAL_BUDGET"] for trial in trials} >= {1, 3}
