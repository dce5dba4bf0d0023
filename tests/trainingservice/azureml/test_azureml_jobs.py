"""Jobs as the vendor's SDK sends them, and what goes wrong in a workspace: a sentence each, nothing run twice."""

import logging
import time
from dataclasses import replace

import pytest

from tests.fakes import azureml_workspace
from tests.fakes.azureml_workspace import Job, error
from tests.fakes.http_double import Answer
from tests.trainingservice.jobs_of_tests import (
    check_that_a_stop_is_asked_for_again,
    check_that_an_outage_of_a_minute_loses_nothing,
    failed_with,
    lasting,
)
from trainingservice.azureml import service as service_module
from trainingservice.azureml.config import AzureMlTrialOptions
from trainingservice.azureml.states import STATUSES, observed_status
from trainingservice.errors import TemporaryError
from trainingservice.polling import job_loop
from trainingservice.trial_job_status import TrialJobStatus

WAITING, RUNNING, FAILED = TrialJobStatus.WAITING, TrialJobStatus.RUNNING, TrialJobStatus.FAILED
#: The SDK is a heavy thing to load, and it tries again with pauses of its own.
pytestmark = pytest.mark.slow


def only_job(workspace):
    assert len(workspace.jobs) == 1
    return next(iter(workspace.jobs.values()))


# --- what is sent --------------------------------------------------------------------------


def test_a_job_has_what_was_asked_for(bench, workspace):
    options = AzureMlTrialOptions(docker_image="i:1", shm_size="2g", docker_args="--cap-add X",
                                  data_mounts={"train": "azureml://datastores/images/paths/train/"})
    service = bench.open_service()
    form = replace(bench.form("""pwd; echo "$NNI_DATA_train" '${{ not a template }}'"""), options=options)
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    sent = only_job(workspace).properties
    assert (sent["resources"]["shmSize"], sent["resources"]["dockerArgs"]) == ("2g", "--cap-add X")
    assert sent["computeId"].endswith("/computes/cpu-cluster")
    assert workspace.environments[sent["environmentId"]] == "i:1"
    assert sent["inputs"]["train"]["uri"] == "azureml://datastores/images/paths/train/"
    assert sent["inputs"]["train"]["mode"] == "ReadOnlyMount"
    assert sent["tags"] == {"nniweb_installation": "conformance", "nni_experiment": form.experiment_id,
                            "nni_trial": form.job_name}
    assert set(sent["properties"].values()) <= {""}, "nothing of the server's own git checkout"
    assert detail.url.startswith("https://ml.azure.com/")
    assert detail.working_directory == bench.output(form).split("\n")[0]
    assert detail.working_directory == bench.entries(form, "started")[0]["working_directory"]
    assert "/inputs/train" in bench.output(form)
    assert "${{ not a template }}" in bench.output(form)


def test_a_registered_environment_is_used_instead_of_an_image(bench, workspace):
    service = bench.open_service()
    form = replace(bench.form("true"), options=AzureMlTrialOptions(environment="azureml:torch:3"))
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert only_job(workspace).properties["environmentId"].endswith("/environments/torch/versions/3")
    assert workspace.count("PUT", "/environments/") == 0


def test_trials_share_a_folder_of_a_datastore_at_one_path(bench, workspace, tmp_path):
    """So a share that all trials write to is at one path, as sharedStorage has it."""
    there = tmp_path / "mnt" / "shared"
    options = AzureMlTrialOptions(writable_mounts={str(there): "azureml://datastores/lab/paths/nni/"})
    service = bench.open_service()
    for command in (f"echo first > {there}/word", f"cat {there}/word"):
        form = replace(bench.form(command), options=options)
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
    assert bench.output(form) == "first\n"
    for job in workspace.jobs.values():
        sent = job.properties["outputs"]["mount_0"]
        assert (sent["uri"], sent["mode"]) == ("azureml://datastores/lab/paths/nni/", "ReadWriteMount")


@pytest.mark.parametrize("channel", ["http", "log"])
def test_code_is_uploaded_once_for_an_experiment(bench, workspace, channel):
    service = bench.open_service()
    code = bench.code({"word": "from the code\n"})
    forms = [replace(bench.form("cat word", code=code), options=AzureMlTrialOptions(channel=channel))
             for _ in range(3)]
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait_for_end(service, form)
        bench.wait("its output is here", lambda form=form: bench.output(form) == "from the code\n")
    assert workspace.count("POST", "startPendingUpload") == 1
    assert ("code.tar.gz" in str(sorted(workspace.blobs))) == (channel == "log")


