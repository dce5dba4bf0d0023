"""Threads read what is to be written of a large body from the connection themselves; the loop keeps what it watches."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable

from tests.nniweb.web_server.conftest import Served, all_of

MIB = 2**20


def head(size: int, path: str = "/written") -> bytes:
    return f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()


def answered(connection: socket.socket, times: int = 1) -> list[bytes]:
    """The bodies of so many answers, each a SHA-256 in hexadecimal."""
    come = b""
    while len(come.split(b"\r\n\r\n")[-1]) < 64 or come.count(b"\r\n\r\n") < times:
        piece = connection.recv(65536)
        assert piece, come
        come += piece
    return [part[:64] for part in come.split(b"\r\n\r\n")[1:]]


def hash_of(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def gone(server: Served) -> int:
    return int(server.ask("GET /gone HTTP/1.1\nHost: x\nConnection: close\n").rpartition(b"\r\n")[2])


def test_bodies_and_requests_behind_them_come_whole_and_in_order(serve: Callable[..., Served]) -> None:
    connection = serve().connect()
    bodies = [os.urandom(size) for size in (8 * MIB, 100_000, 65_536, 3 * MIB + 1, 10, 8 * MIB)]
    connection.sendall(b"".join(head(len(body)) + body for body in bodies[:3]))
    assert answered(connection, 3) == [hash_of(body) for body in bodies[:3]]
    for body in bodies[3:]:
        connection.sendall(head(len(body)) + body)
        assert answered(connection) == [hash_of(body)]


def test_while_a_thread_reads_the_loop_does_not_though_the_answer_before_is_taken_meanwhile(
        serve: Callable[..., Served]) -> None:
    """Of an answer that waits for its reader Twisted resumes the connection when it has been taken."""
    connection = serve().connect()
    body = os.urandom(8 * MIB)
    requests = b"GET /at_once HTTP/1.1\r\nHost: x\r\n\r\n" + head(len(body)) + body + b"GET /gone HTTP/1.1\r\n\r\n"
    sending = threading.Thread(target=connection.sendall, args=[requests])
    sending.start()
    come = b""
    while not come.endswith(b"\r\n\r\n0"):
        piece = connection.recv(65536)
        assert piece, come[-1000:]
        come = come[-1000:] + piece
    sending.join()
    assert hash_of(body) in come


def test_a_body_in_chunks_comes_the_other_way(serve: Callable[..., Served]) -> None:
    connection = serve().connect()
    body = os.urandom(MIB)
    connection.sendall(b"PUT /written HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                       + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
    assert answered(connection) == [hash_of(body)]


def test_slow_senders_keep_no_thread(serve: Callable[..., Served]) -> None:
    """There are two threads, and more senders that have begun and then pause in the middle."""
    server = serve()
    body = os.urandom(8 * MIB)
    slow = [server.connect() for _ in range(5)]
    for connection in slow:
        connection.sendall(head(len(body)) + body[:3 * MIB])
    server.wait_until(lambda: server.counted()["given"] == 5 * 3 * MIB)
    quick = server.connect()
    quick.sendall(head(len(body)) + body)
    assert answered(quick) == [hash_of(body)]
    for connection in slow:
        connection.sendall(body[3 * MIB:])
    for connection in slow:
        assert answered(connection) == [hash_of(body)]


def test_a_sender_that_goes_away_in_the_middle_is_noticed_and_leaves_no_descriptor(
        serve: Callable[..., Served]) -> None:
    server = serve()
    server.counted()
    before = server.descriptors
    for number in range(10):
        connection = server.connect()
        connection.sendall(head(8 * MIB) + b"x" * 2 * MIB)
        if number % 2:
            server.wait_until(lambda number=number: server.counted()["given"] >= (number + 1) * MIB)
        connection.close()
    server.wait_until(lambda: gone(server) == 10)
    server.wait_until(lambda: server.descriptors <= before)


def test_one_that_pauses_too_long_is_told_so(serve: Callable[..., Served]) -> None:
    server = serve(body_seconds=0.5, body_rate=10**9, look_seconds=0.1)
    connection = server.connect()
    connection.sendall(head(8 * MIB) + b"x" * 2 * MIB)
    assert all_of(connection).startswith(b"HTTP/1.1 408 ")
    server.wait_until(lambda: gone(server) == 1)


def test_where_writing_fails_the_request_is_refused_and_what_still_comes_is_thrown_away(
        serve: Callable[..., Served]) -> None:
    server = serve()
    body = b"GET /refused HTTP/1.1\r\n\r\n" * (8 * MIB // 25)
    connection = server.connect()
    connection.sendall(head(len(body), "/full") + body)
    answer = all_of(connection)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert answer.endswith(b"no room")
    assert server.counted()["begun"] == 1, "nothing of the body was taken for a request"


def test_one_that_sends_a_little_again_and_again_is_told_so(serve: Callable[..., Served]) -> None:
    server = serve(body_seconds=1.0, body_rate=10**6, look_seconds=0.1)
    connection = server.connect()
    connection.sendall(head(8 * MIB) + b"x" * 2 * MIB)
    connection.settimeout(0.2)
    answer = b""
    for _ in range(100):
        try:
            answer += connection.recv(65536)
            break
        except TimeoutError:
            connection.sendall(b"x")
    assert answer.startswith(b"HTTP/1.1 408 ")
