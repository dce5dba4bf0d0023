"""What the trial's page says of objects and pods as real operators left them: each wait and each failure says why."""

from __future__ import annotations

import base64
import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from trainingservice.frameworkcontroller.framework import FrameworkKind
from trainingservice.kubeflow.replicated_job import PyTorchJobKind, ReplicatedKind, TFJobKind
from trainingservice.kubeflow.train_job import TrainJobKind
from trainingservice.kubernetes.job import JobKind
from trainingservice.kubernetes_base import pods
from trainingservice.kubernetes_base.kind import Phase, TrialKind
from trainingservice.kubernetes_base.observing import observation, reporting_pod
from trainingservice.polling.job_record import Observation
from trainingservice.trial_job_status import TrialJobStatus

RECORDINGS = Path(__file__).parents[2] / "recordings" / "kubernetes"
KINDS: dict[str, tuple[TrialKind, str]] = {"tfjob": (TFJobKind("v1"), "worker"),
                                           "pytorchjob": (PyTorchJobKind("v1"), "master"),
                                           "framework": (FrameworkKind(), "worker")}
W, R, S, F, C = (TrialJobStatus.WAITING, TrialJobStatus.RUNNING, TrialJobStatus.SUCCEEDED, TrialJobStatus.FAILED,
                 TrialJobStatus.SYS_CANCELED)


def recorded(name: str) -> Any:
    document = json.loads((RECORDINGS / f"{name}.json").read_text())
    return document.get("response", {}).get("body", document)


def recorded_pods(folder: str) -> list[dict[str, Any]]:
    """The pods of that life, with the label that ours have."""
    found = []
    for path in (RECORDINGS / folder).glob("pods-*.json"):
        for pod in json.loads(path.read_text())["items"]:
            labels = pod["metadata"]["labels"]
            labels["nniweb/role"] = next(labels[key] for key in ("replica-type", "pytorch-replica-type",
                                                                 "FC_TASKROLE_NAME") if key in labels)
            found.append(pods.slim(pod))
    return found


def told(name: str, document: dict[str, Any] | None = None) -> Observation:
    """What is told of a recorded object and the pods it had."""
    life = name.rpartition("/")[0]
    kind, role = KINDS[life.partition("/")[0]]
    of_trial = recorded_pods(life)
    seen = kind.see(document or recorded(name), role)
    return observation(seen, of_trial, reporting_pod(of_trial, role), kind.container, None)


