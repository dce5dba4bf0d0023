"""The local platform for benches."""

from pathlib import Path

import pytest

from tests.fakes.nvidia_smi import FakeNvidiaSmi
from trainingservice.gpus import gpu_watch
from trainingservice.local.config import LocalClusterSettings, LocalTrialOptions
from trainingservice.local.service import LocalTrainingService
from trainingservice.testing.bench import PlatformUnderTest


class LocalUnderTest(PlatformUnderTest):
    most_nodes = 2
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
def platform(tmp_path):
    folder = tmp_path / "platform"
    folder.mkdir()
    return LocalUnderTest(folder)


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch):
    """A machine with two GPUs that is looked at often."""
    monkeypatch.setattr(gpu_watch, "BUSY_INTERVAL", 0.3)
    return FakeNvidiaSmi(tmp_path / "nvidia", monkeypatch)


@pytest.fixture
def service(bench):
    return bench.open_service()
