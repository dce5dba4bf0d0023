"""The text of a job document: the server reads what was meant, and hides what is secret."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import js_yaml
from tests.fakes.http_double import Answer
from tests.fakes.openpai.jobs import masked
from tests.trainingservice.openpai.conftest import name_of
from tests.trainingservice.openpai.recordings import recorded
from tests.trainingservice.openpai.test_openpai_document import GOOD
from trainingservice.openpai.config import OpenPaiTrialOptions
from trainingservice.openpai.document_text import document_text
from trainingservice.openpai.protocol_schema import document_problems

TEXTS = st.one_of(st.text(), st.sampled_from([word for word, _ in recorded("readings")]),
                  st.sampled_from(["", " ", "a\nsecrets: b\nname: c", "x: y", "- a", "#", "\x00", "\u2028", "a" * 200]))


def strings(document):
    """All texts of a document, names too."""
    if isinstance(document, str):
        yield document
    for name, part in document.items() if isinstance(document, dict) else ():
        yield name
        yield from strings(part)
    for part in document if isinstance(document, list) else ():
        yield from strings(part)


def with_texts(text, name):
    return {**GOOD, "description": text, "contributor": text, "version": text, "secrets": {name: text, "other": text},
            "parameters": {name: [text, {name: text}]},
            "prerequisites": [{**GOOD["prerequisites"][0], "uri": text, "auth": {"username": text, "password": text}}],
            "extras": {"storages": [{"name": text, "mountPath": text}], "nniweb": {"installation": text, name: None}}}


@pytest.mark.parametrize("word", [word for word, _ in recorded("readings")])
def test_each_text_of_a_document_is_read_by_the_server_as_it_was_meant(word):
    document = with_texts(word, word)
    read = js_yaml.read(document_text(document).decode())
    assert read == document
    assert list(strings(read)) == list(strings(document))


@given(TEXTS, TEXTS)
def test_so_is_any_text(text, name):
    document = with_texts(text, name)
    assert js_yaml.read(document_text(document).decode()) == document


@given(TEXTS, st.permutations(["description", "contributor", "extras"]))
def test_the_server_keeps_no_secret_and_all_the_rest(text, after):
    secret = "the-secret-token"
    parts = {"description": text, "contributor": text, "extras": {"x": {"secrets": text}, text: text}}
    document = {"name": text, "secrets": {"first": text, "token": f"{text}\n{secret}\nname: x"},
                **{key: parts[key] for key in after}}
    kept = masked(document_text(document).decode())
    assert secret not in kept
    assert js_yaml.read(kept) == {**document, "secrets": "******"}


def test_what_stands_twice_in_a_document_is_written_twice():
    shared = {"a": "b"}
    assert js_yaml.read(document_text({"secrets": shared, "parameters": shared}).decode())["parameters"] == shared
    assert b"&" not in document_text({"secrets": shared, "parameters": shared})


def test_numbers_and_truths_stay_what_they_are():
    document = {"jobRetryCount": 0, "parameters": {"a": [1, -2, 1.5, 1e20, True, None, {}, []]}}
    assert json.dumps(js_yaml.read(document_text(document).decode())["parameters"]["a"][:3]) == "[1, -2, 1.5]"
    assert js_yaml.read(document_text(document).decode()) == document


def test_a_job_is_known_again_whatever_its_installation_is_called(bench, cluster, monkeypatch):
    """An installation's name is sixteen hexadecimal digits, some of which are a number to js-yaml."""
    context = bench.context
    monkeypatch.setattr(bench, "context", lambda: replace(context(), installation="1234567e89012345"))
    service = bench.open_service()
    form = bench.form("echo once")
    cluster.script(Answer(502, "Bad Gateway", "text/html"), after=True, method="POST", part="/v2/jobs")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "once\n"


def test_a_password_and_a_storage_that_look_like_numbers_are_used(bench, cluster, tmp_path):
    (tmp_path / "lab").mkdir()
    cluster.storages["1e3"] = tmp_path / "lab"
    role = {"dockerImage": "d", "resourcePerInstance": {"gpu": 0, "cpu": 1, "memoryMB": 100}, "commands": ["true"]}
    own = {"protocolVersion": 2, "type": "job", "taskRoles": {"a": role}, "prerequisites": [
        {"type": "dockerimage", "name": "d", "uri": "i", "auth": {"username": "u", "password": "1e3"}}]}
    assert document_problems({**own, "name": "x"}) == []
    options = OpenPaiTrialOptions(openpai_config=own, storages={"1e3": str(tmp_path / "there")})
    service = bench.open_service()
    form = replace(bench.form("not used"), options=options)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    document = cluster.job(name_of(form)).document
    assert document["prerequisites"][0]["auth"]["password"] == "1e3"
    assert document["extras"]["storages"][0]["name"] == "1e3"
