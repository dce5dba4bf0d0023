"""The plug-in in NNI's style passes the cases of services without keepers."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainingservice.base import ServiceContext, TrainingService
from trainingservice.cluster_settings import ClusterSettings
from trainingservice.testing.conformance import ListenerConformance, PlatformUnderTest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "my_platform"


class SmallPlatformUnderTest(PlatformUnderTest):
    def new_service(self, context: ServiceContext) -> TrainingService:
        from my_platform.small_service import SmallTrainingService

        return SmallTrainingService(ClusterSettings(), context)

    def left_behind(self, experiment_id: str) -> list[str]:
        return []


class TestSmallPlatform(ListenerConformance):
    @pytest.fixture
    def platform(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallPlatformUnderTest]:
        monkeypatch.syspath_prepend(EXAMPLE)
        yield SmallPlatformUnderTest(tmp_path / "platform")
        for name in [name for name in sys.modules if name.partition(".")[0] == "my_platform"]:
            del sys.modules[name]
