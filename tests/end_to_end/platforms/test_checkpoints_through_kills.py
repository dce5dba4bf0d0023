"""Trials that are interrupted at random moments go on from their checkpoints, on each kind of platform.

What is interrupted: a real pair of machines behind sshd, each in a network of its own; a real Slurm; Kubernetes'
double. The machine that the server runs on has its test in test_interrupted_trials.py.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.counted_epochs import PATIENCE, CountedEpochs
from tests.end_to_end.platforms.platform_doubles import IMAGE
from tests.end_to_end.running_server import RunningServer
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.slurm_cluster import SlurmCluster
from tests.fakes.ssh_machine import SshMachine
from trialkeeper import contract

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.parametrize("moments", [1, 2])]


def test_on_a_pair_of_machines(make_server: Callable[..., RunningServer], tmp_path: Path, moments: int) -> None:
    """A machine loses its power, a keeper is killed, a trial is killed. The machines have no way to the server."""
    server = make_server()
    machines = [SshMachine(tmp_path / name, name, own_identity=True, own_network=True) for name in ("ada", "bob")]
    with machines[0], machines[1]:
        server.start()
        counted = CountedEpochs(server, tmp_path, {
            "platform": "remote", "machineList": [machine.in_config(maxTrialNumber=1) for machine in machines],
            "lostAfter": 2}, moments)
        used: set[str] = set()

        def machine_of_trial() -> SshMachine:
            """The platform tells a moment after the keeper on which of its machines it runs."""
            def found() -> SshMachine | None:
                said = counted.trial()["machine"] or ""
                return next((one for one in machines if said.endswith(f":{one.port}")), None)

            machine = server.wait_until(found, PATIENCE, "the trial's machine is known")
            used.add(machine.name)
            return machine

        def crash_machine() -> None:
            machine_of_trial().crash()

        def kill_keeper() -> None:
            newest = max(machine_of_trial().home.rglob(contract.KEEPER_FILE), key=lambda path: path.stat().st_mtime_ns)
            os.kill(int(json.loads(newest.read_text())["pid"]), signal.SIGKILL)

        counted.interrupt([crash_machine, kill_keeper, counted.kill_trial])
        machine_of_trial()
        counted.has_run_each_epoch_once()
        assert used == {"ada", "bob"}


def test_from_one_cluster_to_another_and_back(make_server: Callable[..., RunningServer], tmp_path: Path,
                                              moments: int) -> None:
    """The only machine of its cluster loses its power; later it is frozen where it runs then, which takes no more."""
    server = make_server()
    with SshMachine(tmp_path / "ada", "ada", own_identity=True) as ada:
        server.start()
        counted = CountedEpochs(server, tmp_path, [
            {"platform": "remote", "lostAfter": 2, "machineList": [ada.in_config()]}, {"platform": "local"}], moments)

        def clusters() -> list[dict[str, Any]]:
            return list(server.get(f"experiments/{counted.id}/clusters/"))

        far, near = (one["name"] for one in clusters())
        assert server.wait_until(lambda: counted.trial().get("cluster"), PATIENCE, "it has a cluster") == far

        def lose_the_machine() -> None:
            ada.crash()

        def freeze_and_drain() -> None:
            ada.start()
            server.wait_until(lambda: not any(one["message"] for one in clusters()), PATIENCE, "the machine is back")
            server.patch(f"experiments/{counted.id}/", {"clusters": [{"name": far}, {"name": near, "drained": True}]})
            trial = f"trials/{counted.trial()['id']}"
            server.post(f"{trial}/actions/freeze/")
            server.wait_until(lambda: counted.trial()["status"] == "WAITING", PATIENCE, "it is frozen")
            server.post(f"{trial}/actions/thaw/")

        counted.interrupt([lose_the_machine], ends=False)
        assert counted.trial()["cluster"] == near
        counted.interrupt([freeze_and_drain])
        assert counted.trial()["cluster"] == far
        counted.has_run_each_epoch_once()


def test_on_slurm(make_server: Callable[..., RunningServer], tmp_path: Path, moments: int) -> None:
    """Its job is queued again twice, and its processes are killed."""
    shared = tmp_path / "shared"
    shared.mkdir()
    with SlurmCluster() as cluster:
        server = make_server({"SLURM_CONF": str(cluster.config)})
        server.start(env={"NNIWEB_PUBLIC_URL": server.url})
        counted = CountedEpochs(server, tmp_path, {
            "platform": "slurm", "workingFolder": str(shared), "requeue": True, "channel": "http"}, moments)

        def job() -> str:
            [number] = cluster.command("squeue", "-h", "-o", "%A").split()
            return number

        def requeue() -> None:
            number = job()
            cluster.command("scontrol", "requeue", number)
            cluster.let_begin(number)

        def kill_processes() -> None:
            cluster.command("scancel", "--full", "--signal=KILL", job())

        counted.interrupt([requeue, kill_processes, requeue])
        counted.has_run_each_epoch_once()


def test_on_kubernetes(make_server: Callable[..., RunningServer], tmp_path: Path, moments: int) -> None:
    """Its node evicts its pod, the kernel kills the pod, somebody deletes it, and Kueue suspends its job."""
    with KubernetesApiDouble(tmp_path / "cluster") as cluster:
        server = make_server()
        server.start(env={"NNIWEB_PUBLIC_URL": server.url})
        counted = CountedEpochs(server, tmp_path, {
            "platform": "kubernetes", "kubeconfig": str(cluster.kubeconfig), "worker": {"dockerImage": IMAGE}}, moments)

        def pod() -> str:
            [running] = [pod for pod in cluster.store.all("pods") if pod["status"].get("phase") == "Running"]
            return str(running["metadata"]["name"])

        def evict_pod() -> None:
            cluster.node.evict(pod(), "The node was low on resource: memory.")

        def kill_pod() -> None:
            cluster.node.kill(pod())

        def delete_pod() -> None:
            cluster.controllers.delete("pods", "default", pod(), "Background")

        def suspend_job() -> None:
            name = cluster.store.get("pods", "default", pod())["metadata"]["ownerReferences"][0]["name"]
            for value in (True, False):
                cluster.store.change("jobs", "default", name, lambda item, value=value: item["spec"].update(
                    suspend=value))
                if value:
                    server.wait_until(lambda: counted.trial()["status"] == "WAITING", PATIENCE, "it is suspended")

        counted.interrupt([evict_pod, kill_pod, delete_pod, suspend_job])
        counted.has_run_each_epoch_once()