@pytest.mark.parametrize(("name", "status", "words"), [
    ("tfjob/operator-not-running/10-after-8s", W, "tf-operator has not processed the TFJob yet. If this continues"),
    ("tfjob/unschedulable-gpu/20-still-created", W,
     "waits for a node (Unschedulable): 0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
    ("tfjob/image-pull-error/20-still-created", W, "worker-0 is being created on node node1."),
    ("tfjob/deleted-while-running/10-created", W, "The TFJob waits for its pods."),
    ("tfjob/restarting/30-restarting", R, "is restarting because Worker replica(s) failed."),
    ("tfjob/restarting/40-running-again", R, ""),
    ("tfjob/chief/30-succeeded", S, ""),
    ("tfjob/failed/30-failed", F, "worker-0 ended with exit code 1 (Error). TFJob default/"),
    ("tfjob/onfailure-backofflimit/30-failed", F, "has reached the specified backoff limit."),
    ("tfjob/invalid-container-name/30-failed", F, "the spec is invalid"),
    ("pytorchjob/distributed/10-created", W, "The PyTorchJob waits for its pods."),
    ("pytorchjob/distributed/20-running", R, ""),
    ("pytorchjob/failed/30-failed", F, "master-0 ended with exit code 1 (Error)."),
    ("pytorchjob/no-master/10-after-6s", F, "Spec is invalid"),
    ("framework/execution-type-create/20-still-pending", W, "The Framework waits to be started."),
    ("framework/succeeded/10-preparing", W, "The Framework waits for its pods."),
    ("framework/two-roles-ps-never-stops/25-deletion", R, ""),
    ("framework/two-roles-ps-never-stops/30-completed", S, ""),
    ("framework/failed/30-completed", F, "worker-0 ended with exit code 3 (Error)."),
    ("framework/framework-retried/30-completed", F, "worker-0 ended with exit code 1 (Error)."),
    ("framework/stopped-by-execution-type/30-completed", C, "stopped on the cluster by somebody else. Rerun"),
])
def test_a_recorded_object_is_told_in_a_sentence(name: str, status: TrialJobStatus, words: str) -> None:
    observed = told(name)
    assert observed.status is status
    assert words in observed.message
    assert bool(words) == bool(observed.message)
    if status in (S, F) and "invalid" not in words and "Spec" not in words:
        assert observed.start_time is not None
        assert observed.end_time is not None
        assert observed.start_time <= observed.end_time


@pytest.mark.parametrize(("name", "code"), [("tfjob/failed/30-failed", 1), ("pytorchjob/failed/30-failed", 1),
                                            ("framework/failed/30-completed", 3),
                                            ("framework/failed-by-signal/30-completed", 137)])
def test_the_exit_code_is_known_also_where_the_pod_is_gone(name: str, code: int) -> None:
    assert told(name).exit_code == code


def test_a_framework_whose_statuses_are_packed_tells_the_same() -> None:
    name = "framework/failed/30-completed"
    framework = recorded(name)
    attempt = framework["status"]["attemptStatus"]
    packed = base64.b64encode(gzip.compress(json.dumps(attempt["taskRoleStatuses"]).encode())).decode()
    attempt |= {"taskRoleStatuses": None, "taskRoleStatusesCompressed": packed}
    assert told(name, framework) == told(name)


@pytest.mark.parametrize("packed", [
    "bm9uZQ==", "#", {"not": "a text"}, base64.b64encode(gzip.compress(b"[" * 100_000)).decode(),
    base64.b64encode(gzip.compress(b"[]")[:-4]).decode()], ids=["no gzip", "no base64", "no text", "deep", "cut off"])
def test_packed_statuses_that_cannot_be_read_tell_nothing_and_the_framework_the_rest(packed: object) -> None:
    framework = recorded("framework/failed/30-completed")
    framework["status"]["attemptStatus"] |= {"taskRoleStatuses": None, "taskRoleStatusesCompressed": packed}
    found = told("framework/failed/30-completed", framework)
    assert (found.status, found.exit_code) == (F, None)
    assert found.message


def test_packed_statuses_are_unpacked_up_to_a_limit() -> None:
    framework = recorded("framework/failed/30-completed")
    packed = base64.b64encode(gzip.compress(b"[" + b" " * (64 * 1024 * 1024) + b"]")).decode()
    framework["status"]["attemptStatus"] |= {"taskRoleStatuses": None, "taskRoleStatusesCompressed": packed}
    tracemalloc.start()
    try:
        assert told("framework/failed/30-completed", framework).status is F
        assert tracemalloc.get_traced_memory()[1] < 40 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_framework_that_the_memory_killer_ended_says_so() -> None:
    framework = recorded("framework/failed-by-signal/30-completed")
    [role] = framework["status"]["attemptStatus"]["taskRoleStatuses"]
    [container] = role["taskStatuses"][0]["attemptStatus"]["completionStatus"]["pod"]["containers"]
    container["reason"] = "OOMKilled"
    message = told("framework/failed-by-signal/30-completed", framework).message
    assert message.startswith("OOMKilled: pod ")
    assert "used more memory than its limit" in message


def test_a_framework_whose_keeper_outlived_the_memory_killer_says_so_beside_the_keepers_word() -> None:
    framework = recorded("framework/failed-by-signal/30-completed")
    [role] = framework["status"]["attemptStatus"]["taskRoleStatuses"]
    [container] = role["taskStatuses"][0]["attemptStatus"]["completionStatus"]["pod"]["containers"]
    container |= {"reason": "OOMKilled", "message": json.dumps({"reason": "exited", "exit_code": 137, "signal": None})}
    found = told("framework/failed-by-signal/30-completed", framework)
    assert found.cause.startswith("OOMKilled: pod ")
    assert found.message == ("The command was ended by SIGKILL. Often this means that the machine ran out of memory. "
                             f"{found.cause}")


@pytest.mark.parametrize(("kind", "status"), [
    (TFJobKind("v1"), {"conditions": [{"type": "Created", "status": "True"}, {"type": "Suspended", "status": "True"}]}),
    (PyTorchJobKind("v1"), {"conditions": [{"type": "Suspended", "status": "True"}]}),
    (TrainJobKind(), {"conditions": [{"type": "Suspended", "status": "True"}]}),
    (JobKind(), {"conditions": [{"type": "Suspended", "status": "True"}]})], ids=lambda value: getattr(
        getattr(value, "resource", None), "kind", "status"))
def test_what_is_suspended_waits_and_says_so(kind: TrialKind, status: dict[str, Any]) -> None:
    seen = kind.see({"metadata": {"name": "t"}, "spec": {}, "status": status}, "worker")
    assert seen.phase is Phase.WAITING
    assert seen.message == f"The {kind.resource.kind} is suspended. It starts when somebody resumes it."


def test_what_was_resumed_is_not_suspended_any_more() -> None:
    kind: ReplicatedKind = TFJobKind("v1")
    conditions = [{"type": "Running", "status": "True"}, {"type": "Suspended", "status": "False"}]
    assert kind.see({"status": {"conditions": conditions}}, "worker").phase is Phase.RUNNING


def test_a_pod_that_waits_for_an_init_container_names_it() -> None:
    pod = {"metadata": {"name": "t-worker-1"}, "spec": {"nodeName": "node1"}, "status": {
        "phase": "Pending", "initContainerStatuses": [{"name": "frameworkbarrier", "state": {"running": {}}}],
        "containerStatuses": [{"name": "framework", "state": {"waiting": {"reason": "PodInitializing"}}}]}}
    assert pods.why_waiting([pod]) == "Pod t-worker-1 waits for its init container frameworkbarrier on node node1."


def test_a_pod_whose_init_container_failed_names_it() -> None:
    pod = {"metadata": {"name": "t-worker-1"}, "status": {"phase": "Failed", "initContainerStatuses": [
        {"name": "nniweb-keeper", "image": "example/keeper:1", "state": {"terminated": {
            "exitCode": 1, "reason": "Error", "message": "cp: can't stat '/keeper.pyz'"}}}]}}
    assert pods.why_ended(pod, "trial") == ("The init container nniweb-keeper of pod t-worker-1, image "
                                            "example/keeper:1, ended with exit code 1: cp: can't stat '/keeper.pyz'.")
