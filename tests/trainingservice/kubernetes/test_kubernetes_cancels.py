"""Cancels that meet submissions: a tombstone in the trial's Secret decides."""

from __future__ import annotations

import pytest

from trainingservice.kubernetes_base import names
from trainingservice.kubernetes_base import service as kubernetes_service
from trainingservice.trial_job import ResumedJob, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus


def secret_of(cluster, form) -> dict:
    return cluster.store.get("secrets", "default", names.trial_secret(form.job_name))


def test_a_cancel_that_comes_between_secret_and_job_takes_the_job_away(bench, cluster) -> None:
    service = bench.open_service()
    form = bench.form(f'touch "{bench.witness}/started"')
    other = bench.platform.new_service(bench.context())
    begun = TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, 1000.0)
    real = cluster._create

    def create(plural, namespace, item):
        if plural == "jobs":  # another server cancels at this very moment
            other.stop_job(begun)
        return real(plural, namespace, item)

    cluster._create = create
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, TrialJobStatus.SYS_CANCELED)
    assert "stopped before" in detail.message
    bench.wait("the job is gone, and its pod", lambda: cluster.store.all("jobs") == cluster.store.all("pods") == [])
    assert not (bench.witness / "started").exists()
    other.clean_up()


def test_a_tombstone_holds_no_token_and_goes_after_a_day(bench, cluster) -> None:
    service = bench.open_service()
    form = bench.form("echo here; sleep 600")
    service.submit_trial_job(form)
    bench.wait("it runs", lambda: bench.output(form))
    service.cancel_trial_job(form.job_name)
    bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)
    tombstone = secret_of(cluster, form)
    assert names.CANCELED in tombstone["metadata"]["annotations"]
    assert "data" not in tombstone
    service.belongings.sweep_tombstones()
    assert secret_of(cluster, form) is not None
    cluster.store.change("secrets", "default", tombstone["metadata"]["name"],
                         lambda item: item["metadata"]["annotations"].__setitem__(names.CANCELED, "1000"))
    service.belongings.sweep_tombstones()
    assert secret_of(cluster, form) is None


def test_a_secret_that_was_left_without_a_job_gets_the_fresh_token(bench, cluster) -> None:
    first = bench.open_service()
    form = bench.form("echo once")
    cluster.faults.append({"status": 500, "times": 1000, "verb": "create", "path": "/jobs"})
    first.submit_trial_job(form)
    bench.wait("the Secret is there", lambda: secret_of(cluster, form))
    bench.close_service(first)
    cluster.faults.clear()
    detail = TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, 1000.0)
    second = bench.open_service([ResumedJob(detail, submitted=False)])
    second.submit_trial_job(form)
    bench.wait_for_end(second, form)
    assert bench.output(form) == "once\n"


def test_trials_of_other_clusters_in_the_namespace_are_left_alone(bench, cluster) -> None:
    service = bench.open_service()
    cluster.store.create("jobs", "default", {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "foreign", "labels": {
            "nniweb/cluster": "another", "nniweb/experiment": bench.experiment}},
        "spec": {"suspend": True, "template": {"spec": {"containers": []}}}})
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    service.clean_up_experiment(bench.experiment)
    assert [job["metadata"]["name"] for job in cluster.store.all("jobs")] == ["foreign"]


@pytest.mark.parametrize("plural", ["jobs", "secrets"])
def test_an_object_of_somebody_else_that_has_the_name_of_a_trials_is_left_alone(bench, cluster, plural) -> None:
    service = bench.open_service()
    form = bench.form("true")
    name = names.object_name(form.job_name) if plural == "jobs" else names.trial_secret(form.job_name)
    theirs = cluster.store.create(plural, "default", {
        "apiVersion": "v1", "kind": "Theirs", "metadata": {"name": name, "labels": {"nniweb/cluster": "another"}},
        "spec": {"suspend": True, "template": {"spec": {"containers": []}}}})
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert f"has {'a Job' if plural == 'jobs' else 'a Secret'} {name} that is not of this cluster" in detail.message
    there = cluster.store.get(plural, "default", name)
    assert (there["metadata"]["uid"], there["metadata"].get("ownerReferences"), there.get("data")) == (
        theirs["metadata"]["uid"], None, None)
    assert plural == "secrets" or secret_of(cluster, form) is None, "what was made for the trial goes"


