"""Bodies of the keepers' requests, which are bounded while they arrive, and the answers to them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Protocol

import orjson
from django.conf import settings

from nniweb.http.asgi import ASGIReceiveCallable, ASGISendCallable, BodyReader, RestOfBody
from nniweb.middleware.allowances import ANYBODYS_BYTES
from nniweb.middleware.body_size import declared_length
from trainingservice.receiver.report_reading import RefusedReport
from trialkeeper import contract

#: Bytes of a body that are written at once, at least and at most: a thread that is asked for each piece costs more than
#: writing it. All bodies that arrive together hold MOST_GATHERED, unless each has the least.
GATHERED_BYTES = (128 * 1024, 1024 * 1024)
MOST_GATHERED = 16 * 1024 * 1024

#: Bodies that ``write_body`` writes now. Of the event loop's thread.
_arriving = 0


def length_of(headers: dict[bytes, str]) -> int | None:
    """What Content-Length says, None where there is none."""
    value = headers.get(b"content-length")
    return None if value is None else declared_length([(b"content-length", value.encode("latin-1"))])


class WrittenBody(Protocol):
    """Where a body is written to, by one thread at a time."""

    def write(self, pieces: Sequence[bytes | memoryview]) -> None: ...

    def close(self) -> None: ...


class SenderGone(Exception):
    """The keeper closed the connection in the middle of its request."""


async def body_of(receive: ASGIReceiveCallable, limit: int, length: int | None, may_send: Callable[[], None]
                  ) -> bytes:
    """The body. ``may_send`` raises RefusedReport; it is asked, in a thread, before more than a little is read."""
    return b"".join([piece async for piece in _pieces(receive, limit, length, may_send, None)])


async def write_body(receive: ASGIReceiveCallable, limit: int, length: int | None, may_send: Callable[[], None],
                     threads: Executor, body: WrittenBody, rest: RestOfBody | None = None) -> None:
    """Write the body while it arrives: the next piece is received while the one before is written, or one of
    ``threads`` reads what is there by itself, where the server's ``rest`` lets it.

    So any number of slow senders holds little memory and no thread. ``may_send`` as with ``body_of``; it is asked in
    one of ``threads``, which write, too. Raises RefusedReport, SenderGone, OSError where the disk is full; ``body`` is
    closed then.
    """
    global _arriving
    gathered: list[bytes] = []
    waiting = 0
    writing: Future[Any] | None = None
    reader: BodyReader | None = None
    _arriving += 1
    try:
        async for piece in _pieces(receive, limit, length, may_send, threads):
            gathered.append(piece)
            waiting += len(piece)
            if rest is not None and (reader := rest.reader()) is not None:
                if writing is not None:
                    await asyncio.wrap_future(writing)
                writing = threads.submit(_write_and_read, body, gathered, reader)
                rest.was_read(await asyncio.wrap_future(writing))
                writing, gathered, waiting = None, [], 0
            elif waiting >= min(max(GATHERED_BYTES[0], MOST_GATHERED // _arriving), GATHERED_BYTES[1]):
                if writing is not None:
                    await asyncio.wrap_future(writing)
                writing = threads.submit(body.write, gathered)
                gathered, waiting = [], 0
        if writing is not None:
            await asyncio.wrap_future(writing)
        if gathered:
            writing = threads.submit(body.write, gathered)
            await asyncio.wrap_future(writing)
    except BaseException:
        def close(_: object = None) -> None:
            body.close()
            if reader is not None:
                reader.close()

        if writing is None:
            close()
        else:  # not while a thread writes to it: its descriptor could be another file's by then
            writing.add_done_callback(close)
        raise
    finally:
        _arriving -= 1


def _write_and_read(body: WrittenBody, gathered: Sequence[bytes], reader: BodyReader) -> int:
    """Bytes that were read and written, behind those that were there before."""
    body.write(gathered)
    return reader.read(body.write)


async def _pieces(receive: ASGIReceiveCallable, limit: int, length: int | None, may_send: Callable[[], None],
                  threads: Executor | None) -> AsyncIterator[bytes]:
    """The body as it arrives. ``threads``: one of them asks ``may_send``; None: asyncio's own do."""
    size, is_known = 0, False
    while True:
        if not is_known and max(size, length or 0) > ANYBODYS_BYTES:
            await asyncio.get_running_loop().run_in_executor(threads, may_send)
            is_known = True
        message = await receive()
        if message["type"] == "http.disconnect":
            raise SenderGone
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise RefusedReport(413, contract.ERROR_TOO_LARGE, f"The body must have at most {limit} bytes.")
        yield piece
        if not message.get("more_body"):
            return


def error_document(error: str, message: str) -> dict[str, Any]:
    """The body of an answer that refuses. ``error``: one of ``contract.ERROR_*``."""
    return {"installation": settings.INSTALLATION_ID, "error": error, "message": message}


async def send_document(send: ASGISendCallable, status: int, document: Any, retry_after: int | None = None, *,
                        closes: bool = False) -> None:
    """Answer with a document. ``closes``: the sender shall not keep the connection."""
    body = orjson.dumps(document)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if retry_after is not None:
        headers.append((b"retry-after", str(retry_after).encode()))
    if closes:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
