"""Trials as Frameworks pass the suite that every platform passes."""

from __future__ import annotations

import pytest

from tests import real_kubernetes
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.under_test import FrameworksUnderTest
from trainingservice.frameworkcontroller.task_roles import TaskRoleSettings
from trainingservice.testing.conformance import TrainingServiceConformance


@pytest.mark.slow
class TestFrameworkController(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        with KubernetesApiDouble(tmp_path / "cluster", controllers=[FrameworkController()],
                                 kinds=FRAMEWORK_KINDS) as cluster:
            yield FrameworksUnderTest(tmp_path / "platform", cluster)


@pytest.mark.slow
class TestFrameworkControllerWithServers(TrainingServiceConformance):
    """A parameter server that never ends by itself runs beside the worker that reports."""

    @pytest.fixture
    def platform(self, tmp_path):
        with KubernetesApiDouble(tmp_path / "cluster", controllers=[FrameworkController()],
                                 kinds=FRAMEWORK_KINDS) as cluster:
            platform = FrameworksUnderTest(tmp_path / "platform", cluster)
            platform.roles = {"task_roles": (
                TaskRoleSettings(name="ps", docker_image="example/trial:1", command="sleep 600"),
                TaskRoleSettings(name="worker", docker_image="example/trial:1"))}
            yield platform


if real_kubernetes.IS_GIVEN:
    class TestRealFrameworkController(real_kubernetes.OnRealClusterConformance):
        @pytest.fixture
        def platform(self, tmp_path):
            return real_kubernetes.RealFrameworks(tmp_path / "platform")
