"""What a configuration file may say about a Slurm cluster, and about one experiment's jobs there.

Where Slurm's commands are run and the folder that the nodes share is the cluster; partition, account and
resources are what one experiment asks of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, field_validator

from trainingservice.cluster_settings import ClusterSettings
from trainingservice.memory_size import Megabytes
from trainingservice.nodes.options import NodeOptions
from trainingservice.places.options import REUSE_MODE_MEANING, PlaceOptions
from trainingservice.refused_values import matching
from trainingservice.slurm.sbatch_lines import checked_lines
from trainingservice.ssh.login_settings import SshLoginSettings
from trialkeeper.whole_number import whole_number

#: Names of things in Slurm: no blanks, nothing that begins like an option.
Name = Annotated[str, StringConstraints(min_length=1, max_length=1000), matching(
    r"[A-Za-z0-9_][A-Za-z0-9_.,@+:-]*",
    "a name of letters, digits and _.,@+:-, not beginning with one of .,@+:-")]
#: Features of nodes, with Slurm's signs between them.
Features = Annotated[str, StringConstraints(min_length=1, max_length=1000), matching(
    r"[A-Za-z0-9_(\[][A-Za-z0-9_.&|*()\[\],:=-]*", "features of nodes, with & and | between them, such as ib&skylake")]
_TIME = re.compile(r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+|\d+-\d+:\d\d|\d+-\d+:\d\d:\d\d")
_GRES = re.compile(r"[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)*(,[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)*)*")
_PATH = re.compile(r"/[^\s\"'`$\\%]*")


class SlurmClusterSettings(ClusterSettings):
    """Where Slurm's commands are run, and the folder that all of its machines have."""

    platform_name: ClassVar[str] = "slurm"
    fields_of_checks: ClassVar[Mapping[str, str]] = {
        "connection": "loginNode.host", "login": "loginNode.user", "host_key": "loginNode.hostKey",
        "folder": "workingFolder", "disk": "workingFolder"}
    reuse_mode_meaning: ClassVar[str] = REUSE_MODE_MEANING

    keeps_secrets: ClassVar[frozenset[str]] = frozenset({"working_folder", "program_folder"})

    login_node: SshLoginSettings | None = Field(
        default=None, description="The machine on which sbatch, squeue and scancel are run through SSH. Default: this "
                                  "server, as its own user.")
    working_folder: str = Field(
        description="Folder for all files of NNI Web, such as a folder in the home folder. It must have the same path "
                    "on the login node (or this server) and on all compute nodes, and it must exist.")
    program_folder: str | None = Field(
        default=None, description="Folder of Slurm's commands on the login node, if they are not on the PATH there.")

    def borrowed_from_the_server(self) -> str:
        from trainingservice.ssh.route import borrows_from_the_server  # here: it needs an SSH library

        if self.login_node is None:
            return "its own user's account on the Slurm cluster"
        if borrows_from_the_server(self.login_node):
            return "its SSH keys and settings"
        return ""

    @field_validator("working_folder", "program_folder")
    @classmethod
    def _is_plain_path(cls, value: str | None) -> str | None:
        if value is not None and not _PATH.fullmatch(value):
            raise ValueError("expected an absolute path without spaces, quotes, $, % and backslashes, such as "
                             "/home/ada/nniweb")
        return value if value is None else value.rstrip("/") or "/"


