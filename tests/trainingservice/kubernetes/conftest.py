"""A bench with plain Jobs on it: a double of the Kubernetes API whose pods are real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.kubernetes_api import KubernetesApiDouble
from tests.fakes.kubernetes_under_test import JobsUnderTest
from trainingservice.keeper_receiver import KeeperReceiver
from trainingservice.kubernetes_base import mirror
from trainingservice.testing.bench import Bench


@pytest.fixture
def cluster(tmp_path, monkeypatch) -> Iterator[KubernetesApiDouble]:
    # what is slow on purpose, so that a broken API server is not pestered, would be slow in a test too
    monkeypatch.setattr(mirror, "PAUSES", (0.1, 1.0))
    with KubernetesApiDouble(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
def bench(tmp_path, cluster) -> Iterator[Bench]:
    with KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(JobsUnderTest(tmp_path / "platform", cluster), receiver, tmp_path)
        yield bench
        bench.close()
