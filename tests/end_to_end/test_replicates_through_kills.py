"""Replicates through the whole server, eight trials at a time, with servers that are killed on the way."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.repeated_proposals import assert_proposals_follow, tuner_events
from tests.end_to_end.running_server import RunningServer

#: The result is a function of parameters and seed: what is compared here needs no tolerance.
TRIAL = """\
import os
import random
import nni

given = nni.get_next_parameter()
noise = random.Random("%s %s" % (os.environ["NNI_TRIAL_SEED"], given["x"]))
print("seed", os.environ["NNI_TRIAL_SEED"], "replicate", os.environ["NNI_REPLICATE"], flush=True)
nni.report_final_result(given["x"] ** 2 + given["y"] ** 2 + noise.gauss(0, 2))
"""
SPACE = {name: {"_type": "uniform", "_value": [-5, 5]} for name in ("x", "y")}
CONFIG: dict[str, Any] = {
    "experimentName": "noisy", "searchSpace": SPACE, "trialCommand": "python3 trial.py", "trialConcurrency": 8,
    "maxTrialNumber": 60, "seed": 5, "replicates": {"seeds": [11, 22, 33]},
    "tuner": {"name": "TPE", "classArgs": {"optimize_mode": "minimize"}}, "trainingService": {"platform": "local"}}


def launched(server: RunningServer, folder: Path, config: dict[str, Any] = CONFIG, program: str = TRIAL) -> str:
    code = folder / "code"
    code.mkdir()
    (code / "trial.py").write_text(program)
    return server.launch(config, code)


def ended(server: RunningServer, experiment: str) -> int:
    return int(server.get(f"experiments/{experiment}/")["progress"]["ended"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_search_with_restarts_proposes_what_follows_from_its_seed_and_results(
        running_server: RunningServer, tmp_path: Path) -> None:
    server = running_server
    experiment = launched(server, tmp_path)
    for at_least in (15, 35):
        server.wait_until(lambda: ended(server, experiment) >= at_least, 120, "trials end")  # noqa: B023
        server.kill()
        server.start()
    document = server.wait_for_experiment(experiment, patience=180)
    trials = server.get_all(f"experiments/{experiment}/trials/")
    assert len(trials) == 60
    assert {trial["status"] for trial in trials} == {"SUCCEEDED"}

    proposals: dict[int, list[dict[str, Any]]] = {}
    for trial in trials:
        proposals.setdefault(trial["proposal"]["first"], []).append(trial)
        assert trial["proposal"]["seed"] == [11, 22, 33][trial["proposal"]["replicate"]]
    for runs in proposals.values():
        assert [run["proposal"]["replicate"] for run in runs] == list(range(len(runs)))
        assert len({json.dumps(run["parameters"]) for run in runs}) == 1
        assert runs[0]["proposal"]["mean"] == pytest.approx(sum(run["final_number"] for run in runs) / len(runs))
    output = server.get(f"trials/{trials[-1]['id']}/output/", stream="stdout")["text"]
    assert output.startswith("seed {seed} replicate {replicate}".format(**trials[-1]["proposal"]))
    assert {len(runs) for runs in proposals.values()} >= {1, 3}, "some were repeated, others were not worth it"

    complete = [runs[0]["proposal"] for runs in proposals.values() if runs[0]["proposal"]["state"] == "complete"]
    best = min(complete, key=lambda one: one["mean"])
    progress = document["progress"]
    assert (progress["best_value"], progress["best_sequence_id"], progress["best_replicates"]) == (
        best["mean"], best["first"], 3)

    events = tuner_events(server, experiment)
    told = [event for event in events if event["event"] == "tell"]
    assert len({event["number"] for event in told}) == len(told)
    by_parameters = {json.dumps(runs[0]["parameters"]): runs[0]["proposal"] for runs in proposals.values()}
    for event in told:
        proposal = by_parameters[json.dumps(event["parameters"])]
        assert (event["value"], event["replicates"]) == (proposal["mean"], proposal["value_count"])
    assert len(told) == sum(one["state"] != "open" for one in by_parameters.values())

    assert_proposals_follow(events, {"search_space": SPACE, "optimize_mode": "minimize", "seed": CONFIG["seed"],
                                     "tuner": {"name": "TPE", "class_args": {"optimize_mode": "minimize"}}},
                            at_once=CONFIG["trialConcurrency"])


#: As above, and long enough to be stopped on the way.
LONGER_TRIAL = TRIAL.replace("nni.report", "import time\ntime.sleep(1)\nnni.report")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_people_who_cancel_and_repeat_single_replicates_spoil_no_mean(
        running_server: RunningServer, tmp_path: Path) -> None:
    server = running_server
    config = {**CONFIG, "maxTrialNumber": 30, "replicates": {"n": 3, "racing": False}}
    experiment = launched(server, tmp_path, config, LONGER_TRIAL)

    def trials() -> list[dict[str, Any]]:
        return server.get_all(f"experiments/{experiment}/trials/")

    def first_of(status: str, replicate: int) -> dict[str, Any]:
        return server.wait_until(lambda: next((
            trial for trial in trials() if (trial["status"], trial["proposal"]["replicate"]) == (status, replicate)
        ), None), 120, f"replicate {replicate} is {status}")

    def has_ended(trial: dict[str, Any]) -> bool:
        return server.get(f"trials/{trial['id']}/")["status"] not in ("WAITING", "RUNNING")

    canceled = [first_of("RUNNING", replicate) for replicate in (1, 0)]  # a later one, and a first one
    for trial in canceled:
        server.post(f"trials/{trial['id']}/actions/cancel/")
    server.kill()
    server.start()
    repeated = [first_of("SUCCEEDED", 2), canceled[0]]
    for trial in repeated:
        server.wait_until(functools.partial(has_ended, trial), 120, "it ends")
        server.post(f"trials/{trial['id']}/actions/rerun/")
    first_of("RUNNING", 0)
    server.post(f"experiments/{experiment}/actions/stop/")
    server.kill()
    server.start()
    server.wait_for_experiment(experiment, "STOPPED", patience=120)
    server.post(f"experiments/{experiment}/actions/resume/")
    server.wait_for_experiment(experiment, patience=180)

    proposals: dict[int, list[dict[str, Any]]] = {}
    for trial in trials():
        proposals.setdefault(trial["proposal"]["first"], []).append(trial)
    for runs in proposals.values():
        assert len({json.dumps(run["parameters"]) for run in runs}) == 1
        by_replicate: dict[int, list[dict[str, Any]]] = {}
        for run in runs:
            by_replicate.setdefault(run["proposal"]["replicate"], []).append(run)
        assert sorted(by_replicate) == list(range(len(by_replicate)))
        for of_one in by_replicate.values():
            assert len({run["proposal"]["seed"] for run in of_one}) == 1
            assert len(of_one) == 1 or {run["id"] for run in of_one} & {trial["id"] for trial in repeated}
        values = [valued[-1] for of_one in by_replicate.values() if (valued := [
            run["final_number"] for run in of_one if run["status"] == "SUCCEEDED"])]
        if runs[0]["proposal"]["state"] == "complete" and 2 * len(values) >= len(by_replicate):
            assert runs[0]["proposal"]["mean"] == pytest.approx(sum(values) / len(values))
            assert runs[0]["proposal"]["value_count"] == len(values)
        else:
            assert runs[0]["proposal"]["state"] == "open" or runs[0]["proposal"]["mean"] is None
    again = [trial for trial in trials() if trial["source"] == "rerun"]
    assert sorted((trial["proposal"]["first"], trial["proposal"]["replicate"]) for trial in again) == sorted(
        (trial["proposal"]["first"], trial["proposal"]["replicate"]) for trial in repeated)

    told: dict[int, list[Any]] = {}
    for event in tuner_events(server, experiment):
        if event["event"] == "tell":
            told.setdefault(event["number"], []).append(event["value"])
    assert all(len(values) == 1 or (len(values), values[0]) == (2, None) for values in told.values())
    assert len(told) == sum(runs[0]["proposal"]["state"] != "open" for runs in proposals.values())
