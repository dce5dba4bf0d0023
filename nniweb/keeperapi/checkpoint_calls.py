"""What keepers send and fetch of checkpoints: chunks and manifests.

All of it is done by a few threads of its own, so that reports, which trials and people wait for, are not delayed. What
arrives lies in files without names until it is whole, so slow senders hold no memory and no thread.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from django.conf import settings

from nniweb.experiments.checkpoints.chunk_files import incoming_file, is_cheap_to_ask, pieces_of
from nniweb.experiments.checkpoints.incoming_file import IncomingFile
from nniweb.http.asgi import ASGISendCallable, PacedReceive
from nniweb.keeperapi import checkpoint_work, job_files
from nniweb.keeperapi.bodies import length_of, send_document, write_body
from trainingservice.receiver.checkpoint_manifests import MAX_QUESTION_BYTES
from trainingservice.receiver.report_reading import RefusedReport, refuse_by_length
from trialkeeper import chunk_pack, contract

logger = logging.getLogger(__name__)

#: Each holds one manifest in memory at most, and waits most of the time until a chunk is stored. On a disk of this
#: machine two keep it busy; with four, commits of reports waited three times as long behind their flushes.
THREADS, THREADS_ON_DISK = 4, 2
#: Write what arrives, and are not held up by those who wait for the disk.
WRITERS = 2
#: Seconds after which a keeper comes again when the disk is full.
RETRY_AFTER = 30

Result = TypeVar("Result")


class CheckpointCalls:
    """Handlers of the routes, called as those of KeeperApplication: on an event loop, each with its request."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_ON_DISK if is_cheap_to_ask() else THREADS, "checkpoints")
        self._writers = ThreadPoolExecutor(WRITERS, "checkpoints-arrive")

    async def missing(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                      receive: PacedReceive, send: ASGISendCallable) -> None:
        body = await self._body(match[1], token_hash, headers, receive, MAX_QUESTION_BYTES)
        await self._answer(send, checkpoint_work.missing, match[1], token_hash, body)

    async def put_chunk(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                        receive: PacedReceive, send: ASGISendCallable) -> None:
        body = await self._body(match[1], token_hash, headers, receive, contract.CHUNK_BYTES)
        await self._answer(send, checkpoint_work.put_chunk, match[1], token_hash, match[2], body)

    async def put_chunks(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                         receive: PacedReceive, send: ASGISendCallable) -> None:
        body = await self._body(match[1], token_hash, headers, receive, chunk_pack.MOST_PACKED)
        await self._answer(send, checkpoint_work.put_chunks, match[1], token_hash, body)

    async def get_chunks(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                         receive: PacedReceive, send: ASGISendCallable) -> None:
        body = await self._body(match[1], token_hash, headers, receive, MAX_QUESTION_BYTES)
        packed = await self._work(checkpoint_work.chunks_to_send, match[1], token_hash, body)
        await send({"type": "http.response.start", "status": 200, "headers": [
            (b"content-type", b"application/octet-stream"), (b"content-length", str(len(packed)).encode())]})
        await send({"type": "http.response.body", "body": packed})

    async def put_manifest(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                           receive: PacedReceive, send: ASGISendCallable) -> None:
        body = await self._body(match[1], token_hash, headers, receive, contract.MAX_MANIFEST_BYTES)
        await self._answer(send, checkpoint_work.put_manifest, match[1], token_hash, match[2], body)

    async def get_chunk(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                        receive: PacedReceive, send: ASGISendCallable) -> None:
        found = await self._work(checkpoint_work.chunk_to_send, match[1], token_hash, match[2])
        await self._send_file(send, *found, b"application/octet-stream")

    async def get_manifest(self, match: re.Match[str], token_hash: str, headers: dict[bytes, str],
                           receive: PacedReceive, send: ASGISendCallable) -> None:
        found = await self._work(checkpoint_work.manifest_to_send, match[1], token_hash, match[2])
        await self._send_file(send, *found, b"application/json")

    async def _body(self, job_name: str, token_hash: str, headers: dict[bytes, str], receive: PacedReceive,
                    limit: int) -> IncomingFile:
        refuse_by_length(headers.get(b"content-length"), limit)
        try:
            body = incoming_file()
            await write_body(receive, limit, length_of(headers), partial(job_files.may_start, job_name, token_hash),
                             self._writers, body, receive)
        except OSError:
            raise _full() from None
        return body

    async def _answer(self, send: ASGISendCallable, work: Callable[..., dict[str, Any]], *arguments: Any) -> None:
        more = await self._work(work, *arguments)
        await send_document(send, 200, {"installation": settings.INSTALLATION_ID, **more})

    async def _work(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Done by a thread. Raises RefusedReport."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        except OSError as error:
            logger.warning("what a keeper sends of a checkpoint cannot be stored at the moment: %s", error)
            raise _full() from None

    async def _send_file(self, send: ASGISendCallable, path: str, size: int, kind: bytes) -> None:
        loop = asyncio.get_running_loop()
        pieces = pieces_of(path)
        await send({"type": "http.response.start", "status": 200, "headers": [
            (b"content-type", kind), (b"content-length", str(size).encode())]})
        while piece := await loop.run_in_executor(self._threads, next, pieces, b""):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _full() -> RefusedReport:
    return RefusedReport(503, contract.ERROR_BUSY, "The server cannot store checkpoints at the moment, because its "
                         "disk is full or does not answer.", retry_after=RETRY_AFTER)
