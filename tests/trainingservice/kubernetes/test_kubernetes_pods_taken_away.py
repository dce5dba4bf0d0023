"""A pod that the cluster takes away, or that runs out of memory, says so also where its keeper had a last word."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from trainingservice.kubernetes_base import pods
from trainingservice.kubernetes_base.kind import Phase, Seen
from trainingservice.kubernetes_base.observing import observation
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
             "message": "default-scheduler: preempting to accommodate a higher priority pod"}


def ended_pod(end_reason: str, *, kubelet_says: str = "Error", exit_code: int = 137, **status) -> dict:
    end = {"reason": end_reason, "exit_code": exit_code, "signal": 9, "message": "", "at": 2.0, "duration": 1.0}
    return pods.slim({
        "metadata": {"name": "p", "labels": {"nniweb/role": "worker"}}, "spec": {"nodeName": "node1"},
        "status": {"phase": "Failed", **status, "containerStatuses": [{"name": "trial", "state": {"terminated": {
            "exitCode": exit_code, "reason": kubelet_says, "message": json.dumps(end)}}}]}})


def seen(pod: dict):
    return observation(Seen(Phase.FAILED, "Job has reached the specified backoff limit."), [pod], pod, "trial", None)


def test_a_preempted_pod_says_who_took_it_away() -> None:
    found = seen(ended_pod(contract.STOPPED, conditions=[DISRUPTED]))
    assert found.status is TrialJobStatus.SYS_CANCELED
    assert "took pod p from node node1 (PreemptionByScheduler): default-scheduler: preempting" in found.message


def test_an_eviction_that_left_the_keeper_its_grace_names_the_eviction() -> None:
    found = seen(ended_pod(contract.STOPPED, reason="Evicted", message="The node was low on resource: memory."))
    assert "evicted from node node1: The node was low on resource: memory." in found.message


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_disruption_that_did_not_come_is_none(status: str) -> None:
    assert pods.why_disrupted(ended_pod(contract.STOPPED, conditions=[{**DISRUPTED, "status": status}])) == ""


def test_a_trial_that_was_killed_for_its_memory_says_so_beside_the_keepers_word() -> None:
    found = seen(ended_pod(contract.EXITED, kubelet_says="OOMKilled"))
    assert found.status is TrialJobStatus.FAILED
    assert "ended by SIGKILL" in found.message
    assert "OOMKilled" in found.message
    assert "memorySize" in found.message


def test_a_drained_pods_reason_outlives_the_pod(bench, cluster) -> None:
    service = bench.open_service()
    form = bench.form("echo here; sleep 600")
    service.submit_trial_job(form)
    bench.wait("it runs", lambda: bench.output(form))
    [pod] = cluster.store.all("pods")
    cluster.store.change("pods", "default", pod["metadata"]["name"],
                         lambda item: item["status"].__setitem__("conditions", [DISRUPTED]))
    cluster.node.stop(pod["metadata"]["name"])
    detail = bench.wait_for_status(service, form, TrialJobStatus.SYS_CANCELED)
    assert "PreemptionByScheduler" in detail.message


def test_a_pod_that_somebody_deletes_is_a_cancel_though_its_replacement_fails_first(bench, cluster) -> None:
    """The Job's controller makes another pod at once, whose keeper finds the attempt taken while the first one ends."""
    service = bench.open_service()
    go = bench.witness / "go"  # until then it ends, as one does that saves what it has
    form = bench.form(f'trap "" TERM; echo here; until [ -e "{go}" ]; do sleep 0.05; done; exit 1')
    form = replace(form, limits=replace(form.limits, grace_period=60.0))
    service.submit_trial_job(form)
    bench.wait("it runs", lambda: bench.output(form))
    [pod] = cluster.store.all("pods")
    cluster.controllers.delete("pods", "default", pod["metadata"]["name"], "Background")
    bench.wait("its replacement has failed", lambda: any(
        (other.get("status") or {}).get("phase") == "Failed" for other in cluster.store.all("pods")
        if other["metadata"]["name"] != pod["metadata"]["name"]))
    assert not service.get_trial_job(form.job_name).status.is_end, "its trial still runs"
    go.touch()
    bench.wait("it has ended", lambda: service.get_trial_job(form.job_name).status.is_end)
    detail = service.get_trial_job(form.job_name)
    assert (detail.status, "another keeper" in detail.message) == (TrialJobStatus.SYS_CANCELED, False)
    assert len(bench.entries(form, contract.STARTED)) == 1
