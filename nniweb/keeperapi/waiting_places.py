"""Warm places that wait for their next attempt: each question stays open until there is one, or its time is over."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, suppress
from typing import Any

import orjson

from nniweb.experiments.ingest.place_requests import PlaceRequest, look, read_request
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.sql.idle_connections import give_connection_back
from trainingservice.receiver.report_reading import RefusedReport
from trialkeeper import contract

#: Bytes of a question.
MAX_QUESTION_BYTES = 4096
#: Seconds between two looks at the rows where the bell does not ring, or is not heard.
LOOK_SECONDS = 2.0


def read_question(body: bytes) -> PlaceRequest:
    """Raises RefusedReport."""
    try:
        return read_request(orjson.loads(body))
    except orjson.JSONDecodeError:
        raise RefusedReport(400, contract.ERROR_UNREADABLE, "The body is no JSON.") from None


class WaitingPlaces:
    """On one event loop. It listens to the bell while somebody waits."""

    def __init__(self) -> None:
        self._waiting: dict[int, set[asyncio.Event]] = {}
        self._bell: ExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def next_job(self, job_name: str, token_hash: str, asked: PlaceRequest) -> dict[str, Any] | None:
        """What the place is to run next; None where there was nothing for the time that it waits. Raises RefusedReport.
        """
        until = time.monotonic() + asked.wait
        rung = asyncio.Event()
        experiment_pk: int | None = None
        try:
            while True:
                rung.clear()
                job, pk = await asyncio.to_thread(_look, job_name, token_hash, asked)
                left = until - time.monotonic()
                if job is not None or left <= 0:
                    return job
                if experiment_pk is None:  # from now on; what rang before is found by another look
                    experiment_pk = pk
                    self._listen(pk, rung)
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(rung.wait(), min(left, LOOK_SECONDS))
        finally:
            if experiment_pk is not None:
                self._leave(experiment_pk, rung)

    def _listen(self, experiment_pk: int, rung: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting.setdefault(experiment_pk, set()).add(rung)
        if self._bell is None:
            self._bell = ExitStack()
            self._bell.enter_context(doorbell.listening(self._heard))

    def _leave(self, experiment_pk: int, rung: asyncio.Event) -> None:
        waiting = self._waiting.get(experiment_pk, set())
        waiting.discard(rung)
        if not waiting:
            self._waiting.pop(experiment_pk, None)
        if not self._waiting and self._bell is not None:
            bell, self._bell = self._bell, None
            bell.close()

    def _heard(self, experiment_pk: int) -> None:
        """In the ringing thread."""
        loop = self._loop
        if loop is not None and experiment_pk in self._waiting and not loop.is_closed():
            loop.call_soon_threadsafe(self._ring, experiment_pk)

    def _ring(self, experiment_pk: int) -> None:
        for rung in self._waiting.get(experiment_pk, ()):
            rung.set()


def _look(job_name: str, token_hash: str, asked: PlaceRequest) -> tuple[dict[str, Any] | None, int]:
    try:
        return look(job_name, token_hash, asked)
    finally:
        give_connection_back()
