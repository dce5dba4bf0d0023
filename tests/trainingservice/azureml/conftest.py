"""The azureml platform for benches: the vendor's SDK, a double of the service."""

import pytest

from tests.trainingservice.conformance.test_conformance_azureml import AzureMlUnderTest
from tests.trainingservice.conformance.test_conformance_azureml import make_platform as make_platform
from trainingservice.azureml import workspace as workspace_module


@pytest.fixture
def platform(make_platform, monkeypatch):
    monkeypatch.setattr(workspace_module, "RETRY_AFTER_REFUSAL", 0.2)  # long on purpose
    return make_platform(AzureMlUnderTest)


@pytest.fixture
def workspace(platform):
    return platform.workspace
