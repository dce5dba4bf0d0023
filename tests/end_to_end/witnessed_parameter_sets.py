"""A multi-phase experiment whose trials note what they were given and what they reported, and the comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.end_to_end.running_server import RunningServer

#: argv: folder of the witnesses, how many sets. Notes what it was given and what it reported.
WITNESS = """\
import json, os, sys, time
import nni

folder, sets = sys.argv[1], int(sys.argv[2])
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
"""


def sets_of(server: RunningServer, trial: dict[str, Any]) -> list[dict[str, Any]]:
    return server.get_all(f"trials/{trial['id']}/parameters/")


def witnessed(server: RunningServer, folder: Path, sets: int, trials: int = 2,
              platform: Mapping[str, Any] | None = None) -> str:
    """An experiment whose trials note what they were given."""
    witnesses, code = folder / "witnesses", folder / "code"
    witnesses.mkdir()
    code.mkdir()
    (code / "trial.py").write_text(WITNESS)
    return server.launch({
        "trialCommand": f"python3 trial.py '{witnesses}' {sets}", "trialCodeDirectory": str(code),
        "trialConcurrency": trials, "maxTrialNumber": trials, "multiPhase": True,
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "tuner": {"name": "Random", "classArgs": {"seed": 5}},
        "trainingService": dict(platform or {"platform": "local"})}, code)


def nothing_is_lost(server: RunningServer, experiment: str, folder: Path, sets: int) -> None:
    """What trials were given and reported is what the server has, and no set was given twice."""
    server.wait_for_experiment(experiment, patience=240)
    trials = server.get_all(f"experiments/{experiment}/trials/")
    given = []
    for trial in trials:
        assert trial["status"] == "SUCCEEDED", trial["message"]
        noted = [json.loads(line) for line in (folder / "witnesses" / trial["id"]).read_text().splitlines()]
        assert len(noted) == sets
        rows = sets_of(server, trial)
        assert [[row["value"], row["final_number"]] for row in rows] == noted
        assert trial["final_number"] == max(value for _, value in noted)
        given += rows
    assert sorted(row["parameter_id"] for row in given) == list(range(len(given)))
    assert len({row["value"]["x"] for row in given}) == len(given), "no parameter set twice"
