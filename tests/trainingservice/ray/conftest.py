"""The ray platform for benches: a double of a head."""

import pytest

from tests.trainingservice.conformance.test_conformance_ray import RayUnderTest
from trainingservice.ray import api


@pytest.fixture
def platform(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "RETRY_AFTER_REFUSAL", 0.2)  # long on purpose
    platform = RayUnderTest(tmp_path / "platform")
    yield platform
    platform.head.end()


@pytest.fixture
def head(platform):
    return platform.head
