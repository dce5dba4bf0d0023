"""What a configuration file may say about the local platform.

The local machine is one cluster, whatever a file says: all experiments share its GPUs. So every
field is an option of the experiment's trials, and the cluster itself has no settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from trainingservice.cluster_settings import ClusterSettings, SettingsModel, TrialOptions
from trainingservice.gpus.gpu_indices import GpuIndices
from trainingservice.refused_values import matching


class LocalClusterSettings(ClusterSettings):
    """This machine: one cluster, without settings."""

    platform_name: ClassVar[str] = "local"
    reuse_mode_meaning: ClassVar[str] = ("it has no effect on the local platform: trials are started by an agent that "
                                         "is warm anyway, so there is no start-up time to save")


class LocalTrialOptions(TrialOptions):
    """How an experiment's trials use this machine."""

    v1_fields: ClassVar[Mapping[str, str]] = {
        "localConfig.useActiveGpu": "useActiveGpu",
        "localConfig.maxTrialNumPerGpu": "maxTrialNumberPerGpu",
        "localConfig.gpuIndices": "gpuIndices",
    }

    use_active_gpu: bool | None = Field(
        default=None, description="Whether trials may use GPUs on which processes of others run. Default: false.")
    max_trial_number_per_gpu: int | None = Field(
        default=None, ge=1, description="How many trials may share one GPU; trials of all experiments on this machine "
                                        "count. Default: 1.")
    gpu_indices: GpuIndices | None = Field(
        default=None, description="GPUs that may be used: a list, one number, or text such as \"0,1\". "
                                  "Default: all of them.")
    snapshot_code: bool = Field(
        default=False, description="Give each trial its own copy of the code folder as it was at launch "
                                   "(less .nniignore) instead of running in the folder itself.")
    run_as: Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", "the name of a user")] | None = Field(
        default=None,
        description="User of this machine as whom the trials run, so that they cannot read what is the server's. Each "
                    "trial then has its own copy of the code. The server must run as root, or be allowed to start "
                    "programs as that user with sudo. Default: the user the server runs as.")
    reuse_mode: bool | None = Field(
        default=None, description="Accepted because NNI's files have it. It has no effect here: trials are started by "
                                  "an agent that is warm anyway.")

    def os_user(self) -> str:
        return self.run_as or ""

    def copies_code(self) -> bool:
        return self.snapshot_code or self.run_as is not None


class LocalConfigMetadata(SettingsModel):
    """Value of the metadata key ``local_config``: what holds for experiments that say nothing else. NNI's names."""

    use_active_gpu: bool | None = None
    max_trial_num_per_gpu: int | None = Field(default=None, ge=1)
    gpu_indices: GpuIndices | None = None
