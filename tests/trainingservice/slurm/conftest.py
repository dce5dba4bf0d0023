"""The slurm platform for benches, and a real Slurm for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.slurm_cluster import SlurmCluster
from tests.trainingservice.slurm.slurm_under_test import SlurmUnderTest


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """With the lines of slurm.conf that the file of tests names in SLURM."""
    with SlurmCluster(**getattr(request.module, "SLURM", {})) as cluster:
        yield cluster


@pytest.fixture
def platform(tmp_path: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmUnderTest:
    monkeypatch.setenv("SLURM_CONF", str(cluster.config))
    return SlurmUnderTest(tmp_path / "platform", cluster)
