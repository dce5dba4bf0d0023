"""The dlts platform for benches: a double of a dashboard."""

import pytest

from tests.trainingservice.conformance.test_conformance_dlts import DltsUnderTest
from trainingservice.dlts import api


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
