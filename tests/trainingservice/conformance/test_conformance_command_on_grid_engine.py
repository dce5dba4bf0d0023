"""The example for SGE of docs/platforms/command.md passes the suite of every platform, on a real Grid Engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.schedulers.grid_engine import GridEngine
from tests.fakes.ssh_machine import SshMachine
from tests.trainingservice.command.scheduler_under_test import SchedulerUnderTest
from tests.trainingservice.conformance.collected_conformance import CollectedConformance
from trainingservice.testing.conformance import TrainingServiceConformance

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def engine() -> Iterator[GridEngine]:
    with GridEngine() as engine:
        yield engine


class TestGridEngine(TrainingServiceConformance):
    """Commands are run here, and keepers call the server."""

    @pytest.fixture
    def platform(self, engine, tmp_path, monkeypatch):
        for name, value in engine.variables.items():
            monkeypatch.setenv(name, value)
        return SchedulerUnderTest(tmp_path / "platform", "SGE", engine.job_names)


class TestGridEngineThroughLoginNode(CollectedConformance):
    """Commands are run on a login node, and reports come home by its folder."""

    @pytest.fixture
    def platform(self, engine, tmp_path, tmp_path_factory):
        machine = SshMachine(tmp_path_factory.mktemp("machine") / "login")
        machine.variables |= engine.variables
        with machine:
            yield SchedulerUnderTest(tmp_path / "platform", "SGE", engine.job_names, login_node=machine.login(),
                                     channel="storage")