def test_many_jobs_are_asked_about_in_one_question(bench, workspace):
    service = bench.open_service()
    workspace.held = True
    forms = [bench.form("true") for _ in range(5)]
    for form in forms:
        service.submit_trial_job(form)
    bench.wait("all are submitted", lambda: len(workspace.jobs) == 5)
    bench.wait("the list is asked for", lambda: workspace.requests[-1].path.endswith("/jobs"))
    before = len(workspace.requests)
    bench.wait("there were some questions", lambda: len(workspace.requests) >= before + 3)
    assert {request.path for request in workspace.requests[before:]} == {f"{azureml_workspace.W}/jobs"}
    workspace.release()
    for form in forms:
        bench.wait_for_end(service, form)


@pytest.mark.parametrize("names", [[], ["other"]])
def test_a_list_of_jobs_without_an_end_is_given_up(platform, bench, workspace, names):
    """Given up as well by what reads all of it: the removal of an experiment."""
    service = platform.new_service(bench.context())
    rows = [workspace._resource(Job(name, {"jobType": "Command", "command": "c", "environmentId": "e"}))
            for name in names]
    workspace.script(Answer(200, {"value": rows, "nextLink": f"{workspace.address}{azureml_workspace.W}/jobs?more=1"}),
                     200, part="/jobs")
    with pytest.raises(TemporaryError, match="has no end"):
        service.remove_experiment("nobodys", [])
    workspace.unscript()
    service.clean_up()


def test_no_secret_is_in_a_log(bench, workspace, caplog):
    caplog.set_level(logging.DEBUG)
    service = bench.open_service()
    form = bench.form("echo done")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    for secret in (azureml_workspace.SECRET, azureml_workspace.TOKEN):
        assert secret not in caplog.text


# --- the log-in ----------------------------------------------------------------------------


def test_a_wrong_secret_is_said_before_the_launch_and_makes_trials_wait(bench, platform, workspace, monkeypatch):
    settings = platform.settings(client_secret="wrong-secret")
    monkeypatch.setattr(platform, "settings", lambda: settings)
    service = bench.open_service()
    blocking = [finding for finding in service.rehearse(quick=True) if finding.blocks]
    assert [finding.check for finding in blocking] == ["rights"]
    assert "clientSecret" in blocking[0].message
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("the cluster says so", lambda: "does not accept the credentials" in service.trouble)
    assert "wrong-secret" not in service.trouble
    assert service.get_trial_job(form.job_name).status is WAITING
    workspace.secret = "wrong-secret"
    bench.wait_for_end(service, form)


def test_missing_rights_are_a_sentence(bench, workspace):
    service = bench.open_service()
    workspace.script(error(403, "AuthorizationFailed", "The client has no authorization."), 1000, part="/jobs/")
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("the cluster says so", lambda: "AzureML Data Scientist" in service.trouble)
    workspace.unscript()
    bench.wait_for_end(service, form)


# --- refusals and faults -------------------------------------------------------------------


def test_compute_and_workspace_that_are_not_there_are_named_before_the_launch(bench, platform, workspace, monkeypatch):
    settings = platform.settings(compute_target="nowhere")
    monkeypatch.setattr(platform, "settings", lambda: settings)
    found = {finding.check: finding for finding in platform.new_service(bench.context()).rehearse()}
    assert 'no compute named "nowhere"' in found["compute"].message
    assert found["compute"].blocks
    monkeypatch.setattr(platform, "settings", lambda: settings.model_copy(update={"workspace_name": "other"}))
    found = {finding.check: finding for finding in platform.new_service(bench.context()).rehearse()}
    assert "does not exist" in found["connection"].message


def test_a_missing_image_fails_the_trial_with_the_services_words(bench, workspace):
    workspace.images_missing.add("no/such:image")
    form = replace(bench.form(), options=AzureMlTrialOptions(docker_image="no/such:image"))
    assert "manifest unknown" in failed_with(bench, bench.open_service(), form)


def test_a_refused_job_fails_with_the_services_words(bench, workspace):
    workspace.script(error(400, "UserError", "The compute is of the wrong kind."), method="PUT", part="/jobs/")
    assert "wrong kind" in failed_with(bench, bench.open_service(), bench.form())


