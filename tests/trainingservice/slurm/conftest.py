"""A bench with the slurm platform on it, and a real Slurm for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.slurm_cluster import SlurmCluster
from tests.trainingservice.slurm.slurm_under_test import SlurmUnderTest
from trainingservice.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """With the lines of slurm.conf that the file of tests names in SLURM."""
    with SlurmCluster(**getattr(request.module, "SLURM", {})) as cluster:
        yield cluster


@pytest.fixture
def bench(tmp_path: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("SLURM_CONF", str(cluster.config))
    with KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(SlurmUnderTest(tmp_path / "platform", cluster), receiver, tmp_path)
        yield bench
        bench.close()
