"""The ASGI application the keepers call. Not Django's: what a report costs is Python per request.

The protocol is in docs/keeper-protocol.md. Every call carries the token of its attempt; nothing
here opens with a person's session or token.
"""

import asyncio
import logging
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from django.conf import settings
from django.db import InterfaceError, OperationalError

from nniweb.experiments.ingest.report_answers import Answer
from nniweb.experiments.models.account import hash_of
from nniweb.http.asgi import ASGIEvent, ASGIReceiveCallable, ASGISendCallable, Scope
from nniweb.keeperapi import job_files
from nniweb.keeperapi.group_commit import GroupCommit, TooManyWaiting
from nniweb.keeperapi.report_limits import ReportLimits
from nniweb.middleware.allowances import ANYBODYS_BYTES
from nniweb.middleware.backpressure import with_backpressure
from nniweb.middleware.body_size import declared_length
from nniweb.observability import process_figures
from trainingservice.keeper.keeper_bundle import keeper_bytes
from trainingservice.receiver.report_reading import RefusedReport, refuse_by_length
from trialkeeper import contract

logger = logging.getLogger(__name__)


#: Largest file a keeper may send after a trial's end, in bytes.
MAX_FILE_BYTES = 64 * 1024 * 1024

#: Every route: method, pattern of the path behind contract.URL_PREFIX, name of the handler below.
#: The token in the Authorization header opens exactly one attempt (and its experiment's code).
ROUTES = (
    ("POST", re.compile(r"trials/([a-z0-9]{1,20})/reports"), "report"),
    ("GET", re.compile(r"trials/([a-z0-9]{1,20})/job"), "job"),
    ("GET", re.compile(r"trials/([a-z0-9]{1,20})/keeper"), "keeper"),
    ("GET", re.compile(r"experiments/([a-z0-9]{1,12})/code"), "code"),
    ("PUT", re.compile(r"trials/([a-z0-9]{1,20})/files/(.+)"), "file"),
)


