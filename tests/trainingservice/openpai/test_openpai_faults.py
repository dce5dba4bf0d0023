"""What goes wrong on an OpenPAI cluster: a sentence each, nothing lost, nothing run twice."""

from dataclasses import replace

import pytest

from tests.fakes.http_double import Answer
from tests.fakes.openpai.cluster import error
from tests.fakes.openpai.jobs import Event
from tests.trainingservice.conformance.test_conformance_openpai import QuickOpenPai, WithoutStorage
from tests.trainingservice.jobs_of_tests import (
    check_that_a_stop_is_asked_for_again,
    check_that_an_outage_of_a_minute_loses_nothing,
    check_that_trials_go_on_while_the_cluster_is_away,
    failed_with,
    lasting,
)
from tests.trainingservice.openpai.conftest import name_of
from trainingservice.openpai.config import OpenPaiTrialOptions
from trainingservice.openpai.states import observed_detail, observed_row
from trainingservice.trial_job_status import TrialJobStatus

WAITING, RUNNING, FAILED = TrialJobStatus.WAITING, TrialJobStatus.RUNNING, TrialJobStatus.FAILED
SUBMIT = {"method": "POST", "part": "/v2/jobs"}


# --- refusals ------------------------------------------------------------------------------


def test_an_unknown_virtual_cluster_fails_the_trial_with_its_name(bench):
    service = bench.open_service()
    form = bench.form()
    message = failed_with(bench, service, replace(form, options=OpenPaiTrialOptions(virtual_cluster="nowhere")))
    assert 'virtual cluster "nowhere"' in message


def test_the_rehearsal_names_queue_storage_and_account(bench, platform, cluster):
    service = platform.new_service(bench.context())
    findings = {finding.check: finding for finding in service.rehearse(
        quick=True, options=OpenPaiTrialOptions(virtual_cluster="nowhere"))}
    assert not findings["queue"].ok
    assert "default, research" in findings["queue"].message
    assert "10.0.0.1:/export" in findings["storage"].message
    del cluster.storages["shared"]
    findings = {finding.check: finding for finding in service.rehearse(quick=True)}
    assert 'no storage "shared"' in findings["storage"].message
    cluster.tokens[cluster.token] = "bob"
    findings = {finding.check: finding for finding in service.rehearse(quick=True)}
    assert "belongs to user bob" in findings["rights"].message


def without_name(platform):
    """Settings with the mount points of a storage and not its name, as NNI 1.4 had them."""
    return platform.settings().model_copy(update={"storage_config_name": None})


@pytest.mark.parametrize(("defaults", "words"), [
    (set(), "has no default storage on the cluster: give storageConfigName"),
    ({"shared", "other"}, "has several default storages")])
def test_a_storage_without_a_name_must_be_the_one_default(bench, platform, cluster, defaults, words):
    cluster.storages["other"] = cluster.export
    cluster.default_storages = defaults
    platform.new_service = lambda context: QuickOpenPai(without_name(platform), context)
    service = bench.open_service()
    [finding] = [finding for finding in service.rehearse(quick=True) if not finding.ok]
    assert (finding.check, finding.temporary) == ("storage", False)
    assert words in finding.message
    assert words in failed_with(bench, service, bench.form())


@pytest.mark.parametrize(("options", "words"), [
    (OpenPaiTrialOptions(channel="storage"), "channel: storage needs a storage"),
    (OpenPaiTrialOptions(openpai_config={"taskRoles": {"a": {}}}), "openpaiConfig needs a storage"),
    (OpenPaiTrialOptions(), "")])
def test_what_needs_a_storage_is_said_where_there_is_none(bench, tmp_path, options, words):
    platform = WithoutStorage(tmp_path / "bare")
    try:
        service = platform.new_service(bench.context())
        findings = [finding for finding in service.rehearse(quick=True, options=options) if not finding.ok]
        assert [words in finding.message for finding in findings] == ([True] if words else [])
        service.clean_up()
    finally:
        platform.cluster.end()


