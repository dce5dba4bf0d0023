"""The local platform passes the suite with trials that run in containers of the real podman."""

import pytest

from tests.trainingservice.containers.conftest import InContainers, podman, real_podman  # noqa: F401
from trainingservice.testing.conformance import TrainingServiceConformance


class InContainersHere(InContainers):
    #: Trials write to no place of the test, but to those that are mounted.
    runs_here = False


@pytest.mark.slow
class TestLocalInContainers(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, podman, tmp_path):  # noqa: F811
        return InContainersHere(tmp_path / "platform")
