"""A websocket takes what the application keeps up with, of messages that are not too large."""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Callable

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.nniweb.web_server.conftest import Served, all_of


def test_a_message_that_is_too_large_ends_it(serve: Callable[..., Served]) -> None:
    server = serve()
    with connect(f"ws://127.0.0.1:{server.port}/echo", proxy=None) as websocket:
        websocket.send("x" * 60_000)
        assert len(websocket.recv(30)) == 60_000
        with pytest.raises(ConnectionClosed):  # noqa: PT012  # where it is noticed is not said
            websocket.send("x" * 70_000)
            websocket.recv(30)
    assert server.counted()["given"] == 60_000


def test_messages_wait_with_their_sender_while_the_application_does_not_take_them(serve: Callable[..., Served]) -> None:
    server = serve()
    before = server.megabytes
    connection = server.connect()
    connection.sendall(handshake("/patient"))
    assert connection.recv(65536).startswith(b"HTTP/1.1 101 ")
    connection.settimeout(1.0)
    message = frame(b"x" * 60_000)
    sent = 0
    with pytest.raises(TimeoutError):  # noqa: PT012  # which one waits is not said
        while sent < 100 * 2**20:
            sent += connection.send(message)
    assert server.megabytes - before < 50


def test_nothing_is_read_before_it_is_decided_who_it_is(serve: Callable[..., Served]) -> None:
    server = serve()
    before = server.megabytes
    connection = server.connect()
    connection.sendall(handshake("/never"))
    connection.settimeout(0.3)
    sent = 0
    with pytest.raises((TimeoutError, ConnectionError)):  # noqa: PT012  # which one waits is not said
        while sent < 100 * 2**20:
            sent += connection.send(frame(b"x" * 60_000))
    assert server.megabytes - before < 30


def test_a_handshake_that_is_not_decided_in_time_is_refused(serve: Callable[..., Served]) -> None:
    server = serve()
    connection = server.connect()
    connection.sendall(handshake("/never"))
    assert all_of(connection).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("line", ["Content-Length: 5", "Content-Length: 70000", "Transfer-Encoding: chunked"])
def test_a_handshake_has_no_body(serve: Callable[..., Served], line: str) -> None:
    server = serve()
    body = b"11170\r\n" + b"x" * 70000 + b"\r\n0\r\n\r\n" if "chunked" in line else b"x" * 5
    assert server.ask("GET /echo HTTP/1.1\nHost: x\nUpgrade: websocket\nConnection: close\n"
                      "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: " + KEY + f"\n{line}\n", body).startswith(
        b"HTTP/1.1 400 ")
    assert server.counted()["begun"] == 0


KEY = base64.b64encode(os.urandom(16)).decode()


def handshake(path: str) -> bytes:
    return (f"GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n").encode()


def frame(text: bytes) -> bytes:
    """A masked frame with a text of 126 to 65535 bytes."""
    return b"\x81" + bytes([0x80 | 126]) + struct.pack(">H", len(text)) + b"\0\0\0\0" + text