def test_without_a_storage_and_an_address_the_trial_says_what_is_missing(bench, platform, cluster):
    bare = platform.settings().model_copy(update=dict.fromkeys(
        ("storage_config_name", "local_storage_mount_point", "container_storage_mount_point")))
    platform.new_service = lambda context: QuickOpenPai(bare, context)
    service = bench.open_service()
    form = bench.form()
    message = failed_with(bench, service, replace(form, keeper=replace(form.keeper, urls=())))
    assert "Set NNIWEB_PUBLIC_URL or nniManagerIp" in message
    assert "storageConfigName" in message


def test_a_missing_storage_fails_the_trial(bench, cluster):
    del cluster.storages["shared"]
    assert "Storage shared is not found. Correct storageConfigName" in failed_with(bench, bench.open_service(),
                                                                                   bench.form())


def test_a_storage_that_is_not_permitted_is_not_taken_for_a_queue(bench, cluster):
    cluster.forbidden_storages.add("shared")
    service = bench.open_service()
    message = failed_with(bench, service, bench.form())
    assert "storageConfigName" in message
    assert "virtual cluster" not in message
    [missing] = [finding.message for finding in service.rehearse(quick=True) if finding.blocks]
    assert 'no storage "shared"' in missing


@pytest.mark.parametrize("extras", [{"storages": []}, {"com.microsoft.pai.runtimeplugin": [
    {"plugin": "teamwise_storage"}]}])
def test_a_document_that_asks_for_the_default_storages_gets_them_beside_ours(bench, cluster, tmp_path, extras):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "word").write_text("from home\n")
    cluster.storages["home"] = tmp_path / "home"
    cluster.default_storages.add("home")
    role = {"commands": [f"cat {cluster.folder}/mnt/home/word"], "dockerImage": "d",
            "resourcePerInstance": {"gpu": 0, "cpu": 1, "memoryMB": 100}}
    own = {"protocolVersion": 2, "type": "job", "prerequisites": [{"type": "dockerimage", "name": "d", "uri": "i"}],
           "taskRoles": {"a": role}, "extras": extras}
    service = bench.open_service()
    form = replace(bench.form("not used"), options=OpenPaiTrialOptions(openpai_config=own))
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "from home\n"
    assert [entry["name"] for entry in cluster.job(name_of(form)).mounted] == ["home", "shared"]


def test_the_rehearsal_looks_at_the_queue_and_the_storages_of_a_document_of_ones_own(bench, platform, cluster):
    own = {"protocolVersion": 2, "type": "job", "prerequisites": [{"type": "dockerimage", "name": "d", "uri": "i"}],
           "taskRoles": {"a": {"commands": ["true"], "dockerImage": "d",
                               "resourcePerInstance": {"gpu": 0, "cpu": 1, "memoryMB": 100}}},
           "defaults": {"virtualCluster": "nowhere"}, "extras": {"storages": [{"name": "gone"}, {"name": "shared"}]}}
    service = platform.new_service(bench.context())
    blocking = [finding for finding in service.rehearse(
        quick=True, options=OpenPaiTrialOptions(openpai_config=own)) if finding.blocks]
    assert [finding.check for finding in blocking] == ["queue", "storage"]
    assert '"nowhere"' in blocking[0].message
    assert 'no storage "gone"' in blocking[1].message
    findings = service.rehearse(quick=True, options=OpenPaiTrialOptions(openpai_config=own, virtual_cluster="default"))
    assert [finding.check for finding in findings if finding.blocks] == ["storage"], "virtualCluster wins"


def test_the_clusters_own_words_on_a_document_are_readable(bench, cluster):
    cluster.script(error(400, "InvalidProtocolError", '[{"dataPath": ".taskRoles", "message": "too much"}]'), **SUBMIT)
    assert ".taskRoles too much" in failed_with(bench, bench.open_service(), bench.form())


