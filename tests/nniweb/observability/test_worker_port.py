"""The port of a worker process: what monitoring sees of a process that serves no pages."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from django.core.management import CommandError, call_command
from django.db import OperationalError
from prometheus_client.parser import text_string_to_metric_families

from nniweb.observability.worker_port import WorkerPort


class Whole:
    def __init__(self) -> None:
        self.value = True

    def __call__(self) -> bool:
        return self.value


@pytest.fixture
def whole() -> Whole:
    return Whole()


@pytest.fixture
def port(whole: Whole) -> Iterator[WorkerPort]:
    with WorkerPort("127.0.0.1", 0, whole) as opened:
        yield opened


def ask(port: WorkerPort, path: str, method: str = "GET", **headers: str) -> requests.Response:
    return requests.request(method, port.url + path, headers=headers, timeout=60, proxies={"no_proxy": "*"})


def test_a_worker_that_lost_a_thread_of_its_own_does_not_call_itself_alive(port: WorkerPort, whole: Whole) -> None:
    answer = ask(port, "/healthz")  # this test may not use the database
    assert (answer.status_code, answer.json()) == (200, {"alive": True})
    whole.value = False
    answer = ask(port, "/healthz")
    assert (answer.status_code, answer.json()) == (503, {"alive": False})


@pytest.mark.django_db(transaction=True)
def test_a_worker_is_ready_while_its_database_answers(port: WorkerPort, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ask(port, "/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (200, True), answer.text
    head = ask(port, "/readyz", "HEAD")
    assert (head.status_code, head.text) == (200, "")

    def away(*_: object, **__: object) -> None:
        raise OperationalError("connection to postgres://user:password@host failed")

    with monkeypatch.context() as outage:
        outage.setattr("django.db.backends.base.base.BaseDatabaseWrapper.cursor", away)
        answer = ask(port, "/readyz")
    assert (answer.status_code, answer.json()["ready"], "password" in answer.text) == (503, False, False)


@pytest.mark.django_db(transaction=True)
def test_figures_are_for_who_has_the_token_and_are_those_of_process_and_rows(port: WorkerPort, settings: Any,
                                                                             make_attempt: Any) -> None:
    refused = ask(port, "/metrics", Authorization="Bearer ")
    assert (refused.status_code, "NNIWEB_METRICS_TOKEN" in refused.text) == (401, True), "no token is set"
    settings.METRICS_TOKEN = "scrape-me"
    assert ask(port, "/metrics").status_code == 401
    assert ask(port, "/metrics", Authorization="Bearer scrape-you").status_code == 401
    make_attempt(status="RUNNING")
    answer = ask(port, "/metrics", Authorization="Bearer scrape-me")
    assert answer.status_code == 200
    found = {(sample.name, *sorted(sample.labels.items())): sample.value
             for family in text_string_to_metric_families(answer.text) for sample in family.samples}
    assert found["nniweb_database_answers",] == 1
    assert found["nniweb_trials", ("cluster", "local"), ("status", "RUNNING")] == 1
    assert found["process_resident_memory_bytes",] > 0


def test_a_port_that_cannot_be_had_is_named_before_the_worker_begins(settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings.WORKER_PORT = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"Port {settings.WORKER_PORT} on 127.0.0.1 cannot be used") as refused:
            call_command("worker")
    assert "NNIWEB_WORKER_PORT" in str(refused.value)
    assert "Without NNIWEB_WORKER_PORT" in str(refused.value)


def test_nothing_else_is_there(port: WorkerPort) -> None:
    assert ask(port, "/").status_code == 404
    assert ask(port, "/metrics", "POST").status_code == 405
    port.close()
    with pytest.raises(requests.ConnectionError):
        ask(port, "/healthz")
