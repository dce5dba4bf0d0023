"""The tests every platform passes, in one class. Fill the fixture ``platform`` and inherit:

    class MyPlatformUnderTest(PlatformUnderTest):
        def new_service(self, context): return MyTrainingService(MySettings(...), context)
        def left_behind(self, experiment_id): ...

    class TestMyPlatform(TrainingServiceConformance):
        @pytest.fixture
        def platform(self, tmp_path):
            return MyPlatformUnderTest(tmp_path / "platform")

Trials are real: the platform runs real keepers, which report to the fixture ``keeper_server`` (a
``KeeperReceiver``; override it to test against another server of the protocol). After each test
all jobs are ended and no process may be left on this machine.

A service without keepers (``keepers_report`` is False) inherits ``ListenerConformance`` instead: what it tells its
listeners and says of its jobs is all that a host has.
"""

from __future__ import annotations

from trainingservice.testing.bench import Bench, PlatformUnderTest
from trainingservice.testing.cases.checkpoints import CheckpointCases
from trainingservice.testing.cases.code import CodeCases
from trainingservice.testing.cases.ending import EndingCases
from trainingservice.testing.cases.listening import ListeningCases
from trainingservice.testing.cases.metrics import MetricCases
from trainingservice.testing.cases.nodes import NodeCases
from trainingservice.testing.cases.output_files import OutputFileCases
from trainingservice.testing.cases.returning import ReturningCases
from trainingservice.testing.cases.submitting import SubmittingCases

__all__ = ["Bench", "ListenerConformance", "PlatformUnderTest", "TrainingServiceConformance"]


class TrainingServiceConformance(SubmittingCases, CodeCases, MetricCases, OutputFileCases, EndingCases,
                                 CheckpointCases, NodeCases, ReturningCases):
    """Every case there is. See the module's text."""


class ListenerConformance(ListeningCases):
    """The cases of services without keepers. See the module's text."""
