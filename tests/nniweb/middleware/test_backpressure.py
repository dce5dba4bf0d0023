"""An answer in many pieces waits for its reader where the server's own ``send`` does not."""

import asyncio
from collections.abc import MutableMapping
from functools import partial
from typing import Any

import pytest

from nniweb.middleware.backpressure import with_backpressure

PIECE = {"type": "http.response.body", "body": b"x", "more_body": True}
START = {"type": "http.response.start", "status": 200, "headers": []}
LAST = {"type": "http.response.body", "body": b""}


class Request:
    """Twisted's side of a request, as far as producers go."""

    def __init__(self) -> None:
        self.producer: Any = None
        self.channel: object | None = object()
        self.sent: list[MutableMapping[str, Any]] = []

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        assert self.channel is not None
        assert self.producer is None
        assert streaming
        self.producer = producer

    def unregisterProducer(self) -> None:
        assert self.channel is not None
        self.producer = None


async def handle_reply(request: Request, message: MutableMapping[str, Any]) -> None:
    """As daphne's: back at once."""
    request.sent.append(message)


async def step() -> None:
    """Let everything run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_next_piece_waits_while_the_connection_is_full() -> None:
    async def run() -> None:
        request = Request()
        send = with_backpressure(partial(handle_reply, request))
        await send(START)
        assert request.producer is None
        await send(PIECE)
        request.producer.pauseProducing()
        sending = asyncio.ensure_future(send(PIECE))
        await step()
        assert (len(request.sent), sending.done()) == (3, False), "it was sent, and waits before the next one"
        request.producer.resumeProducing()
        await sending
        request.producer.pauseProducing()
        await send(LAST)
        assert (request.sent[-1], request.producer) == (LAST, None)

    asyncio.run(run())


def test_a_connection_that_is_gone_lets_the_answer_come_to_its_end() -> None:
    async def run() -> None:
        request = Request()
        send = with_backpressure(partial(handle_reply, request))
        await send(PIECE)
        request.producer.pauseProducing()
        sending = asyncio.ensure_future(send(PIECE))
        await step()
        request.producer.stopProducing()
        await asyncio.wait_for(sending, 30)

    asyncio.run(run())


def test_an_answer_in_one_piece_and_other_servers_are_left_alone() -> None:
    async def run() -> None:
        request = Request()
        send = with_backpressure(partial(handle_reply, request))
        await send(START)
        await send({"type": "http.response.body", "body": b"all"})
        assert (request.producer, len(request.sent)) == (None, 2)

        async def own(message: MutableMapping[str, Any]) -> None:
            """Of a server that waits by itself."""

        assert with_backpressure(own) is own

    asyncio.run(run())


@pytest.mark.parametrize("pieces", [0, 1, 2])
def test_a_reader_that_hangs_up_is_no_error(pieces: int) -> None:
    """One that knows the length does so when it has all pieces, before the answer's end is sent."""
    async def run() -> None:
        request = Request()
        send = with_backpressure(partial(handle_reply, request))
        await send(START)
        for _ in range(pieces):
            await send(PIECE)
        if request.producer is not None:
            request.producer.stopProducing()
        request.channel = None
        await send(PIECE)
        await send(LAST)

    asyncio.run(run())
