"""No request fills the disk."""

import asyncio
from typing import Any

import pytest

from nniweb.doors.body_size import not_too_large


def ask(length: bytes | None, *pieces: bytes) -> tuple[list[Any], int]:
    """The statuses that were sent, and how many bytes the application got."""
    sent: list[Any] = []
    waiting = [{"type": "http.request", "body": piece, "more_body": place < len(pieces)}
               for place, piece in enumerate(pieces, 1)]
    got = 0

    async def application(scope: Any, receive: Any, send: Any) -> None:
        nonlocal got
        while (message := await receive())["type"] == "http.request":
            got += len(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if length is None else [(b"Content-Length", length)]
    asyncio.run(not_too_large(application, 10)({"type": "http", "headers": headers}, receive, send))
    return [message["status"] for message in sent if "status" in message], got


@pytest.mark.parametrize(("length", "pieces", "status", "read"), [
    (b"10", [b"x" * 10], 200, 10), (b"11", [b"x" * 11], 413, 0), (b"1e9", [b"x"], 413, 0), (b"9" * 400, [b"x"], 413, 0),
    (None, [b"x" * 5, b"x" * 5], 200, 10), (None, [b"x" * 6, b"x" * 6, b"x" * 6], 413, 6)],
    ids=["as much as may be", "more", "no number", "a number of many figures", "in pieces", "in too many pieces"])
def test_what_is_too_large_is_refused_as_soon_as_that_is_known(length: bytes | None, pieces: list[bytes], status: int,
                                                               read: int) -> None:
    assert ask(length, *pieces) == ([status], read)
