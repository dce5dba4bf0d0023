"""Jobs of Ray in everything that can go wrong with them, on a double of a head."""

from dataclasses import replace

import pytest

from tests.fakes.http_double import Answer
from tests.fakes.ray_dashboard import Job, RayDashboard, text, traceback
from tests.trainingservice.jobs_of_tests import failed_with
from tests.trialkeeper.keeper_run import wait_until
from trainingservice.base import ServiceContext
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.ray import service as service_module
from trainingservice.ray.api import RayApi
from trainingservice.ray.config import RayClusterSettings, RayTrialOptions
from trainingservice.ray.rehearsal import rehearse_cluster
from trainingservice.ray.rehearsal_job import try_job
from trainingservice.ray.service import RayTrainingService
from trainingservice.reasons import code_of
from trainingservice.rest.rest_client import LogInRefused
from trainingservice.trial_job import KeeperAccess
from trainingservice.trial_job_status import TrialJobStatus

WAITING, RUNNING, FAILED = TrialJobStatus.WAITING, TrialJobStatus.RUNNING, TrialJobStatus.FAILED
HTML = Answer(200, "<html><body>Please log in</body></html>", "text/html")


@pytest.fixture
def api(head):
    api = RayApi(RayClusterSettings(address=head.address))
    yield api
    api.close()


def ended(name, experiment="e1"):
    return Job({"submission_id": name, "entrypoint": "true", "metadata": {
        "nniweb_installation": "conformance", "nni_experiment": experiment, "nni_trial": name}}, "SUCCEEDED")


# --- submissions ---------------------------------------------------------------------------


def test_a_submission_whose_answer_was_lost_is_found_again_by_its_id(bench, head, lasting):
    form, starts, go = lasting
    head.script(text(502, "Bad Gateway"), method="POST", part="/api/jobs/", after=True)
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    assert head.count("POST", "/api/jobs/") == 2
    assert list(head.jobs) == [form.job_name]
    go.touch()
    bench.wait_for_end(service, form)
    assert starts.read_text() == "start\n"


def test_a_strangers_job_of_the_same_id_is_not_taken_for_the_trials(bench, head):
    form = bench.form("true")
    head.jobs[form.job_name] = Job({"submission_id": form.job_name, "entrypoint": "true"}, "SUCCEEDED")
    assert "does not belong to this trial" in failed_with(bench, bench.open_service(), form)


@pytest.mark.parametrize("answer", [
    text(400, "Traceback (most recent call last):\nTypeError: entrypoint_memory must be an integer\n"),
    text(500, "Traceback (most recent call last):\nRuntimeError: Request failed with status code 400: Traceback (most "
              "recent call last):\nTypeError: entrypoint_memory must be an integer\n.\n")],
    ids=["by the head", "by the agent behind it"])
def test_a_refused_submission_says_why(head, api, answer):
    head.script(answer, method="POST")
    with pytest.raises(PermanentError) as refusal:
        api.submit({"submission_id": "t1", "entrypoint": "true"})
    assert str(refusal.value).endswith("refuses the job (HTTP "
                                       f"{answer.status}): TypeError: entrypoint_memory must be an integer")


@pytest.mark.parametrize("answer", [
    text(500, "No available agent to submit job, please try again later."), text(503, ""), HTML,
    traceback("Unauthorized: Missing authentication token", of_agent=401), traceback("Too many", of_agent=429),
    Answer(404, "<html>no such site</html>", "text/html"), text(404, "404: Not Found")])
def test_what_is_no_refusal_of_the_job_is_tried_again(head, api, answer):
    head.script(answer, method="POST")
    with pytest.raises(TemporaryError):
        api.submit({"submission_id": "t1", "entrypoint": "true"})


def test_the_answer_of_a_proxy_is_no_word_about_a_job(head, api):
    head.script(text(404, "no such route"), times=2)
    with pytest.raises(TemporaryError, match="does not know Ray's Jobs API"):
        api.job("t1")
    with pytest.raises(TemporaryError, match="does not know Ray's Jobs API"):
        api.delete("t1")
    assert api.job("t1") is None


