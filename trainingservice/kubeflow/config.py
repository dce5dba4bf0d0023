"""What a configuration file may say about Kubeflow. Names are NNI's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from trainingservice.kubernetes_base.config import KubernetesClusterSettings, KubernetesTrialOptions, RoleSettings

#: The first of these that a trial has reports; a parameter server never does.
REPORTING_ORDER = ("chief", "master", "launcher", "worker", "ps")
_V1_ROLE = {"replicas": "replicas", "command": "command", "gpuNum": "gpuNumber", "cpuNum": "cpuNumber",
            "memoryMB": "memorySize", "image": "dockerImage", "privateRegistryAuthPath": "privateRegistryAuthPath"}


class KubeflowClusterSettings(KubernetesClusterSettings):
    """A namespace of a cluster that has one of Kubeflow's operators."""

    platform_name: ClassVar[str] = "kubeflow"
    fields_of_checks: ClassVar[Mapping[str, str]] = {
        **KubernetesClusterSettings.fields_of_checks, "operator": "operator"}
    v1_fields: ClassVar[Mapping[str, str]] = {
        "kubeflowConfig.operator": "operator",
        "kubeflowConfig.apiVersion": "apiVersion",
        "kubeflowConfig.storage": "storage.storageType",
        "kubeflowConfig.nfs.server": "storage.server",
        "kubeflowConfig.nfs.path": "storage.path",
        "kubeflowConfig.keyVault.vaultName": "storage.keyVaultName",
        "kubeflowConfig.keyVault.name": "storage.keyVaultKey",
        "kubeflowConfig.azureStorage.accountName": "storage.azureAccount",
        "kubeflowConfig.azureStorage.azureShare": "storage.azureShare",
    }
    v1_dropped: ClassVar[Mapping[str, str]] = {
        "kubeflowConfig.uploadRetryCount": "has no effect; failed deliveries are repeated until they succeed"}
    v1_dropped_types: ClassVar[Mapping[str, Any]] = {"kubeflowConfig.uploadRetryCount": int}

    operator: Literal["tf-operator", "pytorch-operator", "mpi-operator"] = Field(
        description="Which operator runs the trials. mpi-operator is not in NNI.")
    api_version: Literal["v1alpha2", "v1beta1", "v1beta2", "v1", "v2beta1"] = Field(
        default="v1", description="Version of the operator's objects; v2beta1 is only for mpi-operator.")

    @model_validator(mode="after")
    def _version_fits(self) -> KubeflowClusterSettings:
        if self.operator != "mpi-operator" and self.api_version == "v2beta1":
            raise ValueError("apiVersion v2beta1 is only for mpi-operator")
        return self


class KubeflowTrialOptions(KubernetesTrialOptions):
    """The roles of a trial. tf-operator: worker, ps, chief; pytorch-operator: master, worker; mpi: launcher, worker."""

    v1_fields: ClassVar[Mapping[str, str]] = {
        f"trial.{role}.{v1}": f"{role}.{v2}" for role in ("worker", "ps", "master") for v1, v2 in _V1_ROLE.items()}

    worker: RoleSettings | None = Field(default=None, description="Workers.")
    ps: RoleSettings | None = Field(
        default=None, validation_alias=AliasChoices("ps", "parameterServer"),
        description="Parameter servers; tf-operator only. (NNI 2.0 to 2.3: parameterServer.)")
    chief: RoleSettings | None = Field(default=None, description="The chief; tf-operator only. (Not in NNI.)")
    master: RoleSettings | None = Field(default=None, description="The master; pytorch-operator only.")
    launcher: RoleSettings | None = Field(
        default=None, description="The launcher, which runs mpirun; mpi-operator only. (Not in NNI.)")
    runtime: str = Field(
        default="torch-distributed", min_length=1, description="Kubeflow Trainer only: the ClusterTrainingRuntime that "
                                                               "trials use. (Not in NNI.)")

    @model_validator(mode="after")
    def _workers_of_mpi_name_no_code(self) -> Self:
        if self.launcher is not None and self.worker is not None \
                and self.worker.code_directory not in (None, "", self.launcher.code_directory):
            raise ValueError("worker.codeDirectory must be left out beside a launcher: mpirun starts the processes of "
                             "the workers in their image, and only the launcher's pod gets code")
        return self

    def gets_code(self, role: str) -> bool:
        return self.launcher is None or role == "launcher"

    def roles(self) -> dict[str, RoleSettings]:
        found = {name: getattr(self, name) for name in REPORTING_ORDER}
        return {name: role for name, role in found.items() if role is not None}
