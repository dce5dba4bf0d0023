"""A pod that the cluster takes away, or that runs out of memory, says so also where its keeper had a last word."""

from __future__ import annotations

import json

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
