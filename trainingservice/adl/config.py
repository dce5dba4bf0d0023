"""What a configuration file may say about AdaptDL. Names are NNI's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, StringConstraints, model_validator

from trainingservice.cluster_settings import SettingsModel
from trainingservice.container_path import ContainerPath
from trainingservice.kubernetes_base.config import (
    KubernetesClusterSettings,
    KubernetesTrialOptions,
    RoleSettings,
    RunPolicy,
)
from trainingservice.kubernetes_scheduling.fields import ObjectName
from trainingservice.memory_size import Megabytes
from trainingservice.refused_values import matching

#: The one role. Each replica of a trial has it.
WORKER = "worker"
#: Fields of a role that files give beside the others.
_OF_THE_ROLE = ("command", "docker_image", "gpu_number", "gpu_resource", "cpu_number", "memory_size",
                "private_registry_auth_path", "python")

Quantity = Annotated[str, matching(r"[0-9]+(\.[0-9]+)?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?",
                                   "a quantity of Kubernetes such as 1Gi")]


class AdlClusterSettings(KubernetesClusterSettings):
    """A namespace of a cluster that AdaptDL's scheduler runs in."""

    platform_name: ClassVar[str] = "adl"
    v1_fields: ClassVar[Mapping[str, str]] = {"trial.namespace": "namespace"}


class NfsVolume(SettingsModel):
    """A folder that the trial's containers mount for their own use."""

    server: str = Field(min_length=1, description="Host that exports the folder.")
    path: str = Field(min_length=1, description="The exported folder.")
    container_mount_path: ContainerPath = Field(description="Where containers have it.")


class Checkpoint(SettingsModel):
    """The volume of one trial: its checkpoints, what its replicas share, and the journal of its reports."""

    storage_class: ObjectName | None = Field(
        default=None, description="Storage class of the claim; it must offer ReadWriteMany. Default: the cluster's "
                                  "default class.")
    storage_size: Quantity = Field(default="1Gi", description="Size of the claim.")


class AdlTrialOptions(KubernetesTrialOptions):
    """The replicas of a trial, which are all alike. How many there are is AdaptDL's decision."""

    v1_fields: ClassVar[Mapping[str, str]] = {
        "trial.codeDir": "codeDirectoryInImage",
        "trial.image": "dockerImage",
        "trial.cpuNum": "cpuNumber",
        "trial.memorySize": "memorySize",
        "trial.adaptive": "adaptive",
        "trial.imagePullSecrets[].name": "imagePullSecrets[].name",
        **{f"trial.{group}.{name}": f"{group}.{name}" for group, name in (
            ("nfs", "server"), ("nfs", "path"), ("nfs", "containerMountPath"),
            ("checkpoint", "storageClass"), ("checkpoint", "storageSize"))},
    }

    command: str | None = Field(default=None, description="The shell command of the replicas. Default: trialCommand.")
    docker_image: str = Field(default="msranni/nni:latest", min_length=1,
                              description="Image; it needs Python 3.8 or later, and the package adaptdl for trials "
                                          "that AdaptDL shall scale.")
    private_registry_auth_path: Path | None = Field(
        default=None, description="A docker config.json on the server, for the image's registry. A Secret is made of "
                                  "it, and is removed with the experiment. (Not in NNI.)")
    gpu_number: int | None = Field(
        default=None, ge=0, le=99_999, description="GPUs for each replica. Default: trialGpuNumber. (Not in NNI.)")
    gpu_resource: str = Field(
        default="nvidia.com/gpu", min_length=1, description="The cluster's resource name of its GPUs. (Not in NNI.)")
    cpu_number: float | None = Field(
        default=None, ge=0, le=99_999, description="CPUs for each replica, as request. Default: AdaptDL's own.")
    memory_size: Megabytes | None = Field(
        default=None, ge=1, description='Memory for each replica, as request: megabytes, or with a unit such as "8Gi". '
                                        "Default: AdaptDL's own.")
    python: Annotated[str, StringConstraints(min_length=1), matching(r"\S+", "a command without blanks")] = Field(
        default="python3", description="Name of the Python program in the image. (Not in NNI.)")
    code_directory_in_image: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None, description="Folder of the image that holds the trial's code (trial.codeDir in NNI's v1 form); a "
                                  "relative one begins at the image's working directory. The command runs there, and "
                                  "nothing is sent. Default: trialCodeDirectory is sent. (Not in NNI.)")
    adaptive: bool = Field(
        default=False, description="AdaptDL may stop a running trial and start it again with another number of "
                                   "replicas or on other nodes. The trial must then go on from its checkpoint.")
    min_replicas: int | None = Field(
        default=None, ge=0, le=10_000, description="AdaptDL gives the trial at least so many replicas or none. "
                                                   "Default: 0, which means 1 for a start. (Not in NNI.)")
    max_replicas: int | None = Field(
        default=None, ge=1, le=10_000, description="AdaptDL gives the trial at most so many replicas. Default: no "
                                                   "limit. (Not in NNI.)")
    stop_grace_period: float = Field(
        default=30.0, ge=0, le=3600, description="Seconds that a trial has to save its checkpoint and end after it was "
                                                 "told to. (Not in NNI.)")
    nfs: NfsVolume | None = Field(default=None, description="A folder that containers mount.")
    checkpoint: Checkpoint = Field(default=Checkpoint(), description="The volume of each trial.")

    @model_validator(mode="after")
    def _fits_adaptdl(self) -> Self:
        if self.max_replicas is not None and (self.min_replicas or 0) > self.max_replicas:
            raise ValueError(f"maxReplicas must be at least minReplicas, which is {self.min_replicas}")
        plain = RunPolicy()
        given = [name for name in RunPolicy.model_fields if getattr(self.run_policy, name) != getattr(plain, name)]
        if given:
            names = ", ".join(RunPolicy.model_fields[name].alias or name for name in given)
            raise ValueError(f"AdaptDL has no runPolicy; leave {names} out. The objects of an ended trial stay until "
                             "the experiment is deleted")
        return self

    def roles(self) -> dict[str, RoleSettings]:
        given: dict[str, Any] = {name: getattr(self, name) for name in _OF_THE_ROLE}
        return {WORKER: RoleSettings(replicas=max(1, self.min_replicas or 0), **given)}

    def with_gpus(self, gpu_number: int | None) -> Self:
        return self if self.gpu_number is not None else self.model_copy(update={"gpu_number": gpu_number})

    def code_in_image(self) -> str:
        return self.code_directory_in_image or ""
