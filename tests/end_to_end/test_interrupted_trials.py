"""A trial that is interrupted goes on from its last checkpoint, through the whole server."""

from __future__ import annotations

import os
import queue
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.interrupted_trial import InterruptedTrial
from tests.end_to_end.running_server import RunningServer
from trialkeeper.access import saved_access
from trialkeeper.checkpoint_sender import CheckpointSender, Sent, ToSend
from trialkeeper.reporter import OwnInstallation

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
                if f"RAN={ran}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.kill_table("kill -9 of keepers, trials and the server at random moments while trials save checkpoints")
def test_kills_cost_no_more_than_what_came_after_the_last_checkpoint(running_server: RunningServer, tmp_path: Path,
                                                                     seed: int) -> None:
    """Keepers, trials and the server are killed at random moments; each epoch is in the joined curve once."""
    server, ran, chance = running_server, tmp_path / "ran", random.Random(seed)
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


# --- rows of the kill table: each ends with the checkpoint before, whole, and a reason on the trial -----------------

#: Python text of the first attempt, after two checkpoints.
LEAVES_HALF = """
draft = os.path.join(os.environ["NNI_CHECKPOINT_DIR"], ".saving-step-2")
with open(draft, "wb") as file:
    file.write(b"half")
"""
#: Every chunk of it is another one, and it takes no room on this disk.
SAVES_20_GB = """
with nni.save_checkpoint(step=2) as path, open(path, "wb") as file:
    for number in range(20 * 128):
        file.seek(number * 8 * 2 ** 20)
        file.write(number.to_bytes(4, "big"))
    file.truncate(20 * 2 ** 30)
"""
LEADS_OUT = """
try:
    nni.save_checkpoint("../step-2").__enter__()
except ValueError:
    say("refused")
with nni.save_checkpoint(step=2) as path:
    os.mkdir(path)
    os.symlink("../../..", os.path.join(path, "up"))
"""
SAVES_UNTIL_KILLED = """
with nni.save_checkpoint(step=2) as path, open(path, "wb") as file:
    file.write(b"half")
    say("saving")
    time.sleep(600)
"""
SAVES_AND_WAITS = """
save(2, %d)
wait_for("end")
"""
MIB = 2 ** 20
row = pytest.mark.kill_table
rows = pytest.mark.timeout(600)


@pytest.mark.slow
@rows
@row("a trial ends in the middle of saving a checkpoint")
def test_a_checkpoint_that_never_gets_complete_is_not_used(running_server: RunningServer, tmp_path: Path,
                                                           seed: int) -> None:
    trial = InterruptedTrial(running_server, tmp_path, LEAVES_HALF)
    trial.has_gone_on_from(1, "the trial ended before it was complete")


@pytest.mark.slow
@rows
@row("a checkpoint of 20 GB, which is more than maxSize")
def test_a_checkpoint_that_is_too_large_is_not_used(running_server: RunningServer, tmp_path: Path, seed: int) -> None:
    trial = InterruptedTrial(running_server, tmp_path, SAVES_20_GB)
    trial.has_gone_on_from(1, "larger than maxSize")


@pytest.mark.slow
@rows
@row("a checkpoint of 20 GB for which the server's disk has no room, and kill -9 of its keeper")
@pytest.mark.parametrize("small_disk", [1150], indirect=True)
def test_a_checkpoint_that_the_server_has_no_room_for_is_not_used(server_on_small_disk: RunningServer, tmp_path: Path,
                                                                  seed: int) -> None:
    server = server_on_small_disk.start()
    trial = InterruptedTrial(server, tmp_path, SAVES_20_GB + 'wait_for("end")', maxSize="30gb")
    trial.wait(lambda: "of a checkpoint cannot be stored at the moment" in server.log_file.read_text(), "it is full")
    trial.kill_keeper()
    trial.has_gone_on_from(1, "it was not sent in time")


@pytest.mark.slow
@rows
@row("the disk of a trial's machine has no room for its newest checkpoint")
@pytest.mark.parametrize("small_disk", [100], indirect=True)
def test_a_checkpoint_that_the_machine_has_no_room_for_gives_way_to_the_one_before(
        small_disk: Path, running_server: RunningServer, tmp_path: Path, seed: int) -> None:
    server, go_on = running_server, "save(2, 30 * 2 ** 20); wait_for('end')"
    clusters = server.data_folder / "clusters"
    server.stop()
    if clusters.exists():
        shutil.move(str(clusters), str(small_disk / "clusters"))
    else:
        (small_disk / "clusters").mkdir(mode=0o700)
    clusters.symlink_to(small_disk / "clusters")
    server.start()
    trial = InterruptedTrial(server, tmp_path, go_on)
    trial.wait(lambda: 2 in trial.confirmed(), "the large one is kept")
    disk = os.statvfs(small_disk)
    taken = small_disk / "something-else"
    with open(taken, "wb") as file:  # 25 MB stay: the one before and what a keeper leaves free fit
        file.write(bytes(disk.f_bavail * disk.f_frsize - 25 * MIB))
    trial.say("end")
    trial.has_gone_on_from(1, "there is no room for it on the trial's machine")


