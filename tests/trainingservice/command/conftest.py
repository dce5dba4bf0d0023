"""The command platform for benches: a tiny scheduler."""

import pytest

from tests.trainingservice.conformance.test_conformance_command import CommandUnderTest


@pytest.fixture
def platform(tmp_path):
    return CommandUnderTest(tmp_path / "platform")


@pytest.fixture
def scheduler(platform):
    return platform.scheduler
