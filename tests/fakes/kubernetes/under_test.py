"""The platforms on Kubernetes as the conformance suite wants them, on a double of the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.kubernetes.api import KubernetesApiDouble
from trainingservice.adl.config import AdlClusterSettings, AdlTrialOptions
from trainingservice.adl.service import AdlTrainingService
from trainingservice.frameworkcontroller.config import (
    FrameworkControllerClusterSettings,
    FrameworkControllerTrialOptions,
)
from trainingservice.frameworkcontroller.service import FrameworkControllerTrainingService
from trainingservice.frameworkcontroller.task_roles import TaskRoleSettings
from trainingservice.kubeflow.config import KubeflowClusterSettings, KubeflowTrialOptions
from trainingservice.kubeflow.service import KubeflowTrainingService
from trainingservice.kubernetes.config import JobClusterSettings, JobTrialOptions
from trainingservice.kubernetes.service import KubernetesTrainingService
from trainingservice.kubernetes_base.config import RoleSettings
from trainingservice.testing.bench import PlatformUnderTest

#: What an experiment leaves may be one of these.
PLURALS = ("jobs", "tfjobs", "pytorchjobs", "mpijobs", "trainjobs", "frameworks", "adaptdljobs", "secrets",
           "configmaps", "persistentvolumeclaims", "pods")


class OnKubernetes(PlatformUnderTest):
    """What is changed in ``more`` and ``roles`` before a service is opened counts."""

    image = "example/trial:1"
    #: What the options say of roles; None for the one role that is said of each platform.
    roles: dict[str, Any] | None = None

    def __init__(self, folder: Path, cluster: KubernetesApiDouble) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.more: dict[str, Any] = {}

    def settings(self) -> dict[str, Any]:
        return {"kubeconfig": self.cluster.kubeconfig, **self.more}

    def left_behind(self, experiment_id: str) -> list[str]:
        return [f"{plural}/{item['metadata']['name']}" for plural in PLURALS for item in self.cluster.store.all(plural)
                if (item["metadata"].get("labels") or {}).get("nniweb/experiment") == experiment_id]


class JobsUnderTest(OnKubernetes):
    """One worker."""

    def new_service(self, context):
        return KubernetesTrainingService(JobClusterSettings(**self.settings()), context)

    def options(self):
        return JobTrialOptions(**self.roles or {"worker": RoleSettings(docker_image=self.image)})


class KubeflowUnderTest(OnKubernetes):
    """tf-operator with one worker."""

    operator = "tf-operator"

    def new_service(self, context):
        return KubeflowTrainingService(KubeflowClusterSettings(operator=self.operator, **self.settings()), context)

    def options(self):
        return KubeflowTrialOptions(**self.roles or {"worker": RoleSettings(docker_image=self.image)})


class FrameworksUnderTest(OnKubernetes):
    """One task."""

    def new_service(self, context):
        return FrameworkControllerTrainingService(FrameworkControllerClusterSettings(**self.settings()), context)

    def options(self):
        return FrameworkControllerTrialOptions(**self.roles or {
            "task_roles": (TaskRoleSettings(name="worker", docker_image=self.image),)})


class AdlUnderTest(OnKubernetes):
    """One replica, or as many as the scheduler gives."""

    def new_service(self, context):
        return AdlTrainingService(AdlClusterSettings(**self.settings()), context)

    def options(self):
        return AdlTrialOptions(**{"docker_image": self.image, "stop_grace_period": 0.0, **(self.roles or {})})
