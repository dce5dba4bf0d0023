"""Rows of the kill table: keepers and servers die while they read the metrics of a script that does not import nni.

The script writes each value where the keeper reads it, and then into a file of its own: what is in that file must be
with the server, in its order and once. A keeper's end is its trial's end, so the server has what came before.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.end_to_end.kill_table.killed_parts import keeper_of
from tests.end_to_end.running_server import RunningServer
from tests.fakes.real_mlflow import mlflow_python
from trainingservice.testing.processes import processes_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

#: argv: the file of the witness, the number of steps.
SCRIPT = """\
import csv, json, os, sys, time
witness, steps = open(sys.argv[1], "a"), int(sys.argv[2])
output = os.environ["NNI_OUTPUT_DIR"]
%s
for step in range(steps):
    write(step)
    witness.write("%%d\\n" %% step)
    witness.flush()
    time.sleep(0.01)
"""
#: What writes a value of each source, the section ``metrics`` that reads it, and what the row is called.
SOURCES: dict[str, tuple[str, dict[str, Any], str]] = {
    "pattern": ('def write(step):\n    print("step %d: acc=%d" % (step, step), flush=True)',
                {"stdout": r"step (?P<step>\d+): acc=(?P<acc>\d+)"}, "lines on stdout, by a pattern"),
    "json": ('def write(step):\n    print(json.dumps({"step": step, "acc": step}), flush=True)',
             {"stdout": "json"}, "JSON lines"),
    "tensorboard": ('from tensorboard.summary import Writer\nwriter = Writer(output + "/tensorboard")\n'
                    'def write(step):\n    writer.add_scalar("acc", step, step)\n    writer.flush()',
                    {"tensorboard": "acc"}, "TensorBoard's event files"),
    "mlflow": ('import mlflow\nmlflow.start_run()\ndef write(step):\n    mlflow.log_metric("acc", step, step=step)',
               {"mlflow": True}, "MLflow"),
    "csv": ('table = open(output + "/metrics.csv", "w")\nrows = csv.writer(table)\nrows.writerow(["step", "acc"])\n'
            'def write(step):\n    rows.writerow([step, step])\n    table.flush()',
            {"files": ["metrics.csv"]}, "a CSV file"),
}


def rows(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A row of the table for each source."""
    return pytest.mark.parametrize("source", [
        pytest.param(name, marks=pytest.mark.kill_table(f"kill -9 of {what} while a script's metrics are read: {said}"))
        for name, (_, _, said) in SOURCES.items()])


class WrittenMetrics:
    """An experiment of one trial, whose script writes 0, 1, 2 ... to one source."""

    def __init__(self, server: RunningServer, folder: Path, source: str, steps: int) -> None:
        self._server, self._witness = server, folder / "witness"
        self._witness.touch()
        code = folder / "code"
        code.mkdir()
        write, metrics, _ = SOURCES[source]
        (code / "train.py").write_text(SCRIPT % write)
        python = mlflow_python() if source == "mlflow" else sys.executable
        self._id = server.launch({
            "trialCommand": f"'{python}' train.py '{self._witness}' {steps}", "metrics": {**metrics, "result": "acc"},
            "searchSpace": {"lr": {"_type": "uniform", "_value": [0, 1]}}, "trialConcurrency": 1, "maxTrialNumber": 1,
            "trainingService": {"platform": "local"}}, code)

    def written(self) -> list[int]:
        return [int(line) for line in self._witness.read_text().splitlines()]

    @property
    def trial(self) -> dict[str, Any]:
        [trial] = self._server.get_all(f"experiments/{self._id}/trials/")
        return trial

    def stored(self, kind: str = "PERIODICAL") -> list[float]:
        metrics = [one for one in self._server.get_all(f"trials/{self.trial['id']}/metrics/") if one["kind"] == kind]
        if kind == "PERIODICAL":
            assert [one["sequence"] for one in metrics] == list(range(len(metrics)))
        return [float(json.loads(one["value"])) if isinstance(one["value"], str) else float(one["value"])
                for one in metrics]

    def wait_for(self, status: str) -> None:
        self._server.wait_until(lambda: self.trial["status"] == status, 240, f"its trial is {status}")
        self._server.wait_until(lambda: not processes_of([str(self._witness)]), 60, "no process of it is left")


@rows("the server")
def test_a_killed_server_loses_and_doubles_no_metric_of_a_script(running_server: RunningServer, tmp_path: Path,
                                                                 source: str, seed: int) -> None:
    steps, moment = 400, Random(seed).randint(1, 300)
    experiment = WrittenMetrics(running_server, tmp_path, source, steps)
    running_server.wait_until(lambda: len(experiment.written()) >= moment, what="it writes")
    running_server.kill()
    running_server.start()
    experiment.wait_for("SUCCEEDED")
    assert experiment.stored() == experiment.written() == list(range(steps))
    assert experiment.stored("FINAL") == [steps - 1]


@rows("a keeper")
def test_a_killed_keeper_loses_and_doubles_nothing_that_its_script_had_written(
        running_server: RunningServer, tmp_path: Path, source: str, seed: int) -> None:
    experiment, moment = WrittenMetrics(running_server, tmp_path, source, 100_000), Random(seed).randint(1, 200)
    running_server.wait_until(lambda: len(experiment.written()) >= moment, what="it writes")
    os.kill(keeper_of(running_server, experiment.trial["id"]), signal.SIGKILL)
    experiment.wait_for("FAILED")
    assert "keeper" in experiment.trial["message"]
    stored, written = experiment.stored(), experiment.written()
    # it may have been ended between a value and its own note of it
    assert stored == list(range(len(stored)))
    assert len(stored) - len(written) in (0, 1)
    assert experiment.stored("FINAL") == []