class KeeperApplication:
    """``scope["path"]`` must begin with contract.URL_PREFIX; asgi.py sees to that."""

    def __init__(self) -> None:
        self.group_commit = GroupCommit(settings.INSTALLATION_ID)
        self.limits = ReportLimits(settings.KEEPER_CALLS, settings.KEEPER_MEGABYTES)

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        path = scope["path"][len(contract.URL_PREFIX):]
        route = next(((method, match, name) for method, pattern, name in ROUTES if (match := pattern.fullmatch(path))),
                     None)
        if route is None or route[0] != scope["method"]:
            status = 404 if route is None else 405
            await _send(send, status, _error("unknown", "This server has no such address."))
            return
        _, match, name = route
        headers = {key.lower(): value.decode("latin-1") for key, value in scope["headers"]}
        try:
            scheme, _, token = headers.get(b"authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not token:
                raise RefusedReport(401, contract.ERROR_TOKEN, "The Authorization header with a token is missing.")
            token_hash = hash_of(token.strip())
            caller, address = (match[1], token_hash), str((scope.get("client") or [""])[0])
            if seconds := self.limits.seconds_to_wait(caller, address):
                process_figures.reports.labels("429").inc()
                raise RefusedReport(429, contract.ERROR_BUSY,
                                    "This keeper sends too many requests. It can send the next one in "
                                    f"{math.ceil(seconds)} s.", retry_after=math.ceil(seconds))
            # what is sent in pieces waits for who reads slowly; said here, where the web server's own send is at hand
            counted = _Counting(receive, with_backpressure(send) if name in ("code", "keeper") else send)
            try:
                await getattr(self, name)(match, token_hash, headers, counted.receive, counted.send)
            except RefusedReport as error:
                counted.status = error.status
                raise
            finally:
                self.limits.sent(caller, counted.size)
                self.limits.answered(caller, address, counted.status)
        except RefusedReport as error:
            await _send(send, error.status, error.document(settings.INSTALLATION_ID), error.retry_after)
        except (OperationalError, InterfaceError) as error:
            logger.warning("a keeper is asked to retry; the database's error: %s", error)
            await _send(send, 503, _error(contract.ERROR_BUSY, "The server's database cannot be used at the moment."),
                        retry_after=2)
        except _SenderGone:
            logger.debug("a keeper closed the connection in the middle of %s", path)

    async def report(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                     receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        refuse_by_length(headers.get(b"content-length"))
        body = await _body(receive, contract.MAX_REPORT_BYTES, _length(headers),
                           partial(job_files.may_report, match[1], token_hash))
        try:
            answer = await self.group_commit.submit(match[1], token_hash, body, headers.get(b"content-encoding", ""))
        except TooManyWaiting:
            answer = Answer(429, _error(contract.ERROR_BUSY, "Too many reports are waiting."), retry_after=2)
        await _send(send, answer.status, answer.body, answer.retry_after)

    async def job(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                  receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        document = await asyncio.to_thread(job_files.job_document_of, match[1], token_hash)
        await _send(send, 200, document)

    async def keeper(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                     receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await asyncio.to_thread(job_files.may_start, match[1], token_hash)
        content = await asyncio.to_thread(keeper_bytes)
        await send({"type": "http.response.start", "status": 200, "headers": [
            (b"content-type", b"application/zip"), (b"content-length", str(len(content)).encode())]})
        await send({"type": "http.response.body", "body": content})

    async def code(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                   receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        path, sha256 = await asyncio.to_thread(job_files.code_of, match[1], token_hash)
        etag = f'"{sha256}"'
        if headers.get(b"if-none-match") == etag:
            await send({"type": "http.response.start", "status": 304, "headers": [(b"etag", etag.encode())]})
            await send({"type": "http.response.body", "body": b""})
            return
        size = path.stat().st_size
        await send({"type": "http.response.start", "status": 200, "headers": [
            (b"content-type", b"application/gzip"), (b"content-length", str(size).encode()), (b"etag", etag.encode())]})
        with open(path, "rb") as file:
            while chunk := await asyncio.to_thread(file.read, 256 * 1024):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def file(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                   receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        refuse_by_length(headers.get(b"content-length"), MAX_FILE_BYTES)
        body = await _body(receive, MAX_FILE_BYTES, _length(headers),
                           partial(job_files.may_report, match[1], token_hash))
        await asyncio.to_thread(job_files.keep_file, match[1], token_hash, match[2], body)
        await _send(send, 200, {"installation": settings.INSTALLATION_ID})


def _length(headers: dict[bytes, str]) -> int | None:
    value = headers.get(b"content-length")
    return None if value is None else declared_length([(b"content-length", value.encode("latin-1"))])


class _SenderGone(Exception):
    pass


class _Counting:
    """Passes on what a call sends and is answered, and remembers how much and how."""

    def __init__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        self._receive, self._send = receive, send
        self.size = 0
        self.status = 500

    async def receive(self) -> ASGIEvent:
        message = await self._receive()
        self.size += len(message.get("body", b""))
        return message

    async def send(self, message: ASGIEvent) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


async def _body(receive: ASGIReceiveCallable, limit: int, length: int | None, may_send: Callable[[], None]) -> bytes:
    """The body. ``may_send`` raises RefusedReport; it is asked, in a thread, before more than a little is read."""
    pieces, size = [], 0
    is_known = False
    while True:
        if not is_known and max(size, length or 0) > ANYBODYS_BYTES:
            await asyncio.to_thread(may_send)
            is_known = True
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _SenderGone
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise RefusedReport(413, contract.ERROR_TOO_LARGE, f"The body must have at most {limit} bytes.")
        pieces.append(piece)
        if not message.get("more_body"):
            return b"".join(pieces)


def _error(error: str, message: str) -> dict[str, Any]:
    return {"installation": settings.INSTALLATION_ID, "error": error, "message": message}


async def _send(send: ASGISendCallable, status: int, document: Any, retry_after: int | None = None) -> None:
    body = orjson.dumps(document)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if retry_after is not None:
        headers.append((b"retry-after", str(retry_after).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