def test_a_document_that_would_be_refused_is_not_sent(bench, cluster):
    """What is put into the user's document can make it too large."""
    role = {"commands": ["true"], "dockerImage": "d", "resourcePerInstance": {"gpu": 0, "cpu": 1, "memoryMB": 100}}
    own = {"protocolVersion": 2, "type": "job", "prerequisites": [{"type": "dockerimage", "name": "d", "uri": "i"}],
           "taskRoles": {"a": role}, "description": "x" * (100 * 1024 - 500)}
    form = replace(bench.form(), options=OpenPaiTrialOptions(openpai_config=own))
    assert "the cluster accepts at most 102400" in failed_with(bench, bench.open_service(), form)
    assert cluster.count("POST", "/v2/jobs") == 0


def test_a_document_that_the_server_breaks_on_fails_its_trial_and_holds_up_no_other(bench, cluster, monkeypatch):
    from trainingservice.openpai import service as module
    monkeypatch.setattr(module, "FAULTY_DOCUMENT_AFTER", 3)
    role = {"commands": ["true"], "dockerImage": "d", "resourcePerInstance": {"gpu": 0, "cpu": 1, "memoryMB": 100}}
    own = {"protocolVersion": 2, "type": "job", "prerequisites": [{"type": "dockerimage", "name": "d", "uri": "i"}],
           "taskRoles": {"a": role}}
    service = bench.open_service()
    cluster.script(Answer(500, {"message": "Cannot read properties of undefined"}), 3, **SUBMIT)
    form = replace(bench.form(), options=OpenPaiTrialOptions(openpai_config=own))
    assert "Cannot read properties of undefined" in failed_with(bench, service, form)
    assert cluster.count("POST", "/v2/jobs") == 3
    other = bench.form("true")
    service.submit_trial_job(other)
    bench.wait_for_end(service, other)


def test_a_document_is_not_blamed_while_what_takes_jobs_is_away(bench, cluster, monkeypatch):
    """The server answers 500 then, too, with the code of the connection that failed, and knows of no such job."""
    from trainingservice.openpai import service as module
    monkeypatch.setattr(module, "FAULTY_DOCUMENT_AFTER", 2)
    role = {"commands": ["echo done"], "dockerImage": "d", "resourcePerInstance": {"gpu": 0, "cpu": 1, "memoryMB": 100}}
    own = {"protocolVersion": 2, "type": "job", "prerequisites": [{"type": "dockerimage", "name": "d", "uri": "i"}],
           "taskRoles": {"a": role}}
    cluster.takes_nothing = True
    service = bench.open_service()
    form = replace(bench.form(), options=OpenPaiTrialOptions(openpai_config=own))
    service.submit_trial_job(form)
    bench.wait("it was tried several times", lambda: cluster.count("POST", "/v2/jobs") >= 4)
    assert service.get_trial_job(form.job_name).status is WAITING
    cluster.takes_nothing = False
    bench.wait_for_end(service, form)


@pytest.mark.parametrize("change", [{"extras": {"storages": {}}}, {"secrets": "text"}, {"commands": "a string"}])
def test_a_document_that_was_stored_before_it_was_checked_fails_the_trial_and_no_other(bench, cluster, change):
    role = {"commands": change.get("commands", ["true"]), "dockerImage": "d",
            "resourcePerInstance": {"gpu": 0, "cpu": 1, "memoryMB": 100}}
    own = {"protocolVersion": 2, "type": "job", "prerequisites": [{"type": "dockerimage", "name": "d", "uri": "i"}],
           "taskRoles": {"a": role}, **{key: value for key, value in change.items() if key != "commands"}}
    form = replace(bench.form(), options=OpenPaiTrialOptions(openpai_config=own))
    message = failed_with(bench, bench.open_service(), form)
    assert "OpenPAI would refuse the job document" in message
    assert cluster.count("POST", "/v2/jobs") == 0


