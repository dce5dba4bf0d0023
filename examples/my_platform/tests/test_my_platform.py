"""The platform passes the suite that every platform passes, and holds what it says of its slots."""

import pytest
from my_platform.config import MyOptions, MySettings
from my_platform.service import MyTrainingService

from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.conformance import Bench, PlatformUnderTest, TrainingServiceConformance


class MyPlatformUnderTest(PlatformUnderTest):
    slots = 10

    def new_service(self, context):
        self.folder.mkdir(exist_ok=True)
        return MyTrainingService(MySettings(folder=self.folder, slots=self.slots), context)

    def options(self):
        return MyOptions(nice=1)

    def left_behind(self, experiment_id):
        return [str(path) for path in self.folder.rglob("*") if experiment_id in path.parts]


class TestMyPlatform(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        return MyPlatformUnderTest(tmp_path / "platform")


def test_no_more_trials_run_than_there_are_slots(tmp_path):
    platform = MyPlatformUnderTest(tmp_path / "platform")
    platform.slots = 1
    with KeeperReceiver() as receiver:
        bench = Bench(platform, receiver, tmp_path)
        service = bench.open_service()
        go = tmp_path / "go"
        first, second = bench.form(f'until [ -e "{go}" ]; do sleep 0.05; done'), bench.form("echo second")
        service.submit_trial_job(first)
        bench.wait("the first one runs", lambda: bench.entries(first, "started"))
        service.submit_trial_job(second)
        bench.wait("it says why it waits", lambda: "slots are taken" in service.get_trial_job(second.job_name).message)
        go.touch()
        bench.wait_for_end(service, second)
        bench.close()
