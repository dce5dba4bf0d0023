"""PBT as NNI's example has it, on machines that share no storage: keepers carry what trials save."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.ssh_machine import SshMachine, needs_sshd

#: Loads a model where there is one, reports, and saves after its final result, into a folder that it makes. The model
#: is the list of all that has trained it.
TRIAL = """\
import os, time, nni

given = nni.get_next_parameter()
loaded = os.path.join(given["load_checkpoint_dir"], "model.txt")
folder = given["save_checkpoint_dir"]
model = []
if os.path.isfile(loaded):
    with open(loaded) as file:
        model = file.read().split()
model.append(str(nni.get_sequence_id()))
for epoch in range(2):
    time.sleep(0.1)
    nni.report_intermediate_result(len(model) + given["lr"] * (1 + epoch))
nni.report_final_result(len(model) + given["lr"])
if not os.path.exists(folder):
    os.makedirs(folder)
with open(os.path.join(folder, "model.txt"), "w") as file:
    file.write(" ".join(model))
print("MODEL", *model)
"""
GENERATIONS, POPULATION = 3, 3


def config(**training_service: Any) -> dict[str, Any]:
    return {"experimentName": "population", "trialCommand": "python3 trial.py", "trialCodeDirectory": ".",
            "searchSpace": {"lr": {"_type": "uniform", "_value": [0.1, 0.5]}}, "trialConcurrency": 2, "seed": 5,
            "maxTrialNumber": GENERATIONS * POPULATION,
            "tuner": {"name": "PBTTuner", "classArgs": {"optimize_mode": "maximize", "population_size": POPULATION,
                                                       "fraction": 0.34}},
            "trainingService": training_service}


def trials_of(server: RunningServer, experiment: str) -> list[dict[str, Any]]:
    return sorted(server.get_all(f"experiments/{experiment}/trials/"), key=lambda trial: trial["sequence_id"])


def found(server: RunningServer, experiment: str) -> list[tuple[float, list[str], list[str]]]:
    """Of each trial its parameter, the last parts of its folders, and what has trained its model."""
    said = []
    for trial in trials_of(server, experiment):
        assert trial["status"] == "SUCCEEDED", trial["message"]
        parameters = trial["parameters"]
        output = server.get(f"trials/{trial['id']}/output/", stream="stdout")["text"]
        [model] = [line.split()[1:] for line in output.splitlines() if line.startswith("MODEL")]
        said.append((parameters["lr"], ["/".join(parameters[name].split("/")[-2:]) for name in (
            "load_checkpoint_dir", "save_checkpoint_dir")], model))
    return said


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_population_trains_on_two_machines_as_on_the_server_itself(tmp_path: Path) -> None:
    needs_sshd()
    code = tmp_path / "code"
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    with closing(RunningServer(tmp_path / "data")) as server, SshMachine(tmp_path / "ada", "ada") as ada, \
            SshMachine(tmp_path / "bob", "bob") as bob:
        server.start()
        here = server.launch(config(platform="local"), code)
        elsewhere = server.launch(config(platform="remote", machineList=[
            machine.in_config(maxTrialNumber=1) for machine in (ada, bob)]), code)
        for ended in (2, 5):
            server.wait_until(lambda ended=ended: sum(
                trial["ended_at"] is not None for trial in trials_of(server, elsewhere)) >= ended, 120, "trials end")
            server.kill()
            server.start()
        for experiment in (here, elsewhere):
            server.wait_for_experiment(experiment, patience=120)
        on_server, on_machines = found(server, here), found(server, elsewhere)
        assert on_machines == on_server
        trials = trials_of(server, elsewhere)
        assert {len(model) for _, _, model in on_machines} == {1, 2, 3}
        for trial, (_, _, model) in zip(trials, on_machines, strict=True):
            before = trial["continues"]
            assert model[:-1] == (on_machines[before["sequence_id"]][2] if before else [])
        assert len({trial["machine"] for trial in trials}) == 2
        assert {trial["parameters"]["save_checkpoint_dir"] for trial in trials} == {
            f"checkpoints/{generation}/{place}" for generation in (1, 2, 3) for place in range(3)}
        last = trials[-1]
        series, = server.get(f"experiments/{elsewhere}/series/", trials=last["id"], points=400)["trials"]
        assert series["steps"] == list(range(2 * GENERATIONS)), "one curve over all generations"
        [saved] = server.get(f"trials/{last['id']}/checkpoints/")["results"]
        assert saved["name"] == "save_checkpoint_dir"
