"""PostgreSQL is frozen: it takes what is sent and never answers. People are told so, and workers can be ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from nniweb.database import silent_postgresql
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer
from tests.end_to_end.scaled_out.several_processes import Installation

#: Within so many seconds a request is answered, and a worker that is told to end has ended.
ANSWERED, ENDED = 20.0, 45.0


@pytest.fixture
def freezable(postgresql: PostgresqlServer) -> Iterator[PostgresqlServer]:
    yield postgresql
    postgresql.thaw()


@pytest.mark.slow
def test_requests_are_answered_with_503_and_all_goes_on_by_itself(installation: Installation,
                                                                 freezable: PostgresqlServer) -> None:
    web = installation.web("web").start()
    assert web.request("GET", "experiments/").ok
    freezable.freeze()

    def ask(address: str) -> tuple[int, bool]:
        began = time.monotonic()
        answer = requests.get(f"{web.url}{address}", headers={"Cookie": f"sessionid={32 * 'a'}"}, timeout=60)
        return answer.status_code, time.monotonic() - began < ANSWERED

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(ask, ["/readyz", "/api/v1/experiments/", "/"])) == [(503, True)] * 3
    assert requests.get(f"{web.url}/healthz", timeout=90).ok
    freezable.thaw()
    web.wait_until(lambda: web.request("GET", "experiments/").ok, what="it goes on by itself")


@pytest.mark.slow
def test_a_slow_statement_of_a_server_that_answers_goes_on(postgresql: PostgresqlServer,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silent_postgresql, "PATIENCE", 0.1)
    asked = []
    answers = silent_postgresql.AnsweredConnection._server_answers
    monkeypatch.setattr(silent_postgresql.AnsweredConnection, "_server_answers",
                        lambda connection: asked.append(1) or answers(connection))
    with silent_postgresql.AnsweredConnection.connect(postgresql.url("postgres")) as connection:
        assert connection.execute("SELECT 42 FROM pg_sleep(1)").fetchone() == (42,)
    assert asked


@pytest.mark.slow
def test_a_worker_that_is_told_to_end_meanwhile_ends(installation: Installation, freezable: PostgresqlServer) -> None:
    worker = installation.worker("worker").start()
    installation.worker_id(worker)
    freezable.freeze()
    began = time.monotonic()
    worker.stop()
    assert time.monotonic() - began < ENDED
