"""What is special about DLTS: refusals that answer 200, names that are not unique, and other traps."""

import logging
import time
from dataclasses import replace

import pytest
import requests

from tests.fakes.dlts_dashboard import json_as_text, text
from tests.fakes.http_double import Answer
from tests.trainingservice.jobs_of_tests import (
    check_that_a_stop_is_asked_for_again,
    check_that_an_outage_of_a_minute_loses_nothing,
    failed_with,
)
from trainingservice.dlts import api
from trainingservice.dlts.api import DltsApi
from trainingservice.dlts.config import DltsTrialOptions
from trainingservice.dlts.job_body import job_body
from trainingservice.dlts.service import SUBMISSION_FILE
from trainingservice.dlts.states import observed_record
from trainingservice.errors import TemporaryError
from trainingservice.keeper.keeper_variables import keeper_variables
from trainingservice.rest.rest_client import LogInRefused
from trainingservice.trial_job_status import TrialJobStatus

WAITING, RUNNING, FAILED = TrialJobStatus.WAITING, TrialJobStatus.RUNNING, TrialJobStatus.FAILED
SUBMIT = {"method": "POST", "part": "/jobs"}


def only_job(dashboard):
    assert len(dashboard.jobs) == 1
    return next(iter(dashboard.jobs.values()))


# --- refusals that arrive as 200 -----------------------------------------------------------


def test_a_refused_submission_fails_the_trial_with_the_reason(bench, dashboard):
    dashboard.refuse_submit = "ERROR: invalided job directory"
    message = failed_with(bench, bench.open_service(), bench.form())
    assert "ERROR: invalided job directory" in message
    assert "team vision" in message


def test_a_refused_stop_is_asked_for_again(bench, dashboard, lasting, monkeypatch):
    form, starts, _ = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    job = only_job(dashboard)
    dashboard.script(json_as_text({"result": f"Cannot Kill the job. Job ID:{job.id}"}), method="PUT", part="/status")
    service.cancel_trial_job(form.job_name)
    bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)


def test_a_stop_of_a_job_that_has_ended_is_no_fault(bench, dashboard):
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    service.stop_job(replace(detail, is_early_stopped=False))
    assert dashboard.count("PUT", "/status") == 1


def test_an_empty_answer_for_a_while_means_nothing(bench, dashboard, lasting):
    form, starts, go = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    asked = dashboard.count("GET", "/jobs/")
    dashboard.foreign.add(only_job(dashboard).id)
    bench.wait("it was asked for a few times", lambda: dashboard.count("GET", "/jobs/") > asked + 3)
    assert service.get_trial_job(form.job_name).status is RUNNING
    dashboard.foreign.clear()
    go.touch()
    bench.wait_for_end(service, form)


def test_an_empty_answer_about_a_job_that_the_cluster_still_has_is_no_deletion(bench, dashboard, lasting, monkeypatch):
    from trainingservice.dlts import service as module
    monkeypatch.setattr(module, "ABSENT_AFTER", 0.0)
    form, starts, go = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    dashboard.foreign.add(only_job(dashboard).id)  # the account was taken out of the team, say
    asked = dashboard.count("GET", "/status")
    bench.wait("it was asked for a few times", lambda: dashboard.count("GET", "/status") > asked + 3)
    assert service.get_trial_job(form.job_name).status is RUNNING
    go.touch()
    bench.wait_for_end(service, form)


# --- the cluster behind the dashboard is away, and the dashboard answers 200 ------------------


def test_the_double_answers_as_the_dashboard_does_while_the_database_is_away(dashboard):
    from tests.fakes.dlts_dashboard import Job
    dashboard.jobs["one"] = Job("one", {"jobName": "one", "vcName": "vision"}, "running")
    dashboard.database_away = True

    def ask(path):
        answer = requests.get(f"{dashboard.address}/api/{path}", timeout=90,
                              params={"email": dashboard.email, "password": dashboard.password})
        return answer.status_code, answer.text
    assert ask("v2/clusters/lab/teams/vision/jobs") == (200, "[null, null, null, null]")
    assert ask("v2/clusters/lab/jobs/one") == (200, "{}")
    assert ask("clusters/lab/jobs/one/status") == (502, "Bad Gateway")
    assert ask("teams") == (200, "[]")