def test_jobs_mount_further_storages_where_they_are_wanted(bench, platform, cluster, tmp_path):
    """So a share that all trials write to is at one path, as sharedStorage has it."""
    (tmp_path / "lab").mkdir()
    cluster.storages["lab"] = tmp_path / "lab"
    service = bench.open_service()
    options = OpenPaiTrialOptions(storages={"lab": str(tmp_path / "there")})
    for command in (f"echo first > {tmp_path}/there/word", f"cat {tmp_path}/there/word"):
        form = replace(bench.form(command), options=options)
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
    assert bench.output(form) == "first\n"
    assert cluster.job(name_of(form)).document["extras"]["storages"] == [
        {"name": "lab", "mountPath": str(tmp_path / "there")},
        {"name": "shared", "mountPath": str(cluster.mount)}]
    assert [finding.message for finding in service.rehearse(options=options) if not finding.ok] == []
    [missing] = [finding for finding in service.rehearse(options=OpenPaiTrialOptions(storages={"nowhere": "/n"}))
                 if finding.blocks]
    assert 'no storage "nowhere"' in missing.message


def test_a_missing_image_is_said(bench, cluster):
    cluster.images_missing.add("no/such:image")
    form = replace(bench.form(), options=OpenPaiTrialOptions(docker_image="no/such:image"))
    assert "image was not found" in failed_with(bench, bench.open_service(), form)


def test_a_name_that_a_stranger_has_fails_the_trial(bench, cluster):
    form = bench.form("echo mine")
    from tests.fakes.openpai.jobs import Job
    cluster.jobs[cluster.user, name_of(form)] = Job(cluster.user, name_of(form), {"extras": {}})
    assert "already, which does not belong to this trial" in failed_with(bench, bench.open_service(), form)


# --- faults --------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "words"), [
    (Answer(200, "<html><body>Please sign in</body></html>", "text/html"), "with JSON"),
    (Answer(500, {"code": "UnknownError", "message": "boom"}), "boom"),
    (Answer(503, "upstream", "text/plain"), "503"),
])
def test_a_fault_while_asking_changes_nothing_and_is_said(bench, cluster, answer, words):
    service = bench.open_service()
    form, starts, go = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    cluster.script(answer, 1000, method="GET", part="/v2/jobs")
    bench.wait("the cluster says so", lambda: words in service.trouble)
    assert service.get_trial_job(form.job_name).status is RUNNING
    cluster.unscript()
    go.touch()
    bench.wait_for_end(service, form)


def test_a_limit_is_kept_to_for_as_long_as_is_asked(bench, cluster):
    service = bench.open_service()
    cluster.script(Answer(429, "Too many requests", "text/html", {"Retry-After": "1"}), **SUBMIT)
    form = bench.form("echo done")
    service.submit_trial_job(form)
    bench.wait("it waits", lambda: "limits the rate" in service.get_trial_job(form.job_name).message)
    assert "1 s" in service.get_trial_job(form.job_name).message
    bench.wait_for_end(service, form)
    assert cluster.count("POST", "/v2/jobs") == 2


def test_a_submission_whose_answer_is_lost_is_not_made_twice(bench, cluster):
    service = bench.open_service()
    form, starts, go = lasting(bench)
    cluster.script(Answer(502, "Bad Gateway", "text/html"), after=True, **SUBMIT)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    go.touch()
    bench.wait_for_end(service, form)
    assert (starts.read_text(), len(cluster.jobs)) == ("start\n", 1)


SIGN_IN = "<html><body>Please sign in</body></html>"


@pytest.mark.parametrize(("answer", "reached"), [
    (Answer(200, SIGN_IN, "text/html"), False), (Answer(202, SIGN_IN, "text/html"), True),
    (Answer(200, {"status": 200}), False), (Answer(403, SIGN_IN, "text/html"), True)])
