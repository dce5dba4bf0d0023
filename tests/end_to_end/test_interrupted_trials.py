"""A trial that is interrupted goes on from its last checkpoint, through the whole server."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer

#: Counts epochs, one each 50 ms; writes each into a file that outlives it. ``fails_at``: the first attempt ends there.
TRIAL = """\
import nni, os, sys, time

parameters = nni.get_next_parameter()
found = nni.load_checkpoint()
first = 0 if found is None else found.step + 1
if found is not None:
    with open(found) as file:
        assert int(file.read()) == found.step
for epoch in range(first, int(sys.argv[1])):
    time.sleep(0.05)
    with open(os.environ["RAN"], "a") as file:
        file.write("%s %d\\n" % (nni.get_trial_id(), epoch))
    nni.report_intermediate_result(float(epoch))
    with nni.save_checkpoint(step=epoch) as path, open(path, "w") as file:
        file.write(str(epoch))
    if found is None and epoch == int(sys.argv[2]):
        time.sleep(1)  # until it is with the server
        sys.exit(3)
nni.report_final_result(float(parameters["x"]))
"""


def config(ran: Path, epochs: int, fails_at: int, **more: Any) -> dict[str, Any]:
    return {"experimentName": "interrupted", "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "trialCommand": f"python3 trial.py {epochs} {fails_at}", "trialConcurrency": 1, "maxTrialNumber": 1,
            "seed": 1, "tuner": {"name": "Random"}, "environment": {"RAN": str(ran)},
            "trainingService": {"platform": "local"}, **more}


def code_in(folder: Path) -> Path:
    code = folder / "code"
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    return code


def curve_of(server: RunningServer, experiment: str, trial: str) -> list[tuple[int, float]]:
    series, = server.get(f"experiments/{experiment}/series/", trials=trial, points=400)["trials"]
    return list(zip(series["steps"], series["values"], strict=True))


def test_a_retried_trial_goes_on_from_its_checkpoint_and_has_one_curve(running_server: RunningServer,
                                                                       tmp_path: Path) -> None:
    server, ran = running_server, tmp_path / "ran"
    experiment = server.launch(config(ran, 8, 4, retry={"onFailure": 1}), code_in(tmp_path))
    server.wait_for_experiment(experiment)
    trial, = server.get_all(f"experiments/{experiment}/trials/")
    assert (trial["status"], trial["attempt"]) == ("SUCCEEDED", 2)
    assert [line.split()[1] for line in ran.read_text().splitlines()] == [str(epoch) for epoch in range(8)]
    assert curve_of(server, experiment, trial["id"]) == [(epoch, float(epoch)) for epoch in range(8)]
    checkpoints = server.get(f"trials/{trial['id']}/checkpoints/")
    assert {one["step"] for one in checkpoints["results"] if one["removed_at"] is None} >= {7}


def trial_processes(ran: Path) -> list[int]:
    """The trials' own processes, by what stands in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                if f"RAN={ran}".encode() in (folder / "environ").read_bytes().split(b"\\0"):
                    found.append(int(folder.name))
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills_by", range(3))
def test_kills_cost_no_more_than_what_came_after_the_last_checkpoint(running_server: RunningServer, tmp_path: Path,
                                                                     kills_by: int) -> None:
    """Keepers, trials and the server are killed at random moments; each epoch is in the joined curve once."""
    server, ran, chance = running_server, tmp_path / "ran", random.Random(kills_by)
    epochs, kills = 300, 0
    experiment = server.launch(config(ran, epochs, -1, maxTrialNumber=2, trialConcurrency=2,
                                      retry={"onFailure": 20, "onPlatformFailure": 20}), code_in(tmp_path))
    for _ in range(6):
        lines = len(ran.read_text().splitlines()) if ran.exists() else 0
        server.wait_until(lambda lines=lines: ran.exists() and len(
            ran.read_text().splitlines()) > lines + chance.randrange(3, 12), 60, "epochs are counted")
        if chance.random() < 0.3:
            server.kill()
            server.start()
        elif processes := trial_processes(ran):
            kills += 1
            with suppress(ProcessLookupError):
                os.kill(chance.choice(processes), signal.SIGKILL)
    server.wait_for_experiment(experiment, patience=240)
    trials = server.get_all(f"experiments/{experiment}/trials/")
    assert {trial["status"] for trial in trials} == {"SUCCEEDED"}
    for trial in trials:
        assert curve_of(server, experiment, trial["id"]) == [(epoch, float(epoch)) for epoch in range(epochs)]
    counted = Counter(ran.read_text().splitlines())
    assert len(counted) == 2 * epochs
    # an interruption costs the epochs since the checkpoint that was with the server: about a second's worth
    assert sum(counted.values()) - len(counted) <= kills * 30
    with closing(sqlite3.connect(f"file:{server.data_folder}/nniweb.sqlite3?mode=ro", uri=True)) as database:
        resumed = database.execute("SELECT COUNT(*) FROM experiments_attempt WHERE resumed_from_id IS NOT NULL")
        assert resumed.fetchone()[0] >= (1 if kills else 0)