def test_a_server_that_only_its_own_machine_reaches_starts_nothing(bench, head):
    form = replace(bench.form("true"), keeper=KeeperAccess((), "token"))
    assert "NNIWEB_PUBLIC_URL" in failed_with(bench, bench.open_service(), form)
    assert not head.jobs


# --- waiting -------------------------------------------------------------------------------


def test_a_job_without_room_says_what_ray_says_and_what_no_node_has(bench, head, monkeypatch):
    monkeypatch.setattr(service_module, "ASK_NODES_AFTER", 0.0)
    form = replace(bench.form("true"), options=RayTrialOptions(resources={"special": 3}))
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait("it says why it waits", lambda: "No node" in service.get_trial_job(form.job_name).message)
    message = service.get_trial_job(form.job_name).message
    assert message.startswith("Waits on Ray: Job has not started yet. It may be waiting for resources (CPUs")
    assert message.endswith("No node of the cluster has 3 of special: the largest has 2.")
    assert code_of(message) == "platform_queue"
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)


def test_a_job_that_ray_lets_wait_no_longer_is_submitted_again(bench, head):
    head.holds = True
    form = bench.form("echo once")
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait("it waits on the cluster", lambda: form.job_name in head.jobs)
    head.time_out(head.jobs[form.job_name])
    bench.wait("it is there again", lambda: head.count("DELETE", form.job_name) and head.count("POST", "/jobs/") >= 3)
    assert service.get_trial_job(form.job_name).status is WAITING
    head.release()
    bench.wait_for_end(service, form)
    assert bench.output(form) == "once\n"


def test_a_waiting_job_is_canceled_at_once_and_does_nothing_when_it_has_room(bench, head):
    head.holds = True
    form = bench.form(f'touch "{bench.witness}/worked"')
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait("it waits on the cluster", lambda: form.job_name in head.jobs)
    bench.wait_for_status(service, form, WAITING)
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)
    with pytest.raises(TemporaryError):
        service.clean_up_experiment(form.experiment_id)  # Ray removes no job that has not ended
    head.release()
    bench.wait("it has ended on the cluster", lambda: head.jobs[form.job_name].status == "STOPPED")
    service.clean_up_experiment(form.experiment_id)
    assert not head.jobs
    assert not (bench.witness / "worked").exists()


# --- kills and restarts --------------------------------------------------------------------


def test_a_job_whose_process_on_ray_is_killed_fails_as_the_platforms_doing_and_leaves_nothing(bench, head, lasting):
    form, starts, _ = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    head.kill_supervisor(head.jobs[form.job_name])
    detail = bench.wait_for_status(service, form, FAILED)
    assert code_of(detail.cause) == "node_failed"
    assert not bench.entries(form, "ended"), "its keeper was killed, too"
    bench.wait("the trial does not outlive its job", lambda: not bench.trial_processes(form))
    bench.wait("its files are removed", lambda: not list((bench.platform.folder / "tmp").iterdir()))


def test_a_job_whose_end_ray_could_not_note_ended_as_its_keeper_printed(bench, head):
    head.notes_ends = False
    form = bench.form("exit 3")
    service = bench.open_service()
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, FAILED)
    assert (code_of(detail.message), detail.exit_code) == ("exit_code", 3)


def test_a_job_whose_log_cannot_be_read_ends_nevertheless(bench, head, lasting):
    form, starts, _ = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    with open(head.folder / f"job-driver-{form.job_name}.log", "ab") as log:
        log.write(b"\xff")  # Ray reads its logs as UTF-8, and answers 500 where one is not
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)
    with pytest.raises(TemporaryError, match="UnicodeDecodeError"):
        service.last_lines(form.job_name)


def test_the_files_of_an_ended_job_are_removed_from_its_node(bench, head):
    form = bench.form("echo here")
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    bench.wait("its files are removed", lambda: not list((bench.platform.folder / "tmp").iterdir()))


def test_while_the_head_is_away_nothing_is_believed_dead(bench, head, lasting):
    form, starts, go = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    head.close()
    bench.wait("the cluster says so", lambda: "cannot be reached" in service.trouble)
    assert service.get_trial_job(form.job_name).status is RUNNING
    head.start()
    go.touch()
    bench.wait_for_end(service, form)


