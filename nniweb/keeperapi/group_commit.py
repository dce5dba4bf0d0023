"""One thread that commits whatever reports have gathered, then answers all of them.

A durable commit costs a disk flush whether it holds one report or a hundred. While one is under
way the next reports gather, so the more there are the larger the groups: no timer, no delay. For
the same reason a loop hands reports over when it has read all that had come, not one by one.
"""

import asyncio
import atexit
import logging
import queue
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

import orjson
from django.db import DatabaseError, connection

from nniweb.database.outage_logs import first_line
from nniweb.experiments.ingest import reports, unsupported_protocol
from nniweb.experiments.ingest.one_report import Delivery
from nniweb.experiments.ingest.report_answers import Answer
from nniweb.experiments.ingest.report_gathering import gathering
from nniweb.experiments.ingest.report_intervals import intervals
from nniweb.experiments.sql.idle_connections import give_connection_back
from nniweb.keeperapi.report_spans import ReportSpans
from nniweb.observability import process_figures
from trainingservice import tracing
from trainingservice.lasting_thread import LastingThread, in_short
from trainingservice.receiver.report_reading import ReadReport, RefusedReport, UnspokenVersion, read_report
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: Most reports in one transaction: bounds how long other writers wait.
MAX_GROUP = 64
#: Most bytes of reports in one transaction, for the same reason.
MAX_GROUP_BYTES = 2 * 1024 * 1024
#: Most reports waiting before senders are told to come later.
MAX_WAITING = 5000


class TooManyWaiting(Exception):
    """More reports wait than can be stored soon."""


@dataclass
class _Waiting:
    job_name: str
    token_hash: str
    body: bytes
    content_encoding: str
    received_at: datetime
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Answer]"
    arrived: float = field(default_factory=time.monotonic)


