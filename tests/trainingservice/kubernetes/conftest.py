"""Plain Jobs for benches: a double of the Kubernetes API whose pods are real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.under_test import JobsUnderTest
from trainingservice.kubernetes_base import mirror


@pytest.fixture
def cluster(tmp_path, monkeypatch) -> Iterator[KubernetesApiDouble]:
    # what is slow on purpose, so that a broken API server is not pestered, would be slow in a test too
    monkeypatch.setattr(mirror, "PAUSES", (0.1, 1.0))
    with KubernetesApiDouble(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
def platform(tmp_path, cluster) -> JobsUnderTest:
    return JobsUnderTest(tmp_path / "platform", cluster)
