"""Where the moving experiment runs. A new platform adds itself here: one function, one line in PLATFORMS.

A function brings up what the platform needs on this machine (a fake server, an SSH daemon ...) below
the empty folder it is given, yields the ``Place``, and takes everything down again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes import azureml_workspace
from tests.fakes.azureml_workspace import AzureMlWorkspace
from tests.fakes.dlts_dashboard import DltsDashboard
from tests.fakes.kubernetes.adaptdl import ADAPTDL_KINDS, AdaptDlScheduler
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers
from tests.fakes.openpai.cluster import OpenPaiCluster
from tests.fakes.ray_dashboard import RayDashboard
from tests.fakes.schedulers.grid_engine import GridEngine
from tests.fakes.slurm_cluster import SlurmCluster
from tests.fakes.ssh_machine import SshMachine
from tests.fakes.tiny_scheduler import TinyScheduler
from tests.trainingservice.command.page_examples import settings_of


@dataclass(frozen=True)
class Place:
    """One platform, ready: the ``trainingService`` section, and what the server must find in its environment."""

    section: Mapping[str, Any]
    env: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def local(folder: Path) -> Iterator[Place]:
    yield Place({"platform": "local"})


@contextmanager
def local_snapshot(folder: Path) -> Iterator[Place]:
    yield Place({"platform": "local", "snapshotCode": True})


@contextmanager
def scripted(folder: Path) -> Iterator[Place]:
    yield Place({"platform": "scripted", "folder": str(folder)})


@contextmanager
def scripted_at_once(folder: Path) -> Iterator[Place]:
    """Its keepers fetch job and code from the server, as in a pod; each container is started twice."""
    yield Place({"platform": "scripted_at_once", "folder": str(folder), "fetchesJob": True,
                 "behaviours": {"*": {"restartAfter": 0}}})


@contextmanager
def remote(folder: Path) -> Iterator[Place]:
    """A machine behind a real sshd that does not reach the server: reports come through its agent."""
    with SshMachine(folder / "ada") as machine:
        yield Place({"platform": "remote", "machineList": [machine.in_config()]})


@contextmanager
def openpai(folder: Path) -> Iterator[Place]:
    """A cluster that does not reach the server: code and reports go through the storage."""
    cluster = OpenPaiCluster(folder)
    cluster.start()
    try:
        yield Place({"platform": "openpai", "host": cluster.address, "username": cluster.user, "token": cluster.token,
                     "storageConfigName": "shared", "localStorageMountPoint": str(cluster.export),
                     "containerStorageMountPoint": str(cluster.mount)})
    finally:
        cluster.end()


@contextmanager
def dlts(folder: Path) -> Iterator[Place]:
    """A cluster that does not reach the server: code and reports go through the account's home folder."""
    dashboard = DltsDashboard(folder)
    dashboard.start()
    try:
        yield Place({"platform": "dlts", "dashboard": dashboard.address, "team": "vision", "email": dashboard.email,
                     "password": dashboard.password, "localStorageMountPoint": str(dashboard.home),
                     "containerStorageMountPoint": str(dashboard.home_there)})
    finally:
        dashboard.end()


@contextmanager
def azureml(folder: Path) -> Iterator[Place]:
    """A workspace that the vendor's SDK talks to over TLS."""
    workspace = AzureMlWorkspace(folder)
    workspace.start()
    try:
        yield Place({"platform": "azureml", "subscriptionId": azureml_workspace.SUBSCRIPTION,
                     "resourceGroup": azureml_workspace.GROUP, "workspaceName": azureml_workspace.WORKSPACE,
                     "tenantId": azureml_workspace.TENANT, "clientId": azureml_workspace.CLIENT,
                     "clientSecret": azureml_workspace.SECRET, "computeTarget": "cpu-cluster",
                     "authorityHost": workspace.address, "resourceManager": workspace.address,
                     "nniManagerIp": "127.0.0.1"}, {"REQUESTS_CA_BUNDLE": str(workspace.authority)})
    finally:
        workspace.end()


