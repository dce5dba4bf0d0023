"""The task roles of a Framework, as configuration files and templates say them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field, model_validator

from trainingservice.cluster_settings import SettingsModel
from trainingservice.kubernetes_base.config import RoleSettings, longest_role_name
from trainingservice.refused_values import matching


class CompletionPolicy(SettingsModel):
    """When a role ends the whole Framework: so many failed or succeeded tasks; -1 switches a limit off."""

    min_failed_task_count: int = Field(default=1, ge=-1, description="The trial fails when this many tasks failed.")
    min_succeed_task_count: int = Field(
        default=-1, ge=-1, validation_alias=AliasChoices("minSucceedTaskCount", "minSucceededTaskCount"),
        description="The trial succeeds when this many tasks succeeded.")


class TaskRoleSettings(RoleSettings):
    """A task role."""

    name: Annotated[str, matching(r"[a-z0-9]{1,63}", "1 to 63 lower-case letters and digits")] = Field(
        description="Lower-case letters and digits.")
    replicas: int = Field(default=1, ge=1, le=10_000, alias="taskNumber", description="Number of tasks.")
    framework_attempt_completion_policy: CompletionPolicy | None = Field(
        default=None, description="When this role ends the trial. Default: when one task failed, or when one task of "
                                  "the reporting role succeeded.")
    attempt_completion_min_failed_tasks: int | None = Field(
        default=None, ge=-1, description="Name of frameworkAttemptCompletionPolicy.minFailedTaskCount in NNI 2.0 to "
                                         "2.4.")
    attempt_completion_min_succeeded_tasks: int | None = Field(
        default=None, ge=-1, validation_alias=AliasChoices("attemptCompletionMinSucceededTasks",
                                                           "attemptCompletionMinSucceedTasks"),
        description="Name of frameworkAttemptCompletionPolicy.minSucceedTaskCount in NNI 2.0 to 2.4.")

    @model_validator(mode="after")
    def _has_one_policy(self) -> TaskRoleSettings:
        if self._flat_policy and self.framework_attempt_completion_policy is not None:
            raise ValueError("give frameworkAttemptCompletionPolicy, or attemptCompletionMinFailedTasks and "
                             "attemptCompletionMinSucceededTasks as NNI 2.0 to 2.4 had them, not both")
        return self

    @property
    def _flat_policy(self) -> dict[str, int]:
        flat = {"min_failed_task_count": self.attempt_completion_min_failed_tasks,
                "min_succeed_task_count": self.attempt_completion_min_succeeded_tasks}
        return {name: count for name, count in flat.items() if count is not None}

    @property
    def completion_policy(self) -> CompletionPolicy | None:
        """When this role ends the trial, however the file spells it; None where it does not say."""
        return CompletionPolicy(**self._flat_policy) if self._flat_policy else self.framework_attempt_completion_policy


def with_fitting_names(roles: tuple[TaskRoleSettings, ...]) -> tuple[TaskRoleSettings, ...]:
    """The roles, if their pods can be named by them. Raises ValueError with the name of the role that does not fit."""
    seen: set[str] = set()
    for role in roles:
        longest = longest_role_name(role.replicas)
        if len(role.name) > longest:
            raise ValueError(f"role {role.name}: its name may have at most {longest} characters, because a pod's name "
                             "consists of trial, role and number and is limited to 63 characters")
        if role.name in seen:
            raise ValueError(f"role {role.name} is named twice")
        seen.add(role.name)
    return roles
