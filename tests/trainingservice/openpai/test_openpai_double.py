"""The double of an OpenPAI cluster answers as the real rest-server's code did."""

import json

import pytest
import requests

from tests.fakes import js_yaml
from tests.fakes.openpai.cluster import OpenPaiCluster
from tests.fakes.openpai.jobs import masked, with_secrets
from tests.fakes.openpai.limits import Limiter
from tests.fakes.openpai.templates import Unreadable, rendered
from tests.trainingservice.openpai.recordings import documents, recorded


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = OpenPaiCluster(tmp_path_factory.mktemp("cluster")).start()
    cluster.held = True
    cluster.storages["data"] = cluster.export
    yield cluster
    cluster.end()


def submitted(cluster, text, kind="text/yaml", token=None):
    return requests.post(f"{cluster.address}/rest-server/api/v2/jobs", data=text, timeout=90, headers={
        "Content-Type": kind, "Authorization": f"Bearer {token or cluster.token}"})


@pytest.mark.parametrize(("plain", "value"), recorded("readings"))
def test_a_plain_scalar_means_what_js_yaml_reads(plain, value):
    found = js_yaml.read(f"a: {plain}\n")["a"]
    if isinstance(found, js_yaml.Moment):
        assert value.endswith("Z"), "JSON has a moment as text"
        return
    found = js_yaml.as_json(found)
    assert type(found) is type(value)
    assert found == value or float(found) == float(value), "of long numbers JavaScript keeps 17 digits"


@pytest.mark.parametrize(("command", "script"), recorded("templates"))
def test_templates_are_filled_in_as_the_server_does(command, script):
    values = {"$parameters": {"x": "v", "n": 5, "l": ["p", 7], "o": {"p": True}}, "$script": {"uri": "there"}}
    try:
        found = rendered(command.strip(), values)
    except Unreadable:
        found = None
    assert found == script


@pytest.mark.parametrize(("document", "status"), [pytest.param(document, status, id=f"{number} {name}") for
                                                  number, (name, document, status) in enumerate(documents())])
def test_a_document_is_taken_refused_or_breaks_the_server_as_it_was_recorded(cluster, document, status):
    cluster.jobs.clear()
    answer = submitted(cluster, json.dumps(document))
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize(("text", "kept"), recorded("masked"))
def test_secrets_are_masked_by_their_line(text, kept):
    assert masked(text) == kept


@pytest.mark.parametrize(("secrets", "script"), [
    ({}, "echo <% $secrets.x %> <% $parameters.none %>"), ({"y": "z"}, "echo  "), ({"x": "a<b"}, "echo a&lt;b ")])
def test_a_container_fills_in_what_the_server_left_where_the_job_has_secrets(secrets, script):
    assert with_secrets("echo <% $secrets.x %> <% $parameters.none %>", secrets) == script


def test_callers_are_limited_as_it_was_recorded(cluster, monkeypatch):
    monkeypatch.setitem(cluster.limits, "submit", Limiter(3, 3600))
    answers = [submitted(cluster, "no: job") for _ in range(5)]
    real = [each for each in recorded("limits") if each["request"].startswith("POST")]
    for answer, expected in zip(answers, real, strict=True):
        assert (answer.status_code == 429) == (expected["status"] == 429)
        for name in ("X-RateLimit-Limit", "X-RateLimit-Remaining", "Retry-After"):
            assert answer.headers.get(name) == expected["headers"].get(name.lower())
        assert 3590 < int(answer.headers["X-RateLimit-Reset"]) - cluster.limits["submit"].resets_at + 3600 < 3602
    assert (answers[-1].text, answers[-1].headers["Content-Type"]) == (real[-1]["body"],
                                                                       real[-1]["headers"]["content-type"])


def test_the_text_of_another_content_type_is_no_document(cluster):
    assert submitted(cluster, "name: x", "application/json").json() == {
        "message": "Unexpected token in JSON at position 0"}
    assert "should be object" in submitted(cluster, '{"name": "x"}', "application/json").json()["message"]


def test_a_name_that_is_taken_is_said_before_the_queue_and_the_storage(cluster):
    document = recorded("documents")["base"]
    cluster.jobs.clear()
    assert submitted(cluster, json.dumps(document)).status_code == 202
    answer = submitted(cluster, json.dumps({**document, "defaults": {"virtualCluster": "nowhere"}}))
    assert (answer.status_code, answer.json()["message"]) == (409, "Job ada~n already exists.")


def test_unknown_paths_are_said_before_the_token_is_looked_at(cluster):
    answer = requests.get(f"{cluster.address}/rest-server/api/v1/user/ada/jobs/n", timeout=90)
    assert (answer.status_code, answer.json()["code"]) == (404, "NoApiError")
