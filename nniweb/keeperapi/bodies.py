"""Bodies of the keepers' requests, which are bounded while they arrive, and the answers to them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import orjson
from django.conf import settings

from nniweb.http.asgi import ASGIReceiveCallable, ASGISendCallable
from nniweb.middleware.allowances import ANYBODYS_BYTES
from nniweb.middleware.body_size import declared_length
from trainingservice.receiver.report_reading import RefusedReport
from trialkeeper import contract

#: Bytes of a body that are written at once: a thread that is asked for each piece costs more than writing it.
GATHERED_BYTES = 256 * 1024


def length_of(headers: dict[bytes, str]) -> int | None:
    """What Content-Length says, None where there is none."""
    value = headers.get(b"content-length")
    return None if value is None else declared_length([(b"content-length", value.encode("latin-1"))])


class SenderGone(Exception):
    """The keeper closed the connection in the middle of its request."""


async def body_of(receive: ASGIReceiveCallable, limit: int, length: int | None, may_send: Callable[[], None]
                  ) -> bytes:
    """The body. ``may_send`` raises RefusedReport; it is asked, in a thread, before more than a little is read."""
    pieces, size = [], 0
    is_known = False
    while True:
        if not is_known and max(size, length or 0) > ANYBODYS_BYTES:
            await asyncio.to_thread(may_send)
            is_known = True
        message = await receive()
        if message["type"] == "http.disconnect":
            raise SenderGone
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise RefusedReport(413, contract.ERROR_TOO_LARGE, f"The body must have at most {limit} bytes.")
        pieces.append(piece)
        if not message.get("more_body"):
            return b"".join(pieces)


async def spooled_body(receive: ASGIReceiveCallable, limit: int, length: int | None, may_send: Callable[[], None],
                       threads: Executor) -> IO[bytes]:
    """The body in a file without a name, at its beginning; whoever gets it closes it. A little is kept in memory alone.

    So any number of slow senders holds next to no memory. ``may_send`` as with ``body_of``; it is asked in one of
    ``threads``, which write, too. Raises RefusedReport, SenderGone, OSError where the disk is full.
    """
    loop = asyncio.get_running_loop()
    size, is_known = 0, False
    gathered: list[bytes] = []
    waiting = 0
    body: Any = SpooledTemporaryFile(ANYBODYS_BYTES, dir=str(settings.DATA_FOLDER))  # noqa: SIM115  who gets it closes it
    try:
        while True:
            if not is_known and max(size, length or 0) > ANYBODYS_BYTES:
                await loop.run_in_executor(threads, may_send)
                is_known = True
            message = await receive()
            if message["type"] == "http.disconnect":
                raise SenderGone
            piece = message.get("body", b"")
            size += len(piece)
            if size > limit:
                raise RefusedReport(413, contract.ERROR_TOO_LARGE, f"The body must have at most {limit} bytes.")
            gathered.append(piece)
            waiting += len(piece)
            is_whole = not message.get("more_body")
            if size <= ANYBODYS_BYTES or waiting >= GATHERED_BYTES or is_whole:
                content, gathered, waiting = b"".join(gathered), [], 0
                if size > ANYBODYS_BYTES:
                    await loop.run_in_executor(threads, body.write, content)
                else:
                    body.write(content)
            if is_whole:
                body.seek(0)
                whole: IO[bytes] = body
                return whole
    except BaseException:
        body.close()
        raise


def error_document(error: str, message: str) -> dict[str, Any]:
    """The body of an answer that refuses. ``error``: one of ``contract.ERROR_*``."""
    return {"installation": settings.INSTALLATION_ID, "error": error, "message": message}


async def send_document(send: ASGISendCallable, status: int, document: Any, retry_after: int | None = None
                        ) -> None:
    """Answer with a document."""
    body = orjson.dumps(document)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if retry_after is not None:
        headers.append((b"retry-after", str(retry_after).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
