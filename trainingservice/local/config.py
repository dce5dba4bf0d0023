"""What a configuration file may say about the local platform.

The local machine is one cluster, whatever a file says: all experiments share its GPUs. So every
field is an option of the experiment's trials, and the cluster itself has no settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from trainingservice.cluster_settings import ClusterSettings, SettingsModel, TrialOptions


def read_gpu_indices(value: object) -> object:
    """A list of indices, one index, or text such as "0,2": NNI's files have all three."""
    if isinstance(value, bool):
        raise ValueError("expected GPU indices such as [0, 1] or '0,1'")
    if isinstance(value, int):
        value = [value]
    elif isinstance(value, str):
        pieces = [piece.strip() for piece in value.split(",")]
        if not all(piece.isdecimal() for piece in pieces):
            raise ValueError(f"expected GPU indices such as '0,1', not {value!r}")
        value = [int(piece) for piece in pieces]
    if isinstance(value, list | tuple):
        if any(isinstance(index, int) and index < 0 for index in value):
            raise ValueError("a GPU index is 0 or more")
        if len(set(value)) != len(value):
            raise ValueError("a GPU index is named twice")
        if not value:
            raise ValueError("name at least one GPU, or leave the field out to allow all of them")
    return value


#: GPU indices as NNI's files write them.
GpuIndices = Annotated[tuple[int, ...], BeforeValidator(read_gpu_indices)]


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
        default=False, description="Give each trial its own copy of the code folder as it was when the experiment's "
                                   "first trial started (less .nniignore) instead of running in the folder itself.")
    reuse_mode: bool | None = Field(
        default=None, description="Accepted because NNI's files have it. It has no effect here: trials are started by "
                                  "an agent that is warm anyway.")


class LocalConfigMetadata(SettingsModel):
    """Value of the metadata key ``local_config``: what holds for experiments that say nothing else. NNI's names."""

    use_active_gpu: bool | None = None
    max_trial_num_per_gpu: int | None = Field(default=None, ge=1)
    gpu_indices: GpuIndices | None = None
