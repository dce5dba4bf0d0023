"""Keeps what is logged about experiments in the database, where web servers on other machines can read it.

A handler of ``logging`` takes every record that carries an experiment's id (``observability.log_ids``) and hands it to
a thread, which writes batches. Whoever logs never waits for the database and never gets an error of it: where more
comes than fits, it is left out and counted. The lines on the console are none of this file's business.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import DatabaseError, connection, transaction
from django.db.models import Max
from django.utils import timezone

from nniweb.database.outage_logs import NoTracebackWhileDatabaseIsAway, first_line
from nniweb.experiments.models import Experiment, LogLine
from nniweb.experiments.models.log_line import LogSource
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.secrets.masking import masked_wholly
from nniweb.experiments.sql.exact_text import printable
from nniweb.experiments.sql.idle_connections import drop_connection, give_connection_back
from nniweb.observability.log_ids import AddIds
from nniweb.process.token_bucket import TokenBucket
from trainingservice.lasting_thread import LastingThread

logger = logging.getLogger(__name__)

#: Where there are loggers of ours; the handler listens to these.
LOGGERS = ("nniweb", "trainingservice")
#: Lines kept of one experiment; the oldest go.
MOST_LINES = 10_000
#: Characters of one line: of a longer one the beginning and the end.
LONGEST = 8_000
#: Lines of one experiment that may come at once, and how many a second when they go on coming.
BURST, PER_SECOND = 300, 20
#: Lines that wait for the database, of all experiments.
MOST_WAITING = 10_000
#: How long lines are gathered before they are written, in seconds; and the pause where the database took nothing.
GATHER_SECONDS, AWAY_SECONDS = 0.5, 5.0
#: Lines written in one transaction.
CHUNK = 500


@dataclass(frozen=True)
class _Line:
    at: datetime
    level: int
    source: LogSource
    trial: str
    message: str


@dataclass
class _Allowance:
    """How many lines of one experiment are still taken."""

    bucket: TokenBucket
    #: Lines left out since somebody was told.
    left_out: int = 0


class ExperimentLog(logging.Handler):
    """``open`` begins to write, ``close`` writes what is left (at most about 10 s) and ends. Thread-safe."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.addFilter(AddIds())
        self.addFilter(NoTracebackWhileDatabaseIsAway())
        self._waiting: deque[tuple[str, _Line]] = deque()
        self._allowances: dict[str, _Allowance] = {}
        self._condition = threading.Condition()
        self._closing = threading.Event()
        self._thread = LastingThread("experiment-log", self._run, stopping=self._closing)

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive:
            self._closing.set()
            with self._condition:
                self._condition.notify_all()
            self._thread.join(10.0)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        experiment = getattr(record, "experiment", "")
        if not experiment:
            return
        try:
            if self._may_be_kept(experiment):
                line = self._line(experiment, record)
                with self._condition:
                    self._waiting.append((experiment, line))
                    self._condition.notify_all()
        except Exception:
            self.handleError(record)

    def _may_be_kept(self, experiment: str) -> bool:
        with self._condition:
            if (allowance := self._allowances.get(experiment)) is None:
                allowance = self._allowances[experiment] = _Allowance(TokenBucket(PER_SECOND, BURST))
            if len(self._waiting) < MOST_WAITING and allowance.bucket.take():
                return True
            allowance.left_out += 1
            return False

    def _line(self, experiment: str, record: logging.LogRecord) -> _Line:
        """Masked here, by whoever logs: with the secrets of the work that the line is of."""
        text = self.format(record).rstrip()
        for prefix in (f"experiment {experiment}: ", "tuner process: "):
            text = text.removeprefix(prefix)
        return _Line(datetime.fromtimestamp(record.created, UTC), record.levelno, _source_of(record.name),
                     str(getattr(record, "trial", ""))[:12], _shortened(masked_wholly(text)))

    # --- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while True:
                with self._condition:
                    self._condition.wait_for(lambda: self._waiting or self._closing.is_set())
                self._closing.wait(GATHER_SECONDS)
                closing = self._closing.is_set()
                written = self._write_all()
                give_connection_back()
                if closing:
                    return
                if not written:
                    self._closing.wait(AWAY_SECONDS)
        finally:
            connection.close()

    def _write_all(self) -> bool:
        """Write what waits; False where the database takes nothing now: then what is not written goes on waiting."""
        left = deque((experiment, lines[start: start + CHUNK]) for experiment, lines in self._taken().items()
                     for start in range(0, len(lines), CHUNK))
        while left:
            try:
                self._write(*left[0])
            except DatabaseError as error:
                logger.warning("log lines of experiments wait to be stored; the database's error: "
                               "%s", first_line(error))
                drop_connection()
                with self._condition:
                    self._waiting.extendleft((experiment, line) for experiment, lines in reversed(left)
                                             for line in reversed(lines))
                return False
            except Exception:
                logger.exception("log lines of an experiment are lost")
            left.popleft()
        return True

    def _taken(self) -> dict[str, list[_Line]]:
        """What waits, by experiment, and a line for what was left out."""
        with self._condition:
            waiting, self._waiting = self._waiting, deque()
            left_out = {experiment: allowance.left_out for experiment, allowance in self._allowances.items()
                        if allowance.left_out}
            self._allowances = {experiment: _Allowance(allowance.bucket)
                                for experiment, allowance in self._allowances.items() if not allowance.bucket.is_full}
        lines: dict[str, list[_Line]] = defaultdict(list)
        for experiment, line in waiting:
            lines[experiment].append(line)
        for experiment, count in left_out.items():
            words = "1 line" if count == 1 else f"{count} lines"
            lines[experiment].append(_Line(timezone.now(), logging.WARNING, LogSource.WORKER, "", (
                f"{words} left out here, because there were more than {PER_SECOND} per second or more than the "
                "database could store.")))
        return lines

    def _write(self, public_id: str, lines: list[_Line]) -> None:
        pk = Experiment.objects.filter(public_id=public_id, deleted_at=None).values_list("pk", flat=True).first()
        if pk is None:
            return
        with transaction.atomic():
            revision = next_revision(pk)  # whoever else writes about it waits: numbers have no gaps
            if not revision:
                return
            last = LogLine.objects.filter(experiment=pk).aggregate(last=Max("number"))["last"] or 0
            LogLine.objects.bulk_create(
                LogLine(experiment_id=pk, number=last + 1 + index, at=line.at, level=line.level, source=line.source,
                        trial=line.trial, message=printable(line.message, LONGEST), revision=revision)
                for index, line in enumerate(lines))
            LogLine.objects.filter(experiment=pk, number__lte=last + len(lines) - MOST_LINES).delete()


def _source_of(logger_name: str) -> LogSource:
    if logger_name.startswith("nniweb.tuning."):
        return LogSource.TUNER
    return LogSource.PLATFORM if logger_name.startswith("trainingservice") else LogSource.WORKER


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST // 4]}\n[{len(text) - LONGEST} characters left out]\n{text[-LONGEST * 3 // 4 + 60:]}"


@contextmanager
def kept() -> Iterator[None]:
    """While this block runs, what this process logs about experiments is kept."""
    log = ExperimentLog()
    log.open()
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for each in loggers:
        each.addHandler(log)
    try:
        yield
    finally:
        for each in loggers:
            each.removeHandler(log)
        log.close()