class GroupCommit:
    """Takes reports on event loops, stores them on a thread of its own, which starts with the first report."""

    def __init__(self, installation: str) -> None:
        self._installation = installation
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        #: What each loop has read and not handed over yet; a loop touches its own alone.
        self._read_on: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
        self._guard = threading.Lock()
        self._thread: LastingThread | None = None
        self._stopping = threading.Event()
        #: Monotonic time at which the first report of the group under way arrived.
        self._oldest: float | None = None
        self._spans = ReportSpans()
        process_figures.show_queue(self._queue.qsize, self._oldest_seconds, lambda: gathering.seconds)

    def _oldest_seconds(self) -> float:
        oldest = self._oldest
        return 0.0 if oldest is None else time.monotonic() - oldest

    async def submit(self, job_name: str, token_hash: str, body: bytes, content_encoding: str) -> Answer:
        """Wait for the commit and return the answer. Raises TooManyWaiting."""
        return await self.enqueue(job_name, token_hash, body, content_encoding)

    def enqueue(self, job_name: str, token_hash: str, body: bytes, content_encoding: str) -> "asyncio.Future[Answer]":
        """The answer that comes after the commit. Called on the loop that waits for it. Raises TooManyWaiting."""
        if self._queue.qsize() >= MAX_WAITING:
            raise TooManyWaiting
        loop = asyncio.get_running_loop()
        waiting = _Waiting(job_name, token_hash, body, content_encoding, reports.received_now(), loop,
                           loop.create_future())
        if loop not in self._read_on:
            self._read_on[loop] = []
            loop.call_soon(self._hand_over, loop)
        self._read_on[loop].append(waiting)
        return waiting.future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        read_on = self._read_on.pop(loop)
        try:
            self.start()
        except (RuntimeError, MemoryError) as error:
            logger.warning("%d reports are refused, and their keepers will send them again: "
                           "%s", len(read_on), in_short(error))
            self._answer(read_on, [self._come_again()] * len(read_on))
            return
        for waiting in read_on:
            self._queue.put(waiting)

    def start(self) -> None:
        """Have the thread now, harmless when repeated: once trials run, they may have taken all the room for threads.

        Raises RuntimeError or MemoryError where there is none.
        """
        with self._guard:
            if self._thread is None:
                self._stopping = threading.Event()
                thread = LastingThread("group-commit", self._run, stopping=self._stopping, is_vital=True)
                thread.start()
                self._thread = thread
                atexit.register(self.close)

    def close(self) -> None:
        """Store what has been taken, then end the thread. The next report starts a new one."""
        with self._guard:
            thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive:
            self._stopping.set()
            self._queue.put(None)
            thread.join(timeout=30)
            atexit.unregister(self.close)

    def _run(self) -> None:
        try:
            while self.step():
                pass
        finally:
            connection.close()

    def step(self) -> bool:
        """Wait for reports, store one group, answer it. False after ``close``."""
        group: list[_Waiting] = []
        going_on = True
        size = 0
        waiting = self._queue.get()
        while True:
            if waiting is None:
                going_on = False
                break
            group.append(waiting)
            size += len(waiting.body)
            if len(group) >= MAX_GROUP or size >= MAX_GROUP_BYTES:
                break
            try:
                waiting = self._queue.get_nowait()
            except queue.Empty:
                break
        if group:
            self._oldest = group[0].arrived
            try:
                answers = self._store(group)
                give_connection_back()
                self._answer(group, answers)
                gathering.waited(time.monotonic() - group[0].arrived)
                self._trace(group, answers)
                intervals.count_if_due()
                give_connection_back()
            except BaseException:  # the thread begins again; whoever has no answer yet would wait for ever
                self._answer(group, [self._come_again()] * len(group))
                raise
            finally:
                self._oldest = None
        return going_on

    def _come_again(self) -> Answer:
        return Answer(503, {"installation": self._installation, "error": contract.ERROR_BUSY,
                                   "message": "The server cannot store reports at the moment."}, retry_after=5)

    def _store(self, group: list[_Waiting]) -> list[Answer]:
        answers: list[Answer | None] = []
        deliveries = []
        for waiting in group:
            read = self._read(waiting)
            if isinstance(read, ReadReport):
                answers.append(None)
                deliveries.append(Delivery(waiting.job_name, waiting.token_hash, read, waiting.received_at))
            else:
                answers.append(read)
        began = time.monotonic()
        try:
            stored = iter(self._stored(deliveries))
        finally:
            if deliveries:
                process_figures.commit_seconds.observe(time.monotonic() - began)
                process_figures.group_reports.observe(len(deliveries))
        process_figures.entries.inc(sum(delivery.report.entry_count for delivery in deliveries))
        return [answer or next(stored) for answer in answers]

    def _stored(self, deliveries: list[Delivery]) -> list[Answer]:
        """The answers to these. What makes us fail in one of them is answered to its sender alone."""
        try:
            return reports.store(deliveries) if deliveries else []
        except MemoryError:
            raise
        except Exception as error:
            connection.close()
            if len(deliveries) > 1:
                logger.warning("a group of %d reports could not be stored, and is stored in parts: %s",
                               len(deliveries), in_short(error))
                middle = len(deliveries) // 2
                return [*self._stored(deliveries[:middle]), *self._stored(deliveries[middle:])]
            logger.exception("a report of job %s could not be stored; its keeper will send it again",
                             deliveries[0].job_name)
            return [Answer(500, {"installation": self._installation, "error": "internal",
                                 "message": "The server failed."})]

    def _read(self, waiting: _Waiting) -> ReadReport | Answer:
        try:
            return read_report(waiting.body, waiting.content_encoding, loads=orjson.loads)
        except UnspokenVersion as error:
            return self._refuse_version(waiting, error)
        except RefusedReport as error:
            return Answer(error.status, error.document(self._installation))
        except Exception:  # a mistake of ours that one sender found: the others in the group must not hear of it
            logger.exception("a report of job %s cannot be read", waiting.job_name)
            return Answer(400, {"installation": self._installation, "error": "unreadable",
                                       "message": "The server failed to read this report."})

    def _refuse_version(self, waiting: _Waiting, refused: UnspokenVersion) -> Answer:
        answer: RefusedReport = refused
        try:
            unsupported_protocol.note(waiting.job_name, waiting.token_hash, refused)
        except RefusedReport as error:  # somebody without the trial's token
            answer = error
        except DatabaseError as error:
            logger.warning("the refusal of the keeper of job %s could not be stored; the database's error: %s",
                           waiting.job_name, first_line(error))
        return Answer(answer.status, answer.document(self._installation))

    def _trace(self, group: list[_Waiting], answers: list[Answer]) -> None:
        """After they were answered: nobody waits for it."""
        if not tracing.is_on():
            return
        now = time.monotonic()
        try:
            self._spans.show([(waiting.job_name, answer.status, now - waiting.arrived, len(waiting.body))
                              for waiting, answer in zip(group, answers, strict=True)])
            give_connection_back()
        except DatabaseError as error:
            logger.debug("the spans of %d reports are left out; the database's error: %s", len(group),
                         first_line(error))
            connection.close()

    @staticmethod
    def _answer(group: list[_Waiting], answers: list[Answer]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Waiting, Answer]]] = defaultdict(list)
        now = time.monotonic()
        for waiting, answer in zip(group, answers, strict=True):
            process_figures.reports.labels(str(answer.status)).inc()
            process_figures.report_seconds.observe(now - waiting.arrived)
            by_loop[waiting.loop].append((waiting, answer))
        for loop, pairs in by_loop.items():
            try:
                loop.call_soon_threadsafe(_resolve, pairs)
            except RuntimeError:
                logger.debug("an event loop was closed before it received %d answers", len(pairs))


def _resolve(pairs: list[tuple[_Waiting, Answer]]) -> None:
    for waiting, answer in pairs:
        if not waiting.future.done():  # its sender may have gone
            waiting.future.set_result(answer)
