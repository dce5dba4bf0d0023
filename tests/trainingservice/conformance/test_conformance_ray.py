"""The ray platform passes the suite that every platform passes, on a double of a head and on a real one."""

import pytest

from tests.fakes.ray_dashboard import RayDashboard
from tests.fakes.ray_head import RayHead
from trainingservice.ray.config import RayClusterSettings, RayTrialOptions
from trainingservice.ray.service import RayTrainingService
from trainingservice.testing.conformance import PlatformUnderTest, TrainingServiceConformance


class QuickRay(RayTrainingService):
    """Asks as often as no real cluster would like."""

    poll_interval = (0.05, 0.3)
    lost_after = 0.5
    not_there_yet = 0.5


class WithHead(PlatformUnderTest):
    def __init__(self, folder, head):
        super().__init__(folder)
        self.head = head

    def settings(self, **more):
        return RayClusterSettings(**{"address": self.head.address, **more})

    def new_service(self, context):
        return QuickRay(self.settings(), context)


class RayUnderTest(WithHead):
    def __init__(self, folder):
        super().__init__(folder, RayDashboard(folder).start())

    def options(self):
        return RayTrialOptions()

    def left_behind(self, experiment_id):
        return [job.id for job in list(self.head.jobs.values())
                if (job.body.get("metadata") or {}).get("nni_experiment") == experiment_id]


@pytest.mark.slow
class TestRay(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        platform = RayUnderTest(tmp_path / "platform")
        yield platform
        platform.head.end()


class OnRealHead(WithHead):
    def options(self):
        return RayTrialOptions(cpus=0.5)

    def left_behind(self, experiment_id):
        return [row["submission_id"] for row in self.head.jobs()
                if (row.get("metadata") or {}).get("nni_experiment") == experiment_id]


@pytest.fixture(scope="module")
def real_head():
    with RayHead() as head:
        yield head


@pytest.mark.slow
@pytest.mark.timeout(300)
class TestRayHead(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path, real_head):
        return OnRealHead(tmp_path / "platform", real_head)