def test_a_database_outage_ends_no_running_trial_and_fails_no_new_one(bench, dashboard, lasting, monkeypatch):
    from trainingservice.dlts import service as module
    monkeypatch.setattr(module, "ABSENT_AFTER", 0.0)
    form, starts, go = lasting
    other = bench.form("echo here; sleep 3600")
    service = bench.open_service()
    service.submit_trial_job(form)
    service.submit_trial_job(other)  # two are asked about by the list, one by its record
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    bench.wait("the other one runs", lambda: bench.output(other))
    dashboard.database_away = True
    bench.wait("the cluster says so", lambda: "cannot read its database" in service.trouble)
    later = bench.form("echo later")
    service.submit_trial_job(later)
    bench.wait("the trial says why it waits",
               lambda: "cannot read its database" in service.get_trial_job(later.job_name).message)
    dashboard.database_away = False
    service.cancel_trial_job(other.job_name)
    bench.wait_for_end(service, other, TrialJobStatus.USER_CANCELED)
    bench.wait_for_end(service, later)
    assert service.get_trial_job(form.job_name).status is RUNNING
    dashboard.database_away = True
    asked = dashboard.count("GET", "/jobs/")
    bench.wait("its record was asked for a few times",
               lambda: dashboard.count("GET", "/jobs/") > asked + 3, patience=60)
    assert service.get_trial_job(form.job_name).status is RUNNING
    dashboard.database_away = False
    go.touch()
    bench.wait_for_end(service, form)


def test_a_cluster_that_does_not_answer_after_a_start_of_the_server_fails_no_trial(bench, dashboard):
    dashboard.cluster_away = True
    service = bench.open_service()
    form = bench.form("echo later", gpu_number=1)  # its GPU type is looked up among the teams
    service.submit_trial_job(form)
    bench.wait("the trial says why it waits", lambda: "no team of" in service.get_trial_job(form.job_name).message)
    dashboard.cluster_away = False
    detail = bench.wait_for_end(service, form)
    assert (bench.output(form), detail.url) == (
        "later\n", f"{dashboard.address}/job/vision/lab/{only_job(dashboard).id}")


def test_a_denial_of_a_database_that_is_back_by_now_fails_no_trial(bench, dashboard):
    dashboard.script(json_as_text({"error": "Cannot create job!Access Denied!"}), **SUBMIT)
    service = bench.open_service()
    form = bench.form("echo later")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "later\n"


def test_the_page_of_a_job_is_not_looked_for_again_and_again(platform, dashboard, monkeypatch) -> None:
    monkeypatch.setattr(api, "RETRY_AFTER_REFUSAL", 60.0)
    dashboard.cluster_away = True
    dlts = DltsApi(platform.settings())
    assert [dlts.page("one") for _ in range(5)] == [""] * 5
    assert dashboard.count("GET", "api/teams") == 1


@pytest.mark.parametrize("away", ["cluster_away", "database_away"])
def test_a_rehearsal_calls_an_outage_of_the_cluster_temporary(bench, dashboard, away):
    setattr(dashboard, away, True)
    findings = [finding for finding in bench.open_service().rehearse(quick=True) if not finding.ok]
    assert [(finding.check, finding.temporary) for finding in findings] == [("connection", True)]


def test_an_empty_answer_that_stays_means_that_the_job_was_deleted(bench, dashboard, monkeypatch):
    from trainingservice.dlts import service as module
    monkeypatch.setattr(module, "ABSENT_AFTER", 0.2)
    dashboard.held = True
    service = bench.open_service()
    form = bench.form()
    service.submit_trial_job(form)
    bench.wait("it was submitted", lambda: dashboard.jobs)
    dashboard.jobs.clear()
    assert "deleted" in bench.wait_for_status(service, form, TrialJobStatus.SYS_CANCELED).message


# --- names are not unique ------------------------------------------------------------------