def test_only_openpais_own_word_means_that_a_job_was_accepted(bench, cluster, answer, reached):
    """A proxy may have passed the submission on or not: it is made again, and there is one job."""
    service = bench.open_service()
    form = bench.form("echo once")
    cluster.script(answer, after=reached, **SUBMIT)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert cluster.count("POST", "/v2/jobs") == 2
    assert (len(cluster.jobs), bench.output(form)) == (1, "once\n")


def test_a_proxys_page_instead_of_an_acceptance_is_said_while_the_trial_waits(bench, cluster):
    service = bench.open_service()
    form = bench.form("true")
    cluster.script(Answer(202, SIGN_IN, "text/html"), 1000, **SUBMIT)
    service.submit_trial_job(form)
    bench.wait("the trial says so", lambda: "proxy or log-in page" in service.get_trial_job(form.job_name).message)
    assert service.get_trial_job(form.job_name).status is WAITING
    cluster.unscript()
    bench.wait_for_end(service, form)


@pytest.mark.parametrize("answer", [Answer(200, SIGN_IN, "text/html"), Answer(404, SIGN_IN, "text/html")])
def test_only_openpais_own_word_means_that_a_stop_was_accepted(bench, cluster, answer):
    check_that_a_stop_is_asked_for_again(bench, cluster, answer, lambda form: cluster.job(
        name_of(form)).execution == "STOP", method="PUT", part="/executionType")


def test_the_time_in_our_queue_does_not_count_for_a_job_that_is_not_there_yet(bench, platform, cluster, monkeypatch):
    now = [1000.0]
    context = bench.context
    monkeypatch.setattr(bench, "context", lambda: replace(context(), clock=lambda: now[0]))
    service = bench.open_service()
    form = bench.form("echo done")
    cluster.script(Answer(503, "away", "text/plain"), 1000, **SUBMIT)
    service.submit_trial_job(form)
    bench.wait("the cluster is away", lambda: "503" in service.get_trial_job(form.job_name).message)
    now[0] += 3600
    cluster.script(error(404, "NoJobError", "Job is not found."), 1000, method="GET", part="~")
    cluster.held = True
    cluster.unscript("POST")
    bench.wait("it is asked about after its acceptance", lambda: cluster.count("GET", "~") >= 2)
    assert service.get_trial_job(form.job_name).status is WAITING
    cluster.unscript()
    cluster.release()
    bench.wait_for_end(service, form)


def test_a_job_that_is_not_there_yet_is_waited_for(bench, cluster):
    service = bench.open_service()
    cluster.script(error(404, "NoJobError", "Job is not found."), 3, method="GET", part="~")
    form = bench.form("echo done")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)


def test_nothing_is_lost_while_the_cluster_is_away(bench, cluster):
    check_that_trials_go_on_while_the_cluster_is_away(bench, cluster.close, cluster.start, "cannot be reached")


def test_a_job_that_the_cluster_starts_again_runs_its_trial_once(bench, cluster):
    service = bench.open_service()
    form, starts, _ = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    cluster.evict(name_of(form))
    detail = bench.wait_for_end(service, form, FAILED)
    assert starts.read_text() == "start\n"
    assert "keeper was killed" in detail.message
    assert cluster.job(name_of(form)).retries == 1


# --- what the cluster tells ----------------------------------------------------------------


def test_a_job_that_waits_for_long_says_why(bench, platform, cluster, monkeypatch):
    from trainingservice.openpai import service as module
    monkeypatch.setattr(module, "ASK_WHY_AFTER", 0.0)
    cluster.held, cluster.events = True, [
        Event("0/3 nodes are available: 3 node(s) were unschedulable.", last=1000.0),
        Event("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", last=2000.0),
        Event("Created container init", last=3000.0, type="Normal")]
    service = bench.open_service()
    form = bench.form("echo done")
    service.submit_trial_job(form)
    bench.wait("it says why", lambda: "Insufficient nvidia.com/gpu" in service.get_trial_job(form.job_name).message)
    cluster.release()
    assert bench.wait_for_end(service, form).message == ""


