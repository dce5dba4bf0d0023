"""What FrameworkController does not tell of pods, or tells in its own words, reaches the trial's page in sentences."""

from __future__ import annotations

import pytest

from trainingservice.frameworkcontroller.task_roles import TaskRoleSettings
from trainingservice.kubernetes_base import complaints
from trainingservice.trial_job_status import TrialJobStatus


def quota(cluster, used: dict[str, str], hard: dict[str, str], **spec) -> None:
    cluster.store.create("resourcequotas", "default", {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": spec,
        "status": {"hard": hard, "used": used}})


@pytest.fixture
def waiting(bench, cluster, monkeypatch):
    """A trial whose pods may not be made, and its service. It asks for 2 CPUs."""
    monkeypatch.setattr(complaints, "PATIENCE", 0.0)
    monkeypatch.setattr(complaints, "ASK_EVERY", 0.2)
    cluster.controllers.no_pods_because = "pods is forbidden: exceeded quota: small"
    bench.platform.roles = {"task_roles": (TaskRoleSettings(name="worker", docker_image="example/trial:1",
                                                            cpu_number=2),)}

    def submit():
        service = bench.open_service()
        form = bench.form("echo at last")
        service.submit_trial_job(form)
        return service, form

    return submit


@pytest.mark.parametrize(("used", "hard", "said"), [
    ({"pods": "4"}, {"pods": "4"}, "4 of 4 pods are used, and it asks for 1"),
    ({"requests.cpu": "2500m"}, {"requests.cpu": "4"}, "2500m of 4 requests.cpu are used, and it asks for 2"),
    ({"cpu": "3"}, {"cpu": "4"}, "3 of 4 cpu are used, and it asks for 2")])
def test_a_framework_without_pods_names_the_quota_that_has_no_room_for_them(bench, cluster, waiting, used, hard,
                                                                           said) -> None:
    quota(cluster, used, hard)
    service, form = waiting()
    bench.wait("it says so", lambda: "quota small" in service.get_trial_job(form.job_name).message)
    message = service.get_trial_job(form.job_name).message
    assert message == f"The namespace's quota small has no room for a pod of this trial: {said}."
    cluster.controllers.no_pods_because = ""
    bench.wait_for_end(service, form)


def test_a_quota_that_has_room_or_counts_other_pods_is_not_blamed(bench, cluster, waiting) -> None:
    quota(cluster, {"pods": "1", "requests.cpu": "2"}, {"pods": "4", "requests.cpu": "4"})
    service, form = waiting()
    bench.wait("it waits", lambda: service.get_trial_job(form.job_name).message == "The Framework waits for its pods.")
    asked = cluster.verbs["list", "resourcequotas"]
    bench.wait("the quotas were asked for", lambda: cluster.verbs["list", "resourcequotas"] >= asked + 2)
    assert service.get_trial_job(form.job_name).message == "The Framework waits for its pods."


def test_without_the_right_to_see_quotas_it_waits_as_before(bench, cluster, waiting) -> None:
    cluster.forbidden.add(("list", "resourcequotas"))
    quota(cluster, {"pods": "4"}, {"pods": "4"})
    service, form = waiting()
    bench.wait("the quotas were asked for", lambda: cluster.verbs["list", "resourcequotas"])
    bench.wait("it waits", lambda: service.get_trial_job(form.job_name).message == "The Framework waits for its pods.")


def test_a_pod_that_is_refused_for_good_ends_the_trial_with_the_words_of_the_api(bench, cluster, waiting) -> None:
    cluster.controllers.no_pods_because = 'pods "x" is forbidden: violates PodSecurity "baseline:latest": host ports'
    service, form = waiting()
    bench.wait("it ends", lambda: service.get_trial_job(form.job_name).status == TrialJobStatus.FAILED)
    assert service.get_trial_job(form.job_name).message == (
        'The API server refused the pod: pods "x" is forbidden: violates PodSecurity "baseline:latest": host ports.')


def test_an_evicted_pod_says_so_as_on_other_platforms(bench, cluster) -> None:
    service = bench.open_service()
    form = bench.form("echo here; sleep 600")
    service.submit_trial_job(form)
    bench.wait("it runs", lambda: bench.output(form))
    [pod] = cluster.store.all("pods")
    name = pod["metadata"]["name"]
    cluster.node.evict(name, "The node was low on resource: memory.")
    detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert detail.message == f"Pod {name} was evicted from node node1: The node was low on resource: memory."


def test_a_keeper_whose_pod_has_not_begun_is_not_missed_while_another_pod_runs(bench, cluster) -> None:
    cluster.node.missing_images["example/nowhere:1"] = "not found"
    bench.platform.roles = {"task_roles": (
        TaskRoleSettings(name="ps", docker_image="example/trial:1"),
        TaskRoleSettings(name="worker", docker_image="example/nowhere:1"))}
    service = bench.open_service()
    form = bench.form("sleep 600")
    service.submit_trial_job(form)
    bench.wait("its page says what the worker waits for", lambda: "ImagePullBackOff" in service.get_trial_job(
        form.job_name).message)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    assert service.last_lines(form.job_name) is None


@pytest.mark.parametrize("odd", ["Completed", {"state": ["Completed"]}, {"state": "Completed", "attemptStatus": "none"},
                                 {"state": "AttemptRunning", "attemptStatus": {"taskRoleStatuses": ["worker"]}}])
def test_a_status_that_cannot_be_read_hides_no_other_trial_and_its_own_says_so(bench, cluster, odd) -> None:
    service = bench.open_service()
    go = bench.witness / "go"
    form, other = bench.form("sleep 600"), bench.form(f'until [ -e "{go}" ]; do sleep 0.05; done; exit 3')
    for one in (form, other):
        service.submit_trial_job(one)
        bench.wait_for_status(service, one, TrialJobStatus.RUNNING)
    cluster.controllers.paused.add(f"nni{form.job_name}")
    cluster.store.change("frameworks", "default", f"nni{form.job_name}", lambda item: item.update(status=odd))
    bench.wait("it says so", lambda: "cannot be read" in service.get_trial_job(form.job_name).message)
    assert service.get_trial_job(form.job_name).status is TrialJobStatus.RUNNING
    go.touch()
    bench.wait_for_end(service, other, TrialJobStatus.FAILED)
    service.cancel_trial_job(form.job_name)
    bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)
