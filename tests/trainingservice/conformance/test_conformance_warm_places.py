"""Platforms pass the suite with jobs that may stay as warm places, beside a server that has nothing more for them."""

from collections.abc import Iterator

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.under_test import FrameworksUnderTest, JobsUnderTest
from tests.fakes.slurm_cluster import SlurmCluster
from tests.trainingservice.conformance.test_conformance_azureml import AzureMlUnderTest
from tests.trainingservice.conformance.test_conformance_dlts import DltsUnderTest
from tests.trainingservice.conformance.test_conformance_openpai import OpenPaiUnderTest
from tests.trainingservice.slurm.slurm_under_test import SlurmUnderTest
from trainingservice.azureml.config import AzureMlTrialOptions
from trainingservice.dlts.config import DltsTrialOptions
from trainingservice.frameworkcontroller.task_roles import TaskRoleSettings
from trainingservice.kubernetes_base.config import RoleSettings
from trainingservice.openpai.config import OpenPaiTrialOptions
from trainingservice.testing.conformance import TrainingServiceConformance

pytestmark = pytest.mark.slow


class TestPlacesOnKubernetes(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path) -> Iterator[JobsUnderTest]:
        with KubernetesApiDouble(tmp_path / "cluster") as cluster:
            platform = JobsUnderTest(tmp_path / "platform", cluster)
            platform.roles = {"worker": RoleSettings(docker_image=platform.image), "reuse_mode": True}
            yield platform


class TestPlacesOfFrameworkController(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path) -> Iterator[FrameworksUnderTest]:
        with KubernetesApiDouble(tmp_path / "cluster", controllers=[FrameworkController()],
                                 kinds=FRAMEWORK_KINDS) as cluster:
            platform = FrameworksUnderTest(tmp_path / "platform", cluster)
            platform.roles = {"task_roles": (TaskRoleSettings(name="worker", docker_image=platform.image),),
                              "reuse_mode": True}
            yield platform


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with SlurmCluster() as cluster:
        yield cluster


class TestPlacesOnSlurm(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, cluster, tmp_path, monkeypatch) -> SlurmUnderTest:
        monkeypatch.setenv("SLURM_CONF", str(cluster.config))
        return SlurmUnderTest(tmp_path / "platform", cluster, reuse_mode=True)


class _OnOpenPai(OpenPaiUnderTest):
    def options(self) -> OpenPaiTrialOptions:
        return OpenPaiTrialOptions(channel="http", reuse_mode=True)


class TestPlacesOnOpenPai(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path) -> Iterator[OpenPaiUnderTest]:
        platform = _OnOpenPai(tmp_path / "platform")
        yield platform
        platform.cluster.end()


class _OnDlts(DltsUnderTest):
    def options(self) -> DltsTrialOptions:
        return DltsTrialOptions(channel="http", reuse_mode=True)


class TestPlacesOnDlts(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path) -> Iterator[DltsUnderTest]:
        platform = _OnDlts(tmp_path / "platform")
        yield platform
        platform.dashboard.end()


class _OnAzureMl(AzureMlUnderTest):
    def options(self) -> AzureMlTrialOptions:
        return AzureMlTrialOptions(channel="http", reuse_mode=True)


class TestPlacesOnAzureMl(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path, monkeypatch) -> Iterator[AzureMlUnderTest]:
        platform = _OnAzureMl(tmp_path / "platform")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(platform.workspace.authority))
        monkeypatch.setenv("AZUREML_CURRENT_CLOUD", "AzureCloud")  # the SDK changes it: put back after the test
        yield platform
        platform.workspace.end()