def test_running_jobs_without_a_node_are_not_asked_for_it_with_every_question(bench, cluster, monkeypatch):
    from trainingservice.openpai import service as module
    monkeypatch.setattr(module, "ASK_MACHINE_AFTER", 1000.0)
    cluster.node = None
    service = bench.open_service()
    form, starts, go = lasting(bench)
    other = bench.form(form.command)
    for each in (form, other):
        service.submit_trial_job(each)
    bench.wait("both run", lambda: all(service.get_trial_job(each.job_name).status is RUNNING
                                       for each in (form, other)))
    def details():
        return sum(cluster.count("GET", f"~{name_of(each)}") for each in (form, other))

    before = details()
    lists = [request.path.endswith("/v2/jobs") for request in cluster.requests].count(True)
    bench.wait("there were more questions", lambda: [request.path.endswith("/v2/jobs")
                                                     for request in cluster.requests].count(True) > lists + 4)
    assert details() - before <= 2, "one each at most"
    go.touch()
    for each in (form, other):
        bench.wait_for_end(service, each)


def test_many_jobs_are_asked_about_in_one_question(bench, cluster):
    service = bench.open_service()
    cluster.held = True
    forms = [bench.form("true") for _ in range(5)]
    for form in forms:
        service.submit_trial_job(form)
    bench.wait("all are submitted", lambda: len(cluster.jobs) == 5)
    before = len(cluster.requests)
    bench.wait("there were some questions", lambda: len(cluster.requests) >= before + 4)
    assert {request.path for request in cluster.requests[before + 1:]} == {"/rest-server/api/v2/jobs"}
    cluster.release()
    for form in forms:
        bench.wait_for_end(service, form)


def test_the_first_role_of_a_document_of_ones_own_reports_and_the_others_stop_with_it(bench, cluster):
    role = {"dockerImage": "d", "resourcePerInstance": {"gpu": 0, "cpu": 1, "memoryMB": 100}}
    own = {"protocolVersion": 2, "type": "job", "parameters": {"word": "filled"},
           "prerequisites": [{"type": "dockerimage", "name": "d", "uri": "i"}],
           "taskRoles": {"chief": {**role, "commands": ["echo chief <% $parameters.word %>", "cat trial.txt",
                                                         "exit 5"]},
                         "helper": {**role, "instances": 2, "commands": ["cat trial.txt; sleep 100"]}}}
    service = bench.open_service()
    form = replace(bench.form("not used", code=bench.code({"trial.txt": "the code\n"})),
                   options=OpenPaiTrialOptions(openpai_config=own))
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form, FAILED)
    assert (bench.output(form), detail.exit_code) == ("chief filled\nthe code\n", 5)
    assert len(bench.entries(form, "started")) == 1


@pytest.mark.parametrize(("state", "status"), [
    ("WAITING", WAITING), ("RUNNING", RUNNING), ("STOPPING", RUNNING), ("SUCCEEDED", TrialJobStatus.SUCCEEDED),
    ("FAILED", FAILED), ("STOPPED", TrialJobStatus.SYS_CANCELED), ("UNKNOWN", TrialJobStatus.UNKNOWN),
    ("", TrialJobStatus.UNKNOWN)])
def test_each_state_has_a_status(state, status):
    assert observed_row({"state": state}).status is status


@pytest.mark.parametrize(("code", "own", "exit_code", "words"), [
    (255, 3, 3, "exit code 3"), (220, 127, 127, "exit code 127"), (137, 137, 137, "out of memory"),
    (-1200, None, None, "trialMemorySize"), (254, None, None, "image was not found"), (252, None, None, "no node has"),
    (-1100, None, None, "could not start"), (42, None, None, "exit code 42")])
