"""Replicates through the whole server, eight trials at a time, with servers that are killed on the way."""

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


def launched(server: RunningServer, folder: Path) -> str:
    code = folder / "code"
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    return server.launch(CONFIG, code)


def history(server: RunningServer) -> list[dict[str, Any]]:
    """What the only experiment's tuner was asked and told, in order."""
    with closing(sqlite3.connect(f"file:{server.data_folder}/nniweb.sqlite3?mode=ro", uri=True)) as database:
        return [json.loads(row) for (row,) in database.execute(
            "SELECT data FROM experiments_tunerevent ORDER BY number")]


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

    events = history(server)
    told = [event for event in events if event["event"] == "tell"]
    assert len({event["number"] for event in told}) == len(told)
    by_parameters = {json.dumps(runs[0]["parameters"]): runs[0]["proposal"] for runs in proposals.values()}
    for event in told:
        proposal = by_parameters[json.dumps(event["parameters"])]
        assert (event["value"], event["replicates"]) == (proposal["mean"], proposal["value_count"])
    assert len(told) == sum(one["state"] != "open" for one in by_parameters.values())

    for place, event in enumerate(events):
        if event["event"] == "ask":
            assert event["parameters"] in proposed(events[:place], event["number"])


def proposed(before: list[dict[str, Any]], number: int) -> Iterator[dict[str, Any]]:
    """What a new tuner of the same seed proposes after these events. A result that is recorded while the tuner is at
    work is told to it after its answer, and stands before that answer in the record: also without the last few of them.
    """
    told = [place for place, event in enumerate(before) if event["event"] == "tell"]
    for count in range(min(len(told), CONFIG["trialConcurrency"]) + 1):
        left_out = set(told[len(told) - count:])
        tuning = ExperimentTuning({
            "search_space": SPACE, "optimize_mode": "minimize", "seed": CONFIG["seed"],
            "tuner": {"name": "TPE", "class_args": {"optimize_mode": "minimize"}}})
        tuning.restore(event for place, event in enumerate(before) if place not in left_out)
        yield tuning.ask(number, 1)["parameters"][0]
