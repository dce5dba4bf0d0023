"""The slurm platform passes the suite that every platform passes, on a real Slurm; here and through a login node."""

from collections.abc import Iterator

import pytest

from tests.fakes.slurm_cluster import SlurmCluster
from tests.fakes.ssh_machine import SshMachine
from tests.trainingservice.conformance.collected_conformance import CollectedConformance
from tests.trainingservice.slurm.slurm_under_test import SlurmUnderTest
from trainingservice.testing.conformance import TrainingServiceConformance

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with SlurmCluster(nodes=2) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def commands_find_it(cluster, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", str(cluster.config))


class TestSlurm(TrainingServiceConformance):
    """Commands are run here, and keepers call the server."""

    @pytest.fixture
    def platform(self, cluster, tmp_path):
        return SlurmUnderTest(tmp_path / "platform", cluster)


class TestSlurmThroughLoginNode(CollectedConformance):
    """Commands are run on a login node, and reports come home by its folder."""

    @pytest.fixture
    def platform(self, cluster, tmp_path, tmp_path_factory):
        machine = SshMachine(tmp_path_factory.mktemp("machine") / "login")
        machine.variables["SLURM_CONF"] = str(cluster.config)
        with machine:
            yield SlurmUnderTest(tmp_path / "platform", cluster, login_node=machine.login(), channel="storage")
