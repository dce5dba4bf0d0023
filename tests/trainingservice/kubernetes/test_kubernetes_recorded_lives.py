"""Objects live in the double as they did when they were recorded: conditions, states, pods, what a delete leaves."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers

RECORDINGS = Path(__file__).parents[2] / "recordings" / "kubernetes"


@pytest.fixture
def cluster(tmp_path):
    with KubernetesApiDouble(tmp_path / "cluster", kinds={**KUBEFLOW_KINDS, **FRAMEWORK_KINDS},
                             controllers=[*kubeflow_controllers(), FrameworkController()]) as cluster:
        yield cluster


def recorded(name: str) -> Any:
    return json.loads((RECORDINGS / f"{name}.json").read_text())


def shortened(value: Any) -> Any:
    """The recorded object with its sleeps made short."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shortened(item) for item in value]
    if isinstance(value, str):
        for seconds in ("6", "4", "3"):
            value = value.replace(f"sleep {seconds};", "sleep 0.2;")
        return re.sub(r"\bsleep 6$", "sleep 0.2", value)
    return value


def begin(cluster: KubernetesApiDouble, name: str, plural: str) -> str:
    body = shortened(copy.deepcopy(recorded(f"{name}/00-create")["request"]["body"]))
    made = cluster.store.create(plural, "default", body)
    assert made is not None
    return str(made["metadata"]["name"])


def wait(cluster: KubernetesApiDouble, condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < deadline
        with cluster.store.changed:
            cluster.store.changed.wait(0.1)
    return value


def conditions(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: condition[key] for key in ("type", "status", "reason", "message")}
            for condition in status["conditions"]]


@pytest.mark.parametrize(("name", "plural", "last"), [
    ("tfjob/succeeded", "tfjobs", "30-succeeded"), ("tfjob/failed", "tfjobs", "30-failed"),
    ("pytorchjob/succeeded", "pytorchjobs", "30-succeeded")])
def test_a_job_ends_with_the_recorded_conditions(cluster, name: str, plural: str, last: str) -> None:
    job = begin(cluster, name, plural)
    expected = recorded(f"{name}/{last}")
    expected = expected.get("response", {}).get("body", expected)["status"]
    wait(cluster, lambda: (cluster.store.get(plural, "default", job).get("status") or {}).get("completionTime"))
    status = cluster.store.get(plural, "default", job)["status"]
    assert conditions(status) == conditions(expected)
    assert status["replicaStatuses"] == expected["replicaStatuses"]
    assert status.keys() == expected.keys()


@pytest.mark.parametrize(("name", "plural"), [("tfjob/distributed", "tfjobs"), ("pytorchjob/distributed",
                                                                                "pytorchjobs")])
def test_pods_of_several_roles_have_the_recorded_names_labels_and_environment(cluster, name: str,
                                                                             plural: str) -> None:
    begin(cluster, name, plural)
    expected = {pod["metadata"]["name"]: pod for pod in recorded(f"{name}/pods-at-end")["items"]}
    wait(cluster, lambda: all(cluster.store.get("pods", "default", pod) for pod in expected))
    for pod_name, twin in expected.items():
        pod = cluster.store.get("pods", "default", pod_name)
        assert pod["metadata"]["labels"] == twin["metadata"]["labels"]
        assert pod["metadata"]["ownerReferences"][0]["kind"] == twin["metadata"]["ownerReferences"][0]["kind"]
        wanted = {variable["name"]: variable["value"] for variable in twin["spec"]["containers"][0].get("env") or []}
        found = {variable["name"]: variable["value"] for variable in pod["spec"]["containers"][0].get("env") or []}
        if "TF_CONFIG" in wanted:
            assert json.loads(found.pop("TF_CONFIG")) == json.loads(wanted.pop("TF_CONFIG"))
        assert found == wanted


@pytest.mark.parametrize("name", ["succeeded", "failed", "no-completion-policy"])
def test_a_framework_goes_through_the_recorded_states_to_the_recorded_completion(cluster, name: str) -> None:
    version = cluster.store.version
    framework = begin(cluster, f"framework/{name}", "frameworks")
    expected = recorded(f"framework/{name}/30-completed")
    expected = expected.get("response", {}).get("body", expected)["status"]
    wait(cluster, lambda: (cluster.store.get("frameworks", "default", framework).get("status") or {}).get("state")
         == "Completed")
    states = [(item.get("status") or {}).get("state") for _, _, item in
              cluster.store.events_after(version, "frameworks", "default")]
    seen = [event["object"].get("status") for event in recorded(f"framework/{name}/watch")
            if event["type"] != "DELETED"]
    recorded_states = [None if status is None else status.get("state") for status in seen]
    remaining = iter(dict.fromkeys(states))  # the recording lacks a state that lasted for a moment only
    assert all(state in remaining for state in dict.fromkeys(recorded_states))
    status = cluster.store.get("frameworks", "default", framework)["status"]
    completion, twin = (each["attemptStatus"]["completionStatus"] for each in (status, expected))
    assert (completion["code"], completion["phrase"], completion["type"]) == (twin["code"], twin["phrase"],
                                                                             twin["type"])
    assert completion["trigger"]["message"] == twin["trigger"]["message"]
    assert wait(cluster, lambda: not cluster.store.all("pods"))


def test_a_foreground_delete_shows_the_job_while_its_pods_go(cluster) -> None:
    job = begin(cluster, "tfjob/deleted-foreground", "tfjobs")
    wait(cluster, lambda: cluster.store.all("pods"))
    remains = cluster.controllers.delete("tfjobs", "default", job, "Foreground")
    twin = recorded("tfjob/deleted-foreground/90-delete")["response"]["body"]["metadata"]
    assert remains["metadata"]["finalizers"] == twin["finalizers"]
    assert "deletionTimestamp" in remains["metadata"]
