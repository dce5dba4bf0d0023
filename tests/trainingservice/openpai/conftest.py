"""A bench with the openpai platform on it: a double of a cluster, trials that report to a KeeperReceiver."""

import pytest

from tests.trainingservice.test_conformance_openpai import OpenPaiUnderTest
from trainingservice.keeper_receiver import KeeperReceiver
from trainingservice.openpai import api
from trainingservice.testing.bench import Bench


@pytest.fixture
def platform(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "RETRY_AFTER_REFUSAL", 0.2)  # long on purpose, so that a cluster is not pestered
    platform = OpenPaiUnderTest(tmp_path / "platform")
    yield platform
    platform.cluster.end()


@pytest.fixture
def cluster(platform):
    return platform.cluster


@pytest.fixture
def bench(platform, tmp_path):
    with KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(platform, receiver, tmp_path)
        yield bench
        bench.close()


def name_of(form):
    return f"nni_exp_{form.experiment_id}_trial_{form.job_name}"
