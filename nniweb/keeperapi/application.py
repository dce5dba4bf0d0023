"""The ASGI application the keepers call. Not Django's: what a report costs is Python per request.

The protocol is in docs/keeper-protocol.md. Every call carries the token of its attempt; nothing
here opens with a person's session or token.
"""

import asyncio
import logging
import math
import re
from contextlib import nullcontext
from functools import partial
from typing import Any

import orjson
from django.conf import settings
from django.db import DatabaseError, InterfaceError

from nniweb.database.outage_logs import takes_nothing
from nniweb.experiments.ingest.report_answers import Answer
from nniweb.experiments.models.account import hash_of
from nniweb.http.asgi import (
    REST_OF_BODY,
    ASGIEvent,
    ASGIReceiveCallable,
    ASGISendCallable,
    BodyReader,
    RestOfBody,
    Scope,
)
from nniweb.keeperapi import job_files
from nniweb.keeperapi.bodies import SenderGone, body_of, error_document, length_of, send_document
from nniweb.keeperapi.checkpoint_calls import CheckpointCalls
from nniweb.keeperapi.group_commit import GroupCommit, TooManyWaiting
from nniweb.keeperapi.report_limits import ReportLimits
from nniweb.keeperapi.waiting_places import MAX_QUESTION_BYTES, WaitingPlaces, read_question
from nniweb.middleware.allowances import ANYBODYS_BYTES
from nniweb.middleware.backpressure import with_backpressure
from nniweb.observability import process_figures
from nniweb.storage.elsewhere import StorageFailed
from trainingservice.keeper.keeper_bundle import keeper_bytes
from trainingservice.receiver.report_reading import RefusedReport, refuse_by_length
from trainingservice.receiver.several_reports import SignOfLife, read_several
from trialkeeper import contract

logger = logging.getLogger(__name__)


#: Largest file a keeper may send after a trial's end, in bytes.
MAX_FILE_BYTES = 64 * 1024 * 1024

#: A keeper that is asked to report again after more seconds than these does not keep its connection: each one takes a
#: descriptor and memory, and a new one costs less than a report.
KEPT_FOR = 30.0

#: Every route: method, pattern of the path behind contract.URL_PREFIX, name of the handler below.
#: The token in the Authorization header opens exactly one attempt (and its experiment's code).
ROUTES = (
    ("POST", re.compile(r"trials/([a-z0-9]{1,20})/reports"), "report"),
    ("POST", re.compile(r"trials/([a-z0-9]{1,20})/reports/several"), "reports"),
    ("GET", re.compile(r"trials/([a-z0-9]{1,20})/job"), "job"),
    ("GET", re.compile(r"trials/([a-z0-9]{1,20})/keeper"), "keeper"),
    ("POST", re.compile(r"trials/([a-z0-9]{1,20})/next"), "next"),
    ("GET", re.compile(r"experiments/([a-z0-9]{1,12})/code"), "code"),
    ("PUT", re.compile(r"trials/([a-z0-9]{1,20})/files/(.+)", re.DOTALL), "file"),
    ("POST", re.compile(r"trials/([a-z0-9]{1,20})/chunks/missing"), "missing"),
    ("POST", re.compile(r"trials/([a-z0-9]{1,20})/chunks/several"), "put_chunks"),
    ("POST", re.compile(r"trials/([a-z0-9]{1,20})/chunks/fetch"), "get_chunks"),
    ("PUT", re.compile(r"trials/([a-z0-9]{1,20})/chunks/([0-9a-f]{64})"), "put_chunk"),
    ("GET", re.compile(r"trials/([a-z0-9]{1,20})/chunks/([0-9a-f]{64})"), "get_chunk"),
    ("PUT", re.compile(r"trials/([a-z0-9]{1,20})/checkpoints/([0-9a-f]{64})"), "put_manifest"),
    ("GET", re.compile(r"trials/([a-z0-9]{1,20})/checkpoints/([0-9a-f]{64})"), "get_manifest"),
)
#: Those of CheckpointCalls.
CHECKPOINT_CALLS = frozenset({"missing", "put_chunk", "put_chunks", "get_chunk", "get_chunks", "put_manifest",
                              "get_manifest"})
