"""A bench with the local platform on it. Trials are real and report to a KeeperReceiver."""

from pathlib import Path

import pytest

from tests.fakes.nvidia_smi import FakeNvidiaSmi
from trainingservice import gpu_watch
from trainingservice.keeper_receiver import KeeperReceiver
from trainingservice.local.config import LocalClusterSettings, LocalTrialOptions
from trainingservice.local.service import LocalTrainingService
from trainingservice.testing.bench import Bench, PlatformUnderTest


class LocalUnderTest(PlatformUnderTest):
    metadata_example = ("local_config", '{"gpuIndices": "0,1", "maxTrialNumPerGpu": 2, "useActiveGpu": true}')

    def new_service(self, context):
        self.state_folder = context.state_folder
        return LocalTrainingService(LocalClusterSettings(), context)

    def options(self):
        return LocalTrialOptions()

    def left_behind(self, experiment_id):
        places = [self.state_folder / "trials" / experiment_id, self.state_folder / "code" / experiment_id]
        return [str(path) for path in places if path.exists()]


@pytest.fixture
def bench(tmp_path):
    platform = tmp_path / "platform"
    platform.mkdir()
    with KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(LocalUnderTest(platform), receiver, tmp_path)
        yield bench
        bench.close()


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch):
    """A machine with two GPUs that is looked at often."""
    monkeypatch.setattr(gpu_watch, "BUSY_INTERVAL", 0.3)
    return FakeNvidiaSmi(tmp_path / "nvidia", monkeypatch)


@pytest.fixture
def service(bench):
    return bench.open_service()
