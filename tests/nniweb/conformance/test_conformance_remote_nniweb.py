"""The remote platform passes the suite with nniweb as the server that keepers report to."""

import pytest

from tests.fakes.ssh_machine import SshMachine
from tests.nniweb.conformance.reports_to_nniweb import ReportsToNniweb
from tests.trainingservice.conformance.test_conformance_remote import RemoteUnderTest
from trainingservice.testing.conformance import TrainingServiceConformance


@pytest.mark.slow
class TestRemoteOnNniweb(ReportsToNniweb, TrainingServiceConformance):
    platform_name = "remote"

    @pytest.fixture
    def platform(self, tmp_path_factory):
        with SshMachine(tmp_path_factory.mktemp("machine") / "ada") as machine:
            yield RemoteUnderTest(machine)