def test_a_submission_whose_answer_is_lost_is_found_by_its_name(bench, dashboard, lasting):
    form, starts, go = lasting
    service = bench.open_service()
    dashboard.script(text(500, "Internal Server Error"), after=True, **SUBMIT)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    go.touch()
    bench.wait_for_end(service, form)
    assert (len(dashboard.jobs), starts.read_text()) == (1, "start\n")


def test_a_job_that_is_listed_late_is_waited_for(bench, dashboard, lasting, monkeypatch):
    form, starts, go = lasting
    service = bench.open_service()
    service.search_time = 60.0
    dashboard.hides_new = True
    dashboard.script(text(502, "Bad Gateway"), after=True, **SUBMIT)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait("it says what it does", lambda: "looks for the job" in service.get_trial_job(form.job_name).message)
    dashboard.show_all()
    bench.wait_for_status(service, form, RUNNING)
    go.touch()
    bench.wait_for_end(service, form)
    assert len(dashboard.jobs) == 1


def test_a_job_that_did_not_arrive_is_submitted_again(bench, dashboard):
    service = bench.open_service()
    dashboard.script(text(502, "Bad Gateway"), **SUBMIT)
    form = bench.form("echo once")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert (len(dashboard.jobs), bench.output(form)) == (1, "once\n")


def test_a_clock_that_was_set_back_meanwhile_does_not_hold_the_next_submission_up(bench, dashboard):
    service = bench.open_service()
    form = bench.form("echo once")
    folder = service.storage.attempt(form.experiment_id, form.job_name)
    service.storage.write(folder / SUBMISSION_FILE, str(time.time() + 3600))
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert len(dashboard.jobs) == 1


def test_of_two_jobs_with_one_name_the_trial_runs_in_one(bench, dashboard, lasting):
    form, starts, go = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    from tests.fakes.dlts_dashboard import Job
    twin = Job("twin", only_job(dashboard).body)
    dashboard.jobs["twin"] = twin
    dashboard._launch(twin)
    bench.wait("the second one has ended", lambda: twin.status == "failed")
    assert service.get_trial_job(form.job_name).status is RUNNING
    go.touch()
    bench.wait_for_end(service, form)
    assert starts.read_text() == "start\n"


# --- states --------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "status"), [
    ("unapproved", WAITING), ("queued", WAITING), ("scheduling", WAITING), ("running", RUNNING), ("pausing", RUNNING),
    ("paused", RUNNING), ("killing", RUNNING), ("killed", TrialJobStatus.SYS_CANCELED),
    ("finished", TrialJobStatus.SUCCEEDED), ("failed", FAILED), ("error", FAILED),
    ("new word", TrialJobStatus.UNKNOWN)])
@pytest.mark.parametrize("detail", [None, [], [{}], [{"startedAt": "2026-11-21T00:00:00+00:00"}], "text"])
def test_each_state_has_a_status_whatever_the_details_are(word, status, detail):
    assert observed_record({"jobStatus": word, "jobStatusDetail": detail}).status is status


def test_a_job_over_the_quota_waits_and_says_so(bench, dashboard):
    dashboard.held = True
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("it was submitted", lambda: dashboard.jobs)
    bench.wait("it says what it knows", lambda: "not processed" in service.get_trial_job(form.job_name).message)
    only_job(dashboard).detail = [{"message": "exceeds the user quota in VC: 4 (used) + 2 (requested) > 4 (user "
                                              "quota). Will need admin approval."}]
    bench.wait("it says so", lambda: "exceeds the user quota" in service.get_trial_job(form.job_name).message)
    only_job(dashboard).detail = None
    dashboard.release()
    bench.wait_for_end(service, form)


def test_a_job_that_goes_back_into_the_queue_runs_its_trial_once(bench, dashboard, lasting):
    form, starts, _ = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    dashboard.preempt(only_job(dashboard))
    detail = bench.wait_for_end(service, form, FAILED)
    assert "keeper was killed" in detail.message
    assert (starts.read_text(), only_job(dashboard).starts) == ("start\n", 2)


def test_a_job_that_a_person_pauses_is_ended(bench, dashboard, lasting):
    form, starts, _ = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    dashboard.pause(only_job(dashboard))
    bench.wait_for_end(service, form, TrialJobStatus.SYS_CANCELED)
    bench.wait("nothing of it stays on the cluster", lambda: only_job(dashboard).status == "killed")


