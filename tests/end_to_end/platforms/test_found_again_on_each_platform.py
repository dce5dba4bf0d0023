"""The server is killed while trials run, and the next one finds them again: on each platform in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.running_server import RunningServer
from tests.fakes import azureml_workspace
from tests.fakes.azureml_workspace import AzureMlWorkspace
from tests.fakes.dlts_dashboard import DltsDashboard
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.openpai.cluster import OpenPaiCluster
from tests.fakes.slurm_cluster import SlurmCluster
from tests.fakes.ssh_machine import SshMachine
from tests.fakes.unkind_http_proxy import UnkindHttpProxy
from trainingservice.testing.processes import is_alive

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


def openpai_without_storage(folder: Path, ends: ExitStack) -> Platform:
    section, env = openpai(folder, ends)
    storage = ("storageConfigName", "localStorageMountPoint", "containerStorageMountPoint")
    return {key: value for key, value in section.items() if key not in storage}, env


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


def slurm(folder: Path, ends: ExitStack) -> Platform:
    cluster = ends.enter_context(SlurmCluster())
    folder.mkdir()
    return {"platform": "slurm", "workingFolder": str(folder)}, {"SLURM_CONF": str(cluster.config)}


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.timeout(400)
@pytest.mark.slow
@pytest.mark.parametrize("platform",
                         [remote, kubernetes, openpai, openpai_without_storage, dlts, azureml, slurm],
                         ids=lambda make: make.__name__)
def test_running_trials_are_found_again_after_the_server_was_killed(
        make_server: Callable[..., RunningServer], tmp_path: Path, ends: ExitStack,
        platform: Callable[[Path, ExitStack], Platform]) -> None:
    section, env = platform(tmp_path / "platform", ends)
    way = ends.enter_context(UnkindHttpProxy(lambda: server.url))  # of keepers to the server
    server = make_server({**env, "NNIWEB_PUBLIC_URL": way.url}).start()
    go = tmp_path / "go"
    experiment = WitnessedExperiment(server, tmp_path / "experiment", trials=3, concurrency=2, steps=20, pause=0.1,
                                     go=go, platform=section).launch()
    server.wait_until(lambda: len(experiment.running()) == 2, 120, "two trials run")
    server.kill()
    server.start()
    server.wait_until(lambda: [row["intermediate_count"] for row in experiment.running()] == [20, 20], 120,
                      "all that both reported, then and meanwhile, is there")
    # found is what can be ended although its keeper hears nothing from the server: the platform has to know it
    victim = experiment.running()[0]
    target, way.target = way.target, lambda: "http://127.0.0.1:9"  # nobody listens there
    server.post(f"trials/{victim['id']}/actions/cancel/")
    server.wait_until(lambda: not is_alive(experiment.pid_of(victim)), 120, "its platform ends it")
    way.target = target
    server.wait_until(lambda: experiment.rows()[victim["sequence_id"]]["status"] == "USER_CANCELED", 120,
                      "its end is known")
    go.touch()
    experiment.nothing_is_lost(ended={victim["sequence_id"]: "USER_CANCELED"}, patience=240)
