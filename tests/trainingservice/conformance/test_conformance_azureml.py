"""The azureml platform passes the suite that every platform passes, with the vendor's SDK against a double over TLS."""

import pytest

from tests.fakes import azureml_workspace
from tests.fakes.azureml_workspace import AzureMlWorkspace
from tests.trainingservice.conformance.collected_conformance import CollectedConformance
from trainingservice.azureml.config import AzureMlClusterSettings, AzureMlTrialOptions
from trainingservice.azureml.service import AzureMlTrainingService
from trainingservice.testing.conformance import PlatformUnderTest, TrainingServiceConformance
from trainingservice.trial_job_status import TrialJobStatus


class QuickAzureMl(AzureMlTrainingService):
    """Asks as often as no real service would like."""

    poll_interval = (0.05, 0.3)
    log_interval = 0.1


class AzureMlUnderTest(PlatformUnderTest):
    channel = "auto"

    def __init__(self, folder):
        super().__init__(folder)
        self.workspace = AzureMlWorkspace(folder).start()

    def settings(self, **more):
        given = {"subscription_id": azureml_workspace.SUBSCRIPTION, "resource_group": azureml_workspace.GROUP,
                 "workspace_name": azureml_workspace.WORKSPACE, "compute_target": "cpu-cluster",
                 "tenant_id": azureml_workspace.TENANT, "client_id": azureml_workspace.CLIENT,
                 "client_secret": azureml_workspace.SECRET,
                 "authority_host": self.workspace.address, "resource_manager": self.workspace.address}
        return AzureMlClusterSettings(**{**given, **more})

    def new_service(self, context):
        return QuickAzureMl(self.settings(), context)

    def options(self):
        return AzureMlTrialOptions(channel=self.channel)

    def left_behind(self, experiment_id):
        return [job.name for job in self.workspace.jobs.values() if experiment_id in job.name and not job.hidden]

    def jobs_have_ended(self):
        return all(job.status == "Completed" for job in self.workspace.jobs.values())


@pytest.fixture
def make_platform(tmp_path, monkeypatch):
    """Makes a platform whose certificate the SDK trusts."""
    made = []

    def make(kind=AzureMlUnderTest):
        platform = kind(tmp_path / "platform")
        made.append(platform)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(platform.workspace.authority))
        monkeypatch.setenv("AZUREML_CURRENT_CLOUD", "AzureCloud")  # the SDK changes it: put back after the test
        return platform

    yield make
    for platform in made:
        platform.workspace.end()


@pytest.mark.slow
class TestAzureMl(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, make_platform):
        return make_platform()


class ThroughLog(AzureMlUnderTest):
    channel = "log"


@pytest.mark.slow
class TestAzureMlThroughLog(CollectedConformance):
    @pytest.fixture
    def platform(self, make_platform):
        return make_platform(ThroughLog)

    def test_a_second_keeper_of_one_attempt_ends_by_itself(self, bench, service):
        """Here a second start of the job finds in the run's tags that the trial has begun."""
        starts = bench.witness / "starts"
        form = bench.form(f'echo start >> "{starts}"; sleep 120')
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        bench.wait("its beginning is known", lambda: bench.entries(form, "started"))
        workspace = bench.platform.workspace
        job = next(iter(workspace.jobs.values()))
        workspace.lose_node(job)
        detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
        assert "A trial runs only once" in detail.message
        assert (starts.read_text(), job.starts) == ("start\n", 2)
