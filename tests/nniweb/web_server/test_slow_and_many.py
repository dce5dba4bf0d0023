"""Callers that are slow, many or odd wait for nobody's account: they get their time and their place, and no more."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

import pytest
from websockets.sync.client import connect

from nniweb.web_server.connections import Connections
from tests.nniweb.web_server.conftest import Served, all_of


def drip(server: Served, head: bytes, rest: bytes, pause: float = 0.1) -> tuple[bytes, float]:
    """What is answered to ``head`` and then a byte of ``rest`` at a time, and after how many seconds."""
    began = time.monotonic()
    connection = server.connect()
    connection.sendall(head)
    connection.settimeout(pause)
    for place in range(len(rest)):
        try:
            connection.sendall(rest[place:place + 1])
            answer = connection.recv(65536)
            return answer, time.monotonic() - began
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):  # closed after the answer, which came while this one was away
            with suppress(ConnectionError):
                return connection.recv(65536), time.monotonic() - began
            return b"", time.monotonic() - began
    return b"never cut", time.monotonic() - began


def test_headers_that_come_a_byte_at_a_time_have_one_time_for_all_of_them(serve: Callable[..., Served]) -> None:
    server = serve(headers_seconds=1, look_seconds=0.1)
    answer, seconds = drip(server, b"GET /whole HTTP/1.1\r\n", b"X-Slow: " + b"x" * 400)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert 1 <= seconds < 30


def test_a_connection_on_which_nothing_is_said_ends(serve: Callable[..., Served]) -> None:
    server = serve(headers_seconds=0.5, look_seconds=0.1)
    assert all_of(server.connect()) == b""


def test_a_body_that_comes_a_byte_at_a_time_is_given_up(serve: Callable[..., Served]) -> None:
    server = serve(body_seconds=1, look_seconds=0.1)
    for head in (b"Content-Length: 1000", b"Content-Length: 100000", b"Transfer-Encoding: chunked"):
        answer, seconds = drip(server, b"POST /whole HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n", b"4" * 400)
        assert answer.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 "))
        assert seconds < 30


def test_a_slow_but_steady_body_has_its_time(serve: Callable[..., Served]) -> None:
    server = serve(body_seconds=2, body_rate=100, look_seconds=0.1)
    answer, longest_pause = b"", 2.0
    while longest_pause > 1:  # the machine was busy: the body was not steady
        connection = server.connect()
        connection.sendall(b"POST /whole HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n")
        times = [time.monotonic()]
        for _ in range(28):
            with suppress(ConnectionError):
                connection.sendall(b"x" * 2500)
            time.sleep(0.1)
            times.append(time.monotonic())
        with suppress(ConnectionError):
            answer = connection.recv(65536)
        longest_pause = max(after - before for before, after in pairwise([*times, time.monotonic()]))
    assert answer.endswith(b"70000")


def test_the_pause_between_two_requests_has_its_own_time(serve: Callable[..., Served]) -> None:
    def asked(server: Served) -> socket.socket:
        connection = server.connect()
        connection.sendall(b"GET /whole HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65536).endswith(b"0")
        return connection

    connection = asked(serve(headers_seconds=0.3, idle_seconds=90, look_seconds=0.1))
    time.sleep(1)
    connection.sendall(b"GET /whole HTTP/1.1\r\nHost: x\r\n\r\n")
    assert connection.recv(65536).endswith(b"0")
    assert all_of(asked(serve(headers_seconds=90, idle_seconds=0.3, look_seconds=0.1))) == b""


def test_connections_that_come_while_the_server_is_busy_wait_and_are_not_dropped(serve: Callable[..., Served]) -> None:
    """The system drops what comes above the server's backlog. Who is dropped tries again a second later, and then
    later still, which made a busy server's answers slow.
    """
    server = serve()
    with server.busy():
        connections = [server.connect(5.0) for _ in range(500)]
    connections[-1].sendall(b"GET /counted HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert all_of(connections[-1]).startswith(b"HTTP/1.1 200")


def test_a_reader_of_a_large_answer_has_its_time(serve: Callable[..., Served]) -> None:
    server = serve(headers_seconds=0.3, idle_seconds=0.3, body_seconds=0.3, look_seconds=0.1)
    connection = server.connect()
    connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    time.sleep(1.5)
    assert len(all_of(connection)) > 32 * 2**20


@pytest.mark.parametrize("path", ["/broken", "/short"])
def test_an_answer_that_ends_in_the_middle_ends_the_connection(serve: Callable[..., Served], path: str) -> None:
    """Who reads it would wait for the rest. And those who come after it are answered."""
    server = serve()
    answer = server.ask(f"GET {path} HTTP/1.1\nHost: x\n")
    assert answer.startswith((b"HTTP/1.1 200 ", b"(cut)"))
    assert answer.endswith((b"\r\n\r\n01234", b"(cut)"))
    assert server.ask("GET /failing HTTP/1.1\nHost: x\nConnection: close\n").startswith(b"HTTP/1.1 500 ")
    whole = server.ask("HEAD /at_once HTTP/1.1\nHost: x\n\nGET /counted HTTP/1.1\nHost: x\nConnection: close\n")
    assert whole.endswith(b'{"begun": 3, "given": 0}')


def test_who_asks_again_and_again_and_takes_no_answer_waits(serve: Callable[..., Served]) -> None:
    """Of answers of 4 MiB each, one is in memory. All come, in order, when they are read."""
    server = serve(headers_seconds=1, look_seconds=0.1)
    connection = server.connect()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    for _ in range(3):  # one after the other, and three that come together
        connection.sendall(b"GET /at_once HTTP/1.1\r\nHost: x\r\n\r\n")
        server.wait_until(lambda: server.counted()["begun"] == 1)
    connection.sendall(b"GET /at_once HTTP/1.1\r\nHost: x\r\n\r\n" * 2
                       + b"GET /gone HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert all_of(server.connect()) == b"", "one that sends no headers is over, an answer may take longer"
    assert server.counted()["begun"] == 1
    answers = all_of(connection)
    assert answers.count(b"x") == 5 * 4 * 2**20
    assert answers.endswith(b"\r\n\r\n0")
    assert server.counted()["begun"] == 5


def test_too_many_and_too_long_headers_are_refused(serve: Callable[..., Served]) -> None:
    server = serve()
    assert server.ask("GET / HTTP/1.1\n" + "X: y\n" * 101).startswith(b"HTTP/1.1 400 ")
    assert server.ask("GET / HTTP/1.1\n" + "X: " + "y" * 15000 + "\nY: " + "z" * 2000 + "\n").startswith(
        b"HTTP/1.1 400 ")
    assert server.ask("GET / HTTP/1.1\nX: " + "y" * 20000 + "\n").startswith(b"HTTP/1.1 400 ")
    assert server.ask("GET /" + "y" * 20000 + " HTTP/1.1\n").startswith(b"HTTP/1.1 400 ")
    assert server.counted()["begun"] == 0


def test_who_says_two_lengths_or_none_that_can_be_read_is_refused(serve: Callable[..., Served]) -> None:
    server = serve()
    for lines in ("Content-Length: 5\nContent-Length: 6\n", "Content-Length: 5\nTransfer-Encoding: chunked\n",
                  "Content-Length: -5\n", "Content-Length: 5x\n", "Transfer-Encoding: gzip\n",
                  "Content-Length: " + "9" * 5000 + "\n"):
        answer = server.ask("POST /whole HTTP/1.1\nHost: x\n" + lines, b"12345")
        assert answer in (b"", b"(cut)") or answer.startswith(b"HTTP/1.1 400 "), lines
    assert server.counted()["begun"] == 0


def test_chunks_that_are_none_end_the_request(serve: Callable[..., Served]) -> None:
    server = serve()
    head = "POST /whole HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n"
    assert server.ask(head, b"zz\r\nhello").startswith(b"HTTP/1.1 400 ")
    large = b"11170\r\n" + b"x" * 70000 + b"\r\n"
    assert server.ask(head, large + b"zz\r\nhello").startswith(b"HTTP/1.1 400 ")
    server.wait_until(lambda: server.counted() == {"begun": 1, "given": 70000})


@pytest.mark.parametrize("value", [b"@elsewhere.example", b"//elsewhere.example", b"\xff"], ids=ascii)
def test_no_caller_says_what_stands_before_all_paths(serve: Callable[..., Served], value: bytes) -> None:
    """Links that the application makes begin with it, also those in mails to others."""
    server = serve()
    connection = server.connect()
    connection.sendall(b"GET /root HTTP/1.1\r\nHost: x\r\nConnection: close\r\nDaphne-Root-Path: " + value
                       + b"\r\n\r\n")
    head, _, body = all_of(connection).partition(b"\r\n\r\n")
    assert (head[:13], body) == (b"HTTP/1.1 200 ", b"")


def test_nor_for_a_websocket(serve: Callable[..., Served]) -> None:
    server = serve()
    with connect(f"ws://127.0.0.1:{server.port}/root", proxy=None,
                 additional_headers={"Daphne-Root-Path": "@elsewhere.example"}) as websocket:
        assert websocket.recv(30) == '""'


class Waiting:
    """A connection, as far as counting goes."""

    def __init__(self, connections: Connections) -> None:
        self.held = 0
        self.due: float | None = None
        self.has_ended = False
        self._connections = connections

    def make_room(self) -> None:
        self.has_ended = True
        self._connections.closed(self)

    def is_overdue(self) -> None:
        self.make_room()


def opened(connections: Connections, hosts: list[str | None]) -> list[Waiting]:
    made = [Waiting(connections) for _ in hosts]
    for each, host in zip(made, hosts, strict=True):
        connections.opened(each, host)
    return made


def test_of_one_address_the_longest_waiting_make_room_and_others_are_not_touched() -> None:
    connections = Connections(most=100, of_address=2, held_bytes=100)
    other, *same = opened(connections, ["192.0.2.7", "192.0.2.8", "::ffff:192.0.2.8", "192.0.2.8", "192.0.2.8"])
    assert [each.has_ended for each in (other, *same)] == [False, True, True, False, False]
    connections.works(same[2])
    opened(connections, ["192.0.2.8"])
    assert not same[2].has_ended, "what is with the application is not waiting"
    assert not same[3].has_ended
    connections.waits(same[2])
    assert [each.has_ended for each in same] == [True, True, False, True]


def test_a_whole_network_of_ipv6_counts_as_one_and_this_machine_not_at_all() -> None:
    connections = Connections(most=100, of_address=1, held_bytes=100)
    first, second, elsewhere = opened(connections, ["2001:db8::1", "2001:db8::2", "2001:db8:1::1"])
    assert (first.has_ended, second.has_ended, elsewhere.has_ended) == (True, False, False)
    assert not any(each.has_ended for each in opened(connections, ["127.0.0.1", "127.0.0.1", "::1", "::1", None, None]))


def test_in_all_there_are_as_many_as_may_be() -> None:
    connections = Connections(most=3, of_address=100, held_bytes=100)
    made = opened(connections, ["192.0.2.1", "192.0.2.2", "192.0.2.3"])
    connections.works(made[0])
    opened(connections, ["192.0.2.4"])
    assert [each.has_ended for each in made] == [False, True, False]


def test_who_is_overdue_is_told() -> None:
    connections = Connections(most=3, of_address=100, held_bytes=100)
    made = opened(connections, ["192.0.2.1", "192.0.2.2", "192.0.2.3"])
    made[0].due, made[1].due = 10.0, 20.0
    connections.look(15.0)
    assert [each.has_ended for each in made] == [True, False, False]
