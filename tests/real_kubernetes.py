"""A Kubernetes cluster of yours for the conformance suites, in place of the double.

``NNIWEB_TEST_KUBECONFIG`` names its kubeconfig, ``NNIWEB_TEST_HOST`` an address of this machine that pods can reach.
``NNIWEB_TEST_NAMESPACE`` (default), ``NNIWEB_TEST_IMAGE`` (python:3.11-slim) and ``NNIWEB_TEST_OPERATOR`` (tf-operator)
may be set. Trials do not run on this machine then, so cases that look at their processes are skipped.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.kubernetes.under_test import FrameworksUnderTest, JobsUnderTest, KubeflowUnderTest, OnKubernetes
from trainingservice.kubernetes_base.api import PODS, SECRETS, ApiAccess, KubernetesApi
from trainingservice.kubernetes_base.config import RoleSettings
from trainingservice.kubernetes_base.service import KubernetesService
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.conformance import TrainingServiceConformance

IS_GIVEN = bool(os.environ.get("NNIWEB_TEST_KUBECONFIG"))
NAMESPACE = os.environ.get("NNIWEB_TEST_NAMESPACE", "default")


class OnRealCluster(OnKubernetes):
    """Comes before the platform's own class among the bases."""

    runs_here = False
    image = os.environ.get("NNIWEB_TEST_IMAGE", "python:3.11-slim")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, None)
        self._kubeconfig = Path(os.environ["NNIWEB_TEST_KUBECONFIG"])
        self._api = KubernetesApi(ApiAccess(self._kubeconfig))
        self._service: KubernetesService | None = None

    def settings(self) -> dict[str, Any]:
        return {"kubeconfig": self._kubeconfig, "namespace": NAMESPACE, **self.more}

    def new_service(self, context):
        self._service = super().new_service(context)
        return self._service

    def left_behind(self, experiment_id: str) -> list[str]:
        return [f"{resource.plural}/{item['metadata']['name']}"
                for resource in (self._service.kind.resource, SECRETS, PODS)
                for item in self._api.call("GET", resource.path(NAMESPACE), query={
                    "labelSelector": f"nniweb/experiment={experiment_id}"}).get("items") or []]


class RealJobs(OnRealCluster, JobsUnderTest):
    pass


class RealKubeflow(OnRealCluster, KubeflowUnderTest):
    operator = os.environ.get("NNIWEB_TEST_OPERATOR", "tf-operator")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.roles = {"master" if self.operator == "pytorch-operator" else "worker": RoleSettings(
            docker_image=self.image)}


class RealFrameworks(OnRealCluster, FrameworksUnderTest):
    pass


class OnRealClusterConformance(TrainingServiceConformance):
    """Everything but the fixture ``platform``."""

    @pytest.fixture
    def keeper_server(self, tmp_path):
        with KeeperReceiver(installation="conformance", folder=tmp_path / "receiver",
                            host=os.environ["NNIWEB_TEST_HOST"]) as receiver:
            yield receiver
