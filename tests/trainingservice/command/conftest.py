"""A bench with the command platform on it: a tiny scheduler, trials that report to a KeeperReceiver."""

import pytest

from tests.trainingservice import jobs_of_tests
from tests.trainingservice.test_conformance_command import CommandUnderTest
from trainingservice.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench


@pytest.fixture
def platform(tmp_path):
    return CommandUnderTest(tmp_path / "platform")


@pytest.fixture
def scheduler(platform):
    return platform.scheduler


@pytest.fixture
def bench(platform, tmp_path):
    with KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(platform, receiver, tmp_path)
        yield bench
        bench.close()


@pytest.fixture
def lasting(bench):
    """A job that notes its start and works until it is let go: form, file of starts, file to let it go."""
    return jobs_of_tests.lasting(bench)