@contextmanager
def ray(folder: Path) -> Iterator[Place]:
    """A head that is a node itself: jobs are processes of this machine."""
    head = RayDashboard(folder).start()
    try:
        yield Place({"platform": "ray", "address": head.address, "nniManagerIp": "127.0.0.1"})
    finally:
        head.end()


@contextmanager
def kubernetes(folder: Path) -> Iterator[Place]:
    """Plain Jobs on a double of the Kubernetes API that runs each pod's command as a process."""
    with KubernetesApiDouble(folder / "cluster") as cluster:
        yield Place({"platform": "kubernetes", "kubeconfig": str(cluster.kubeconfig), "nniManagerIp": "127.0.0.1",
                     "worker": {"dockerImage": "example/trial:1"}})


@contextmanager
def kubeflow(folder: Path) -> Iterator[Place]:
    """A worker that reports beside a parameter server, as a TFJob."""
    with KubernetesApiDouble(folder / "cluster", controllers=kubeflow_controllers(), kinds=KUBEFLOW_KINDS) as cluster:
        yield Place({"platform": "kubeflow", "operator": "tf-operator", "kubeconfig": str(cluster.kubeconfig),
                     "nniManagerIp": "127.0.0.1", "worker": {"dockerImage": "example/trial:1"},
                     "ps": {"dockerImage": "example/trial:1", "command": "sleep 600"}})


@contextmanager
def frameworkcontroller(folder: Path) -> Iterator[Place]:
    with KubernetesApiDouble(folder / "cluster", controllers=[FrameworkController()],
                             kinds=FRAMEWORK_KINDS) as cluster:
        yield Place({"platform": "frameworkcontroller", "kubeconfig": str(cluster.kubeconfig),
                     "nniManagerIp": "127.0.0.1",
                     "taskRoles": [{"name": "worker", "taskNumber": 1, "dockerImage": "example/trial:1"}]})


@contextmanager
def adl(folder: Path) -> Iterator[Place]:
    with KubernetesApiDouble(folder / "cluster", controllers=[AdaptDlScheduler()], kinds=ADAPTDL_KINDS) as cluster:
        yield Place({"platform": "adl", "kubeconfig": str(cluster.kubeconfig), "nniManagerIp": "127.0.0.1",
                     "dockerImage": "example/trial:1", "adaptive": True})


@contextmanager
def slurm(folder: Path) -> Iterator[Place]:
    """A real Slurm, where there can be one; reports go through the shared folder."""
    shared = folder / "shared"
    shared.mkdir()
    with SlurmCluster() as cluster:
        yield Place({"platform": "slurm", "workingFolder": str(shared), "channel": "storage"},
                    {"SLURM_CONF": str(cluster.config)})


@contextmanager
def command(folder: Path) -> Iterator[Place]:
    """A scheduler of a few lines of shell, through its commands; reports go through the shared folder."""
    settings = TinyScheduler(folder).settings().model_dump(mode="json", by_alias=True, exclude_none=True)
    yield Place({**settings, "platform": "command", "channel": "storage"})


@contextmanager
def grid_engine(folder: Path) -> Iterator[Place]:
    """A real Grid Engine, where there can be one, by the commands of the documentation's example."""
    shared = folder / "shared"
    shared.mkdir()
    settings = settings_of("SGE", working_folder=str(shared)).model_dump(mode="json", by_alias=True, exclude_none=True)
    with GridEngine() as engine:
        yield Place({**settings, "platform": "command", "channel": "storage",
                     "pythonPath": str(Path(sys.executable).parent)}, engine.variables)


#: Name in the test's id -> what brings the platform up. The first one is what all others are compared with.
PLATFORMS: dict[str, Callable[[Path], AbstractContextManager[Place]]] = {
    "local": local,
    "local_snapshot": local_snapshot,
    "scripted": scripted,
    "scripted_at_once": scripted_at_once,
    "remote": remote,
    "kubernetes": kubernetes,
    "kubeflow": kubeflow,
    "frameworkcontroller": frameworkcontroller,
    "adl": adl,
    "openpai": openpai,
    "dlts": dlts,
    "ray": ray,
    "azureml": azureml,
    "slurm": slurm,
    "command": command,
    "grid_engine": grid_engine,
}
