"""The double answers as the real API server did: each recorded request is put to it again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import requests

from tests.fakes.kubernetes.api import TOKEN, KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, TRAINER_KINDS

RECORDINGS = Path(__file__).parents[2] / "recordings" / "kubernetes"
#: What differs from one server, time or object to the next.
VOLATILE = {"uid", "resourceVersion", "creationTimestamp", "generation", "storageVersionHash", "continue",
            "remainingItemCount"}


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
                                 headers=headers, data=json.dumps(body) if body is not None else None, timeout=90)
    kind = answer.headers["Content-Type"]
    return answer.status_code, kind, answer.text if kind.startswith("text/") else answer.json()


def events_of(cluster: KubernetesApiDouble, request: dict) -> list[dict]:
    """What a watch tells until its end."""
    with requests.Session() as session:
        session.trust_env = False
        answer = session.get(cluster.url + request["path"], params=request["query"], timeout=90,
                             headers={"Authorization": f"Bearer {TOKEN}"})
    return [json.loads(line) for line in answer.text.splitlines()]


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


@pytest.mark.parametrize(("name", "verb"), [
    ("403-list", "list"), ("403-create", "create"), ("403-delete-only-create-allowed", "delete"),
    ("403-deletecollection", "deletecollection"), ("403-deletecollection-verb-missing", "deletecollection")])
def test_lacking_rights_are_told_in_the_same_words(cluster: KubernetesApiDouble, name: str, verb: str) -> None:
    cluster.forbidden.add((verb, "tfjobs"))
    assert_same(cluster, recorded(f"errors/{name}"))


@pytest.mark.parametrize("name", ["409-already-exists", "415-patch-without-type",
                                  "415-strategic-merge-on-custom-resource", "delete-ok-response"])
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


def test_an_open_watch_is_told_of_what_a_compaction_forgets(cluster: KubernetesApiDouble) -> None:
    query = f"watch=true&timeoutSeconds=1&resourceVersion={cluster.store.version}"
    status, events, _ = cluster.answer("GET", f"/api/v1/namespaces/default/configmaps?{query}", b"",
                                       {"Authorization": f"Bearer {TOKEN}"})
    assert status == 200
    for name in ("before", "after"):
        cluster.store.create("configmaps", "default", {"metadata": {"name": name}})
        cluster.store.compact()
    assert [event["object"]["metadata"]["name"] for event in events] == ["before", "after"]


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


def test_a_list_at_a_version_that_was_compacted_is_refused_in_the_same_words(cluster: KubernetesApiDouble) -> None:
    cluster.store.compact()
    assert_same(cluster, recorded("errors/410-list-exact-version-expired"))


def test_a_watch_from_the_future_is_silent_until_its_time_is_over(cluster: KubernetesApiDouble) -> None:
    document = recorded("errors/watch-future-resource-version")
    query = {**document["request"]["query"], "timeoutSeconds": "1"}
    assert events_of(cluster, {**document["request"], "query": query}) == document["response"]["events"]


def test_a_deleted_collection_is_answered_with_what_it_was(cluster: KubernetesApiDouble) -> None:
    document = recorded("errors/deletecollection-by-label")
    for item in document["response"]["body"]["items"]:
        metadata = {key: item["metadata"][key] for key in ("name", "namespace", "labels")}
        assert cluster.store.create("tfjobs", "default", {**item, "metadata": metadata})
    status, _, body = ask(cluster, document["request"])
    assert status == document["response"]["status"]
    for answer in (body, document["response"]["body"]):
        assert isinstance(answer, dict)
        answer["items"].sort(key=lambda item: item["metadata"]["name"])
    assert without_volatile(body) == without_volatile(document["response"]["body"])
    assert cluster.store.all("tfjobs") == []


@pytest.mark.parametrize("name", ["api-group-kubeflow.org", "api-resources-frameworkcontroller",
                                  "api-resources-kubeflow.org-v1", "readyz", "selfsubjectaccessreview", "version"])
def test_discovery_is_the_same(cluster: KubernetesApiDouble, name: str) -> None:
    assert_same(cluster, recorded(f"access/{name}"))


#: What is put to the double by another test: with pods that stay for a while.
ELSEWHERE = {"tfjob/deleted-foreground/90-delete", "framework/deleted-foreground/90-delete"}
LIVES = sorted(str(path.parent.relative_to(RECORDINGS)) for path in RECORDINGS.glob("*/*/00-create.json"))


@pytest.mark.parametrize("life", LIVES)
def test_each_request_of_a_life_is_answered_as_recorded(cluster: KubernetesApiDouble, life: str) -> None:
    """No operator runs here, so what only an operator writes is left out of the comparison."""
    for path in sorted((RECORDINGS / life).glob("[0-9]*.json")):
        name = f"{life}/{path.stem}"
        document = recorded(name)
        if "request" not in document or name in ELSEWHERE:
            continue
        status, _, body = ask(cluster, document["request"])
        expected = document["response"]["body"]
        assert status == document["response"]["status"], name
        if document["request"]["method"] == "PATCH":
            assert isinstance(body, dict)
            assert body.keys() | {"status"} == expected.keys()
            assert body["spec"]["executionType"] == expected["spec"]["executionType"]
            assert without_volatile(body["metadata"]) == without_volatile(expected["metadata"])
        else:
            assert without_volatile(body) == without_volatile(expected), name


def as_newer_operators_have_it(schema: dict, within: str = "") -> dict:
    """The double's schema without what it is stricter in, so that misspelt fields of ours are found.

    The real ones drop unknown fields, take roles of any name, and look at no value inside a pod template.
    training-operator also has a default.
    """
    made: dict = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: as_newer_operators_have_it(item, "template" if within == "template" else name)
                         for name, item in value.items()}
        elif isinstance(value, dict):
            made[key] = as_newer_operators_have_it(value, within)
        elif key != "strict" and not (key == "enum" and within == "template"):
            made[key] = value
    if within.endswith("ReplicaSpecs"):  # any key is a role
        return {"type": "object", "additionalProperties": made["properties"]["Worker"]}
    if within == "runPolicy":
        made["properties"]["suspend"] = {**made["properties"]["suspend"], "default": False}
    return made


@pytest.mark.parametrize("name", sorted(path.stem for path in (RECORDINGS / "schema-only").glob("*.json")))
def test_newer_operators_schemas_take_refuse_and_drop_the_same(cluster: KubernetesApiDouble, name: str) -> None:
    cluster.schemas = {plural: as_newer_operators_have_it(schema) for plural, schema in cluster.schemas.items()}
    document = recorded(f"schema-only/{name}")
    status, _, body = ask(cluster, document["request"])
    assert status == document["response"]["status"]
    assert without_volatile(body) == without_volatile(document["response"]["body"])


def test_every_recorded_request_is_put_to_the_double() -> None:
    """What was recorded and is not in this list of kinds would be compared with nothing."""
    replayed = {name for life in LIVES for name in (f"{life}/{path.stem}" for path in (RECORDINGS / life).iterdir())}
    source = Path(__file__).read_text()
    for path in RECORDINGS.rglob("*.json"):
        name = str(path.relative_to(RECORDINGS).with_suffix(""))
        document = json.loads(path.read_text())
        if not isinstance(document, dict) or "request" not in document:
            continue
        assert (name in replayed or name.startswith("schema-only/") or "422" in name
                or f'"{path.stem}"' in source or f'"{name}"' in source), f"{name} is compared with nothing"