def test_without_quota_the_trial_waits_and_says_so(bench, workspace, monkeypatch):
    service = bench.open_service()
    workspace.script(error(400, "QuotaExceeded", "No cores are left."), method="PUT", part="/jobs/")
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("it says so", lambda: "no quota left" in service.get_trial_job(form.job_name).message)
    service.room_may_be_free()
    bench.wait_for_end(service, form)


def test_a_name_that_a_stranger_has_fails_the_trial(bench, workspace):
    form = bench.form()
    name = f"nni_exp_{form.experiment_id}_trial_{form.job_name}"
    workspace.jobs[name] = Job(name, {"jobType": "Command", "command": "true", "tags": {},
                                      "environmentId": f"{azureml_workspace.W}/environments/e/versions/1",
                                      "codeId": f"{azureml_workspace.W}/codes/c/versions/1",
                                      "computeId": f"{azureml_workspace.W}/computes/c"}, "Completed")
    assert "which does not belong to this trial" in failed_with(bench, bench.open_service(), form)


def test_a_submission_whose_answer_is_lost_is_not_made_twice(bench, workspace):
    service = bench.open_service()
    form, starts, go = lasting(bench)
    workspace.script(Answer(504, "lost", "text/plain"), 4, after=True, method="PUT", part="/jobs/")
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    go.touch()
    bench.wait_for_end(service, form)
    assert (len(workspace.jobs), starts.read_text()) == (1, "start\n")


@pytest.mark.parametrize(("answer", "words"), [
    (Answer(200, "<html>sign in</html>", "text/html"), "with JSON"),
    (Answer(429, error(429, "TooManyRequests", "slow down").body, headers={"Retry-After": "0"}), "limits the rate"),
    (error(503, "ServerBusy", "boom"), "503")])
def test_a_fault_while_asking_changes_nothing_and_is_said(bench, workspace, answer, words):
    service = bench.open_service()
    form, starts, go = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    workspace.script(answer, 1000, method="GET", part="/jobs/")
    bench.wait("the cluster says so", lambda: words in service.trouble, patience=60)
    assert service.get_trial_job(form.job_name).status is RUNNING
    workspace.unscript()
    go.touch()
    bench.wait_for_end(service, form)


@pytest.mark.parametrize("reached", [True, False])
def test_a_proxys_page_is_no_acceptance_of_a_job(bench, workspace, reached):
    service = bench.open_service()
    form = bench.form("echo once")
    workspace.script(Answer(200, "<html>sign in</html>", "text/html"), after=reached, method="PUT", part="/jobs/")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert (len(workspace.jobs), bench.output(form)) == (1, "once\n")


@pytest.mark.parametrize("answer", [Answer(200, "<html>sign in</html>", "text/html"),
                                    Answer(404, "<html>not here</html>", "text/html")])
def test_a_proxys_page_is_no_acceptance_of_a_stop(bench, workspace, answer, monkeypatch):
    monkeypatch.setattr(job_loop, "REPEAT_STOP_AFTER", 0.5)  # what looks like an acceptance is asked for again, too
    check_that_a_stop_is_asked_for_again(bench, workspace, answer, lambda form: only_job(
        workspace).status == "Canceled", method="POST", part="/cancel")


def test_the_time_in_our_queue_does_not_count_for_a_job_that_is_not_there_yet(bench, workspace, monkeypatch):
    now = [1000.0]
    context = bench.context
    monkeypatch.setattr(bench, "context", lambda: replace(context(), clock=lambda: now[0]))
    service = bench.open_service()
    form = bench.form("echo done")
    workspace.held = True
    workspace.script(error(503, "ServerBusy", "away"), 1000, method="PUT", part="/jobs/")
    service.submit_trial_job(form)
    bench.wait("the service is away", lambda: "503" in service.get_trial_job(form.job_name).message, patience=60)
    now[0] += 3600
    workspace.unscript()
    bench.wait("it is accepted", lambda: workspace.jobs, patience=90)
    workspace.script(error(404, "NotFound", "No such job."), 1000, method="GET", part="/jobs/")
    asked = workspace.count("GET", "/jobs/")
    bench.wait("it is asked about", lambda: workspace.count("GET", "/jobs/") > asked + 1)
    assert service.get_trial_job(form.job_name).status is WAITING
    workspace.unscript()
    workspace.release()
    bench.wait_for_end(service, form)


