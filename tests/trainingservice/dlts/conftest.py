"""A bench with the dlts platform on it: a double of a dashboard, trials that report to a KeeperReceiver."""

import pytest

from tests.trainingservice import jobs_of_tests
from tests.trainingservice.test_conformance_dlts import DltsUnderTest
from trainingservice.dlts import api
from trainingservice.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench


@pytest.fixture
def platform(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "RETRY_AFTER_REFUSAL", 0.2)  # long on purpose, so that a dashboard is not pestered
    for name in ("DLTS_JOB_ID", "DLWS_VC_NAME", "DLWS_USER_EMAIL", "DLTS_JOB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    platform = DltsUnderTest(tmp_path / "platform")
    yield platform
    platform.dashboard.end()


@pytest.fixture
def dashboard(platform):
    return platform.dashboard


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
