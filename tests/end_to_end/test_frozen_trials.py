"""Trials are frozen and thawed, through the whole server."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer

#: Counts epochs, one each 50 ms, until it has its result; saves only when it is told to end. ``RAN`` outlives it.
TRIAL = """\
import nni, os, signal, sys, time

told = []
signal.signal(getattr(signal, "SIG" + sys.argv[2]), lambda *_: told.append(1))
found = nni.load_checkpoint()
first = 0 if found is None else found.step + 1
nni.get_next_parameter()
for epoch in range(first, int(sys.argv[1])):
    time.sleep(0.05)
    with open(os.environ["RAN"], "a") as file:
        file.write("%s %d\\n" % (nni.get_trial_id(), epoch))
    nni.report_intermediate_result(float(epoch))
    if told:
        with nni.save_checkpoint(step=epoch) as path, open(path, "w") as file:
            file.write(str(epoch))
        sys.exit(0)
nni.report_final_result(1.0)
"""
EPOCHS = 60


def launch(server: RunningServer, folder: Path, signal: str = "TERM", trial: str = TRIAL, epochs: int = EPOCHS,
           **more: Any) -> str:
    code = folder / "code"
    code.mkdir(parents=True)
    (code / "trial.py").write_text(trial)
    return server.launch({
        "experimentName": "frozen", "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "trialCommand": f"python3 trial.py {epochs} {signal}", "trialConcurrency": 1, "maxTrialNumber": 1, "seed": 1,
        "tuner": {"name": "Random"}, "environment": {"RAN": str(folder / "ran")},
        "trainingService": {"platform": "local"}, **more}, code)


def epochs_in(folder: Path) -> list[str]:
    ran = folder / "ran"
    return ran.read_text().splitlines() if ran.exists() else []


def wait_for(server: RunningServer, experiment: str, **wanted: Any) -> dict[str, Any]:
    """The first trial, once it is as wanted."""
    def trial() -> dict[str, Any] | None:
        found = server.get_all(f"experiments/{experiment}/trials/")
        return found[0] if found and all(found[0][name] == value for name, value in wanted.items()) else None

    server.wait_until(lambda: trial() is not None, 60, f"its first trial is {wanted}")
    found = trial()
    assert found is not None
    return found


def curve_of(server: RunningServer, experiment: str, trial: str) -> list[tuple[int, float]]:
    series, = server.get(f"experiments/{experiment}/series/", trials=trial, points=400)["trials"]
    return list(zip(series["steps"], series["values"], strict=True))


def test_a_frozen_trial_saves_a_checkpoint_waits_and_goes_on_from_it(running_server: RunningServer, tmp_path: Path
                                                                     ) -> None:
    server = running_server
    began = time.monotonic()
    experiment = launch(server, tmp_path)
    server.wait_until(lambda: len(epochs_in(tmp_path)) > 5, 60, "epochs are counted")
    trial = wait_for(server, experiment, status="RUNNING")
    start_took, began = time.monotonic() - began, time.monotonic()
    server.post(f"trials/{trial['id']}/actions/freeze/")
    frozen = wait_for(server, experiment, status="WAITING")
    # the order does not wait for the keeper's next sign of life; where the machine is busy, a start takes long as well
    assert time.monotonic() - began < max(8.0, 2 * start_took)
    assert (frozen["target"], frozen["reason"]["code"]) == ("FROZEN", "frozen")
    counted = len(epochs_in(tmp_path))
    checkpoint, = server.get(f"trials/{trial['id']}/checkpoints/")["results"]
    assert checkpoint["step"] == counted - 1
    server.kill()
    server.start()  # what is frozen stays frozen
    assert wait_for(server, experiment, status="WAITING")["target"] == "FROZEN"
    assert len(epochs_in(tmp_path)) == counted
    server.post(f"trials/{trial['id']}/actions/thaw/")
    server.wait_for_experiment(experiment)
    ended = wait_for(server, experiment, status="SUCCEEDED")
    assert ended["attempt"] == 2
    assert Counter(epochs_in(tmp_path)) == {f"{trial['id']} {epoch}": 1 for epoch in range(EPOCHS)}
    assert curve_of(server, experiment, trial["id"]) == [(epoch, float(epoch)) for epoch in range(EPOCHS)]


@pytest.mark.slow
def test_a_pause_may_freeze_running_trials_by_a_signal_of_choice(running_server: RunningServer, tmp_path: Path) -> None:
    server = running_server
    experiment = launch(server, tmp_path, "USR1", pause="freeze", checkpointSignal="USR1", checkpointGrace="20s")
    server.wait_until(lambda: len(epochs_in(tmp_path)) > 5, 60, "epochs are counted")
    server.post(f"experiments/{experiment}/actions/pause/")
    frozen = wait_for(server, experiment, status="WAITING")
    assert (frozen["target"], frozen["reason"]["code"]) == ("HELD", "frozen_with_experiment")
    counted = len(epochs_in(tmp_path))
    assert server.get(f"experiments/{experiment}/")["status"] == "PAUSED"
    server.post(f"experiments/{experiment}/actions/resume/")
    server.wait_for_experiment(experiment)
    assert wait_for(server, experiment, status="SUCCEEDED")["attempt"] == 2
    assert len(epochs_in(tmp_path)) == EPOCHS > counted


@pytest.mark.slow
def test_a_frozen_trial_can_be_stopped(running_server: RunningServer, tmp_path: Path) -> None:
    server = running_server
    experiment = launch(server, tmp_path)
    server.wait_until(lambda: len(epochs_in(tmp_path)) > 5, 60, "epochs are counted")
    trial = wait_for(server, experiment, status="RUNNING")
    server.post(f"trials/{trial['id']}/actions/freeze/")
    wait_for(server, experiment, status="WAITING")
    server.post(f"trials/{trial['id']}/actions/cancel/")
    wait_for(server, experiment, status="USER_CANCELED")
    server.wait_for_experiment(experiment)


#: Saves each epoch, and needs no signal for it.
STEADY = """\
import nni, os, sys, time

