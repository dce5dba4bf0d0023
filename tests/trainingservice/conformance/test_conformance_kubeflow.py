"""Trials on Kubeflow pass the suite that every platform passes: one worker of tf-operator, one node of Trainer."""

from __future__ import annotations

import pytest

from tests import real_kubernetes
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.kubeflow import (
    KUBEFLOW_KINDS,
    TRAINER_KINDS,
    TrainJobController,
    kubeflow_controllers,
)
from tests.fakes.kubernetes.under_test import KubeflowUnderTest
from trainingservice.kubernetes_base.config import RoleSettings
from trainingservice.testing.conformance import TrainingServiceConformance


@pytest.mark.slow
class TestKubeflow(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        with KubernetesApiDouble(tmp_path / "cluster", controllers=kubeflow_controllers(),
                                 kinds=KUBEFLOW_KINDS) as cluster:
            yield KubeflowUnderTest(tmp_path / "platform", cluster)


class OnPyTorchJobs(KubeflowUnderTest):
    """pytorch-operator with a master."""

    operator = "pytorch-operator"

    def __init__(self, folder, cluster) -> None:
        super().__init__(folder, cluster)
        self.roles = {"master": RoleSettings(docker_image=self.image)}


@pytest.fixture
def pytorch_jobs(tmp_path):
    with KubernetesApiDouble(tmp_path / "cluster", controllers=kubeflow_controllers(), kinds=KUBEFLOW_KINDS) as cluster:
        yield OnPyTorchJobs(tmp_path / "platform", cluster)


@pytest.mark.slow
class TestKubeflowPyTorchJobs(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, pytorch_jobs):
        return pytorch_jobs


@pytest.mark.slow
class TestKubeflowPyTorchJobsWithWorkers(TrainingServiceConformance):
    """Workers that never end by themselves run beside the master that reports."""

    @pytest.fixture
    def platform(self, pytorch_jobs):
        pytorch_jobs.roles["worker"] = RoleSettings(docker_image="example/trial:1", replicas=2, command="sleep 600")
        return pytorch_jobs


@pytest.mark.slow
class TestKubeflowTrainer(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        with KubernetesApiDouble(tmp_path / "cluster", controllers=[TrainJobController()],
                                 kinds=TRAINER_KINDS) as cluster:
            platform = KubeflowUnderTest(tmp_path / "platform", cluster)
            platform.operator = "pytorch-operator"
            platform.roles = {"master": RoleSettings(docker_image="example/trial:1")}
            yield platform


@pytest.mark.slow
class TestKubeflowWithServers(TrainingServiceConformance):
    """A parameter server that never ends by itself runs beside the worker that reports."""

    @pytest.fixture
    def platform(self, tmp_path):
        with KubernetesApiDouble(tmp_path / "cluster", controllers=kubeflow_controllers(),
                                 kinds=KUBEFLOW_KINDS) as cluster:
            platform = KubeflowUnderTest(tmp_path / "platform", cluster)
            platform.roles = {"worker": RoleSettings(docker_image="example/trial:1"),
                              "ps": RoleSettings(docker_image="example/trial:1", command="sleep 600")}
            yield platform


if real_kubernetes.IS_GIVEN:
    class TestRealKubeflow(real_kubernetes.OnRealClusterConformance):
        @pytest.fixture
        def platform(self, tmp_path):
            return real_kubernetes.RealKubeflow(tmp_path / "platform")