def test_a_secret_that_could_not_be_handed_over_is_handed_over_at_the_next_try(bench, cluster) -> None:
    service = bench.open_service()
    form = bench.form("echo once; sleep 600")  # of one that ended first the Secret goes with the experiment
    cluster.faults.append({"status": 500, "times": 1, "verb": "patch", "path": "/secrets"})
    service.submit_trial_job(form)
    bench.wait("the trial runs", lambda: service.get_trial_job(form.job_name).status is TrialJobStatus.RUNNING)
    bench.wait("the Job owns the Secret", lambda: secret_of(cluster, form)["metadata"].get("ownerReferences"))
    assert cluster.verbs["create", "jobs"] == 1
    bench.wait("its keeper reports", lambda: bench.output(form))  # one that was ended before has no last word
    service.cancel_trial_job(form.job_name)
    bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)


def test_a_crash_before_the_secret_was_handed_over_is_made_good(bench, cluster) -> None:
    first = bench.open_service()
    form = bench.form("echo here; sleep 600")
    cluster.faults.append({"status": 500, "times": 100_000, "verb": "patch", "path": "/secrets"})
    first.submit_trial_job(form)
    bench.wait("the Job is there", lambda: cluster.store.all("jobs"))
    bench.close_service(first)
    cluster.faults.clear()
    second = bench.open_service([ResumedJob(TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, 1000.0),
                                            submitted=True)])
    bench.wait("the Job owns the Secret", lambda: secret_of(cluster, form)["metadata"].get("ownerReferences"))
    bench.wait("its keeper reports", lambda: bench.output(form))
    second.cancel_trial_job(form.job_name)
    bench.wait_for_end(second, form, TrialJobStatus.USER_CANCELED)


@pytest.mark.parametrize("fault", ["refused", "away"])
def test_a_crash_is_made_good_also_where_the_cluster_cannot_be_asked_at_the_next_start(bench, cluster, monkeypatch,
                                                                                      fault) -> None:
    monkeypatch.setattr(kubernetes_service, "SWEEP_AGAIN", 0.1)
    first = bench.open_service()
    form = bench.form("echo here; sleep 600")
    cluster.faults.append({"status": 500, "times": 100_000, "verb": "patch", "path": "/secrets"})
    first.submit_trial_job(form)
    bench.wait("the Job is there", lambda: cluster.store.all("jobs"))
    bench.close_service(first)
    cluster.faults[:] = [{"status": 500, "times": 1, "verb": "list", "path": "/secrets"}] if fault == "refused" else []
    if fault == "away":
        cluster.go_away()
    second = bench.open_service([ResumedJob(TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, 1000.0),
                                            submitted=True)])
    if fault == "away":
        bench.wait("it has asked in vain", lambda: second.trouble)
        cluster.come_back()
    bench.wait("the Job owns the Secret", lambda: secret_of(cluster, form)["metadata"].get("ownerReferences"))
    bench.wait("its keeper reports", lambda: bench.output(form))
    second.cancel_trial_job(form.job_name)
    bench.wait_for_end(second, form, TrialJobStatus.USER_CANCELED)


def test_tombstones_that_are_a_day_old_go_while_the_server_runs_on(bench, cluster, monkeypatch) -> None:
    monkeypatch.setattr(kubernetes_service, "SWEEP_EVERY", 0.2)
    service = bench.open_service()
    canceled, form = bench.form("echo here; sleep 600"), bench.form("echo here; sleep 600")
    for one in (canceled, form):
        service.submit_trial_job(one)
        bench.wait("it runs", lambda one=one: bench.output(one))
    service.cancel_trial_job(canceled.job_name)
    bench.wait_for_end(service, canceled, TrialJobStatus.USER_CANCELED)
    cluster.store.change("secrets", "default", names.trial_secret(canceled.job_name),
                         lambda item: item["metadata"]["annotations"].__setitem__(names.CANCELED, "1000"))
    bench.wait("it has gone", lambda: secret_of(cluster, canceled) is None)
    assert secret_of(cluster, form) is not None
    service.cancel_trial_job(form.job_name)
    bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)


def test_an_experiment_can_be_deleted_where_the_kind_itself_is_gone(bench, cluster, monkeypatch) -> None:
    monkeypatch.setattr(kubernetes_service, "PODS_GONE", 0.1)  # the double has no collector that would take the pods
    service = bench.open_service()
    form = bench.form("echo once")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    del cluster.kinds["jobs"]
    service.clean_up_experiment(form.experiment_id)
    assert cluster.store.all("secrets") == []
