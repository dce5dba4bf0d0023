"""What a configuration file may say about trials that are plain Jobs of Kubernetes."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from trainingservice.kubernetes_base.config import (
    KubernetesClusterSettings,
    KubernetesPlaceOptions,
    RoleSettings,
)
from trainingservice.places.options import STAYS


class JobClusterSettings(KubernetesClusterSettings):
    """A namespace of a cluster; no operator is needed there."""

    platform_name: ClassVar[str] = "kubernetes"
    reuse_mode_meaning: ClassVar[str] = f"{STAYS}; otherwise each trial has pods of its own"


class JobTrialOptions(KubernetesPlaceOptions):
    """One role, called worker as in NNI's Kubeflow files; with several replicas the first one reports."""

    worker: RoleSettings = Field(default=RoleSettings(), description="The pods of a trial.")

    def roles(self) -> dict[str, RoleSettings]:
        return {"worker": self.worker}
