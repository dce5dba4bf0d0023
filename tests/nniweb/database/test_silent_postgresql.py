"""Whether PostgreSQL has become silent is asked once for all threads, and never taken from a statement that is slow."""

import socket
import threading
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from psycopg import pq, waiting

from nniweb.database import silent_postgresql
from nniweb.database.silent_postgresql import (
    HEARD_SECONDS,
    PATIENCE,
    PATIENCE_IN_SILENCE,
    AnsweredConnection,
    Silence,
)


class Server:
    def __init__(self) -> None:
        self.now, self.asked, self.is_frozen = 0.0, 0, False

    def answers(self) -> bool:
        self.asked += 1
        return not self.is_frozen


def test_a_slow_statement_of_a_server_that_answers_goes_on() -> None:
    server = Server()
    silence = Silence(lambda: server.now)
    assert not silence.is_silent(server.answers)
    assert not silence.is_silent(server.answers)
    assert server.asked == 1, "a moment ago it was heard"
    server.now += HEARD_SECONDS
    assert not silence.is_silent(server.answers)
    assert (server.asked, silence.patience) == (2, PATIENCE)


def test_once_it_is_silent_nobody_waits_long_until_something_is_heard() -> None:
    server = Server()
    server.is_frozen = True
    silence = Silence(lambda: server.now)
    assert silence.is_silent(server.answers)
    server.now += 100
    assert silence.is_silent(server.answers)
    assert (server.asked, silence.patience) == (1, PATIENCE_IN_SILENCE)
    silence.heard()
    assert silence.patience == PATIENCE
    server.is_frozen = False
    assert not silence.is_silent(server.answers)


class SlowConnection(AnsweredConnection):
    """A connection to a server that answers others, and takes what this one sends when it is ``ready``."""

    def __init__(self, near: socket.socket) -> None:
        self.pgconn = cast(Any, SimpleNamespace(
            socket=near.fileno(), transaction_status=0, status=pq.ConnStatus.BAD))
        self.asked = 0
        self.ready = threading.Event()

    def _server_answers(self) -> bool:
        self.asked += 1
        if self.asked == 2:
            self.ready.set()
        return True


def test_what_is_sent_slowly_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += HEARD_SECONDS
        return now

    silence = Silence(clock)
    monkeypatch.setattr(silent_postgresql, "PATIENCE", 0.02)
    monkeypatch.setattr(silent_postgresql, "_silence", silence)
    near, far = socket.socketpair()
    with near, far:
        connection = SlowConnection(near)

        def sends() -> Generator[waiting.Wait, int, str]:
            """As psycopg's: waits for the server to take more, and counts with what was ready."""
            while not connection.ready.is_set():
                taken = yield waiting.Wait.R
                assert taken & waiting.Ready.R == 0
            return "sent"

        assert connection.wait(cast(Any, sends())) == "sent"
    assert connection.asked == 2