def test_nothing_is_lost_while_the_service_is_away(bench, workspace):
    service = bench.open_service()
    form, starts, go = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    workspace.close()
    bench.wait("the cluster says so", lambda: "cannot be reached" in service.trouble, patience=60)
    go.touch()
    bench.wait("the trial has reported its end", lambda: bench.entries(form, "ended"))
    workspace.start()
    bench.wait_for_end(service, form)
    assert starts.read_text() == "start\n"


@pytest.mark.timeout(400)
def test_an_outage_of_a_minute_loses_nothing(bench, workspace):
    check_that_an_outage_of_a_minute_loses_nothing(bench, workspace)


def test_a_job_that_the_service_starts_again_runs_its_trial_once(bench, workspace):
    service = bench.open_service()
    form, starts, _ = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait("its beginning is known", lambda: bench.entries(form, "started"))
    workspace.lose_node(only_job(workspace))
    bench.wait_for_status(service, form, FAILED)
    assert (starts.read_text(), only_job(workspace).starts) == ("start\n", 2)


def test_a_cancel_does_not_wait_for_the_service_to_carry_it_out(bench, workspace):
    service = bench.open_service()
    form, starts, _ = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    begun = time.monotonic()
    service.cancel_trial_job(form.job_name)
    assert time.monotonic() - begun < 25, "the service asks to look again after 30 s"
    assert workspace.count("GET", "/operations/") == 0
    bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)


# --- what is not there any more ------------------------------------------------------------


def test_something_that_a_job_names_and_that_is_not_there_fails_it_with_a_sentence(bench, workspace):
    workspace.script(error(404, "NotFound", "The datastore images was not found."), method="PUT", part="/jobs/")
    message = failed_with(bench, bench.open_service(), bench.form())
    assert "The datastore images was not found." in message
    assert "dataMounts" in message


def test_code_that_was_deleted_in_the_workspace_is_uploaded_again(bench, workspace):
    service = bench.open_service()
    code = bench.code({"word": "from the code\n"})
    first, second = (replace(bench.form("cat word", code=code), options=AzureMlTrialOptions(channel="log"))
                     for _ in range(2))
    service.submit_trial_job(first)
    bench.wait_for_end(service, first)
    workspace.codes.clear()
    workspace.script(error(404, "NotFound", "The code was not found."), method="PUT", part="/jobs/")
    service.submit_trial_job(second)
    bench.wait_for_end(service, second)
    assert workspace.count("POST", "startPendingUpload") == 2


def test_a_workspace_that_is_gone_says_nothing_of_its_jobs(bench, workspace):
    service = bench.open_service()
    form, starts, go = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    workspace.script(error(404, "ResourceNotFound", "The workspace was not found."), 1000, part=azureml_workspace.W)
    bench.wait("the cluster says so", lambda: "does not exist in resource group" in service.trouble)
    assert service.get_trial_job(form.job_name).status is RUNNING
    waiting = bench.form("true")
    service.submit_trial_job(waiting)
    bench.wait("the trial says so", lambda: "does not exist" in service.get_trial_job(waiting.job_name).message)
    assert service.get_trial_job(waiting.job_name).status is WAITING
    workspace.unscript()
    go.touch()
    bench.wait_for_end(service, form)
    bench.wait_for_end(service, waiting)


# --- states --------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "status"), [
    ("NotStarted", WAITING), ("Starting", WAITING), ("Provisioning", WAITING), ("Preparing", WAITING),
    ("Queued", WAITING), ("Scheduled", WAITING), ("Running", RUNNING), ("Finalizing", RUNNING),
    ("CancelRequested", RUNNING),
    ("Completed", TrialJobStatus.SUCCEEDED), ("Failed", FAILED), ("Canceled", TrialJobStatus.SYS_CANCELED),
    ("NotResponding", TrialJobStatus.UNKNOWN), ("Paused", TrialJobStatus.UNKNOWN), ("Unknown", TrialJobStatus.UNKNOWN),
    ("SomethingNew", TrialJobStatus.UNKNOWN), ("", TrialJobStatus.UNKNOWN)])
def test_each_status_of_the_service_has_one_here(word, status):
    assert observed_status(word).status is status
    assert observed_status(word.upper()).status is status


