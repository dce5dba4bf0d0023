"""The double answers as the real API server did: each recorded request is put to it again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import requests

from tests.fakes.kubernetes_api import TOKEN, KubernetesApiDouble
from tests.fakes.kubernetes_api_framework import FRAMEWORK_KINDS
from tests.fakes.kubernetes_api_kubeflow import KUBEFLOW_KINDS, TRAINER_KINDS

RECORDINGS = Path(__file__).parents[2] / "recordings" / "kubernetes"
#: What differs from one server, time or object to the next.
VOLATILE = {"uid", "resourceVersion", "creationTimestamp", "generation", "storageVersionHash", "continue",
            "remainingItemCount"}
TFJOBS = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"


@pytest.fixture
def cluster(tmp_path):
    with KubernetesApiDouble(tmp_path / "cluster", kinds={**KUBEFLOW_KINDS, **FRAMEWORK_KINDS,
                                                          **TRAINER_KINDS}) as cluster:
        yield cluster


def recorded(name: str) -> dict:
    return json.loads((RECORDINGS / f"{name}.json").read_text())


def ask(cluster: KubernetesApiDouble, request: dict, token: str = TOKEN) -> tuple[int, str, object]:
    """Status, content type and body of the double's answer to a recorded request."""
    headers = {"Content-Type": request.get("contentType", "application/json")}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    body = request.get("body")
    with requests.Session() as session:
        session.trust_env = False
        answer = session.request(request["method"], cluster.url + request["path"], params=request.get("query"),
                                 headers=headers, data=json.dumps(body) if body is not None else None, timeout=30)
    kind = answer.headers["Content-Type"]
    return answer.status_code, kind, answer.text if kind.startswith("text/") else answer.json()


def without_volatile(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_volatile(item) for key, item in value.items() if key not in VOLATILE}
    return [without_volatile(item) for item in value] if isinstance(value, list) else value


def assert_same(cluster: KubernetesApiDouble, document: dict, **more: str) -> None:
    status, kind, body = ask(cluster, document["request"], **more)
    response = document["response"]
    assert status == response["status"]
    assert kind == response.get("contentType", "application/json")
    assert without_volatile(body) == without_volatile(response["body"])


@pytest.mark.parametrize("name", sorted(path.stem for path in (RECORDINGS / "errors").glob("*422*.json")))
def test_what_is_wrong_is_refused_in_the_same_words(cluster: KubernetesApiDouble, name: str) -> None:
    assert_same(cluster, recorded(f"errors/{name}"))


@pytest.mark.parametrize("name", ["404-object", "404-delete-object", "404-unknown-kind", "404-unknown-version",
                                  "404-namespace-create", "400-namespace-mismatch", "400-bad-selector",
                                  "400-list-continue-bad", "deletecollection-no-match", "list-empty"])
def test_what_is_not_there_is_answered_in_the_same_words(cluster: KubernetesApiDouble, name: str) -> None:
    assert_same(cluster, recorded(f"errors/{name}"))


@pytest.mark.parametrize(("name", "token"), [("401-bad-token", "wrong"), ("401-no-credentials", "")])
def test_strangers_are_refused_in_the_same_words(cluster: KubernetesApiDouble, name: str, token: str) -> None:
    assert_same(cluster, recorded(f"errors/{name}"), token=token)


@pytest.mark.parametrize(("name", "verb"), [("403-list", "list"), ("403-deletecollection", "deletecollection")])
def test_lacking_rights_are_told_in_the_same_words(cluster: KubernetesApiDouble, name: str, verb: str) -> None:
    cluster.forbidden.add((verb, "tfjobs"))
    assert_same(cluster, recorded(f"errors/{name}"))


@pytest.mark.parametrize("name", ["409-already-exists", "415-patch-without-type", "delete-ok-response"])
def test_answers_about_an_object_are_the_same(cluster: KubernetesApiDouble, name: str) -> None:
    create = recorded("errors/409-already-exists")["request"]
    assert ask(cluster, create)[0] == 201
    assert_same(cluster, recorded(f"errors/{name}"))


def test_a_stale_version_is_refused_in_the_same_words(cluster: KubernetesApiDouble) -> None:
    ask(cluster, recorded("errors/409-already-exists")["request"])
    document = recorded("errors/409-conflict-stale-resource-version")
    assert_same(cluster, document)


def test_a_watch_from_too_long_ago_is_told_so_in_an_event(cluster: KubernetesApiDouble) -> None:
    cluster.store.compact()
    document = recorded("errors/410-watch-too-old")
    status, _, event = ask(cluster, document["request"])
    [expected] = document["response"]["events"]
    assert status == document["response"]["status"]
    assert isinstance(event, dict)
    assert event["type"] == expected["type"]
    assert {**event["object"], "message": ""} == {**expected["object"], "message": ""}
    assert event["object"]["message"].startswith("too old resource version: 1 (")


def test_a_watch_from_a_word_is_an_error_of_the_server(cluster: KubernetesApiDouble) -> None:
    document = recorded("errors/500-watch-bad-resource-version")
    status, _, body = ask(cluster, document["request"])
    assert (status, [body]) == (document["response"]["status"], document["response"]["events"])


def test_lists_come_in_pages_and_a_page_grows_too_old(cluster: KubernetesApiDouble) -> None:
    for number in range(4):
        ask(cluster, {"method": "POST", "path": "/api/v1/namespaces/default/configmaps", "body": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"cm{number}"}}})
    document = recorded("errors/list-page-1")
    status, _, page = ask(cluster, document["request"])
    assert isinstance(page, dict)
    assert status == document["response"]["status"]
    assert page.keys() == document["response"]["body"].keys()
    assert page["metadata"].keys() == document["response"]["body"]["metadata"].keys()
    assert (page["metadata"]["remainingItemCount"], len(page["items"])) == (3, 1)
    cluster.store.compact()
    expired = recorded("errors/410-list-continue-expired")
    request = {**expired["request"], "query": {"limit": "1", "continue": page["metadata"]["continue"]}}
    status, _, body = ask(cluster, request)
    assert status == 410
    assert without_volatile(body) == without_volatile(expired["response"]["body"])


@pytest.mark.parametrize("name", ["api-group-kubeflow.org", "api-resources-frameworkcontroller",
                                  "api-resources-kubeflow.org-v1", "selfsubjectaccessreview", "version"])
def test_discovery_is_the_same(cluster: KubernetesApiDouble, name: str) -> None:
    assert_same(cluster, recorded(f"access/{name}"))


@pytest.mark.parametrize("name", ["tfjob/succeeded/00-create", "framework/succeeded/00-create",
                                  "pytorchjob/distributed/00-create"])
def test_a_created_object_is_answered_as_recorded(cluster: KubernetesApiDouble, name: str) -> None:
    document = recorded(name)
    status, _, body = ask(cluster, document["request"])
    assert status == document["response"]["status"]
    assert without_volatile(body) == without_volatile(document["response"]["body"])
