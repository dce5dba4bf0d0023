"""The openpai platform passes the suite that every platform passes, by both of its channels."""

import pytest

from tests.fakes.container_process import ContainerProcess
from tests.fakes.openpai.cluster import OpenPaiCluster
from tests.trainingservice.conformance.collected_conformance import StorageConformance
from trainingservice.openpai.config import OpenPaiClusterSettings, OpenPaiTrialOptions
from trainingservice.openpai.service import OpenPaiTrainingService
from trainingservice.testing.conformance import PlatformUnderTest, TrainingServiceConformance


class QuickOpenPai(OpenPaiTrainingService):
    """Asks as often as no real cluster would like."""

    poll_interval = (0.05, 0.3)


class OpenPaiUnderTest(PlatformUnderTest):
    channel = "auto"

    def __init__(self, folder):
        super().__init__(folder)
        self.cluster = OpenPaiCluster(folder).start()

    def settings(self, **more):
        return OpenPaiClusterSettings(
            host=self.cluster.address, username=self.cluster.user, storage_config_name="shared",
            local_storage_mount_point=self.cluster.export, container_storage_mount_point=str(self.cluster.mount),
            **({} if "password" in more else {"token": self.cluster.token}), **more)

    def new_service(self, context):
        return QuickOpenPai(self.settings(), context)

    def options(self):
        return OpenPaiTrialOptions(channel=self.channel)

    def left_behind(self, experiment_id):
        return [str(path) for path in self.cluster.export.rglob("*") if experiment_id in path.parts]


    def jobs_have_ended(self):
        return all(job.state == "SUCCEEDED" for job in self.cluster.jobs.values())

    def second_container(self, form, folder, ended):
        containers = self.cluster.folder / "containers" / f"nni_exp_{form.experiment_id}_trial_{form.job_name}"
        return ContainerProcess(["bash", str(next(containers.glob("*/user.sh")))], folder, {}, ended)


class ThroughStorage(OpenPaiUnderTest):
    channel = "storage"


class WithoutStorage(OpenPaiUnderTest):
    """Keeper, job and code come from the server, as on the clusters of NNI's first files."""

    def settings(self, **more):
        whole = super().settings(**more)
        return whole.model_copy(update=dict.fromkeys(
            ("storage_config_name", "local_storage_mount_point", "container_storage_mount_point")))

    def left_behind(self, experiment_id):
        """Nothing but what runs: OpenPAI removes no record of a job."""
        return [job.name for job in self.cluster.jobs.values()
                if experiment_id in job.name and job.state in ("WAITING", "RUNNING", "STOPPING")]


class TestOpenPai(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        platform = OpenPaiUnderTest(tmp_path / "platform")
        yield platform
        platform.cluster.end()


@pytest.mark.slow
class TestOpenPaiWithoutStorage(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        platform = WithoutStorage(tmp_path / "platform")
        yield platform
        platform.cluster.end()


@pytest.mark.slow
class TestOpenPaiThroughStorage(StorageConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        platform = ThroughStorage(tmp_path / "platform")
        yield platform
        platform.cluster.end()