def test_no_status_that_the_sdk_knows_is_forgotten():
    from azure.ai.ml._restclient.arm_ml_service.models import JobStatus

    assert {word.value.lower() for word in JobStatus} <= set(STATUSES)


@pytest.mark.parametrize("word", sorted(STATUSES))
def test_each_state_in_which_nothing_runs_says_what_it_is(word):
    seen = observed_status(word)
    if seen.status in (WAITING, TrialJobStatus.UNKNOWN) and word not in ("notstarted", "starting"):
        assert seen.message, "else what was said of the state before stays"


def test_jobs_that_ended_long_ago_and_before_a_start_are_archived_with_their_experiment(bench, platform, workspace):
    service = bench.open_service()
    forms = [bench.form("true") for _ in range(2)]
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait_for_end(service, form)
    bench.close_service(service)
    stranger = Job(next(iter(workspace.jobs)) + "x",
                   {"jobType": "Command", "tags": {"nniweb_installation": "another"}}, "Completed")
    workspace.jobs[stranger.name] = stranger
    later = platform.new_service(bench.context())
    later.clean_up_experiment(forms[0].experiment_id)
    later.clean_up()
    assert [job.hidden for job in workspace.jobs.values()] == [True, True, False]


def test_a_refused_job_is_not_asked_about(bench, workspace, monkeypatch):
    monkeypatch.setattr(service_module.AzureMlTrainingService, "log_interval", 0.05)
    service = bench.open_service()
    lasting_form, _, go = lasting(bench)
    refused, lasting_form = (replace(form, options=AzureMlTrialOptions(channel="log"))
                             for form in (bench.form("true"), lasting_form))
    workspace.script(error(400, "UserError", "No."), method="PUT", part="/jobs/")
    failed_with(bench, service, refused)
    service.submit_trial_job(lasting_form)
    bench.wait_for_status(service, lasting_form, RUNNING)
    before = len(workspace.requests)
    bench.wait("the running one's log was asked for", lambda: any(
        lasting_form.job_name in request.path for request in workspace.requests[before:]))
    assert not any(refused.job_name in request.path for request in workspace.requests[before:])
    go.touch()
    bench.wait_for_end(service, lasting_form)


def test_an_expression_in_a_trials_command_arrives_as_it_was_written(bench, workspace):
    service = bench.open_service()
    form = replace(bench.form("echo '${{ inputs.secret }} \\u0024 $HOME'"), options=AzureMlTrialOptions(channel="log"))
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    bench.wait("its output is here", lambda: bench.output(form) == "${{ inputs.secret }} \\u0024 $HOME\n")
    assert "${{" not in str(only_job(workspace).properties["environmentVariables"])


def test_a_job_that_somebody_archived_is_asked_for_by_name(bench, platform, workspace, monkeypatch):
    """Not looked for through all jobs of the workspace at each question."""
    monkeypatch.setattr(service_module, "NOT_THERE_YET", 0.0)
    workspace.held = True
    service = bench.open_service()
    forms = [bench.form("true") for _ in range(service_module.ONE_BY_ONE + 2)]
    for form in forms:
        service.submit_trial_job(form)
    bench.wait("all are submitted", lambda: all(service.get_trial_job(form.job_name).url for form in forms))
    details = [service.get_trial_job(form.job_name) for form in forms]
    bench.close_service(service)
    for number in range(30):  # others' jobs, older than ours
        workspace.jobs[f"other{number}"] = Job(f"other{number}", {"jobType": "Command"}, created=-number)
    archived = next(job for job in workspace.jobs.values() if forms[0].job_name in job.name)
    archived.hidden = True
    asking = platform.new_service(bench.context())

    def asked() -> tuple[int, list[str]]:
        before = len(workspace.requests)
        assert [seen for seen in asking.observe_jobs(details).values() if seen is None] == []
        paths = [request.path.removeprefix(azureml_workspace.W) for request in workspace.requests[before:]]
        return paths.count("/jobs"), [path for path in paths if path.startswith("/jobs/")]

    by_name = f"/jobs/{archived.name}"
    assert asked() == (4, [by_name]), "all pages, to find out"
    assert asked() == (1, [by_name])
    asking.job_ended(details[0])
    assert asked() == (4, [by_name]), "what has ended is forgotten"
    asking.clean_up()