def test_a_job_the_cluster_gives_up_on_fails_with_its_words(bench, dashboard):
    dashboard.held = True
    service = bench.open_service()
    form = bench.form()
    service.submit_trial_job(form)
    bench.wait("it was submitted", lambda: dashboard.jobs)
    job = only_job(dashboard)
    job.message, job.status = "ImagePullBackOff: no such image", "error"
    assert "no such image" in bench.wait_for_status(service, form, FAILED).message


# --- what is sent --------------------------------------------------------------------------


def test_the_body_avoids_what_breaks_the_server(bench, platform):
    form = replace(bench.form("echo 'quoted'"), gpu_number=2)
    body = job_body(form, platform.settings(), DltsTrialOptions(), gpu_type="V100", keeper="/k",
                    variables=keeper_variables(form, "/f", ("http://10.0.0.1",), token_file="/t"))
    assert body["preemptionAllowed"] is False
    assert "env" not in body
    assert {entry["name"] for entry in body["envs"]} >= {"NNI_KEEPER_URLS", "NNI_TRIAL_JOB_ID"}
    assert "\n" not in body["cmd"]
    assert "quoted" not in body["cmd"], "the trial's command is no part of it"
    assert form.keeper.token not in str(body)
    assert (body["gpuType"], body["resourcegpu"]) == ("V100", 2)
    assert "gpuType" not in job_body(replace(form, gpu_number=0), platform.settings(), DltsTrialOptions(),
                                     gpu_type="V100", keeper="/k", variables=keeper_variables(form, "/f", ()))


def test_the_gpu_type_is_one_that_has_cards(bench, dashboard):
    service = bench.open_service()
    form = bench.form("true", gpu_number=1)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert only_job(dashboard).body["gpuType"] == "V100", "not user_quota, which comes first"


def test_the_first_cluster_is_looked_up_once_and_named_in_addresses(bench, dashboard):
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    assert detail.url == f"{dashboard.address}/job/vision/lab/{only_job(dashboard).id}"
    assert dashboard.count("GET", "api/teams") == 1


def test_a_server_that_is_a_job_itself_has_its_port_opened(bench, platform, dashboard, monkeypatch):
    from tests.fakes.dlts_dashboard import Job
    monkeypatch.setenv("DLTS_JOB_ID", "server-job")
    dashboard.jobs["server-job"] = Job("server-job", {"jobName": "server"}, "running")
    service = bench.open_service()
    form = bench.form("echo done")
    form = replace(form, keeper=replace(form.keeper, urls=()))
    bench.server_urls = ("http://127.0.0.1:40123",)  # where the server would answer
    service.submit_trial_job(form)
    bench.wait("the job was submitted", lambda: len(dashboard.jobs) == 2)
    envs = {entry["name"]: entry["value"] for job in dashboard.jobs.values() for entry in job.body.get("envs", ())}
    assert envs["NNI_KEEPER_URLS"] == "http://127.0.0.1:40123"
    assert [row["name"] for row in dashboard.jobs["server-job"].endpoints] == ["nniweb"]
    service.cancel_trial_job(form.job_name)


def test_a_server_on_a_port_that_cannot_be_opened_uses_the_home_folder(bench, platform, dashboard, monkeypatch):
    monkeypatch.setenv("DLTS_JOB_ID", "server-job")
    service = bench.open_service()
    form = bench.form("echo done")
    form = replace(form, keeper=replace(form.keeper, urls=()))
    reachable = bench.server_urls
    bench.server_urls = ("http://127.0.0.1:9", *reachable)  # the first one is where the server would listen
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "done\n"
    refused = replace(bench.form(), options=DltsTrialOptions(channel="http"))
    refused = replace(refused, keeper=replace(refused.keeper, urls=()))
    bench.server_urls = ("http://127.0.0.1:9", *reachable)
    assert "40000 to 49999" in failed_with(bench, service, refused)


# --- the key -------------------------------------------------------------------------------


