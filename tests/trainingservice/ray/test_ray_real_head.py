"""A real Ray on loopback: kills of workers, nodes and the head, resources, tokens, and the double compared with it."""

import json
import re
from dataclasses import replace

import pytest
import requests

from tests.fakes.ray_dashboard import RayDashboard
from tests.fakes.ray_head import OLDEST_VERSION, RayHead, ray_python
from tests.trainingservice.conformance.test_conformance_ray import OnRealHead
from tests.trainingservice.conformance.test_conformance_ray import real_head as real_head
from tests.trainingservice.ray.test_ray_tls import in_front_of
from tests.trialkeeper.keeper_run import wait_until
from trainingservice.base import ServiceContext
from trainingservice.ray import service as service_module
from trainingservice.ray.config import RayClusterSettings, RayTrialOptions
from trainingservice.reasons import code_of
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

RUNNING, FAILED = TrialJobStatus.RUNNING, TrialJobStatus.FAILED
#: What a trial sees of its resources and of what Ray passes on to its workers.
TELL = """
import json, os
config = json.loads(os.environ["RAY_JOB_CONFIG_JSON_ENV_VAR"])
print(json.dumps({"gpus": os.environ["CUDA_VISIBLE_DEVICES"], "mine": os.environ["MINE"],
                  "passed_on": sorted(config["runtime_env"]["env_vars"]),
                  "told": sorted(name for name in os.environ if "TOKEN" in name or name.startswith("NNI_RAY"))}))
"""
#: A trial that has Ray run a function of its own module on a worker.
ON_RAY = """
import os, nni, ray
import helper

ray.init(runtime_env={"working_dir": "."}, log_to_driver=False)

@ray.remote(num_cpus=0.1)
def work(x):
    return helper.double(x), sorted(name for name in os.environ if name.startswith("NNI_"))

value, names = ray.get(work.remote(nni.get_next_parameter()["x"]))
assert not names, names
nni.report_final_result(value)
"""


@pytest.fixture(scope="class")  # of the module, it would be started before ``real_head``, which then did not start once
def oldest_head():
    with RayHead(version=OLDEST_VERSION) as head:
        yield head


@pytest.fixture
def platform(tmp_path, real_head):
    return OnRealHead(tmp_path / "platform", real_head)


def running(bench, service, form, starts):
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    return bench.wait_for_status(service, form, RUNNING)


def test_a_job_whose_worker_is_killed_fails_as_the_platforms_doing_and_leaves_nothing(bench, real_head, lasting):
    form, starts, _ = lasting
    service = bench.open_service()
    running(bench, service, form, starts)
    real_head.kill_supervisor(form.job_name)
    detail = bench.wait_for_status(service, form, FAILED)
    assert code_of(detail.cause) == "node_failed"
    assert "Message of Ray: " in detail.message
    bench.wait("the trial does not outlive its job", lambda: not bench.trial_processes(form))


def test_a_job_whose_node_is_killed_fails_as_the_platforms_doing_and_leaves_nothing(bench, real_head, lasting):
    form, starts, _ = lasting
    real_head.start_node("127.0.0.2")
    form = replace(form, options=RayTrialOptions(cpus=0.5, resources={"elsewhere": 1}))
    service = bench.open_service()
    detail = running(bench, service, form, starts)
    assert detail.machine == "127.0.0.2"
    real_head.kill("127.0.0.2")
    detail = bench.wait_for_status(service, form, FAILED)
    assert code_of(detail.cause) == "node_failed"
    bench.wait("the trial does not outlive its node", lambda: not bench.trial_processes(form))


def test_a_killed_head_loses_its_jobs_when_it_is_started_anew_and_not_before(bench, real_head, lasting, monkeypatch):
    form, starts, _ = lasting
    service = bench.open_service()
    running(bench, service, form, starts)
    real_head.kill()
    bench.wait("the cluster says so", lambda: "cannot be reached" in service.trouble)
    assert service.get_trial_job(form.job_name).status is RUNNING, "unknown is not dead"
    bench.wait("the trial does not outlive the head", lambda: not bench.trial_processes(form))
    real_head.stop()
    real_head.start()
    detail = bench.wait_for_status(service, form, FAILED)
    assert code_of(detail.cause) == "node_failed"
    assert "has forgotten its jobs" in detail.message
    again = bench.form("echo again")
    service.submit_trial_job(again)
    bench.wait_for_end(service, again)
    assert bench.output(again) == "again\n"


