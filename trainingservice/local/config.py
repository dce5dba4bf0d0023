"""What a configuration file may say about the local platform.

The local machine is one cluster, whatever a file says: all experiments share its GPUs. So every
field is an option of the experiment's trials, and the cluster itself has no settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from trainingservice.cluster_settings import ClusterSettings, SettingsModel
from trainingservice.gpus.gpu_indices import GpuIndices
from trainingservice.gpus.mps import Mps, PipeDirectory, ThreadPercentage
from trainingservice.machine_shares.options import MOST_CPUS, MachineShareOptions
from trainingservice.memory_size import Megabytes
from trainingservice.nodes.options import NodeOptions
from trainingservice.refused_values import matching


class LocalClusterSettings(ClusterSettings):
    """This machine: one cluster, without settings."""

    platform_name: ClassVar[str] = "local"
    reuse_mode_meaning: ClassVar[str] = ("it has no effect on the local platform: a running agent starts the trials, "
                                         "so there is no start-up time to save")


def _is_printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be printable text on one line")
    return value


def _is_absolute(value: str) -> str:
    if not value.startswith(("/", "~/")):
        raise ValueError("expected an absolute path, or one that begins with ~/, the home folder of the user as whom "
                         "the trials run")
    return _is_printable(value)


def _is_conda_environment(value: str) -> str:
    if not value.startswith(("/", "~/")) and not re.fullmatch(r"[\w.+-]{1,100}", value, re.ASCII):
        raise ValueError("expected the name of a conda environment, or its folder as an absolute path")
    return _is_printable(value)


_FolderHere = Annotated[str, Field(max_length=4096), AfterValidator(_is_absolute)]


class ShellEnvironment(SettingsModel):
    """What a shell says about the Python that it would run. ``path`` is its whole PATH."""

    path: Annotated[str, Field(max_length=32768, description="Its PATH."), AfterValidator(_is_printable)] = ""
    virtual_env: Annotated[str, Field(max_length=4096, description="Its VIRTUAL_ENV."),
                           AfterValidator(_is_printable)] = ""
    conda_prefix: Annotated[str, Field(max_length=4096, description="Its CONDA_PREFIX."),
                            AfterValidator(_is_printable)] = ""


class LocalTrialOptions(MachineShareOptions, NodeOptions):
    """How an experiment's trials use this machine."""

    v1_fields: ClassVar[Mapping[str, str]] = {
        "localConfig.useActiveGpu": "useActiveGpu",
        "localConfig.maxTrialNumPerGpu": "maxTrialNumberPerGpu",
        "localConfig.gpuIndices": "gpuIndices",
    }

    #: GPUs that a trial asks for, in a rehearsal.
    _asked: int = PrivateAttr(0)

    use_active_gpu: bool | None = Field(
        default=None, description="Whether trials may use GPUs on which other processes run. Default: false.")
    max_trial_number_per_gpu: int | None = Field(
        default=None, ge=1, description="How many trials may share one GPU. Trials of all experiments on this machine "
                                        "count. Default: 1.")
    gpu_indices: GpuIndices | None = Field(
        default=None, description="GPUs that may be used: a list, one number, or text such as \"0,1\". "
                                  "Default: all of them.")
    snapshot_code: bool = Field(
        default=False, description="Give each trial its own copy of the code folder as it was at the launch (without "
                                   "files that .nniignore names) instead of running in the folder itself.")
    run_as: Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", "the name of a user")] | None = Field(
        default=None,
        description="User of this machine as whom the trials run, so that they cannot read the server's files. Each "
                    "trial then has its own copy of the code. The server must run as root, or be allowed to start "
                    "programs as that user with sudo. Default: the server's own user.")
    venv: _FolderHere | None = Field(
        default=None, description="Folder of a virtual environment whose Python and programs the trials use.")
    conda_env: Annotated[str, Field(max_length=4096), AfterValidator(_is_conda_environment)] | None = Field(
        default=None, description="Conda environment whose Python and programs the trials use: its name or its "
                                  "folder. With runAs, its folder.")
    python_path: _FolderHere | None = Field(
        default=None, description="Folder that is put first on the PATH of trials, such as /opt/python3.9/bin.")
    server_python: bool | None = Field(
        default=None, description="Let trials use the Python that the server itself runs with, and the packages that "
                                  "are installed there. Default: false.")
    shell_environment: ShellEnvironment | None = Field(
        default=None, description="PATH, VIRTUAL_ENV and CONDA_PREFIX with which trials start. The command launch "
                                  "records those of its shell. Default: those with which the server was started.")
    reuse_mode: bool | None = Field(
        default=None, description="Accepted because NNI's files have it. It has no effect here: a running agent starts "
                                  "the trials.")

    @model_validator(mode="after")
    def _choose_one_python(self) -> Self:
        chosen = [name for name, value in (("venv", self.venv), ("condaEnv", self.conda_env),
                                           ("pythonPath", self.python_path), ("serverPython", self.server_python))
                  if value]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} cannot be given together, because each chooses the Python of the "
                             "trials; keep one of them")
        if self.conda_env and self.run_as and not self.conda_env.startswith(("/", "~/")):
            raise ValueError("with runAs, condaEnv must be the folder of the environment, because only that user's "
                             "conda knows its name")
        return self

    def with_shell(self, variables: Mapping[str, str]) -> Self:
        if self.shell_environment is not None:
            return self
        shell = ShellEnvironment(path=variables.get("PATH", ""), virtual_env=variables.get("VIRTUAL_ENV", ""),
                                 conda_prefix=variables.get("CONDA_PREFIX", ""))
        return self.model_copy(update={"shell_environment": shell})

    def with_gpus(self, gpu_number: int | None) -> Self:
        copy = self.model_copy()
        copy._asked = self.gpus_of_a_trial(gpu_number)
        return copy

    @property
    def asked(self) -> int:
        """GPUs that a trial asks for, where ``with_gpus`` has said it."""
        return self._asked

    def os_user(self) -> str:
        return self.run_as or ""

    def copies_code(self) -> bool:
        return self.snapshot_code or self.run_as is not None


class LocalConfigMetadata(SettingsModel):
    """Value of the metadata key ``local_config``: what holds for experiments that say nothing else, with NNI's names,
    and what of the machine trials may have together.
    """

    use_active_gpu: bool | None = None
    max_trial_num_per_gpu: int | None = Field(default=None, ge=1)
    gpu_indices: GpuIndices | None = None
    cpu_number: float | None = Field(default=None, gt=0, le=MOST_CPUS, allow_inf_nan=False)
    memory_size: Megabytes | None = Field(default=None, ge=1)
    mps_pipe_directory: PipeDirectory | None = None
    mps_thread_percentage: ThreadPercentage | None = None

    @property
    def mps(self) -> Mps:
        return Mps(self.mps_pipe_directory, self.mps_thread_percentage)