def test_the_key_is_in_no_log_no_message_and_no_state(bench, dashboard, caplog):
    caplog.set_level(logging.DEBUG)
    service = bench.open_service()
    form = bench.form("echo done")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    dashboard.close()
    later = bench.form("echo later")
    service.submit_trial_job(later)
    bench.wait("it is said", lambda: "cannot be reached" in service.get_trial_job(later.job_name).message)
    bench.wait("the cluster says so", lambda: service.trouble)
    said = service.trouble + str(service.list_trial_jobs())
    dashboard.start()
    bench.wait_for_end(service, later)
    assert "urllib3" in caplog.text, "the library's own log was heard"
    for secret in (dashboard.password, form.keeper.token):
        assert secret not in caplog.text
        assert secret not in said


def test_a_refused_key_is_one_sentence_on_the_cluster_and_trials_wait(bench, platform, dashboard, monkeypatch):
    settings = platform.settings(password="0" * 32)
    monkeypatch.setattr(platform, "settings", lambda: settings)
    service = bench.open_service()
    form = bench.form()
    service.submit_trial_job(form)
    bench.wait("the cluster says so", lambda: "does not accept the access key" in service.trouble)
    assert "Invalid token" in service.trouble
    assert service.get_trial_job(form.job_name).status is WAITING
    assert "0" * 32 not in service.trouble
    blocking = [finding for finding in service.rehearse(quick=True) if finding.blocks]
    assert [finding.check for finding in blocking] == ["rights"]


# --- faults --------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "words"), [({"team": "nobody"}, 'no team "nobody"'),
                                             ({"cluster": "mars"}, 'no cluster "mars"')])
def test_a_team_or_cluster_that_is_not_there_is_named(bench, platform, monkeypatch, more, words):
    settings = platform.settings(**more)
    monkeypatch.setattr(platform, "settings", lambda: settings)
    service = bench.open_service()
    assert any(words.split('"')[1] in finding.message for finding in service.rehearse(quick=True) if finding.blocks)
    assert words in failed_with(bench, service, bench.form())


@pytest.mark.parametrize(("answer", "words"), [
    (Answer(200, "<html>sign in</html>", "text/html"), "with JSON"), (text(502, "Bad Gateway"), "Bad Gateway"),
    (text(429, "slow down"), "limits the rate")])
def test_a_fault_while_asking_changes_nothing_and_is_said(bench, dashboard, lasting, answer, words):
    form, starts, go = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    dashboard.script(answer, 1000, method="GET")
    bench.wait("the cluster says so", lambda: words in service.trouble)
    assert service.get_trial_job(form.job_name).status is RUNNING
    dashboard.unscript()
    go.touch()
    bench.wait_for_end(service, form)


@pytest.mark.parametrize(("answer", "words"), [
    (text(400, ".team should be string"), ".team should be string"), (text(400, "Bad Request"), "HTTP 400"),
    (text(413, "request entity too large"), "larger than 1 MB")])
def test_what_the_dashboards_schema_refuses_fails_the_trial_in_its_words(bench, dashboard, answer, words):
    dashboard.script(answer, **SUBMIT)
    assert words in failed_with(bench, bench.open_service(), bench.form())
    assert dashboard.jobs == {}


@pytest.mark.parametrize(("body", "words"), [
    (b"{", "Bad Request"), (b"{}", " should have required property 'team'"),
    (b'{"team": 5}', ".team should be string")])
def test_the_double_refuses_what_the_dashboards_schema_refuses(dashboard, body, words):
    answer = requests.post(f"{dashboard.address}/api/clusters/lab/jobs", data=body, timeout=90,
                           params={"email": dashboard.email, "password": dashboard.password})
    assert (answer.status_code, answer.text) == (400, words)


@pytest.mark.parametrize(("words", "sentence"), [("Team is not found", "correct team"),
                                                 ("Cluster is not found", "correct cluster")])
def test_a_team_or_cluster_that_goes_away_ends_no_running_trial(bench, dashboard, lasting, words, sentence):
    form, starts, go = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    dashboard.script(text(404, words), 1000, part="/clusters/")
    assert sentence in failed_with(bench, service, bench.form())
    bench.wait("the cluster says so", lambda: sentence in service.trouble)
    assert service.get_trial_job(form.job_name).status is RUNNING
    dashboard.unscript()
    go.touch()
    bench.wait_for_end(service, form)