found = nni.load_checkpoint()
nni.get_next_parameter()
for epoch in range(0 if found is None else found.step + 1, int(sys.argv[1])):
    time.sleep(0.05)
    with open(os.environ["RAN"], "a") as file:
        file.write("%s %d\\n" % (nni.get_trial_id(), epoch))
    nni.report_intermediate_result(float(epoch))
    with nni.save_checkpoint(step=epoch) as path, open(path, "w") as file:
        file.write(str(epoch))
nni.report_final_result(1.0)
"""


@pytest.mark.slow
def test_an_urgent_experiment_gets_the_only_slot_and_the_other_loses_no_more_than_an_epoch(
        running_server: RunningServer, tmp_path: Path) -> None:
    server = running_server
    began = time.monotonic()
    first = launch(server, tmp_path / "first", trialCommand="true")  # it makes the cluster
    server.wait_for_experiment(first)
    first_took = time.monotonic() - began
    cluster, = [one for one in server.get_all("clusters/") if one["platform"] == "local"]
    server.patch(f"clusters/{cluster['id']}/", {"max_trials": 1})
    epochs = 400  # so many that the other one comes while it runs, also on a busy machine
    patient = launch(server, tmp_path / "patient", trial=STEADY, epochs=epochs)
    trial = wait_for(server, patient, status="RUNNING")
    server.wait_until(lambda: len(epochs_in(tmp_path / "patient")) > 5 and server.get(
        f"trials/{trial['id']}/checkpoints/")["results"], 60, "a checkpoint is there")
    began = time.monotonic()
    urgent = launch(server, tmp_path / "urgent", priority=10)
    wait_for(server, urgent, status="RUNNING")
    assert time.monotonic() - began < max(10.0, 3 * first_took), "10 s, where the machine is not busy with other things"
    gave_way = wait_for(server, patient, status="WAITING")
    assert (gave_way["target"], gave_way["reason"]["code"]) == ("PREEMPTED", "gave_way")
    server.wait_for_experiment(urgent)
    server.wait_for_experiment(patient)
    counted = Counter(epochs_in(tmp_path / "patient"))
    assert counted.keys() == {f"{trial['id']} {epoch}" for epoch in range(epochs)}
    assert sum(counted.values()) - epochs <= 1
    assert curve_of(server, patient, trial["id"]) == [(epoch, float(epoch)) for epoch in range(epochs)]
