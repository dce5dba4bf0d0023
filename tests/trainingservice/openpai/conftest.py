"""The openpai platform for benches: a double of a cluster."""

import pytest

from tests.trainingservice.conformance.test_conformance_openpai import OpenPaiUnderTest
from trainingservice.openpai import api, rehearsal, token_doubt


@pytest.fixture
def platform(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "RETRY_AFTER_REFUSAL", 0.2)  # long on purpose, so that a cluster is not pestered
    monkeypatch.setattr(token_doubt, "RETRY_AFTER_DOUBT", 0.1)
    monkeypatch.setattr(rehearsal, "ASK_AGAIN_AFTER", (0.05, 0.05))
    platform = OpenPaiUnderTest(tmp_path / "platform")
    yield platform
    platform.cluster.end()


@pytest.fixture
def cluster(platform):
    return platform.cluster


def name_of(form):
    return f"nni_exp_{form.experiment_id}_trial_{form.job_name}"
