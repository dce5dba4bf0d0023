"""Platforms as doubles on loopback, for experiments through the whole server."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.fakes import azureml_workspace
from tests.fakes.azureml_workspace import AzureMlWorkspace
from tests.fakes.dlts_dashboard import DltsDashboard
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.openpai.cluster import OpenPaiCluster
from tests.fakes.ray_dashboard import RayDashboard
from tests.fakes.slurm_cluster import SlurmCluster
from tests.fakes.ssh_machine import SshMachine

IMAGE = "example/trial:1"
#: A ``trainingService`` section, and what the server's environment needs beside it.
Platform = tuple[dict[str, Any], dict[str, str]]


def remote(folder: Path, ends: ExitStack) -> Platform:
    machine = ends.enter_context(SshMachine(folder / "ada", "ada"))
    return {"platform": "remote", "machineList": [machine.in_config()]}, {}


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


def ray(folder: Path, ends: ExitStack) -> Platform:
    head = RayDashboard(folder / "head").start()
    ends.callback(head.end)
    return {"platform": "ray", "address": head.address}, {}


def slurm(folder: Path, ends: ExitStack) -> Platform:
    cluster = ends.enter_context(SlurmCluster())
    folder.mkdir()
    return {"platform": "slurm", "workingFolder": str(folder)}, {"SLURM_CONF": str(cluster.config)}
