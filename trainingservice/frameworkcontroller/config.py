"""What a configuration file may say about FrameworkController. Names are NNI's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator

from trainingservice.cluster_settings import ClusterSettings
from trainingservice.frameworkcontroller.task_roles import TaskRoleSettings, with_fitting_names
from trainingservice.frameworkcontroller.template import read_template, roles_of_template
from trainingservice.kubernetes_base.config import (
    KubernetesClusterSettings,
    KubernetesPlaceOptions,
    RoleSettings,
)
from trainingservice.places.options import STAYS

#: The first role of these names reports; else the first one whose success ends the Framework; else the first.
REPORTING_NAMES = ("chief", "master", "worker")


class FrameworkControllerClusterSettings(KubernetesClusterSettings):
    """A namespace of a cluster that FrameworkController runs in."""

    platform_name: ClassVar[str] = "frameworkcontroller"
    reuse_mode_meaning: ClassVar[str] = f"{STAYS}; otherwise each trial has pods of its own"
    v1_fields: ClassVar[Mapping[str, str]] = {
        "frameworkcontrollerConfig.namespace": "namespace",
        "frameworkcontrollerConfig.storage": "storage.storageType",
        "frameworkcontrollerConfig.nfs.server": "storage.server",
        "frameworkcontrollerConfig.nfs.path": "storage.path",
        "frameworkcontrollerConfig.pvc.path": "storage.path",
        "frameworkcontrollerConfig.keyVault.vaultName": "storage.keyVaultName",
        "frameworkcontrollerConfig.keyVault.name": "storage.keyVaultKey",
        "frameworkcontrollerConfig.azureStorage.accountName": "storage.azureAccount",
        "frameworkcontrollerConfig.azureStorage.azureShare": "storage.azureShare",
    }
    v1_dropped: ClassVar[Mapping[str, str]] = {
        "frameworkcontrollerConfig.uploadRetryCount": "has no effect; failed deliveries are repeated until they "
                                                      "succeed"}
    v1_dropped_types: ClassVar[Mapping[str, Any]] = {"frameworkcontrollerConfig.uploadRetryCount": int}


class FrameworkControllerTrialOptions(KubernetesPlaceOptions):
    """The task roles of a trial."""

    v1_fields: ClassVar[Mapping[str, str]] = {
        "frameworkcontrollerConfig.serviceAccountName": "serviceAccountName",
        "frameworkcontrollerConfig.configPath": "configPath",
        "frameworkcontrollerConfig.reuse": "reuseMode",
        **{f"trial.taskRoles[].{v1}": f"taskRoles[].{v2}" for v1, v2 in (
            ("name", "name"), ("taskNum", "taskNumber"), ("command", "command"), ("gpuNum", "gpuNumber"),
            ("cpuNum", "cpuNumber"), ("memoryMB", "memorySize"), ("image", "dockerImage"),
            ("privateRegistryAuthPath", "privateRegistryAuthPath"),
            ("frameworkAttemptCompletionPolicy.minFailedTaskCount",
             "frameworkAttemptCompletionPolicy.minFailedTaskCount"),
            ("frameworkAttemptCompletionPolicy.minSucceededTaskCount",
             "frameworkAttemptCompletionPolicy.minSucceedTaskCount"))},
    }

    task_roles: tuple[TaskRoleSettings, ...] = Field(default=(), description="The task roles, or configPath.")
    api_version: Literal["v1"] | None = Field(
        default=None, description="Accepted because NNI's files have it; there is only one version of Frameworks.")
    config_path: Path | None = Field(
        default=None, description="YAML file of a whole Framework on the server, used as a template for roles, "
                                  "completion policies and pods. The keeper is added to each role's container. A role "
                                  "whose container does not set a number of GPUs gets trialGpuNumber GPUs.")
    barrier_image: str = Field(
        default="frameworkcontroller/frameworkbarrier", min_length=1, description=(
            "With serviceAccountName and several tasks: the image that waits until all tasks have an address and "
            "passes the addresses to the command (FB_<ROLE>_ADDRESSES). (Not in NNI.)"))

    _names_fit = field_validator("task_roles")(with_fitting_names)

    def refused_on(self, settings: ClusterSettings, given: Self, *, by_administrator: bool) -> list[tuple[str, str]]:
        found = super().refused_on(settings, given, by_administrator=by_administrator)
        assert isinstance(settings, KubernetesClusterSettings)
        permits = settings.members_may_use is not None and settings.members_may_use.templates
        if self.config_path not in (None, given.config_path) and not by_administrator and not permits:
            found.append(("configPath", "The cluster does not permit Frameworks of one's own, because they may ask for "
                          "anything in its namespace. Describe the roles in taskRoles, or ask an administrator to set "
                          "membersMayUse.templates in the cluster's settings."))
        return found

    def template(self) -> dict[str, Any] | None:
        """The Framework of configPath. Raises ValueError with a sentence."""
        return None if self.config_path is None else read_template(self.config_path)

    def task_roles_in_use(self) -> tuple[TaskRoleSettings, ...]:
        """The roles of the file, else those of the template. Raises ValueError."""
        template = None if self.task_roles else self.template()
        return self.task_roles if template is None else roles_of_template(template)

    def roles(self) -> dict[str, RoleSettings]:
        in_use = self.task_roles_in_use()
        if not in_use:
            return {}
        roles = {role.name: role for role in in_use}
        first = next((name for name in REPORTING_NAMES if name in roles), None) or next(
            (role.name for role in in_use
             if (policy := role.completion_policy) and policy.min_succeed_task_count > 0),
            in_use[0].name)
        return {first: roles[first], **roles}

    def why_no_place(self) -> str:
        return "configPath may ask for anything" if self.config_path is not None else super().why_no_place()

    def with_gpus(self, gpu_number: int | None) -> Self:
        try:
            return super(FrameworkControllerTrialOptions, self.model_copy(
                update={"task_roles": self.task_roles_in_use()})).with_gpus(gpu_number)
        except ValueError:  # the template cannot be read: said by the check before a launch
            return self

    def gpus_of_a_trial(self, gpu_number: int | None) -> int:
        try:
            return super().gpus_of_a_trial(gpu_number)
        except ValueError:  # the template cannot be read: said by the check before a launch
            return gpu_number or 0

    def cpus_of_a_trial(self) -> float:
        try:
            return super().cpus_of_a_trial()
        except ValueError:  # the template cannot be read: said by the check before a launch
            return 1.0

    def own_command(self) -> str:
        try:
            return super().own_command()
        except ValueError:  # the template cannot be read: said by the check before a launch
            return "true"
