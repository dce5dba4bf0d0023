"""Rows of the kill table: the power of the server's machine fails, so that all processes end and what was not flushed
is gone. Real ext4 on a loop device; what was acknowledged before the cut must be there after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.end_to_end.kill_table.power_cut import CutDisk
from tests.end_to_end.kill_table.witnessed_experiment import SEARCH_SPACE, WitnessedExperiment
from tests.end_to_end.running_server import RunningServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]


class ServersMachine:
    """A machine with a server and its trials, whose data folder lies on a disk that a power cut tells of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = CutDisk(folder)
        self.disk.mount()
        self.server = RunningServer(self.disk.path / "data", starts_empty=True)
        self.server.log_file = folder / "server.log"
        self._boot_id = folder / "boot_id"

    def start(self) -> RunningServer:
        """Switch it on."""
        if not os.path.ismount(self.disk.path):
            self.disk.mount()
        self._boot_id.write_text(f"{uuid.uuid4()}\n")
        return self.server.start(program=("-m", "tests.end_to_end.kill_table.booted_server"),
                                 env={"BOOT_ID": str(self._boot_id)})

    def cut(self) -> None:
        self.disk.cut(self.server.processes)
        self.server.kill()  # it is dead: its exit status is taken

    def close(self) -> None:
        try:
            self.server.close()
        finally:
            self.disk.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[ServersMachine]:
    if os.geteuid() != 0:
        pytest.skip("needs root: machines of their own, other users, small disks")
    if missing := [name for name in ("losetup", "mkfs.ext4", "mount") if shutil.which(name) is None]:
        pytest.skip(f"no {missing[0]} was found: apt-get install e2fsprogs mount")
    if not os.path.exists("/dev/loop-control"):
        pytest.skip("this machine has no loop devices")
    made = ServersMachine(tmp_path)
    yield made
    made.close()


def numbers(server: RunningServer, row: dict) -> list[float]:
    return [metric["number"] for metric in server.get_all(f"trials/{row['id']}/metrics/")
            if metric["kind"] == "PERIODICAL"]


@pytest.mark.kill_table("power cut of the server's machine while trials run")
def test_trials_that_ran_when_the_power_failed_have_failed_and_the_experiment_goes_on(
        machine: ServersMachine, tmp_path: Path, seed: int) -> None:
    server, go = machine.start(), tmp_path / "go"
    experiment = WitnessedExperiment(server, tmp_path, trials=6, concurrency=3, steps=60, pause=0.02, go=go).launch()
    server.wait_until(lambda: experiment.reported() > Random(seed).randint(3, 150), what="trials report")
    acknowledged = {row["id"]: numbers(server, row) for row in experiment.rows()}
    machine.cut()
    go.touch()

    server = machine.start()
    done = server.wait_for_experiment(experiment.id, patience=120)
    assert done["status"] == "DONE"
    rows = experiment.rows()
    assert [row["status"] for row in rows] == ["FAILED"] * 3 + ["SUCCEEDED"] * 3, rows
    for row in rows[:3]:
        assert "switched off" in row["message"], row["message"]
        stored, own = numbers(server, row), [line["value"] for line in experiment.witness(row["id"])
                                             if line["what"] == "reported"]
        assert stored[:len(acknowledged[row["id"]])] == acknowledged[row["id"]], "what was acknowledged is there"
        assert stored == own[:len(stored)] or stored[:-1] == own, "and nothing twice, or in another order"
    assert [len(numbers(server, row)) for row in rows[3:]] == [60, 60, 60]
    experiment.ledger_agrees(rows)
    server.wait_until(lambda: not experiment._left(), 60, "no process is left")
    assert experiment._unfinished_attempts() == 0


@pytest.mark.kill_table("power cut of the server's machine while its first trials are started")
def test_a_power_cut_soon_after_the_first_start_leaves_no_trial_that_cannot_end_and_breaks_no_later_one(
        machine: ServersMachine, tmp_path: Path, seed: int) -> None:
    server = machine.start()
    experiment = WitnessedExperiment(server, tmp_path, trials=10, concurrency=2, steps=10, pause=0.05).launch()
    server.wait_until(lambda: experiment.begun() > Random(seed).randrange(4), what="trials begin")
    machine.cut()
    later = slice(experiment.begun() + 2, None)  # a keeper whose trial had not begun yet may have been there for two

    server = machine.start()
    server.wait_for_experiment(experiment.id, patience=120)
    rows = experiment.rows()
    assert {row["status"] for row in rows[later]} == {"SUCCEEDED"}, [row["message"] for row in rows]
    assert all(len([line for line in experiment.witness(row["id"]) if line["what"] == "start"]) <= 1 for row in rows)
    assert all("switched off" in row["message"] for row in rows if row["status"] != "SUCCEEDED"), rows
    server.wait_until(lambda: not experiment._left(), 60, "no process is left")
    assert experiment._unfinished_attempts() == 0
    report = json.loads(server.manage("doctor", "--json", check=False).stdout)
    assert not [found for found in report["findings"] if found["verdict"] == "wrong"], report


KEEPING_TRIAL = """\
import os, nni
x = nni.get_next_parameter()["x"]
with open("model.bin", "wb") as file:
    file.write(nni.get_trial_id().encode() * 5000)
nni.report_final_result(x)
"""


@pytest.mark.kill_table("power cut right after an experiment with kept files is DONE")
def test_kept_files_and_the_code_of_a_done_experiment_are_whole_after_a_power_cut(
        machine: ServersMachine, tmp_path: Path, seed: int) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "trial.py").write_text(KEEPING_TRIAL)
    config = {"trialCommand": "python3 trial.py", "trialCodeDirectory": str(code), "trialConcurrency": 2,
              "maxTrialNumber": 2 + seed, "searchSpace": SEARCH_SPACE, "tuner": {"name": "Random"},
              "keepFiles": ["model.bin"], "trainingService": {"platform": "local", "snapshotCode": True}}
    server = machine.start()
    experiment = server.launch(config, code)
    server.wait_for_experiment(experiment)
    rows = server.get_all(f"experiments/{experiment}/trials/")
    machine.cut()

    server = machine.start()
    assert server.get(f"experiments/{experiment}/")["status"] == "DONE"
    for row in rows:
        [kept] = server.get_all(f"trials/{row['id']}/files/")
        answer = server.request("GET", f"trials/{row['id']}/files/{kept['id']}/")
        assert answer.status_code == 200
        assert answer.content == row["id"].encode() * 5000
    again = server.launch(config, code)
    server.wait_for_experiment(again)
    assert {row["status"] for row in server.get_all(f"experiments/{again}/trials/")} == {"SUCCEEDED"}


@pytest.mark.kill_table("power cut right after the first start, and right after a backup")
def test_an_installation_that_has_just_been_made_and_a_backup_that_is_done_outlast_a_power_cut(
        machine: ServersMachine, seed: int) -> None:
    server = machine.start()
    token, keys = server.token, server.data_folder / "keys"
    secrets = {file.name: file.read_bytes() for file in keys.iterdir()}
    machine.cut()

    server = machine.start()
    assert server.request("GET", "experiments/").status_code == 200, "the account, its token and the keys are there"
    assert {file.name: file.read_bytes() for file in keys.iterdir()} == secrets
    backup = machine.disk.path / "backup.tar.gz"
    server.manage("backup", str(backup))
    content = hashlib.sha256(backup.read_bytes()).hexdigest()
    machine.cut()

    server = machine.start()
    assert server.token == token
    assert hashlib.sha256(backup.read_bytes()).hexdigest() == content