#: Calls about checkpoints that one keeper may make, as a multiple of all its other calls: a checkpoint of many small
#: files has as many chunks.
CHECKPOINT_SHARE = 4
#: Calls whose answers are sent in pieces.
_IN_PIECES = frozenset({"code", "keeper", "get_chunk", "get_chunks", "get_manifest"})


class KeeperApplication:
    """``scope["path"]`` must begin with contract.URL_PREFIX; asgi.py sees to that."""

    def __init__(self) -> None:
        self.group_commit = GroupCommit(settings.INSTALLATION_ID)
        self.limits = ReportLimits(settings.KEEPER_CALLS, settings.KEEPER_MEGABYTES)
        self.checkpoint_limits = ReportLimits(CHECKPOINT_SHARE * settings.KEEPER_CALLS, 0)
        self.checkpoints = CheckpointCalls()
        self.places = WaitingPlaces()

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        path = scope["path"][len(contract.URL_PREFIX):]
        routes = [(method, match, name) for method, pattern, name in ROUTES if (match := pattern.fullmatch(path))]
        route = next((route for route in routes if route[0] == scope["method"]), None)
        if route is None:
            await send_document(send, 405 if routes else 404,
                                error_document("unknown", "This server has no such address."))
            return
        _, match, name = route
        # what is sent of checkpoints is much, and must neither use up what a keeper may report nor wait for it
        limits = self.checkpoint_limits if name in CHECKPOINT_CALLS else self.limits
        headers = {key.lower(): value.decode("latin-1") for key, value in scope["headers"]}
        try:
            scheme, _, token = headers.get(b"authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not token:
                raise RefusedReport(401, contract.ERROR_TOKEN, "The Authorization header with a token is missing.")
            token_hash = hash_of(token.strip())
            caller, address = (match[1], token_hash), str((scope.get("client") or [""])[0])
            if seconds := limits.seconds_to_wait(caller, address):
                process_figures.reports.labels("429").inc()
                raise RefusedReport(429, contract.ERROR_BUSY,
                                    "This keeper sends too many requests. It can send the next one in "
                                    f"{math.ceil(seconds)} s.", retry_after=math.ceil(seconds))
            # what is sent in pieces waits for who reads slowly; said here, where the web server's own send is at hand
            counted = _Counting(receive, with_backpressure(send) if name in _IN_PIECES else send,
                                scope.get("extensions", {}).get(REST_OF_BODY))
            try:
                # bodies of checkpoints are files, those of other calls are in memory
                is_checkpoint = name in CHECKPOINT_CALLS
                is_large = not is_checkpoint and _has_large_body(headers)
                with limits.large_body(caller) if is_large else nullcontext():
                    handler = self.checkpoints if is_checkpoint else self
                    await getattr(handler, name)(match, token_hash, headers, counted, counted.send)
            except RefusedReport as error:
                counted.status = error.status
                raise
            except OSError as error:
                if not counted.has_begun:
                    raise
                # it cannot become another answer: shorter than its length, the web server ends it with the connection
                logger.warning("an answer to a keeper ends in the middle: %s", str(error) or type(error).__name__)
                await counted.send({"type": "http.response.body", "body": b""})
            finally:
                limits.sent(caller, counted.size)
                limits.answered(caller, address, counted.status)
        except RefusedReport as error:
            await send_document(send, error.status, error.document(settings.INSTALLATION_ID), error.retry_after)
        except (DatabaseError, InterfaceError) as error:
            if not takes_nothing(error):
                raise
            logger.warning("a keeper is asked to retry; the database's error: %s", error)
            await send_document(send, 503, error_document(
                contract.ERROR_BUSY, "The server's database cannot be used at the moment."), retry_after=2)
        except StorageFailed as error:
            logger.warning("a keeper is asked to retry: %s", error)
            await send_document(send, 503, error_document(
                contract.ERROR_BUSY, "The server's storage of files cannot be used at the moment."), retry_after=30)
        except SenderGone:
            logger.debug("a keeper closed the connection in the middle of %s", path)

    async def report(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                     receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        refuse_by_length(headers.get(b"content-length"))
        body = await body_of(receive, contract.MAX_REPORT_BYTES, length_of(headers),
                             partial(job_files.may_report, match[1], token_hash))
        encoding = headers.get(b"content-encoding", "")
        if encoding and not self.limits.knows((match[1], token_hash)):  # a small body may be a large one, unpacked
            await asyncio.to_thread(job_files.may_report, match[1], token_hash)
        try:
            answer = await self.group_commit.submit(match[1], token_hash, body, encoding)
        except TooManyWaiting:
            answer = Answer(429, error_document(contract.ERROR_BUSY, "Too many reports are waiting."), retry_after=2)
        await send_document(send, answer.status, answer.body, answer.retry_after,
                            closes=answer.body.get("next_report_within", 0.0) > KEPT_FOR)

    async def reports(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                      receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Signs of life of several keepers; the one of the address is one of them."""
        refuse_by_length(headers.get(b"content-length"))
        await asyncio.to_thread(_may_report_for_others, match[1], token_hash)
        body = await body_of(receive, contract.MAX_REPORT_BYTES, length_of(headers),
                             partial(job_files.may_report, match[1], token_hash))
        signs = read_several(body, headers.get(b"content-encoding", ""), loads=orjson.loads)
        try:
            answers = await asyncio.gather(*(self._sign_of_life(sign, match[1]) for sign in signs))
        except TooManyWaiting:
            raise RefusedReport(429, contract.ERROR_BUSY, "Too many reports are waiting.", retry_after=2) from None
        await send_document(send, 200, {"installation": settings.INSTALLATION_ID, "answers": answers})

    async def _sign_of_life(self, sign: SignOfLife, sender: str) -> dict[str, Any]:
        """The answer to one of several, with its status. What is wrong with tokens counts for who sends them."""
        caller, address = (sign.job_name, hash_of(sign.token)), f"for {sender}"
        if seconds := self.limits.seconds_to_wait(caller, address):
            return {"status": 429, "retry_after": math.ceil(seconds), **error_document(
                contract.ERROR_BUSY, "This keeper sends too many requests.")}
        try:
            body = orjson.dumps(sign.report)
        except TypeError:  # what the standard library's reader takes, such as half of a surrogate pair
            return {"status": 400, **error_document(contract.ERROR_UNREADABLE, "This report cannot be read.")}
        answer = await self.group_commit.enqueue(*caller, body, "")
        self.limits.answered(caller, address, answer.status)
        return {"status": answer.status, **answer.body}

    async def job(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                  receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        document = await asyncio.to_thread(job_files.job_document_of, match[1], token_hash)
        await send_document(send, 200, document)

    async def next(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                   receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        refuse_by_length(headers.get(b"content-length"), MAX_QUESTION_BYTES)
        body = await body_of(receive, MAX_QUESTION_BYTES, length_of(headers), lambda: None)
        job = await self.places.next_job(match[1], token_hash, read_question(body))
        await send_document(send, 200, {"installation": settings.INSTALLATION_ID, "job": job})

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
        body = await body_of(receive, MAX_FILE_BYTES, length_of(headers),
                             partial(job_files.may_report, match[1], token_hash))
        await asyncio.to_thread(job_files.keep_file, match[1], token_hash, match[2], body)
        await send_document(send, 200, {"installation": settings.INSTALLATION_ID})


def _has_large_body(headers: dict[bytes, str]) -> bool:
    return b"transfer-encoding" in headers or (length_of(headers) or 0) > ANYBODYS_BYTES


def _may_report_for_others(job_name: str, token_hash: str) -> None:
    """Whether the token opens the job. Raises RefusedReport, also of a job that is not known with 401: by 404 a server
    says that it does not take several reports at once.
    """
    try:
        job_files.may_report(job_name, token_hash)
    except RefusedReport as error:
        raise RefusedReport(401, contract.ERROR_TOKEN, str(error)) from None


class _Counting:
    """Passes on what a call sends and is answered, and remembers how much and how."""

    def __init__(self, receive: ASGIReceiveCallable, send: ASGISendCallable, rest: RestOfBody | None) -> None:
        self._receive, self._send, self._rest = receive, send, rest
        self.size = 0
        self.status = 500
        self.has_begun = False

    async def __call__(self) -> ASGIEvent:
        message = await self._receive()
        self.size += len(message.get("body", b""))
        return message

    def reader(self) -> BodyReader | None:
        return None if self._rest is None else self._rest.reader()

    def was_read(self, size: int) -> None:
        assert self._rest is not None
        self.size += size
        self._rest.was_read(size)

    async def send(self, message: ASGIEvent) -> None:
        if message["type"] == "http.response.start":
            self.status, self.has_begun = message["status"], True
        await self._send(message)
