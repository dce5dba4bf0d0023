"""A part of a file as the body of a request: as the system sends it, and where what goes over the line is encrypted."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.fakes.http_double import Answer, HttpDouble, Request
from tests.fakes.tls_certificate import make_certificate
from trialkeeper.access import Access
from trialkeeper.server_connection import BLOCK_BYTES, SENT_AT_ONCE, FilePart, PartFailed, ServerConnection

#: Of the part: more than is sent at once.
SIZE = SENT_AT_ONCE + BLOCK_BYTES + 5
BEGIN = 1000


class Receiver(HttpDouble):
    """Keeps the bodies that came whole."""

    def __init__(self, tls: Any = None) -> None:
        super().__init__(tls)
        self.bodies: list[bytes] = []

    def answer(self, request: Request) -> Answer:
        if len(request.body) == int(request.headers["Content-Length"]):
            self.bodies.append(request.body)
        return Answer(200, {"installation": "here"})


@pytest.fixture(params=["plain", "encrypted"])
def receiver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Receiver, ServerConnection]]:
    tls, authority = make_certificate(tmp_path / "tls") if request.param == "encrypted" else (None, None)
    receiver = Receiver(tls)
    receiver.start()
    connection = ServerConnection(Access((receiver.address,), "token",
                                         ca_file=None if authority is None else str(authority)))
    yield receiver, connection
    connection.close()
    receiver.close()


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    content = os.urandom(BEGIN + SIZE + 7)
    (tmp_path / "file").write_bytes(content)
    return content


def put(connection: ServerConnection, body: FilePart) -> int:
    return connection.call("PUT", "chunks/x", lambda answer: "", body).status


def test_exactly_the_part_arrives_and_again_on_the_same_connection(
        receiver: tuple[Receiver, ServerConnection], content: bytes, tmp_path: Path) -> None:
    moves: list[None] = []
    with open(tmp_path / "file", "rb", buffering=0) as stream:
        part = FilePart(stream, BEGIN, SIZE, lambda: moves.append(None))
        assert [put(receiver[1], part), put(receiver[1], part)] == [200, 200]
    assert receiver[0].bodies == [content[BEGIN:BEGIN + SIZE]] * 2
    assert len(moves) >= 4


def test_a_file_that_has_become_shorter_ends_the_request_and_the_next_one_arrives(
        receiver: tuple[Receiver, ServerConnection], content: bytes, tmp_path: Path) -> None:
    with open(tmp_path / "file", "rb", buffering=0) as stream:
        os.truncate(tmp_path / "file", BEGIN + SIZE - 1)
        with pytest.raises(PartFailed) as failed:
            put(receiver[1], FilePart(stream, BEGIN, SIZE))
        assert failed.value.error is None
        assert put(receiver[1], FilePart(stream, BEGIN, 10)) == 200
    assert receiver[0].bodies == [content[BEGIN:BEGIN + 10]]


def test_a_file_that_cannot_be_read_is_not_taken_for_a_server_that_is_away(
        receiver: tuple[Receiver, ServerConnection], content: bytes, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_disk(*arguments: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    class OnABrokenDisk:
        """For the way on which this process reads the file itself."""

        def seek(self, at: int) -> None:
            """Nothing is read yet."""

        def read(self, size: int) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

        def __getattr__(self, name: str) -> Any:
            return getattr(stream, name)

    monkeypatch.setattr("os.sendfile", broken_disk)
    with open(tmp_path / "file", "rb", buffering=0) as stream, pytest.raises(PartFailed) as failed:
        put(receiver[1], FilePart(cast(Any, OnABrokenDisk()), BEGIN, SIZE))
    assert failed.value.error is not None
    assert failed.value.error.errno == errno.EIO
    assert receiver[0].bodies == []