def test_the_exit_code_of_the_trial_itself_counts_and_others_are_explained(code, own, exit_code, words):
    seen = observed_detail({"jobStatus": {"state": "FAILED", "appExitCode": code, "launchedTime": 1000,
                                          "appExitMessages": {"runtime": own and {"originUserExitCode": own}}}})
    assert (seen.exit_code, seen.start_time) == (exit_code, 1.0)
    assert words in seen.message


@pytest.mark.slow
def test_an_outage_of_a_minute_loses_nothing(bench, cluster):
    check_that_an_outage_of_a_minute_loses_nothing(bench, cluster)


def test_on_the_storage_others_may_read_the_journal_and_find_no_token(bench, cluster):
    service = bench.open_service()
    form = replace(bench.form("echo done"), options=OpenPaiTrialOptions(channel="storage"))
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    folder = cluster.export / "nniweb" / form.experiment_id / form.job_name
    for name in ("journal.jsonl", "exit.json", "keeper.json"):
        assert (folder / name).stat().st_mode & 0o044 == 0o044, "the server is another user than the container"
    for path in cluster.export.rglob("*"):
        assert not path.is_file() or form.keeper.token.encode() not in path.read_bytes(), path
    assert "secrets" not in cluster.job(name_of(form)).document


@pytest.mark.parametrize("said", ["Hived error: exceed V100 quota in vc default.",
                                  "Job requests 8 SKUs, exceeds maximum 4 SKUs in VC default."])
def test_a_job_that_there_is_no_quota_for_waits_with_the_schedulers_words(bench, cluster, monkeypatch, said):
    from trainingservice.openpai import api as module
    monkeypatch.setattr(module, "QUOTA_PAUSE", 0.2)
    cluster.script(error(400, "InvalidProtocolError", said), times=1_000_000, **SUBMIT)
    service = bench.open_service()
    form = bench.form("echo worked")
    service.submit_trial_job(form)
    waited = bench.wait("it waits", lambda: "quota" in (text := service.get_trial_job(form.job_name).message) and text)
    assert said in waited
    assert "tried again every minute" in waited
    assert service.trouble == ""
    cluster.unscript()
    bench.wait_for_end(service, form)


@pytest.mark.parametrize("said", [
    "Hived error: K80 does not have enough memory",
    "Taskrole taskrole requests 1 GPU, but SKU does not configure GPU. Please contact admin if the taskrole needs GPU "
    "resources.", "Taskrole taskrole has skuType K80, VC default only allows V100."])
def test_a_request_that_no_sku_can_meet_is_refused_for_good(bench, cluster, said):
    cluster.script(error(400, "InvalidProtocolError", said), **SUBMIT)
    assert said in failed_with(bench, bench.open_service(), bench.form())


def test_an_events_table_that_is_away_holds_up_no_end(bench, platform, cluster, lasting, monkeypatch):
    from trainingservice.openpai import service as module
    monkeypatch.setattr(module, "ASK_WHY_AFTER", 0.0)
    form, starts, go = lasting
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    cluster.held = True
    waiting = [bench.form() for _ in range(8)]
    for other in waiting:
        service.submit_trial_job(other)
    cluster.script(error(500, "UnknownError", "relation does not exist"), 1000, part="/events")
    bench.wait("all wait there", lambda: len(cluster.jobs) == 9)
    go.touch()
    bench.wait_for_end(service, form)
    assert service.trouble == ""
    cluster.unscript()


def test_a_job_whose_record_cannot_be_read_holds_up_no_other(bench, platform, cluster, lasting):
    form, starts, go = lasting
    service = bench.open_service()
    broken = bench.form("true")
    service.submit_trial_job(broken)
    cluster.script(error(500, "UnknownError", "Unexpected end of JSON input"), 1000,
                   part=name_of(broken))
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    go.touch()
    bench.wait_for_end(service, form)
    cluster.unscript()
