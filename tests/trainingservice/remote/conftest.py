"""The remote platform for benches: machines behind real sshds."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.nvidia_smi import FakeNvidiaSmi
from tests.fakes.ssh_machine import SshMachine, needs_root
from tests.trainingservice import jobs_of_tests
from trainingservice.gpus import gpu_watch
from trainingservice.remote import machine_connection
from trainingservice.remote.config import RemoteClusterSettings, RemoteTrialOptions
from trainingservice.remote.service import RemoteTrainingService
from trainingservice.ssh.connection import connect
from trainingservice.ssh.host_keys import HostKeyStore
from trainingservice.ssh.problems import MachineProblem
from trainingservice.testing.bench import PlatformUnderTest


class LoginVariables:
    """Sets variables for who logs in on a machine; in the place of pytest's monkeypatch."""

    def __init__(self, machine):
        self.profile = machine.home / ".profile"

    def setenv(self, name, value):
        if name == "PATH":
            value = f"{value.split(os.pathsep)[0]}:$PATH"
        with self.profile.open("a") as stream:
            stream.write(f'export {name}="{value}"\n')


class RemoteUnderTest(PlatformUnderTest):
    """What is changed in ``machine_list`` and ``more`` before a service is opened, counts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.machine_list: list = []
        self.more: dict = {}

    def new_service(self, context):
        return RemoteTrainingService(RemoteClusterSettings(machine_list=tuple(self.machine_list), **self.more), context)

    def options(self):
        return RemoteTrialOptions()

    def left_behind(self, experiment_id):
        return [str(path) for path in self.folder.rglob("*") if experiment_id in path.parts]


@pytest.fixture
def keeper_is_there() -> bool:
    """Whether machines have the keeper from an earlier connection; else it is sent to them."""
    return True


@pytest.fixture
def make_machine(tmp_path_factory, keeper_is_there) -> Iterator[Callable[..., SshMachine]]:
    """Makes machines; they and all that runs on them end with the test."""
    folder = tmp_path_factory.mktemp("machines")
    made: list[SshMachine] = []

    def make(name: str = "ada", **more) -> SshMachine:
        made.append(SshMachine(folder / name, name, **more))
        if keeper_is_there and more.get("user") is None:
            made[-1].have_keeper()
        return made[-1].start()

    yield make
    for machine in made:
        machine.crash()


@pytest.fixture
def platform(tmp_path, monkeypatch, make_machine) -> RemoteUnderTest:
    # make_machine: the machines live until the bench is closed, which ends what runs on them
    # what is slow on purpose, so that a broken machine is not pestered, would be slow in a test too
    monkeypatch.setattr(machine_connection, "RECONNECT", (0.1, 1.0))
    monkeypatch.setattr(machine_connection, "RECONNECT_AFTER_REFUSAL", (0.3, 2.0))
    return RemoteUnderTest(tmp_path / "platform")


@pytest.fixture
def machine(bench, make_machine) -> SshMachine:
    """The one machine of the cluster."""
    machine = make_machine()
    bench.platform.machine_list = [machine.settings()]
    return machine


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    """Neither keys nor configuration of whoever runs the tests."""
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path / "home"


@pytest.fixture
def user():
    """A user of this machine with the password "correct horse"."""
    needs_root()
    name = f"nt{uuid.uuid4().hex[:8]}"
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", name], check=True)
    subprocess.run(["chpasswd"], input=f"{name}:correct horse", text=True, check=True)
    yield name
    # --force: a session of the machine that the test closes after this may still be his
    subprocess.run(["userdel", "--force", name], check=True, capture_output=True)


@pytest.fixture
def make_gpu_machine(make_machine, monkeypatch):
    """Makes machines on which an nvidia-smi shows GPUs."""
    monkeypatch.setattr(gpu_watch, "BUSY_INTERVAL", 0.3)

    def make(name, gpus=4, **more):
        machine = make_machine(name, **more)
        machine.nvidia_smi = FakeNvidiaSmi(machine.folder / "nvidia", LoginVariables(machine), gpus)
        return machine
    return make


@pytest.fixture
def keys(tmp_path) -> HostKeyStore:
    """Host keys of which nothing is known yet."""
    return HostKeyStore(tmp_path / "host_keys", system_files=(tmp_path / "known_hosts",))


def works(settings, keys) -> bool:
    """Whether a command runs there."""
    connection = connect(settings, keys, 10)
    try:
        return connection.run("echo here")[1] == "here\n"
    finally:
        connection.close()


def refusal(settings, keys) -> MachineProblem:
    """Why nobody is let in."""
    with pytest.raises(MachineProblem) as caught:
        connect(settings, keys, 5).close()
    return caught.value


@pytest.fixture
def lasting(bench):
    return jobs_of_tests.maker_of_reporting_jobs(bench)
