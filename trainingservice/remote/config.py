"""What a configuration file may say about machines reached over SSH.

The machines are the cluster: two files that list the same machines share them. Options say what one
experiment wants of them; what they leave out, the machine's own fields decide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import AliasChoices, Field, field_validator

from trainingservice.cluster_settings import ClusterSettings
from trainingservice.containers.options import ContainerOptions
from trainingservice.gpus.gpu_indices import GpuIndices
from trainingservice.gpus.mps import Mps, PipeDirectory, ThreadPercentage
from trainingservice.machine_shares.options import MOST_CPUS, MachineShareOptions
from trainingservice.memory_size import Megabytes
from trainingservice.nodes.options import NodeOptions
from trainingservice.refused_values import matching
from trainingservice.shared_folder.shared_storage import SharedStorage
from trainingservice.ssh.login_settings import SshLoginSettings
from trainingservice.words.shown_value import shown

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

class RemoteMachineSettings(SshLoginSettings):
    """One machine: how to log in, and what trials may use there."""

    keeps_secrets: ClassVar[frozenset[str]] = frozenset({
        "use_active_gpu", "max_trial_number_per_gpu", "gpu_indices", "max_trial_number", "cpu_number", "memory_size",
        "mps_pipe_directory", "mps_thread_percentage", "python_path", "environment", "prepare_command",
        "working_folder", "node_address"})
    serves_as_secret: ClassVar[frozenset[str]] = frozenset({"ssh_key_file"})

    use_active_gpu: bool = Field(
        default=False, description="Whether trials may use GPUs on which other processes run.")
    max_trial_number_per_gpu: int = Field(default=1, ge=1, description="How many trials may share one GPU.")
    gpu_indices: GpuIndices | None = Field(
        default=None, description="GPUs that may be used: a list, one number, or text such as \"0,1\". "
                                  "Default: all of them.")
    max_trial_number: int | None = Field(
        default=None, ge=1, description="How many trials may run on this machine at the same time. Default: no limit.")
    cpu_number: float | None = Field(
        default=None, gt=0, le=MOST_CPUS, allow_inf_nan=False, description=(
            "CPUs that trials with trialCpuNumber may have together on this machine. Default: all that it has. (Not in "
            "NNI.)"))
    memory_size: Megabytes | None = Field(
        default=None, ge=1, description=(
            'Memory that trials with trialMemorySize may have together on this machine: megabytes, or a size with its '
            'unit such as "64gb". Default: all that it has but 5 % (at least 1 GB, at most a quarter). (Not in NNI.)'))
    mps_pipe_directory: PipeDirectory | None = Field(
        default=None, description=(
            "Folder of the pipes of NVIDIA's MPS on this machine, such as /tmp/nvidia-mps: trials that share a GPU by "
            "gpuMemory use it. Start its control daemon as the user of the trials. Default: trials do not use it. (Not "
            "in NNI.)"))
    mps_thread_percentage: ThreadPercentage | None = Field(
        default=None, description="With mpsPipeDirectory: percent of a GPU's processors that one trial may use. "
                                  "Default: no limit. (Not in NNI.)")
    python_path: str | None = Field(
        default=None, description="Folder that is put first on the PATH of trials. The Python that runs the keeper is "
                                  "looked for there first.")
    environment: dict[str, str] = Field(default={}, description="Variables for all trials on this machine.")
    prepare_command: str | None = Field(  # NNI 2.0 has the second name
        default=None, validation_alias=AliasChoices("prepareCommand", "trialPrepareCommand"),
        description="Shell commands that run before each trial's command, in the same shell. If they fail, the trial "
                    "does not start. Also written trialPrepareCommand.")
    node_address: Annotated[str, Field(max_length=255), matching(
        r"[A-Za-z0-9]([A-Za-z0-9.:_-]*[A-Za-z0-9])?", "a host name or an IP address")] | None = Field(
        default=None, description="Address at which the other machines of the list reach this one, for trials with "
                                  "several nodes (MASTER_ADDR). Default: host.")
    working_folder: str | None = Field(
        default=None, description="Folder on the machine for all files of NNI Web. Default: ~/.nniweb.")

    @property
    def mps(self) -> Mps:
        return Mps(self.mps_pipe_directory, self.mps_thread_percentage)

    @field_validator("environment")
    @classmethod
    def _has_variable_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"{shown(name)} is not a valid name of a variable")
        return value

    @field_validator("python_path", "working_folder")
    @classmethod
    def _is_absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("/", "~/")):
            raise ValueError("expected an absolute path on the machine, or one that begins with ~/")
        return value


class RemoteClusterSettings(ClusterSettings):
    """The machines, and how long a lost one is waited for."""

    platform_name: ClassVar[str] = "remote"
    fields_of_checks: ClassVar[Mapping[str, str]] = {
        "connection": "machineList[].host", "login": "machineList[].user", "host_key": "machineList[].hostKey",
        "interpreter": "machineList[].pythonPath", "folder": "machineList[].workingFolder",
        "disk": "machineList[].workingFolder", "gpus": "machineList[].gpuIndices", "machines": "machineList",
        "storage": "sharedStorage"}
    reuse_mode_meaning: ClassVar[str] = (
        "it has no effect on the remote platform: a running agent starts the trials of all experiments on a machine, "
        "so there is no start-up time to save")
    v1_fields: ClassVar[Mapping[str, str]] = {
        "machineList[].ip": "machineList[].host",
        "machineList[].port": "machineList[].port",
        "machineList[].username": "machineList[].user",
        "machineList[].passwd": "machineList[].password",
        "machineList[].sshKeyPath": "machineList[].sshKeyFile",
        "machineList[].passphrase": "machineList[].sshPassphrase",
        "machineList[].gpuIndices": "machineList[].gpuIndices",
        "machineList[].maxTrialNumPerGpu": "machineList[].maxTrialNumberPerGpu",
        "machineList[].useActiveGpu": "machineList[].useActiveGpu",
        "machineList[].preCommand": "machineList[].prepareCommand",
        "machineList[].pythonPath": "machineList[].pythonPath",
    }

    #: Each machine mounts the shared storage with its key, so machine_list is none of them.
    keeps_secrets: ClassVar[frozenset[str]] = frozenset({"lost_after"})

    machine_list: tuple[RemoteMachineSettings, ...] = Field(
        min_length=1, max_length=1000, description="The machines, 1,000 at most.")
    lost_after: float = Field(
        default=3600.0, gt=0, description="A trial fails if its machine cannot be reached for this many seconds and "
                                          "its reports do not arrive in another way.")

    shared_storage: SharedStorage | None = Field(
        default=None, description="A file store that is mounted on each machine before a trial starts. In config files "
                                  "it is a field of the top level, as in NNI.")

    def borrowed_from_the_server(self) -> str:
        from trainingservice.ssh.route import borrows_from_the_server  # here: it needs an SSH library

        if any(map(borrows_from_the_server, self.machine_list)):
            return "its SSH keys and settings"
        if self.shared_storage is not None and self.shared_storage.local_mounted == "nnimount":
            return "its right to mount file systems, which localMounted: nomount does not need"
        return ""

    @field_validator("shared_storage")
    @classmethod
    def _storage_is_whole(cls, value: SharedStorage | None) -> SharedStorage | None:
        if value is not None and value.missing():
            raise ValueError(f"{' and '.join(value.missing())} must be given for storageType {value.storage_type}")
        return value

    @field_validator("machine_list")
    @classmethod
    def _machines_differ(cls, value: tuple[RemoteMachineSettings, ...]) -> tuple[RemoteMachineSettings, ...]:
        for address, count in Counter(machine.address for machine in value).items():
            if count > 1:
                raise ValueError(f"names the machine {address} twice")
        return value


class RemoteTrialOptions(ContainerOptions, MachineShareOptions, NodeOptions):
    """What one experiment asks of the machines."""

    v1_fields: ClassVar[Mapping[str, str]] = {"remoteConfig.reuse": "reuseMode"}

    reuse_mode: bool | None = Field(
        default=None, description="Accepted because NNI's files have it. It has no effect here: a running agent starts "
                                  "the trials.")

    def refused_on(self, settings: ClusterSettings, given: Self, *, by_administrator: bool) -> list[tuple[str, str]]:
        if self.docker_image is not None and getattr(settings, "shared_storage", None) is not None:
            return [("dockerImage", "A container has no way to the cluster's sharedStorage. Remove dockerImage, or use "
                                    "a cluster without one.")]
        return []
