"""What a pod does reaches the trial's page, in sentences."""

from __future__ import annotations

import json

import pytest

from trainingservice.kubernetes.config import JobTrialOptions
from trainingservice.kubernetes_base.config import RoleSettings, RunPolicy
from trainingservice.trial_job_status import TrialJobStatus


def trial(bench, command: str = "true", **role):
    policy = role.pop("run_policy", RunPolicy())
    options = JobTrialOptions(worker=RoleSettings(**{"docker_image": "example/trial:1", **role}), run_policy=policy)
    return with_options(bench, options, command)


def with_options(bench, options: JobTrialOptions, command: str):
    bench.platform.options = lambda: options
    return bench.form(command)


def submit(bench, form):
    service = bench.open_service()
    service.submit_trial_job(form)
    return service


def message(service, form) -> str:
    return service.get_trial_job(form.job_name).message


def pod_of(cluster, form) -> dict:
    [pod] = [pod for pod in cluster.store.all("pods")
             if pod["metadata"]["labels"].get("nniweb/trial") == form.job_name]
    return pod


def test_a_pod_that_no_node_can_take_says_what_is_missing(bench, cluster) -> None:
    form = trial(bench, gpu_number=1)
    service = submit(bench, form)
    bench.wait("it says so", lambda: "Unschedulable" in message(service, form))
    assert "0/1 nodes are available: 1 Insufficient nvidia.com/gpu." in message(service, form)
    assert service.get_trial_job(form.job_name).status is TrialJobStatus.WAITING


def test_an_image_that_cannot_be_pulled_is_named_with_what_the_registry_said(bench, cluster) -> None:
    cluster.node.missing_images["example/typo:1"] = 'Back-off pulling image "example/typo:1": not found'
    form = trial(bench, docker_image="example/typo:1")
    service = submit(bench, form)
    bench.wait("it says so", lambda: "ImagePullBackOff" in message(service, form))
    assert "example/typo:1" in message(service, form)
    assert "not found" in message(service, form)
    assert "privateRegistryAuthPath" in message(service, form)


def test_an_image_without_python_says_what_it_needs(bench) -> None:
    form = trial(bench, python="no-such-python")
    service = submit(bench, form)
    bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert "could not start the keeper; the image must contain Python 3.8" in message(service, form)


def test_a_pod_that_used_too_much_memory_says_so(bench, cluster) -> None:
    form = trial(bench, "echo here; sleep 600")
    service = submit(bench, form)
    bench.wait("it runs", lambda: bench.output(form))
    cluster.node.kill(pod_of(cluster, form)["metadata"]["name"], "OOMKilled")
    bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert "OOMKilled" in message(service, form)
    assert "memorySize" in message(service, form)


def test_an_evicted_pod_says_from_where_and_why(bench, cluster) -> None:
    form = trial(bench, "echo here; sleep 600")
    service = submit(bench, form)
    bench.wait("it runs", lambda: bench.output(form))
    cluster.node.evict(pod_of(cluster, form)["metadata"]["name"], "The node was low on resource: memory.")
    bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert "evicted from node node1: The node was low on resource: memory." in message(service, form)


def test_the_trial_knows_its_node_its_exit_code_and_its_place(bench) -> None:
    form = trial(bench, "exit 9")
    service = submit(bench, form)
    detail = bench.wait_for_end(service, form, TrialJobStatus.FAILED)
    assert (detail.machine, detail.exit_code) == ("node1", 9)
    assert detail.working_directory.endswith(":/nniweb/attempt/code")
    assert detail.url.endswith(f"/apis/batch/v1/namespaces/default/jobs/nni{form.job_name}")


def test_a_suspended_job_waits_and_runs_when_somebody_resumes_it(bench, cluster) -> None:
    form = trial(bench, "echo resumed", run_policy=RunPolicy(suspend=True))
    service = submit(bench, form)
    bench.wait("it says so", lambda: "is suspended" in message(service, form))
    cluster.store.change("jobs", "default", f"nni{form.job_name}",
                         lambda job: job["spec"].__setitem__("suspend", False))
    cluster.store.change("jobs", "default", f"nni{form.job_name}", lambda job: job.__setitem__("status", {}))
    bench.wait_for_end(service, form)
    assert bench.output(form) == "resumed\n"


