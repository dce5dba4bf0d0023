"""Frameworks for benches: a double of the Kubernetes API with their controller."""

from __future__ import annotations

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.under_test import FrameworksUnderTest


@pytest.fixture
def cluster(tmp_path):
    with KubernetesApiDouble(tmp_path / "cluster", controllers=[FrameworkController()],
                             kinds=FRAMEWORK_KINDS) as cluster:
        yield cluster


@pytest.fixture
def platform(tmp_path, cluster):
    return FrameworksUnderTest(tmp_path / "platform", cluster)