@pytest.mark.slow
@rows
@row("the newest checkpoint of a trial is damaged on the server's disk")
def test_a_damaged_checkpoint_gives_way_to_the_one_before(running_server: RunningServer, tmp_path: Path,
                                                          seed: int) -> None:
    trial = InterruptedTrial(running_server, tmp_path, SAVES_AND_WAITS % (MIB << seed))
    trial.wait(lambda: 2 in trial.confirmed(), "the newest is kept")
    trial.damage_newest()
    trial.say("end")
    trial.has_gone_on_from(1, "damaged")


@pytest.mark.slow
@rows
@row("a checkpoint that has links and a name that lead out of its folder")
def test_a_checkpoint_that_leads_out_of_its_folder_is_not_used(running_server: RunningServer, tmp_path: Path,
                                                               seed: int) -> None:
    trial = InterruptedTrial(running_server, tmp_path, LEADS_OUT)
    trial.wait(lambda: trial.said("refused"), "the name is refused")
    trial.has_gone_on_from(1, "neither a file nor a folder")


@pytest.mark.slow
@rows
@row("kill -9 of a keeper while its trial saves a checkpoint")
def test_a_keeper_that_is_killed_while_its_trial_saves_costs_that_checkpoint_alone(
        running_server: RunningServer, tmp_path: Path, seed: int) -> None:
    trial = InterruptedTrial(running_server, tmp_path, SAVES_UNTIL_KILLED)
    trial.wait(lambda: trial.said("saving"), "it saves")
    trial.kill_keeper()
    trial.has_gone_on_from(1, "the trial ended before it was complete")


@pytest.mark.slow
@rows
@row("kill -9 of a keeper while it sends a checkpoint")
def test_a_keeper_that_is_killed_while_it_sends_leaves_a_whole_checkpoint(running_server: RunningServer, tmp_path: Path,
                                                                          seed: int) -> None:
    trial = InterruptedTrial(running_server, tmp_path, SAVES_AND_WAITS % (40 * MIB), rate="8mb")
    before = trial.chunks()
    more = random.Random(seed).randint(1, 3)
    trial.wait(lambda: trial.chunks() >= before + more, "some of it is there")
    trial.kill_keeper()
    trial.wait(lambda: len(trial.found()) == 2, "it is run again")
    # the next keeper of the attempt sends the rest, from what was set aside
    trial.has_gone_on_from(2)


@pytest.mark.slow
@rows
@row("kill -9 of a keeper while it fetches a checkpoint")
def test_a_keeper_that_is_killed_while_it_fetches_leaves_nothing_half(running_server: RunningServer, tmp_path: Path,
                                                                      seed: int) -> None:
    trial = InterruptedTrial(running_server, tmp_path, SAVES_AND_WAITS % (200 * MIB))
    trial.wait(lambda: 2 in trial.confirmed(), "the newest is kept")
    trial.say("end")

    def is_fetching() -> bool:
        folder = trial.attempt_folder(2)
        return folder is not None and (folder / "checkpoints" / ".restoring" / "checkpoint").exists()

    deadline = time.monotonic() + 120
    while not is_fetching():  # often: it takes a second or two
        assert time.monotonic() < deadline, f"nothing was fetched; found: {trial.found()}"
    trial.kill_keeper(2)
    trial.has_gone_on_from(2, attempts=3)


@pytest.mark.slow
@rows
@row("kill -9 of the server while it stores a checkpoint")
def test_a_server_that_is_killed_while_it_stores_has_the_whole_checkpoint_later(
        running_server: RunningServer, tmp_path: Path, seed: int) -> None:
    server = running_server
    trial = InterruptedTrial(server, tmp_path, SAVES_AND_WAITS % (100 * MIB))
    before = trial.chunks()
    more = random.Random(seed).randint(1, 6)
    trial.wait(lambda: trial.chunks() >= before + more, "some of it is there")
    server.kill()
    server.start()
    trial.wait(lambda: 2 in trial.confirmed(), "it is kept in the end")
    trial.say("end")
    trial.has_gone_on_from(2)


@pytest.mark.slow
@rows
@row("an attempt that has ended still sends a checkpoint while the next one saves its own")
def test_of_two_attempts_that_race_the_ended_one_adds_nothing(running_server: RunningServer, tmp_path: Path,
                                                              seed: int) -> None:
    trial = InterruptedTrial(running_server, tmp_path, 'wait_for("end")')
    first = trial.attempt_folder()
    assert first is not None
    access, late = saved_access(str(first)), tmp_path / "late"
    assert access is not None
    late.mkdir()
    (late / "step-9").write_bytes(random.Random(seed).randbytes(60 * MIB))
    results: queue.SimpleQueue[Sent] = queue.SimpleQueue()
    sender = CheckpointSender(access, first.name, OwnInstallation(str(late)), {
        "max_bytes": 2 ** 40, "bytes_per_second": 10 * MIB}, lambda known: False, results.put, print)
    sending = threading.Thread(target=sender.run)
    sending.start()
    before = trial.chunks()
    sender.send(ToSend(9, "step-9", 9, str(late), 0))
    trial.wait(lambda: trial.chunks() > before, "it sends")
    trial.say("end")
    trial.has_gone_on_from(1)
    assert results.get(timeout=60).checkpoint is None, "the server did not want it any more"
    sender.stop()
    sending.join(60)
    assert 9 not in trial.confirmed()
