"""The command platform passes the suite that every platform passes, with a scheduler of a few lines of shell."""

import subprocess

import pytest

from tests.fakes.container_process import ContainerProcess
from tests.fakes.ssh_machine import SshMachine
from tests.fakes.tiny_scheduler import TinyScheduler
from tests.trainingservice.conformance.collected_conformance import StorageConformance
from trainingservice.command.config import CommandTrialOptions
from trainingservice.command.service import CommandTrainingService
from trainingservice.testing.conformance import PlatformUnderTest, TrainingServiceConformance


class QuickCommand(CommandTrainingService):
    """Asks as often as no real scheduler would like."""

    poll_interval = (0.1, 0.5)
    search_time = 0.5
    not_there_yet = 1.0
    gone_after = 2.0


class CommandUnderTest(PlatformUnderTest):
    channel = "auto"
    login_node = None

    def __init__(self, folder):
        super().__init__(folder)
        self.scheduler = TinyScheduler(folder)

    def new_service(self, context):
        return QuickCommand(self.scheduler.settings(login_node=self.login_node), context)

    def options(self):
        return CommandTrialOptions(channel=self.channel)

    def left_behind(self, experiment_id):
        return [str(path) for path in self.scheduler.shared.rglob("*") if experiment_id in path.parts]

    def jobs_have_ended(self):
        ids = [path.name for path in self.scheduler.jobs.iterdir()]
        listed = subprocess.run([self.scheduler.program, "list", *ids], capture_output=True, text=True, check=True)
        return not listed.stdout

    def second_container(self, form, folder, ended):
        script = next(self.scheduler.shared.glob(f"nniweb/*/{form.job_name}/job.sh"))
        return ContainerProcess(["sh", str(script)], folder, {}, ended)


class ThroughStorage(CommandUnderTest):
    channel = "storage"


@pytest.mark.slow
class TestCommand(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        return CommandUnderTest(tmp_path / "platform")


@pytest.mark.slow
class TestCommandThroughStorage(StorageConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        return ThroughStorage(tmp_path / "platform")


@pytest.mark.slow
class TestCommandOnLoginNode(StorageConformance):
    """Commands, files and reports all go through SSH."""

    @pytest.fixture
    def platform(self, tmp_path, tmp_path_factory):
        with SshMachine(tmp_path_factory.mktemp("login") / "node") as machine:
            platform = ThroughStorage(tmp_path / "platform")
            platform.login_node = machine.settings()
            yield platform