def test_a_job_of_somebody_else_shows_no_endpoints(platform, dashboard):
    from tests.fakes.dlts_dashboard import Job
    dashboard.jobs["theirs"] = Job("theirs", {"jobName": "x"}, "running", endpoints=[{"podPort": 40000, "patience": 0}])
    dashboard.foreign.add("theirs")
    assert DltsApi(platform.settings()).endpoints("theirs") == []


def test_the_name_of_an_endpoint_is_cut_to_what_the_dashboard_takes(platform, dashboard):
    from tests.fakes.dlts_dashboard import Job
    dashboard.jobs["mine"] = Job("mine", {"jobName": "x"}, "running")
    api = DltsApi(platform.settings())
    api.open_port("mine", "a-name-of-more-than-16-letters", 40001)
    assert [row["name"] for row in api.endpoints("mine")] == ["a-name-of-more-t"]
    with pytest.raises(TemporaryError, match="502"):
        api.open_port("mine", "name", 80)


@pytest.mark.parametrize(("change", "answered"), [
    ({"team": "nobody", "vcName": "nobody"}, (200, '{"error": "Cannot create job!Access Denied!"}')),
    ({"jobType": None}, (200, '{"error": "Cannot create job!"}')),
    ({"resourcegpu": "many"}, (500, "Internal Server Error"))])
def test_the_double_refuses_what_the_cluster_refuses(dashboard, change, answered):
    body = {"jobName": "one", "vcName": "vision", "team": "vision", "resourcegpu": 0, "jobType": "training",
            "preemptionAllowed": False, "cmd": "true", **change}
    answer = requests.post(f"{dashboard.address}/api/clusters/lab/jobs", json=body, timeout=90,
                           params={"email": dashboard.email, "password": dashboard.password})
    assert (answer.status_code, answer.text) == answered
    listed = requests.get(f"{dashboard.address}/api/v2/clusters/lab/teams/nobody/jobs", timeout=90,
                          params={"email": dashboard.email, "password": dashboard.password})
    assert (listed.status_code, listed.json()) == (200, [])


def test_the_email_must_be_spelt_as_the_key_was_made_for_it(platform, dashboard):
    api = DltsApi(platform.settings(email=dashboard.email.upper()))
    with pytest.raises(LogInRefused, match="email must be written as the dashboard shows it"):
        api.check_log_in()


def test_a_method_that_the_address_does_not_know_is_a_fault_of_the_address(platform, dashboard):
    dashboard.script(text(405, "Method Not Allowed"), 2)
    with pytest.raises(TemporaryError, match="correct dashboard"):
        DltsApi(platform.settings()).job("any")


SIGN_IN = "<html>sign in</html>"


@pytest.mark.parametrize(("answer", "reached"), [
    (Answer(200, SIGN_IN, "text/html"), True), (Answer(404, SIGN_IN, "text/html"), False),
    (text(405, "Method Not Allowed"), False)])
def test_an_answer_that_is_not_the_dashboards_is_no_acceptance_of_a_job(bench, dashboard, answer, reached):
    service = bench.open_service()
    service.search_time = 0.1
    form = bench.form("echo once")
    dashboard.script(answer, after=reached, **SUBMIT)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert (len(dashboard.jobs), bench.output(form)) == (1, "once\n")


@pytest.mark.parametrize("answer", [Answer(200, SIGN_IN, "text/html"), text(405, "Method Not Allowed")])
def test_an_answer_that_is_not_the_dashboards_is_no_acceptance_of_a_stop(bench, dashboard, answer):
    check_that_a_stop_is_asked_for_again(bench, dashboard, answer, lambda form: only_job(
        dashboard).status == "killed", method="PUT", part="/status")


@pytest.mark.slow
def test_an_outage_of_a_minute_loses_nothing(bench, dashboard):
    check_that_an_outage_of_a_minute_loses_nothing(bench, dashboard)
