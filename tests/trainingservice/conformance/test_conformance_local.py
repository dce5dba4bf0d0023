"""The local platform passes the suite that every platform passes."""

import pytest

from trainingservice.local.config import LocalClusterSettings, LocalTrialOptions
from trainingservice.local.service import LocalTrainingService
from trainingservice.testing.conformance import PlatformUnderTest, TrainingServiceConformance


class LocalUnderTest(PlatformUnderTest):
    most_nodes = 2
    metadata_example = ("local_config", '{"gpuIndices": "0,1", "useActiveGpu": true}')
    snapshot_code = False

    def new_service(self, context):
        self.state_folder = context.state_folder
        return LocalTrainingService(LocalClusterSettings(), context)

    def options(self):
        return LocalTrialOptions(snapshot_code=self.snapshot_code)

    def left_behind(self, experiment_id):
        return [str(path) for path in self.state_folder.rglob("*") if experiment_id in path.parts]


class TestLocal(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        return LocalUnderTest(tmp_path / "platform")


def test_a_snapshot_gives_each_trial_a_copy_and_leaves_the_folder_alone(tmp_path, snapshot_bench):
    bench = snapshot_bench
    service = bench.open_service()
    code = bench.code({"data.txt": "as launched", ".nniignore": "*.log\n", "a.log": "ignored"})
    forms = [bench.form("ls -A; cat data.txt; echo changed > data.txt", code=code) for _ in range(2)]
    for form in forms:
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == ".nniignore\ndata.txt\nas launched"
    assert (code.folder / "data.txt").read_text() == "as launched"


@pytest.fixture
def snapshot_bench(tmp_path):
    from trainingservice.receiver.keeper_receiver import KeeperReceiver
    from trainingservice.testing.bench import Bench

    platform = LocalUnderTest(tmp_path / "platform")
    platform.snapshot_code = True
    with KeeperReceiver() as receiver:
        bench = Bench(platform, receiver, tmp_path)
        yield bench
        bench.close()
