"""A large body is the application's business from the headers on: nothing is stored, and it may refuse at once."""

from __future__ import annotations

import socket
from collections.abc import Callable

from nniweb.middleware.allowances import ANYBODYS_BYTES
from tests.nniweb.web_server.conftest import Served, all_of

MIB = 2**20


def test_a_large_request_is_refused_at_its_headers_before_anything_of_it_is_sent(serve: Callable[..., Served]) -> None:
    server = serve()
    answer = server.ask(f"POST /refused HTTP/1.1\nHost: x\nContent-Length: {600 * MIB}\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"onnection: close" in answer


def test_who_sends_on_regardless_still_gets_the_answer_and_nothing_is_stored(serve: Callable[..., Served]) -> None:
    server = serve()
    answer = server.ask(f"POST /refused HTTP/1.1\nHost: x\nContent-Length: {4 * MIB}\n", b"x" * 4 * MIB)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"(cut)" not in answer
    assert server.stored == 0
    assert server.counted()["given"] == 0


def test_who_never_stops_sending_is_cut_off(serve: Callable[..., Served]) -> None:
    server = serve(leaving_bytes=MIB)
    connection = server.connect()
    connection.sendall(b"POST /refused HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    sent = 0
    try:
        while sent < 100 * MIB:
            connection.sendall(b"100000\r\n" + b"x" * MIB + b"\r\n")
            sent += MIB
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert sent < 50 * MIB
    assert server.stored == 0


def test_a_body_in_chunks_without_a_length_is_given_as_it_comes(serve: Callable[..., Served]) -> None:
    server = serve()
    connection = server.connect()
    connection.sendall(b"POST /whole HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    connection.sendall(chunk * 2)
    assert server.counted() == {"begun": 0, "given": 0}, "so much is held until it is whole"
    connection.sendall(chunk)
    server.wait_until(lambda: server.counted() == {"begun": 1, "given": 3 * 0x8000})
    connection.sendall(b"0\r\n\r\n")
    assert all_of(connection).endswith(b"\r\n\r\n98304")


def test_an_application_that_is_slow_is_not_run_over(serve: Callable[..., Served]) -> None:
    server = serve()
    size = 64 * MIB
    connection = server.connect()
    connection.sendall(f"PUT /patient HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
    connection.settimeout(1.0)
    sent = 0
    try:
        while sent < size:
            sent += connection.send(b"x" * MIB)
    except TimeoutError:
        pass
    assert sent < 32 * MIB, "the sender waits for the application"
    assert server.megabytes < 120
    assert server.ask("GET /go HTTP/1.1\nHost: x\nConnection: close\n").startswith(b"HTTP/1.1 200 ")
    connection.settimeout(30)
    connection.sendall(b"x" * (size - sent))
    answer = connection.recv(65536)
    assert answer.endswith(str(size).encode())
    assert server.stored == 0


def test_a_client_that_asks_first_sends_nothing_of_what_is_refused(serve: Callable[..., Served]) -> None:
    server = serve()
    head = f"Host: x\nExpect: 100-continue\nContent-Length: {MIB}\n"
    assert server.ask(f"POST /refused HTTP/1.1\n{head}").startswith(b"HTTP/1.1 413 ")
    connection = server.connect()
    connection.sendall(f"POST /whole HTTP/1.1\n{head}\n".replace("\n", "\r\n").encode())
    assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(b"x" * MIB)
    assert connection.recv(65536).endswith(str(MIB).encode())


def test_connections_are_kept_for_small_and_large_requests_in_any_order(serve: Callable[..., Served]) -> None:
    server = serve()
    connection = server.connect()
    for size in (0, 1, ANYBODYS_BYTES, ANYBODYS_BYTES + 1, 3 * MIB, 10):
        connection.sendall(f"POST /whole HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size)
        assert connection.recv(65536).endswith(f"\r\n\r\n{size}".encode())
    one = b"POST /whole HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    connection.sendall(one * 20)
    answers = b""
    while answers.count(b"\r\n\r\n3") < 20:
        answers += connection.recv(65536)
    assert server.counted()["begun"] == 26


def test_many_at_once_leave_nothing_behind(serve: Callable[..., Served]) -> None:
    server = serve(held_bytes=MIB)
    before = server.megabytes
    slow = []
    for _ in range(100):
        connection = server.connect()
        connection.sendall(f"POST /whole HTTP/1.1\r\nHost: x\r\nContent-Length: {ANYBODYS_BYTES}\r\n\r\n".encode()
                           + b"x" * (ANYBODYS_BYTES - 1))
        slow.append(connection)
    assert server.counted()["begun"] == 0
    assert server.megabytes - before < 30
    server.wait_until(lambda: sum(has_ended(connection) for connection in slow) >= 80)
    slow[-1].sendall(b"x")
    assert slow[-1].recv(65536).endswith(str(ANYBODYS_BYTES).encode()), "the latest are kept"
    assert server.stored == 0


def has_ended(connection: socket.socket) -> bool:
    """Whether the server has cut it."""
    try:
        connection.setblocking(False)
        return not connection.recv(1)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    finally:
        connection.settimeout(30)
