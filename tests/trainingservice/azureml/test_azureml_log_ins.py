"""The ways to log in that need no secret in the cluster's settings: with the SDK's real credentials."""

import pytest

from tests.fakes import azureml_workspace
from tests.fakes.azureml_workspace import AzureMlWorkspace
from trainingservice.azureml.service import AzureMlTrainingService
from trainingservice.trial_job_status import TrialJobStatus

#: The SDK is a heavy thing to load, and it tries again with pauses of its own.
pytestmark = pytest.mark.slow


@pytest.fixture
def service(bench, platform, workspace, monkeypatch):
    """Makes a service that logs in as the given settings say, on a machine with these variables and no others."""
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "IDENTITY_ENDPOINT", "MSI_ENDPOINT",
                 "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "prod")  # what a server shall try: no programs of people at desks
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", workspace.address)

    def make(variables: dict[str, str] | None = None, **settings: object) -> AzureMlTrainingService:
        for name, value in (variables or {}).items():
            monkeypatch.setenv(name, value)
        given = platform.settings(**{"tenant_id": None, "client_id": None, "client_secret": None, **settings})
        monkeypatch.setattr(platform, "settings", lambda: given)
        return bench.open_service()

    return make


def runs_a_trial(bench, service: AzureMlTrainingService) -> None:
    assert [finding.message for finding in service.rehearse(quick=True) if finding.blocks] == []
    form = bench.form("true")
    service.submit_trial_job(form)
    assert bench.wait_for_end(service, form).status is TrialJobStatus.SUCCEEDED


@pytest.mark.parametrize("client_id", [None, "user-assigned"])
def test_the_managed_identity_of_the_machine_logs_in(bench, service, workspace: AzureMlWorkspace, client_id) -> None:
    workspace.identities = {client_id or ""}
    runs_a_trial(bench, service(managed_identity=True, client_id=client_id))
    assert workspace.count("POST", "/oauth2/v2.0/token") == 0


def test_without_any_setting_the_service_principal_of_the_environment_logs_in(bench, service, workspace) -> None:
    runs_a_trial(bench, service({
        "AZURE_TENANT_ID": azureml_workspace.TENANT, "AZURE_CLIENT_ID": azureml_workspace.CLIENT,
        "AZURE_CLIENT_SECRET": azureml_workspace.SECRET}))
    assert workspace.count("GET", "/metadata/identity") == 0


def test_without_any_setting_the_managed_identity_is_found_too(bench, service, workspace) -> None:
    workspace.identities = {""}
    runs_a_trial(bench, service())


@pytest.mark.parametrize(("settings", "words"), [
    ({"managed_identity": True}, "Assign this managed identity"), ({}, "Run az login")])
def test_a_machine_that_has_none_is_told_what_to_do_and_its_trials_wait(bench, service, workspace, settings, words):
    made = service(**settings)
    [finding] = [finding for finding in made.rehearse(quick=True) if finding.blocks]
    assert finding.check == "rights"
    assert words in finding.message
    form = bench.form("true")
    made.submit_trial_job(form)
    bench.wait("the cluster says so", lambda: words in made.trouble, patience=60)
    assert made.get_trial_job(form.job_name).status is TrialJobStatus.WAITING
    workspace.identities = {""}
    bench.wait_for_end(made, form)
