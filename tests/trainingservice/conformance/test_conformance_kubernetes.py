"""Trials as plain Jobs of Kubernetes pass the suite that every platform passes."""

from __future__ import annotations

import pytest

from tests import real_kubernetes
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.under_test import JobsUnderTest
from trainingservice.testing.conformance import TrainingServiceConformance


class TestKubernetes(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        with KubernetesApiDouble(tmp_path / "cluster") as cluster:
            yield JobsUnderTest(tmp_path / "platform", cluster)


if real_kubernetes.IS_GIVEN:
    class TestRealKubernetes(real_kubernetes.OnRealClusterConformance):
        @pytest.fixture
        def platform(self, tmp_path):
            return real_kubernetes.RealJobs(tmp_path / "platform")