def test_the_secret_belongs_to_the_job_and_holds_the_only_copy_of_the_token(bench, cluster) -> None:
    form = trial(bench, "echo here; sleep 600")
    service = submit(bench, form)
    bench.wait("it runs", lambda: bench.output(form))
    bench.wait("the Secret was handed over", lambda: "ownerReferences" in cluster.store.all("secrets")[0]["metadata"])
    [secret], [job] = cluster.store.all("secrets"), cluster.store.all("jobs")
    assert secret["metadata"]["ownerReferences"] == [{"apiVersion": "batch/v1", "kind": "Job",
                                                      "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}]
    others = [cluster.store.all(plural) for plural in ("jobs", "pods", "configmaps")]
    assert form.keeper.token not in json.dumps(others)
    service.cancel_trial_job(form.job_name)
    bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)


def test_the_login_of_a_registry_is_there_for_the_experiment_and_goes_with_it(bench, cluster, tmp_path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"auths": {"registry.example.org": {"auth": "c2VjcmV0"}}}')
    form = trial(bench, docker_image="registry.example.org/trial:1", private_registry_auth_path=path)
    service = submit(bench, form)
    bench.wait_for_end(service, form)
    name = f"nniweb-pull-{form.experiment_id}-worker"
    secret = cluster.store.get("secrets", "default", name)
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    assert pod_of(cluster, form)["spec"]["imagePullSecrets"] == [{"name": name}]
    service.clean_up_experiment(form.experiment_id)
    assert cluster.store.all("secrets") == []


def test_the_keeper_can_come_in_an_image(bench, cluster, tmp_path) -> None:
    from trainingservice.keeper.keeper_bundle import build_keeper

    cluster.node.image_files["/keeper.pyz"] = build_keeper(tmp_path).path
    form = with_options(bench, JobTrialOptions(worker=RoleSettings(docker_image="example/trial:1"),
                                               keeper_image="example/keeper:1"), "echo once")
    service = submit(bench, form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "once\n"
    assert cluster.store.all("configmaps") == []


def test_the_pods_log_is_a_second_way_to_the_output(bench, cluster) -> None:
    form = trial(bench, "echo to the page; echo and to the log >&2")
    service = submit(bench, form)
    bench.wait_for_end(service, form)
    log = cluster.node.log_of(pod_of(cluster, form)).decode()
    assert "to the page" in log
    assert "and to the log" in log


def test_no_more_trials_are_on_the_cluster_than_it_may_have(bench, cluster) -> None:
    bench.platform.more = {"max_unfinished_objects": 1}
    first, second = trial(bench, "echo here; sleep 600"), trial(bench, "echo second")
    service = submit(bench, first)
    bench.wait("the first one runs", lambda: bench.output(first))
    service.submit_trial_job(second)
    bench.wait("the second one waits", lambda: "Waits for room" in message(service, second))
    service.cancel_trial_job(first.job_name)
    bench.wait_for_end(service, second)


def test_replicas_of_a_plain_job_report_once(bench, cluster) -> None:
    form = trial(bench, 'echo "$JOB_COMPLETION_INDEX"', replicas=3)
    service = submit(bench, form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "0\n"
    assert len(cluster.store.all("pods")) == 3


@pytest.mark.parametrize(("field", "role", "policy"), [
    ("completionMode", {"replicas": 2}, {}), ("suspend", {}, {"suspend": True})], ids=["replicas", "suspend"])
def test_what_an_old_cluster_drops_of_a_job_is_told_and_nothing_of_it_stays(bench, cluster, field, role,
                                                                           policy) -> None:
    cluster.unknown_of_jobs = {"completionMode", "suspend"}
    options = JobTrialOptions(worker=RoleSettings(docker_image="example/trial:1", **role), run_policy=RunPolicy(
        **policy))
    bench.platform.options = lambda: options
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert field in detail.message
    assert "Kubernetes 1.22" in detail.message
    assert detail.message.endswith(("or set replicas: 1.", "or leave them out."))
    bench.wait("nothing of it is there", lambda: not bench.platform.left_behind(form.experiment_id))
