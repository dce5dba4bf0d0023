"""Trials as AdaptDLJobs pass the suite that every platform passes."""

from __future__ import annotations

import pytest

from tests.fakes.kubernetes.adaptdl import ADAPTDL_KINDS, AdaptDlScheduler
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.under_test import AdlUnderTest
from trainingservice.testing.conformance import TrainingServiceConformance


@pytest.mark.slow
class TestAdl(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        with KubernetesApiDouble(tmp_path / "cluster", controllers=[AdaptDlScheduler()],
                                 kinds=ADAPTDL_KINDS) as cluster:
            yield AdlUnderTest(tmp_path / "platform", cluster)


@pytest.mark.slow
class TestAdaptiveAdl(TrainingServiceConformance):
    """A replica that may be stopped and started again."""

    @pytest.fixture
    def platform(self, tmp_path):
        with KubernetesApiDouble(tmp_path / "cluster", controllers=[AdaptDlScheduler()],
                                 kinds=ADAPTDL_KINDS) as cluster:
            platform = AdlUnderTest(tmp_path / "platform", cluster)
            platform.roles = {"adaptive": True}
            yield platform