@pytest.mark.parametrize("names_session", [True, False])
def test_a_head_without_memory_loses_its_jobs_after_a_while(bench, head, lasting, monkeypatch, names_session):
    form, starts, _ = lasting
    head.names_session = names_session
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    monkeypatch.setattr(type(service), "lost_after", 3600.0)
    head.start_anew()
    asked = head.count("GET", form.job_name)
    bench.wait("it was asked for a few times", lambda: head.count("GET", form.job_name) > asked + 3)
    assert service.get_trial_job(form.job_name).status is RUNNING, "unknown is not dead"
    monkeypatch.setattr(type(service), "lost_after", 0.0)
    detail = bench.wait_for_status(service, form, FAILED)
    assert code_of(detail.cause) == "node_failed"
    assert "has forgotten its jobs" in detail.message


def test_a_job_that_somebody_deletes_is_canceled_by_the_system(bench, head):
    head.holds = True
    form = bench.form("true")
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait("it waits on the cluster", lambda: form.job_name in head.jobs)
    del head.jobs[form.job_name]
    detail = bench.wait_for_status(service, form, TrialJobStatus.SYS_CANCELED)
    assert code_of(detail.message) == "stopped_on_platform"


def test_many_jobs_are_asked_about_in_one_question(bench, head, monkeypatch):
    monkeypatch.setattr(service_module, "ONE_BY_ONE", 1)
    service = bench.open_service()
    forms = [bench.form("sleep 3600"), bench.form("sleep 3600")]
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait_for_status(service, form, RUNNING)
    asked = [head.count("GET", form.job_name) for form in forms]
    several = len([request for request in head.requests if (request.method, request.path) == ("GET", "/api/jobs/")])
    assert several
    assert sum(asked) <= 2, "those that were there alone"


# --- what is left on the cluster -----------------------------------------------------------


def test_only_jobs_of_this_installation_are_removed(bench, head):
    head.jobs = {name: ended(name) for name in ("t1", "t2", "t3")}
    head.jobs["t3"].body["metadata"]["nniweb_installation"] = "another"
    service = bench.platform.new_service(bench.context())
    assert service.remove_ended_jobs(["t1", "t3", "t9"], keep_unsaved=True).removed == 1
    assert list(head.jobs) == ["t2", "t3"]
    service.remove_experiment("e1", [])
    assert list(head.jobs) == ["t3"]
    service.clean_up()


def test_one_job_that_runs_does_not_keep_others_from_being_removed(bench, head):
    head.jobs = {name: ended(name) for name in ("t1", "t2")}
    head.jobs["t1"].status = "RUNNING"
    service = bench.platform.new_service(bench.context())
    with pytest.raises(TemporaryError, match="The job t1 has not ended on Ray"):
        service.remove_ended_jobs(["t1", "t2"], keep_unsaved=True)
    assert list(head.jobs) == ["t1"]
    service.clean_up()


def test_the_last_lines_of_a_job_are_what_it_printed(bench, head):
    form = replace(bench.form("true"), keeper=KeeperAccess(("http://127.0.0.1:9",), "token"))
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait("its log says what is wrong", lambda: form.job_name in head.jobs and service.last_lines(form.job_name))
    assert "The keeper cannot be fetched from the server yet: http://127.0.0.1:9" in service.last_lines(form.job_name)


# --- log-in, and the check before a launch -------------------------------------------------


def findings(head, options=None, **settings):
    api = RayApi(RayClusterSettings(address=head.address, **settings))
    try:
        return {finding.check: finding for finding in rehearse_cluster(api, options, quick=True)}
    finally:
        api.close()