def test_a_trial_has_the_gpus_and_variables_that_it_asked_for_and_passes_no_secret_on(bench, real_head):
    options = RayTrialOptions(cpus=0.5, resources={"special": 1}, runtime_env={"env_vars": {"MINE": "yes"}})
    form = replace(bench.form(script=TELL, gpu_number=1), options=options)
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    seen = json.loads(bench.output(form))
    assert seen["gpus"] in ("0", "1")
    assert (seen["mine"], seen["passed_on"]) == ("yes", ["MINE", "RAY_worker_niceness"]), "its own, and Ray's"
    assert [name for name in seen["told"] if name != "NNI_RAY_JOB"] == []


def test_a_trial_may_use_ray_itself_with_its_own_code(bench, real_head):
    code = bench.code({"trial.py": ON_RAY, "helper.py": "def double(x):\n    return 2 * x\n"})
    form = replace(bench.form(f"{ray_python()} trial.py", code=code), options=RayTrialOptions(cpus=0.5))
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    finals = [entry["value"] for entry in bench.entries(form, "metric") if entry["kind"] == "FINAL"]
    assert finals == ["1.0"]


def test_a_job_without_room_says_so_and_ends_at_once_when_it_is_canceled(bench, real_head, monkeypatch):
    monkeypatch.setattr(service_module, "ASK_NODES_AFTER", 0.0)
    form = replace(bench.form("true"), options=RayTrialOptions(resources={"special": 5}))
    service = bench.open_service()
    service.submit_trial_job(form)
    bench.wait("it says why", lambda: "5 of special: the largest has 2" in service.get_trial_job(form.job_name).message)
    assert "waiting for resources" in service.get_trial_job(form.job_name).message
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)


def test_a_runtime_environment_that_cannot_be_made_fails_the_trial_with_ray_s_words(bench, real_head):
    options = RayTrialOptions(cpus=0.5, runtime_env={"conda": "no-such-environment"})
    form = replace(bench.form("true"), options=options)
    service = bench.open_service()
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, FAILED)
    assert code_of(detail.message) == "launch_failed"


def test_a_head_with_a_token_takes_jobs_of_who_has_it_alone(tmp_path):
    with RayHead(token="a-token-of-more-than-some-characters") as head:
        settings = {"": {}, "wrong": {"token": "another"}, "right": {"token": head.token},
                    "header": {"headers": f"X-Ray-Authorization: Bearer {head.token}"}}
        for name, given in settings.items():
            service = service_module.RayTrainingService(
                RayClusterSettings(address=head.address, **given), ServiceContext("mine", tmp_path / "state"))
            found = {finding.check: finding for finding in service.rehearse()}
            service.clean_up()
            assert found["rights"].blocks == (name in ("", "wrong")), name
            assert ("trial" in found and found["trial"].ok) == (name in ("right", "header")), "a test job ran"


class TestBehindTls:
    """The same head behind a proxy whose certificate is of a private authority."""

    @pytest.fixture
    def platform(self, tmp_path, real_head):
        with in_front_of(real_head.address, tmp_path / "tls") as proxy:
            platform = OnRealHead(tmp_path / "platform", real_head)
            platform.settings = lambda: RayClusterSettings(
                address=f"https://127.0.0.1:{proxy.port}", ca_file=tmp_path / "tls" / "authority.pem")
            yield platform

    def test_a_trial_runs(self, bench, platform):
        service = bench.open_service()
        assert {finding.check: finding.ok for finding in service.rehearse(quick=True)}["connection"]
        form = bench.form("echo through TLS")
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == "through TLS\n"
        assert service.last_lines(form.job_name) is not None, "the job's log comes by it, too"


