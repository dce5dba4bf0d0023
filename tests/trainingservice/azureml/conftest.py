"""A bench with the azureml platform on it: the vendor's SDK, a double of the service, trials that report."""

import pytest

from tests.trainingservice.test_conformance_azureml import AzureMlUnderTest
from tests.trainingservice.test_conformance_azureml import make_platform as make_platform
from trainingservice.azureml import workspace as workspace_module
from trainingservice.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench


@pytest.fixture
def platform(make_platform, monkeypatch):
    monkeypatch.setattr(workspace_module, "RETRY_AFTER_REFUSAL", 0.2)  # long on purpose
    return make_platform(AzureMlUnderTest)


@pytest.fixture
def workspace(platform):
    return platform.workspace


@pytest.fixture
def bench(platform, tmp_path):
    with KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(platform, receiver, tmp_path)
        yield bench
        bench.close()
