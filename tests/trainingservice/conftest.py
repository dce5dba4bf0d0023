"""A bench with a platform on it: trials that report to a KeeperReceiver. ``platform`` is a fixture of each folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainingservice import jobs_of_tests
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench, PlatformUnderTest
from trainingservice.trial_job import JobApplicationForm


@pytest.fixture
def bench(platform: PlatformUnderTest, tmp_path: Path) -> Iterator[Bench]:
    with KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(platform, receiver, tmp_path)
        yield bench
        bench.close()


@pytest.fixture
def lasting(bench: Bench) -> tuple[JobApplicationForm, Path, Path]:
    """A job that notes its start and works until it is let go: form, file of starts, file to let it go."""
    return jobs_of_tests.lasting(bench)