class TestOldestVersion:
    """The first version of Ray that the platform takes says by a word why a job failed."""

    @pytest.fixture
    def platform(self, tmp_path, oldest_head):
        return OnRealHead(tmp_path / "platform", oldest_head)

    def test_its_check_is_passed_and_a_trial_runs(self, bench):
        service = bench.open_service()
        assert all(finding.ok for finding in service.rehearse(quick=True))
        form = bench.form("echo on an old Ray")
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == "on an old Ray\n"

    def test_ends_have_their_codes(self, bench, oldest_head, lasting):
        lost, starts, _ = lasting
        unmade = replace(bench.form("true"), options=RayTrialOptions(cpus=0.5, runtime_env={"conda": "no-such-one"}))
        service = bench.open_service()
        for form in (lost, unmade):
            service.submit_trial_job(form)
        bench.wait_for_file(starts)
        bench.wait_for_status(service, lost, RUNNING)
        oldest_head.kill_supervisor(lost.job_name)
        assert code_of(bench.wait_for_status(service, lost, FAILED).cause) == "node_failed"
        assert code_of(bench.wait_for_status(service, unmade, FAILED).message) == "launch_failed"


def test_the_double_answers_as_a_real_head_does(real_head, tmp_path):
    double = RayDashboard(tmp_path / "double").start()
    try:
        told = [answers(real_head.address), answers(double.address)]
    finally:
        double.end()
    assert told[0] == told[1]


def answers(address):
    """What is told apart, of each kind of request: status, the words that count, and the fields of JSON."""
    found = {}

    def ask(what, method, path, body=None, words="", headers=None):
        answer = requests.request(method, f"{address}/{path}", json=body, timeout=60, headers=headers)
        told = sorted(answer.json()) if answer.ok else re.findall(words, answer.text)[:1]
        found[what] = (answer.status_code, told)
        return answer

    job = {"entrypoint": "sleep 3600", "submission_id": "compared", "entrypoint_num_cpus": 0.5,
           "metadata": {"nni_trial": "compared"}, "runtime_env": {"env_vars": {"A": "1"}}}
    ask("version", "GET", "api/version")
    ask("unknown", "GET", "api/jobs/nobody", words="Job nobody does not exist")
    ask("unknown to stop", "POST", "api/jobs/nobody/stop", words="Job nobody does not exist")
    ask("unknown to delete", "DELETE", "api/jobs/nobody", words="Job nobody does not exist")
    ask("unknown log", "GET", "api/jobs/nobody/logs", words="Job nobody does not exist")
    ask("wrong type", "POST", "api/jobs/", {**job, "entrypoint_memory": 1.5}, words="TypeError: entrypoint_memory")
    ask("nothing to run", "POST", "api/jobs/", {"submission_id": "compared"}, words="missing 1 required .*'entrypoint'")
    ask("a browser's", "POST", "api/jobs/", job, words=".*for browser traffic.", headers={"Sec-Fetch-Mode": "cors"})
    ask("wrong metadata", "POST", "api/jobs/", {**job, "metadata": {"a": 1}}, words="metadata values must be strings")
    ask("submitted", "POST", "api/jobs/", job)
    ask("submitted again", "POST", "api/jobs/", job, words="Job with submission_id compared already exists")
    wait_for(address, "RUNNING")
    found["running"] = (200, {name: type(value).__name__ for name, value in row_of(address).items()})
    seen = ask("a browser asks", "GET", "api/jobs/compared", headers={"User-Agent": "Mozilla/5.0"})
    found["not shown"] = (200, seen.json()["runtime_env"])
    ask("not ended", "DELETE", "api/jobs/compared", words="non-terminal state RUNNING")
    ask("stop", "POST", "api/jobs/compared/stop")
    wait_for(address, "STOPPED")
    found["stopped"] = (200, {name: type(value).__name__ for name, value in row_of(address).items()})
    log = ask("log", "GET", "api/jobs/compared/logs").json()["logs"]
    found["logged"] = (200, [words for words in ("Runtime env is setting up.", "Running entrypoint for job compared: ")
                             if words in log])
    ask("stop again", "POST", "api/jobs/compared/stop")
    ask("delete", "DELETE", "api/jobs/compared")
    ask("delete again", "DELETE", "api/jobs/compared", words="Job compared does not exist")
    ask("method", "PATCH", "api/jobs/compared", words="Method Not Allowed")
    ask("nodes", "GET", "api/v0/nodes?detail=true&limit=100")
    return found


def row_of(address):
    return requests.get(f"{address}/api/jobs/compared", timeout=60).json()


def wait_for(address, status):
    wait_until(lambda: row_of(address)["status"] == status, 120, f"the job is {status}")
