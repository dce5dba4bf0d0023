"""The remote platform passes the suite that every platform passes, on one machine behind a real sshd."""

import pytest

from tests.fakes.ssh_machine import SshMachine
from trainingservice.remote.config import RemoteClusterSettings, RemoteTrialOptions
from trainingservice.remote.service import RemoteTrainingService
from trainingservice.testing.conformance import PlatformUnderTest, TrainingServiceConformance


class RemoteUnderTest(PlatformUnderTest):
    metadata_example = ("host_keys", '{"10.0.0.5": "SHA256:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg"}')

    def __init__(self, machine):
        super().__init__(machine.home)  # what runs for it; its sshd lies elsewhere
        self.machine = machine

    def new_service(self, context):
        return RemoteTrainingService(RemoteClusterSettings(machine_list=(self.machine.settings(),)), context)

    def options(self):
        return RemoteTrialOptions()

    def left_behind(self, experiment_id):
        return [str(path) for path in self.machine.home.rglob("*") if experiment_id in path.parts]


class TestRemote(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path_factory):
        with SshMachine(tmp_path_factory.mktemp("machine") / "ada") as machine:
            machine.have_keeper()
            yield RemoteUnderTest(machine)
