"""One search on this machine, on two machines behind sshd and on a real Slurm, while parts of them fail."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.slurm_cluster import SlurmCluster
from tests.fakes.ssh_machine import SshMachine

TRIALS = 60
#: Seconds that slurmctld is away.
AWAY = 60.0
TRIAL = """\
import time, nni

parameters = nni.get_next_parameter()
time.sleep(1.0)
loss = (parameters["x"] - 0.25) ** 2 + parameters["layers"] / 64
nni.report_intermediate_result(loss + 1)
nni.report_final_result(loss)
"""


def config(code: Path, **more: Any) -> dict[str, Any]:
    return {"experimentName": "everywhere", "trialCommand": "python3 trial.py", "trialCodeDirectory": str(code),
            "trialConcurrency": 9, "maxTrialNumber": TRIALS, "tuner": {"name": "Random", "classArgs": {"seed": 42}},
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]},
                            "layers": {"_type": "choice", "_value": [1, 2, 4]}}, **more}


def results(server: RunningServer, experiment: str) -> list[tuple[Any, ...]]:
    return sorted((trial["sequence_id"], trial["status"], str(trial["parameters"]), trial["final_number"])
                  for trial in server.get_all(f"experiments/{experiment}/trials/"))


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "trial.py").write_text(TRIAL)
    return folder


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[SshMachine, SshMachine]]:
    with ExitStack() as stack:
        found = [SshMachine(tmp_path / name, name, own_identity=True, own_network=True) for name in ("ada", "bob")]
        for machine in found:
            stack.callback(machine.crash)
            machine.start()
        yield found[0], found[1]


def ended(server: RunningServer, experiment: str) -> int:
    return int(server.get(f"experiments/{experiment}/")["progress"]["ended"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_search_over_three_platforms_ends_as_on_one_while_parts_of_them_fail(
        tmp_path: Path, code: Path, machines: tuple[SshMachine, SshMachine]) -> None:
    ada, bob = machines
    shared = tmp_path / "shared"
    shared.mkdir()
    with SlurmCluster() as slurm, closing(RunningServer(
            tmp_path / "data", {"SLURM_CONF": str(slurm.config)})) as server:
        server.start()
        experiment = server.launch(config(code, retry={"onPlatformFailure": 3}, trainingService=[
            {"platform": "local"},
            {"platform": "remote", "lostAfter": 5, "machineList": [machine.in_config() for machine in machines]},
            {"platform": "slurm", "workingFolder": str(shared), "channel": "storage"}]), code)
        names = [one["name"] for one in server.get(f"experiments/{experiment}/clusters/")]
        server.wait_until(lambda: all(one["ended"] for one in server.get(f"experiments/{experiment}/clusters/")), 120,
                          "trials have ended on each cluster")

        bob.crash()  # for good
        slurm.stop_controller()
        stopped = time.monotonic()
        before = ended(server, experiment)
        server.wait_until(lambda: ended(server, experiment) >= min(before + 6, TRIALS), 120,
                          "the search goes on on the other clusters")
        server.kill()
        server.start()
        server.wait_until(lambda: time.monotonic() - stopped > AWAY, AWAY + 10)
        slurm.start_controller()
        server.wait_for_experiment(experiment, "DONE", patience=400)

        found = results(server, experiment)
        assert [row[1] for row in found] == ["SUCCEEDED"] * TRIALS
        trials = server.get_all(f"experiments/{experiment}/trials/")
        used = Counter(trial["cluster"] for trial in trials)
        assert used.keys() == set(names), used
        assert all(sum(event["kind"] == "SUCCEEDED" for event in server.get(
            f"trials/{trial['id']}/events/")["results"]) == 1 for trial in trials), "each ends once"
        again = [trial for trial in trials if trial["attempt"] > 1]
        assert all(attempt["cluster"] != names[0] for trial in again for attempt in server.get(
            f"trials/{trial['id']}/attempts/")["results"][:-1]), "only what ran or waited elsewhere was run again"

        alone = server.launch(config(code, trainingService={"platform": "local"}), code)
        server.wait_for_experiment(alone, "DONE", patience=200)
        assert results(server, alone) == found
        server.wait_until(lambda: slurm.job_names() == [], what="no job is left on Slurm")
        server.wait_until(lambda: not keepers_on(ada, experiment), what="no keeper is left on the machine")


def keepers_on(machine: SshMachine, experiment: str) -> list[int]:
    return [pid for pid in machine.pids_with(experiment) if pid not in machine.session_pids()]
