"""The example for OAR of docs/platforms/command.md passes the suite of every platform, on a real OAR."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.fakes.schedulers.oar import Oar
from tests.trainingservice.command.scheduler_under_test import SchedulerUnderTest
from trainingservice.testing.conformance import TrainingServiceConformance

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def oar() -> Iterator[Oar]:
    with Oar() as oar:
        yield oar


class TestOar(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, oar, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", f"{oar.programs}:{os.environ['PATH']}")
        return SchedulerUnderTest(tmp_path / "platform", "OAR", oar.job_names)
