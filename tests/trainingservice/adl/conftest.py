"""AdaptDLJobs for benches: a double of the Kubernetes API with AdaptDL's scheduler."""

from __future__ import annotations

import pytest

from tests.fakes.kubernetes.adaptdl import ADAPTDL_KINDS, AdaptDlScheduler
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.under_test import AdlUnderTest


@pytest.fixture
def scheduler():
    return AdaptDlScheduler()


@pytest.fixture
def cluster(tmp_path, scheduler):
    with KubernetesApiDouble(tmp_path / "cluster", controllers=[scheduler], kinds=ADAPTDL_KINDS) as cluster:
        yield cluster


@pytest.fixture
def platform(tmp_path, cluster):
    return AdlUnderTest(tmp_path / "platform", cluster)
