"""A trial that has saved two checkpoints, meets a fault, and is run again: for tests that say what the fault is.

The trial itself says in a file what it found at each start, and ends with an error where that is not whole.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.end_to_end.running_server import RunningServer
from trialkeeper import contract

#: Seconds for each step, on a busy machine.
PATIENCE = 120.0

#: argv: folder in which it writes what it found and waits for ``go``; Python text that is the fault. A checkpoint of a
#: step is always the same bytes, so whoever reads one knows whether it is whole.
TRIAL = """\
import json, nni, os, random, signal, sys, time
folder, fault = sys.argv[1:3]

def content(step, size):
    return step.to_bytes(4, "big") + random.Random(step).randbytes(size)

def save(step, size=1000):
    nni.report_intermediate_result(float(step))
    with nni.save_checkpoint(step=step) as path, open(path, "wb") as file:
        file.write(content(step, size))

def say(name):
    with open(os.path.join(folder, name), "w"):
        pass

def wait_for(name):
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.02)

nni.get_next_parameter()
found = nni.load_checkpoint()
if found is not None:
    with open(found, "rb") as file:
        read = file.read()
    assert read == content(found.step, len(read) - 4), "half a checkpoint was in place"
with open(os.path.join(folder, "found"), "a") as file:
    file.write(json.dumps(None if found is None else found.step) + "\\n")
if found is None:
    save(0)
    save(1)
    wait_for("go")
    exec(fault)
    os._exit(3)
save(found.step + 1)
nni.report_final_result(float(found.step))
"""


class InterruptedTrial:
    """``launch``, bring the fault about, then ``has_gone_on_from`` the step of the checkpoint that was in use."""

    def __init__(self, server: RunningServer, folder: Path, fault: str, **checkpoints: Any) -> None:
        """``fault``: Python text that the first attempt runs when both checkpoints are kept; it fails after it."""
        self.server, self.folder = server, folder / "trial"
        self.folder.mkdir()
        code = folder / "code"
        code.mkdir()
        (code / "trial.py").write_text(TRIAL)
        (code / "fault.py").write_text(fault)
        self.id = server.launch({
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
            "trialCommand": f'python3 trial.py "{self.folder}" "$(cat fault.py)"', "trialConcurrency": 1,
            "maxTrialNumber": 1, "retry": {"onFailure": 2, "onPlatformFailure": 4},
            "checkpoints": {"keep": 3, **checkpoints}, "trainingService": {"platform": "local"}}, code)
        self.wait(lambda: 1 in self.confirmed(), "the first checkpoints are kept")
        (self.folder / "go").touch()

    # --- looking ---------------------------------------------------------------------------

    def wait(self, condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        return self.server.wait_until(condition, patience, what)

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        """What the database answers; ? stands for the experiment's public id."""
        with closing(sqlite3.connect(f"file:{self.server.data_folder}/nniweb.sqlite3?mode=ro", uri=True,
                                     timeout=90)) as database:
            return database.execute(question, [self.id]).fetchall()

    def confirmed(self) -> set[int]:
        """Steps of the checkpoints that count."""
        return {step for step, in self.ask(
            "SELECT step FROM experiments_checkpoint JOIN experiments_trial AS trial ON trial.id = trial_id JOIN "
            "experiments_experiment AS experiment ON experiment.id = experiment_id WHERE confirmed_at IS NOT NULL AND "
            "removed_at IS NULL AND experiment.public_id = ?")}

    def chunks(self) -> int:
        """How many chunks are stored."""
        return int(self.ask(
            "SELECT COUNT(*) FROM experiments_checkpointchunk JOIN experiments_experiment AS experiment ON "
            "experiment.id = experiment_id WHERE lost_at IS NULL AND experiment.public_id = ?")[0][0])

    def attempt_folder(self, number: int = 1) -> Path | None:
        """None before the attempt is there."""
        for name, of in self.ask(
                "SELECT job_name, number FROM experiments_attempt JOIN experiments_trial AS trial ON trial.id = "
                "trial_id JOIN experiments_experiment AS experiment ON experiment.id = experiment_id WHERE "
                "experiment.public_id = ?"):
            if of == number:
                return next(iter(self.server.data_folder.glob(f"clusters/*/trials/{self.id}/{name}")), None)
        return None

    def found(self) -> list[int | None]:
        """What each start has found."""
        return [json.loads(line) for line in (self.folder / "found").read_text().splitlines()]

    # --- disturbing ------------------------------------------------------------------------

    def said(self, name: str) -> bool:
        return (self.folder / name).exists()

    def say(self, name: str) -> None:
        (self.folder / name).touch()

    def kill_keeper(self, number: int = 1) -> None:
        folder = self.attempt_folder(number)
        assert folder is not None
        os.kill(int(json.loads((folder / contract.KEEPER_FILE).read_text())["pid"]), signal.SIGKILL)

    def damage_newest(self) -> None:
        """One bit of the newest chunk on the server's disk."""
        newest = max(self.server.data_folder.glob(f"files/checkpoints/{self.id}/chunks/*/*"),
                     key=lambda path: path.stat().st_mtime_ns)
        content = bytearray(newest.read_bytes())
        content[-1] ^= 1
        newest.write_bytes(content)

    # --- judging ---------------------------------------------------------------------------

    def has_gone_on_from(self, step: int, reason: str = "", attempts: int = 2) -> None:
        """The trial was run again from this checkpoint, whole, and its history says ``reason``."""
        self.server.wait_for_experiment(self.id, patience=3 * PATIENCE)
        trial, = self.server.get_all(f"experiments/{self.id}/trials/")
        assert (trial["status"], trial["attempt"], trial["final_number"]) == ("SUCCEEDED", attempts, float(step)), trial
        assert self.found()[0] is None
        assert self.found()[-1] == step
        series, = self.server.get(f"experiments/{self.id}/series/", trials=trial["id"], points=400)["trials"]
        assert series["values"][:step + 2] == [float(one) for one in range(step + 2)]
        events = self.server.get(f"trials/{trial['id']}/events/")["results"]
        messages = [event["message"] for event in events if event["kind"] in ("checkpoint failed", "resumed")]
        assert f'It went on from the checkpoint "step-{step}" (step {step})' in " ".join(messages), messages
        assert reason in " ".join(messages), messages
        restoring = list(self.server.data_folder.glob(f"clusters/*/trials/{self.id}/*/checkpoints/.restoring"))
        assert not restoring, "nothing half is left in place"
        shutil.rmtree(self.folder)
