"""The server is killed while trials run, and the next one finds them again: on each platform in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.running_server import RunningServer, free_port
from tests.fakes import azureml_workspace
from tests.fakes.azureml_workspace import AzureMlWorkspace
from tests.fakes.dlts_dashboard import DltsDashboard
from tests.fakes.kubernetes_api import KubernetesApiDouble
from tests.fakes.openpai_cluster import OpenPaiCluster
from tests.fakes.ssh_machine import SshMachine

IMAGE = "example/trial:1"
#: A ``trainingService`` section, and what the server's environment needs beside it.
Platform = tuple[dict[str, Any], dict[str, str]]


def remote(folder: Path, ends: ExitStack) -> Platform:
    machine = ends.enter_context(SshMachine(folder / "ada", "ada"))
    return {"platform": "remote", "machineList": [{
        "host": machine.host, "port": machine.port, "user": machine.user, "hostKey": machine.fingerprint,
        "sshKeyFile": str(machine.key)}]}, {}


def kubernetes(folder: Path, ends: ExitStack) -> Platform:
    cluster = ends.enter_context(KubernetesApiDouble(folder / "cluster"))
    return {"platform": "kubernetes", "kubeconfig": str(cluster.kubeconfig), "worker": {"dockerImage": IMAGE}}, {}


def openpai(folder: Path, ends: ExitStack) -> Platform:
    cluster = OpenPaiCluster(folder / "cluster").start()
    ends.callback(cluster.end)
    return {"platform": "openpai", "host": cluster.address, "username": cluster.user, "token": cluster.token,
            "trialCpuNumber": 1, "trialMemorySize": "1gb", "dockerImage": IMAGE, "storageConfigName": "shared",
            "localStorageMountPoint": str(cluster.export), "containerStorageMountPoint": str(cluster.mount)}, {}


def dlts(folder: Path, ends: ExitStack) -> Platform:
    dashboard = DltsDashboard(folder / "cluster").start()
    ends.callback(dashboard.end)
    return {"platform": "dlts", "dashboard": dashboard.address, "team": "vision", "email": dashboard.email,
            "password": dashboard.password, "dockerImage": IMAGE, "localStorageMountPoint": str(dashboard.home),
            "containerStorageMountPoint": str(dashboard.home_there)}, {}


def azureml(folder: Path, ends: ExitStack) -> Platform:
    workspace = AzureMlWorkspace(folder / "workspace").start()
    ends.callback(workspace.end)
    return {"platform": "azureml", "subscriptionId": azureml_workspace.SUBSCRIPTION,
            "resourceGroup": azureml_workspace.GROUP, "workspaceName": azureml_workspace.WORKSPACE,
            "computeTarget": "cpu-cluster", "dockerImage": IMAGE, "tenantId": azureml_workspace.TENANT,
            "clientId": azureml_workspace.CLIENT, "clientSecret": azureml_workspace.SECRET,
            "authorityHost": workspace.address, "resourceManager": workspace.address}, \
        {"REQUESTS_CA_BUNDLE": str(workspace.authority)}


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.timeout(400)
@pytest.mark.slow
@pytest.mark.parametrize("platform", [remote, kubernetes, openpai, dlts, azureml], ids=lambda make: make.__name__)
def test_running_trials_are_found_again_after_the_server_was_killed(
        make_server: Callable[..., RunningServer], tmp_path: Path, ends: ExitStack,
        platform: Callable[[Path, ExitStack], Platform]) -> None:
    section, env = platform(tmp_path / "platform", ends)
    port, go = free_port(), tmp_path / "go"
    server = make_server({**env, "NNIWEB_PUBLIC_URL": f"http://127.0.0.1:{port}"})
    server.port = port
    server.start()
    experiment = WitnessedExperiment(server, tmp_path / "experiment", trials=3, concurrency=2, steps=20, pause=0.1,
                                     go=go, platform=section).launch()
    before = server.wait_until(lambda: len(found := experiment.running()) == 2 and found, 120, "two trials run")
    server.kill()
    reported = experiment.reported()
    server.start()
    server.wait_until(lambda: experiment.reported() >= min(reported + 2, 40), what="trials went on meanwhile")
    server.wait_until(lambda: {row["id"] for row in experiment.running()} >= {row["id"] for row in before},
                      what="both are known to run")
    go.touch()
    experiment.nothing_is_lost(patience=240)
