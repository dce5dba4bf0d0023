"""The chunks of a checkpoint on their way: while it is still read, on several connections where the server is quick."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from trialkeeper import chunk_pack
from trialkeeper.checkpoint_entry import Problem
from trialkeeper.checkpoint_upload import ASKED_AT_ONCE, MOST_HELPERS, Place, Upload
from trialkeeper.server_connection import ServerConnection


class Connection:
    way = "direct"

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Server:
    """Takes chunks: at once, or when as many as ``together`` are on their way."""

    def __init__(self, together: int = 1, seconds: float = 0.0) -> None:
        self.together, self.met = together, threading.Condition()
        self.seconds, self.now = seconds, 0.0
        self.connections: list[Connection] = []
        self.asked: list[list[str]] = []
        self.sent: list[str] = []
        self.known: set[str] = set()
        self.senders: set[int] = set()
        self.problem: Exception | None = None

    def connect(self) -> ServerConnection:
        self.connections.append(Connection())
        return cast(ServerConnection, self.connections[-1])

    def ask(self, connection: Any, hashes: list[str]) -> list[str]:
        self.asked.append(hashes)
        return [one for one in hashes if one not in self.known]

    def send(self, connection: Any, sha256: str, place: Place) -> None:
        if self.problem is not None:
            raise self.problem
        with self.met:
            self.now += self.seconds
            self.senders.add(threading.get_ident())
            self.met.notify_all()
            assert self.met.wait_for(lambda: len(self.senders) >= self.together, 20)
            self.sent.append(sha256)

    def upload(self, helps: bool = True) -> Upload:
        return Upload(self.connect(), self.ask, self.send, self.connect if helps else None, lambda: self.now)


def offered(upload: Upload, count: int) -> None:
    for number in range(count):
        upload.offer(str(number), Place("model", number, 8))


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()


def test_each_chunk_is_asked_about_and_sent_once_if_it_is_missing() -> None:
    server = Server()
    server.known = {"3", "4"}
    upload = server.upload()
    offered(upload, 50)
    offered(upload, 50)
    upload.finish()
    assert sorted(server.sent, key=int) == [str(number) for number in range(50) if number not in (3, 4)]
    assert sorted(sum(server.asked, []), key=int) == [str(number) for number in range(50)]
    assert max(map(len, server.asked)) >= ASKED_AT_ONCE


def test_a_quick_server_gets_several_chunks_at_once() -> None:
    """It answers none before two are on their way: with one connection it would never answer."""
    server = Server(together=2)
    upload = server.upload()
    offered(upload, 40)
    upload.finish()
    assert len(server.sent) == 40
    assert 2 <= len(server.senders) <= 1 + MOST_HELPERS


def test_an_upload_is_not_over_while_a_helper_begins() -> None:
    server = Server()
    begun = 0

    def connect() -> ServerConnection:
        nonlocal begun
        if threading.current_thread().name == "checkpoints":
            with server.met:
                assert server.met.wait_for(lambda: len(server.sent) >= 39, 20)
                server.met.wait(0.05)  # an upload that is over by now would have let its caller go on
        begun += 1
        return server.connect()

    upload = Upload(server.connect(), server.ask, server.send, connect, lambda: server.now)
    offered(upload, 40)
    upload.finish()
    assert begun == upload.helpers


def test_a_slow_way_is_not_shared_by_more() -> None:
    server = Server(seconds=30.0)
    upload = server.upload()
    offered(upload, 40)
    upload.finish()
    assert len(server.connections) == 2, "who reads the checkpoint, and one that sends meanwhile"


def test_a_small_checkpoint_makes_no_thread() -> None:
    server = Server()
    upload = server.upload()
    offered(upload, 2)
    upload.finish()
    assert server.senders == {threading.get_ident()}


def test_where_a_rate_is_to_be_kept_one_connection_sends() -> None:
    server = Server()
    upload = server.upload(helps=False)
    offered(upload, 40)
    upload.finish()
    assert server.senders == {threading.get_ident()}


def test_what_goes_wrong_on_another_thread_is_told_and_nothing_more_is_sent() -> None:
    server = Server()
    server.problem = Problem("changed", "model")
    upload = server.upload()
    upload.offer("0", Place("model", 0, 8))
    with pytest.raises(Problem):
        upload.finish()
    with pytest.raises(Problem):
        upload.offer("1", Place("model", 1, 8))
    assert server.sent == []


def test_what_the_server_has_lost_meanwhile_is_sent_again() -> None:
    server = Server()
    upload = server.upload()
    offered(upload, 5)
    upload.finish()
    upload.send_again(["3", "unknown"])
    assert sorted(server.sent) == ["0", "1", "2", "3", "3", "4"]


def test_one_that_is_broken_off_begins_nothing_more() -> None:
    server = Server()
    upload = server.upload(helps=False)
    offered(upload, 5)
    upload.break_off()
    upload.finish()
    assert server.sent == []
    assert all(connection.is_closed for connection in server.connections[1:])


def test_small_chunks_go_together_and_large_ones_alone() -> None:
    server = Server()
    together: list[list[str]] = []

    def send_several(connection: ServerConnection, some: list[tuple[str, Place]]) -> None:
        together.append([sha256 for sha256, _ in some])

    upload = Upload(server.connect(), server.ask, server.send, None, lambda: server.now, send_several)
    for number in range(1200):
        upload.offer(str(number), Place("file", number, chunk_pack.SMALL_CHUNK + 1 if number == 1100 else 100))
    upload.finish()
    assert server.sent == ["1100"]
    assert [len(some) for some in together] == [500, 500, 199]