def test_a_token_is_sent_and_its_refusal_is_said(tmp_path):
    head = RayDashboard(tmp_path, token="sesame").start()
    try:
        assert all(finding.ok for finding in findings(head, token="sesame").values())
        assert all(finding.ok for finding in findings(
            head, headers="X-Ray-Authorization: Bearer sesame").values())
        for settings in ({}, {"token": "wrong"}):
            refused = findings(head, **settings)["rights"]
            assert refused.blocks
            assert "RAY_AUTH_TOKEN" in refused.message
        api = RayApi(RayClusterSettings(address=head.address, token="wrong"))
        with pytest.raises(LogInRefused):
            api.jobs()
        api.close()
    finally:
        head.end()


def test_the_check_names_what_no_node_has_and_refuses_no_launch_for_it(head):
    found = findings(head, RayTrialOptions(cpus=64).with_gpus(0))["resources"]
    assert (found.ok, found.blocks) == (False, False)
    assert found.message.startswith("No node of the cluster has 64 of CPU: the largest has 16.")
    assert "No node of the cluster has 1 of GPU" in findings(head, RayTrialOptions(gpus=1))["resources"].message
    assert findings(head, RayTrialOptions(resources={"special": 2}))["resources"].ok


def test_an_old_version_is_refused(head):
    head.api_version = "3"
    found = findings(head)["version"]
    assert found.blocks
    assert "Upgrade Ray" in found.message


@pytest.mark.parametrize("version", ["2.49.2", "2.9.3", "1.13.0", "2.49.0rc1"])
def test_a_ray_that_does_not_tell_why_a_job_failed_is_refused(head, version):
    head.ray_version = version
    found = findings(head)["version"]
    assert found.blocks
    assert version in found.message
    assert "Upgrade Ray to 2.50 or later" in found.message


@pytest.mark.parametrize("version", ["2.50.0", "2.60.0", "3.0.0.dev0", "10.1", "nightly", None])
def test_a_newer_ray_or_one_of_another_numbering_is_not_refused(head, version):
    head.ray_version = version
    assert "version" not in findings(head)


@pytest.mark.parametrize("answer", [HTML, Answer(200, [1]), text(404, "nothing here")])
def test_something_else_at_the_address_is_said(head, answer):
    head.script(answer)
    found = findings(head)["connection"]
    assert not found.ok
    assert "Check that" in found.message


def test_a_cluster_that_does_not_answer_is_away_and_refuses_no_launch(head):
    head.close()
    found = findings(head)["connection"]
    assert (found.ok, found.temporary) == (False, True)


def full(head, tmp_path, urls, **options):
    context = ServiceContext("mine", tmp_path / "state", public_urls=lambda: urls)
    service = RayTrainingService(RayClusterSettings(address=head.address), context)
    found = service.rehearse(options=RayTrialOptions(**options))
    service.clean_up()
    assert not head.jobs, "the test job is removed"
    return found[-1]


def test_a_test_job_tries_python_and_the_way_home(bench, head, tmp_path):
    bench.form("true")
    assert full(head, tmp_path, bench.server_urls).message == (
        f"A job with the resources of a trial ran, and reaches this server at {bench.server_urls[0]}.")
    unreached = full(head, tmp_path, ("http://127.0.0.1:9/",))
    assert (unreached.check, unreached.blocks) == ("way_home", True)
    assert "Connection refused" in unreached.message
    no_python = full(head, tmp_path, bench.server_urls, python="python3.0")
    assert (no_python.check, no_python.blocks) == ("interpreter", True)
    assert "The nodes have no python3.0" in no_python.message


def test_a_test_job_without_room_refuses_no_launch_and_is_removed_by_the_next_check(head, tmp_path):
    head.holds = True
    api, context = RayApi(RayClusterSettings(address=head.address)), ServiceContext("mine", tmp_path / "state")
    [found] = try_job(api, None, context, deadline=0.0)
    assert (found.ok, found.temporary) == (False, True)
    assert "A test job did not run within 0 s: Waits on Ray: Job has not started yet." in found.message
    [first] = head.jobs.values()
    head.release()
    wait_until(lambda: first.status == "STOPPED", what="it has ended on the cluster")
    [found] = try_job(api, None, context)
    assert found.ok
    assert not head.jobs
    api.close()


def test_the_service_is_that_of_the_platform():
    assert RayTrainingService.platform == RayClusterSettings.platform_name == "ray"