class SlurmTrialOptions(PlaceOptions, NodeOptions):
    """What one experiment asks of Slurm for each of its jobs."""

    partition: Name | None = Field(
        default=None, description="Partition, or several separated by commas. Default: the cluster's default "
                                  "partition.")
    account: Name | None = Field(default=None, description=(
        "Account that is charged. Default: the user's default account."))
    qos: Name | None = Field(default=None, description="Quality of service. Default: that of the account.")
    constraint: Features | None = Field(
        default=None, description="Features that the nodes must have, in Slurm's syntax (ib, a100|h100).")
    reservation: Name | None = Field(
        default=None, description="Reservation, or several separated by commas, in which jobs run.")
    trial_cpu_number: int = Field(default=1, ge=1, description="CPUs of each node of a job.")
    trial_memory_size: Megabytes | None = Field(
        default=None, ge=1, description='Memory of each node of a job: megabytes, or a size with its unit such as '
                                        "\"8gb\". Default: the partition's default.")
    gpu_type: Name | None = Field(
        default=None, description="Type of the GPUs that trialGpuNumber asks for, with the cluster's name (a100). "
                                  "Default: any.")
    gres: str | None = Field(
        default=None, description="Generic resources of each node of a job in Slurm's syntax (gpu:a100:2,shard:4). It "
                                  "replaces trialGpuNumber and gpuType.")
    gpu_shard_memory: Megabytes | None = Field(
        default=None, ge=1, description=(
            "Memory of a GPU that one shard of the cluster (gres/shard) stands for, such as \"1gb\". A trial with one "
            "GPU and gpuMemory then asks for shards in place of the GPU. Default: it asks for the GPU. (Not in NNI.)"))
    time_limit: str | None = Field(
        default=None, description="How long a job may run, as in sbatch --time: minutes, 4:00:00, 2-12. Default: the "
                                  "partition's default. Jobs with a short limit may start sooner.")
    requeue: bool = Field(
        default=False, description="Whether Slurm may queue a trial again that it had to end (its node failed, another "
                                   "job preempted it). The trial then runs again from its last checkpoint, without "
                                   "one from its beginning. false: the trial ends, and the experiment's retry "
                                   "applies.")
    sbatch_lines: tuple[str, ...] = Field(
        default=(), description="Further options of sbatch, one per entry, as after #SBATCH: --exclude=n13. Options "
                                "that the server sets are refused. The fields above take precedence.")
    prepare_command: str | None = Field(
        default=None, description="Shell commands (sh) that each job runs first on the compute node, such as module "
                                  "load python/3.11. If they fail, the job does not start its trial.")
    python_path: str | None = Field(
        default=None, description="Folder that is put first on the PATH of trials on the compute nodes. The Python "
                                  "that runs the keeper is looked for there first.")
    channel: Literal["auto", "http", "storage"] = Field(
        default="auto", description="How trials report: by calling this server (http), or through workingFolder "
                                    "(storage). auto: each trial calls the server if it can; the server fetches "
                                    "reports that do not arrive from the folder.")

    def why_no_place(self) -> str:
        if self.nodes > 1:
            return "the trial runs on several nodes"
        return "Slurm may queue its jobs again (requeue)" if self.requeue else ""

    def shards_for(self, gpu_number: int | None, memory: int) -> int | None:
        """How many shards a trial that needs ``memory`` bytes of its GPU asks for; None: it asks for GPUs.

        All shards of a job are on one GPU. A warm place does not ask for them, because its next trial may need more.
        """
        if self.gpu_shard_memory is None or gpu_number != 1 or not memory or self.nodes > 1 or self.reuse_mode \
                or self.gres is not None or self.gpu_type is not None:
            return None
        return -(-memory // (self.gpu_shard_memory * 1024 ** 2))

    def gpus_of_a_trial(self, gpu_number: int | None) -> int:
        if self.gres is None:
            return super().gpus_of_a_trial(gpu_number)
        asked = [part.split(":") for part in self.gres.split(",")]
        counts = [whole_number(words[-1]) for words in asked if words[0] == "gpu"]
        return self.nodes * sum(1 if count is None else count for count in counts)

    def cpus_of_a_trial(self) -> float:
        return float(self.nodes * self.trial_cpu_number)

    @field_validator("time_limit")
    @classmethod
    def _is_time(cls, value: str | None) -> str | None:
        if value is not None and not _TIME.fullmatch(value):
            raise ValueError("expected minutes, or a time such as 4:00:00 (hours), 2-12 (days-hours) or 2-12:30:00")
        return value

    @field_validator("gres")
    @classmethod
    def _is_gres(cls, value: str | None) -> str | None:
        if value is not None and not _GRES.fullmatch(value):
            raise ValueError("expected Slurm's syntax, such as gpu:2, gpu:a100:1 or gpu:1,shard:4")
        return value

    @field_validator("sbatch_lines")
    @classmethod
    def _are_options(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return checked_lines(value)

    @field_validator("python_path")
    @classmethod
    def _is_plain_path(cls, value: str | None) -> str | None:
        if value is not None and not _PATH.fullmatch(value):
            raise ValueError("expected an absolute path on the compute nodes, without spaces and quotes")
        return value
