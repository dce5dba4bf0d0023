"""The real podman, one store for all tests of a process."""

from collections.abc import Iterator

import pytest

from tests.fakes.real_podman import IMAGE, RealPodman
from trainingservice.local.config import LocalClusterSettings, LocalTrialOptions
from trainingservice.local.service import LocalTrainingService
from trainingservice.testing.bench import PlatformUnderTest


class InContainers(PlatformUnderTest):
    most_nodes = 2

    def new_service(self, context):
        self.state_folder = context.state_folder
        return LocalTrainingService(LocalClusterSettings(), context)

    def options(self):
        return LocalTrialOptions(docker_image=IMAGE, image_pull="never", container_network="host")

    def left_behind(self, experiment_id):
        return [str(path) for path in self.state_folder.rglob("*") if experiment_id in path.parts]


@pytest.fixture(scope="session")
def real_podman(tmp_path_factory) -> Iterator[RealPodman]:
    podman = RealPodman(tmp_path_factory.mktemp("podman"))
    yield podman
    podman.close()


@pytest.fixture
def podman(real_podman, monkeypatch) -> Iterator[RealPodman]:
    for name, value in real_podman.variables.items():
        monkeypatch.setenv(name, value)
    yield real_podman
    assert real_podman.containers() == [], "nothing of a test may stay"


@pytest.fixture
def platform(podman, tmp_path):
    folder = tmp_path / "platform"
    folder.mkdir()
    return InContainers(folder)
