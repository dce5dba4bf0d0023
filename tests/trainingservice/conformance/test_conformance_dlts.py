"""The dlts platform passes the suite that every platform passes, by both of its channels."""

import pytest

from tests.fakes.container_process import ContainerProcess
from tests.fakes.dlts_dashboard import DltsDashboard
from tests.trainingservice.conformance.collected_conformance import StorageConformance
from trainingservice.dlts.config import DltsClusterSettings, DltsTrialOptions
from trainingservice.dlts.service import DltsTrainingService
from trainingservice.testing.conformance import PlatformUnderTest, TrainingServiceConformance


class QuickDlts(DltsTrainingService):
    """Asks as often as no real cluster would like."""

    poll_interval = (0.05, 0.3)
    search_time = 0.5


class DltsUnderTest(PlatformUnderTest):
    channel = "auto"

    def __init__(self, folder):
        super().__init__(folder)
        self.dashboard = DltsDashboard(folder).start()

    def settings(self, **more):
        given = {"dashboard": self.dashboard.address, "team": "vision", "email": self.dashboard.email,
                 "password": self.dashboard.password, "local_storage_mount_point": self.dashboard.home,
                 "container_storage_mount_point": str(self.dashboard.home_there)}
        return DltsClusterSettings(**{**given, **more})

    def new_service(self, context):
        return QuickDlts(self.settings(), context)

    def options(self):
        return DltsTrialOptions(channel=self.channel)

    def left_behind(self, experiment_id):
        return [str(path) for path in self.dashboard.home.rglob("*") if experiment_id in path.parts]

    def jobs_have_ended(self):
        return all(job.status == "finished" for job in self.dashboard.jobs.values())

    def second_container(self, form, folder, ended):
        body = next(job.body for job in self.dashboard.jobs.values() if job.body["jobName"].endswith(form.job_name))
        return ContainerProcess(["bash", "-c", body["cmd"]], folder,
                                {entry["name"]: entry["value"] for entry in body["envs"]}, ended)


class ThroughStorage(DltsUnderTest):
    channel = "storage"


class TestDlts(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        platform = DltsUnderTest(tmp_path / "platform")
        yield platform
        platform.dashboard.end()


@pytest.mark.slow
class TestDltsThroughStorage(StorageConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        platform = ThroughStorage(tmp_path / "platform")
        yield platform
        platform.dashboard.end()
