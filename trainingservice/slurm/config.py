"""What a configuration file may say about a Slurm cluster, and about one experiment's jobs there.

Where Slurm's commands are run and the folder that the nodes share is the cluster; partition, account and
resources are what one experiment asks of it.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, field_validator

from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.memory_size import Megabytes
from trainingservice.refused_values import matching
from trainingservice.ssh.login_settings import SshLoginSettings
from trialkeeper.whole_number import whole_number

#: Names of things in Slurm: no blanks, nothing that begins like an option.
Name = Annotated[str, StringConstraints(min_length=1), matching(
    r"[A-Za-z0-9_][A-Za-z0-9_.,@+:-]*",
    "a name of letters, digits and _.,@+:-, not beginning with one of .,@+:-")]
_TIME = re.compile(r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+|\d+-\d+:\d\d|\d+-\d+:\d\d:\d\d")
_GRES = re.compile(r"[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)*(,[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)*)*")
_PATH = re.compile(r"/[^\s\"'`$\\%]*")


class SlurmClusterSettings(ClusterSettings):
    """Where Slurm's commands are run, and the folder that all of its machines have."""

    platform_name: ClassVar[str] = "slurm"
    reuse_mode_meaning: ClassVar[str] = (
        "it has no effect on slurm: each trial is a job of its own, so that the cluster schedules, shows and charges "
        "trials one by one")

    login_node: SshLoginSettings | None = Field(
        default=None, description="The machine on which sbatch, squeue and scancel are run, through SSH. Default: this "
                                  "server itself, as its own user.")
    working_folder: str = Field(
        description="Folder for everything of ours, under the same path on the login node (or this server) and on all "
                    "compute nodes, such as one in the home folder. It must be there already.")
    program_folder: str | None = Field(
        default=None, description="Folder of Slurm's commands on the login node, where they are not on the PATH that "
                                  "commands have there.")

    def borrowed_from_the_server(self) -> str:
        if self.login_node is None:
            return "its own user's account on the Slurm cluster"
        if self.login_node.password is None or self.login_node.proxy_jump is not None:
            return "its SSH keys and settings"
        return ""

    @field_validator("working_folder", "program_folder")
    @classmethod
    def _is_plain_path(cls, value: str | None) -> str | None:
        if value is not None and not _PATH.fullmatch(value):
            raise ValueError("expected an absolute path without blanks, quotes, $, % and backslashes, such as "
                             "/home/ada/nniweb")
        return value if value is None else value.rstrip("/") or "/"


class SlurmTrialOptions(TrialOptions):
    """What one experiment asks of Slurm for each of its jobs."""

    partition: Name | None = Field(
        default=None, description="Partition, or several with commas between. Default: the cluster's own.")
    account: Name | None = Field(default=None, description="Account that is charged. Default: the user's own.")
    qos: Name | None = Field(default=None, description="Quality of service. Default: the account's own.")
    trial_cpu_number: int = Field(default=1, ge=1, description="CPUs of each job.")
    trial_memory_size: Megabytes | None = Field(
        default=None, ge=1, description='Memory of each job: megabytes, or a size with its unit such as "8gb". '
                                        "Default: what the partition gives.")
    gpu_type: Name | None = Field(
        default=None, description="Kind of the GPUs that trialGpuNumber asks for, as the cluster calls it (a100). "
                                  "Default: any.")
    gres: str | None = Field(
        default=None, description="Generic resources of each job in Slurm's own spelling (gpu:a100:2,shard:4), instead "
                                  "of what trialGpuNumber and gpuType make of it.")
    time_limit: str | None = Field(
        default=None, description="How long a job may run, as sbatch --time has it: minutes, 4:00:00, 2-12. Default: "
                                  "what the partition gives. A short one starts sooner.")
    requeue: bool = Field(
        default=False, description="Whether Slurm may queue a trial again that it had to end (its node failed, another "
                                   "job displaced it); it is then run from its beginning. No: it ends, and the "
                                   "experiment's retry decides.")
    sbatch_lines: tuple[str, ...] = Field(
        default=(), description="Further options of sbatch, one a line as after #SBATCH: --constraint=skylake. Fields "
                                "above win over them.")
    prepare_command: str | None = Field(
        default=None, description="Shell text (sh) that each job runs before anything else, on the compute node: "
                                  "module load python/3.11. A job whose preparation fails does not start its trial.")
    python_path: str | None = Field(
        default=None, description="Folder that stands first on the PATH of trials on the compute nodes, and in which "
                                  "the Python that runs the keeper is looked for first.")
    channel: Literal["auto", "http", "storage"] = Field(
        default="auto", description="How trials report: by calling this server (http), or through workingFolder "
                                    "(storage). auto: each calls the server where it can, and what does not arrive so "
                                    "is fetched from the folder.")

    def gpus_of_a_trial(self, gpu_number: int | None) -> int:
        if self.gres is None:
            return gpu_number or 0
        asked = [part.split(":") for part in self.gres.split(",")]
        counts = [whole_number(words[-1]) for words in asked if words[0] == "gpu"]
        return sum(1 if count is None else count for count in counts)

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
            raise ValueError("expected Slurm's own spelling, such as gpu:2, gpu:a100:1 or gpu:1,shard:4")
        return value

    @field_validator("sbatch_lines")
    @classmethod
    def _are_options(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for line in value:
            if not line.startswith("-") or "\n" in line:
                raise ValueError(f"{line!r} is no option of sbatch; write one a line, such as --constraint=skylake")
            name = line.split("=")[0].split()[0]
            if name in ("-a", "--array", "-n", "--ntasks", "-N", "--nodes", "--wrap", "--test-only", "-W", "--wait"):
                raise ValueError(f"{name} cannot be used here: each trial is one job with one task on one node")
        return value

    @field_validator("python_path")
    @classmethod
    def _is_plain_path(cls, value: str | None) -> str | None:
        if value is not None and not _PATH.fullmatch(value):
            raise ValueError("expected an absolute path on the compute nodes, without blanks and quotes")
        return value
