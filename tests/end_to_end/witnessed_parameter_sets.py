"""A multi-phase experiment whose trials note what they were given and what they reported, and the comparison."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from nniweb.tuning.algorithms import build_tuner
from nniweb.tuning.search_space.parser import parse_search_space
from tests.end_to_end.running_server import RunningServer

SEARCH_SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}
SEED = 5
#: argv: folder of the witnesses, how many sets, folder of the gates. Notes what it was given and what it reported.
#: Between the result of a set and the next question it waits while there is a gate with the set's number.
WITNESS = """\
import json, os, sys, time
import nni

folder, sets, gates = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with open(os.path.join(folder, nni.get_trial_id()), "a") as witness:
    for number in range(sets):
        given = nni.get_next_parameter()
        if given is None:
            break
        value = given["x"] * 2
        nni.report_final_result(value)
        witness.write(json.dumps([given, value]) + "\\n")
        witness.flush()
        time.sleep(0.05)
        while os.path.exists(os.path.join(gates, str(number))):
            time.sleep(0.05)
"""


def sets_of(server: RunningServer, trial: dict[str, Any]) -> list[dict[str, Any]]:
    return server.get_all(f"trials/{trial['id']}/parameters/")


def witnessed(server: RunningServer, folder: Path, sets: int, trials: int = 2,
              platform: Mapping[str, Any] | None = None, **more: Any) -> str:
    """An experiment whose trials note what they were given. They wait at the files of ``folder / "gates"``."""
    witnesses, code, gates = folder / "witnesses", folder / "code", folder / "gates"
    witnesses.mkdir()
    code.mkdir()
    gates.mkdir(exist_ok=True)
    (code / "trial.py").write_text(WITNESS)
    return server.launch({
        "trialCommand": f"python3 trial.py '{witnesses}' {sets} '{gates}'", "trialCodeDirectory": str(code),
        "trialConcurrency": trials, "maxTrialNumber": trials, "multiPhase": True,
        "searchSpace": SEARCH_SPACE, "tuner": {"name": "Random", "classArgs": {"seed": SEED}},
        "trainingService": dict(platform or {"platform": "local"}), **more}, code)


def noted_by(folder: Path, trial_id: str) -> list[list[Any]]:
    """What a trial was given and reported, [parameters, result] of each set; [] before it has begun."""
    file = folder / "witnesses" / trial_id
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def nothing_is_lost(server: RunningServer, experiment: str, folder: Path, sets: int, *, of_killed: int = 0) -> None:
    """What trials were given and reported is what the server has, and no set was given twice.

    ``of_killed``: sets that each trial had reported in an attempt that was killed; the next one gets them again.
    """
    server.wait_for_experiment(experiment, patience=240)
    trials = server.get_all(f"experiments/{experiment}/trials/")
    given = []
    for trial in trials:
        assert trial["status"] == "SUCCEEDED", trial["message"]
        noted = noted_by(folder, trial["id"])
        assert len(noted) == of_killed + sets
        assert noted[:of_killed] == noted[of_killed:][:of_killed], "a further attempt gets the same sets"
        rows = sets_of(server, trial)
        assert [[row["value"], row["final_number"]] for row in rows] == noted[of_killed:]
        assert trial["final_number"] == max(value for _, value in noted)
        given += rows
    assert sorted(row["parameter_id"] for row in given) == list(range(len(given)))
    assert len({row["value"]["x"] for row in given}) == len(given), "no parameter set twice"


def tuner_has_each_once(server: RunningServer, experiment: str, sets: int) -> None:
    """The tuner's history has each question, result and end of a trial once, and it gives the same answers
    undisturbed. ``sets``: of all trials.
    """
    with closing(sqlite3.connect(f"file:{server.data_folder}/nniweb.sqlite3?mode=ro", uri=True)) as database:
        events = [json.loads(text) for (text,) in database.execute(
            "SELECT data FROM experiments_tunerevent WHERE experiment_id = "
            "(SELECT id FROM experiments_experiment WHERE public_id = ?) ORDER BY id", (experiment,))]
    asked = [event for event in events if event["event"] == "ask"]
    assert [event["number"] for event in asked] == list(range(sets))
    told = [event for event in events if event["event"] == "tell" and "phase" in event]
    assert sorted(event["number"] for event in told) == list(range(sets)), "each result was told once"
    assert all(event["value"] == event["parameters"]["x"] * 2 for event in told)
    first = [sets_of(server, trial)[0]["parameter_id"] for trial in server.get_all(f"experiments/{experiment}/trials/")]
    ends = [event for event in events if event["event"] == "tell" and "phase" not in event]
    assert sorted(event["number"] for event in ends) == sorted(first), "each end was told once, by its first set"
    undisturbed = build_tuner("Random", {"seed": SEED}, parse_search_space(SEARCH_SPACE), "maximize", SEED)
    assert [event["parameters"] for event in asked] == [undisturbed.ask(number) for number in range(sets)]
