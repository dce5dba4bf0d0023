"""The rows that a group of reports becomes: gathered while reports are taken, written with a statement for each kind.

One statement for all reports, put together by hand: one for each report was most of what a report cost.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain
from typing import Any

from django.db import connection

from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.ingest.resource_samples import store_readings
from nniweb.experiments.results.other_metrics import OtherMetrics
from nniweb.experiments.sql.exact_text import to_bytes

# the name by which the platform knows the machine is better than the one it has for itself
_STARTED = ("UPDATE experiments_attempt SET machine_name = COALESCE(NULLIF(machine_name, ''), %s),"
            " working_directory = %s WHERE id = %s")
_RESOURCES = "UPDATE experiments_attempt SET resources = %s WHERE id = %s"
# nearly all reports need these three: with ``new``, the rows of several, one statement changes all of them
_HEARD = ("id, accepted, journal_id, heard_at, parameter_index, awaited_index, stored_bytes, was_accepted, was_of",
          "UPDATE experiments_attempt SET accepted = new.accepted, journal_id = new.journal_id,"
          " heard_at = new.heard_at, unseen_since = NULL, parameter_index = new.parameter_index,"
          " awaited_index = new.awaited_index, stored_bytes = new.stored_bytes"
          " FROM new WHERE experiments_attempt.id = new.id AND experiments_attempt.accepted = new.was_accepted"
          " AND experiments_attempt.journal_id = new.was_of")
_REVISION = ("id, revision",
             "UPDATE experiments_trial SET revision = new.revision FROM new WHERE experiments_trial.id = new.id")
_PROGRESS = ("id, revision, count, latest",
             "UPDATE experiments_trial SET revision = new.revision,"
             " intermediate_count = intermediate_count + new.count,"
             # of nothing but NULLs PostgreSQL does not know what they would be
             " latest_number = COALESCE(CAST(new.latest AS double precision), latest_number)"
             " FROM new WHERE experiments_trial.id = new.id")
#: Rows that one statement changes: each statement lets the threads that read reports go on, who then keep us waiting.
_CHANGED_AT_ONCE = (32, 8, 1)
# CASE looks at the row as it was, so the first final value stays, number and text together
_FINAL = ("UPDATE experiments_trial SET revision = %s,"
          " final_number = CASE WHEN final_value IS NULL THEN %s ELSE final_number END,"
          " final_value = COALESCE(final_value, %s) WHERE id = %s")
_METRIC = ("INSERT INTO experiments_metric (attempt_id, n, kind, parameter_id, sequence, value, number, recorded_at,"
           " received_at, revision) VALUES {} ON CONFLICT DO NOTHING")
_METRIC_PLACES = "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
#: Metrics of one statement: a row costs a quarter less than in a statement of its own; see also above.
_METRICS_AT_ONCE = (250, 50)
_OUTPUT = ('INSERT INTO experiments_trialoutput (attempt_id, stream, "offset", data, skipped, revision)'
           " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING")


class Overtaken(Exception):
    """Another process has stored a report of the same attempt since this group's attempts were read."""


@dataclass
class ReportRows:
    """Used within one transaction. Rows of one kind are written in the order in which they came."""

    metrics: list[tuple[Any, ...]] = field(default_factory=list)
    output: list[tuple[Any, ...]] = field(default_factory=list)
    #: Experiments whose worker has something to do now: an end frees a slot, an assessor waits for results.
    calling: set[int] = field(default_factory=set)
    #: Metrics beside the results; written at once.
    others: OtherMetrics = field(default_factory=OtherMetrics)
    _heard: list[tuple[Any, ...]] = field(default_factory=list)
    _started: list[tuple[str, str, int]] = field(default_factory=list)
    _resources: list[tuple[Any, ...]] = field(default_factory=list)
    _readings: list[tuple[int, datetime, dict[str, Any]]] = field(default_factory=list)
    _revisions: list[tuple[int, int]] = field(default_factory=list)
    _progress: list[tuple[Any, ...]] = field(default_factory=list)
    _finals: list[tuple[Any, ...]] = field(default_factory=list)

    def heard(self, attempt: ReportingAttempt, *, accepted: int, journal_id: str, parameter_index: int, awaited: int,
              stored_bytes: int, now: Any) -> None:
        """How far the attempt's journal is; ``now`` as ``for_database`` makes it."""
        self._heard.append((attempt.pk, accepted, journal_id, now, parameter_index, awaited, stored_bytes,
                            attempt.accepted, attempt.journal_id))
        attempt.accepted, attempt.journal_id = accepted, journal_id
        attempt.awaited_index, attempt.stored_bytes = awaited, stored_bytes

    def started(self, attempt_pk: int, host: str, working_directory: str) -> None:
        """Where it runs, as its keeper says."""
        self._started.append((host, working_directory, attempt_pk))

    def reading(self, attempt_pk: int, at: datetime, data: dict[str, Any]) -> None:
        self._resources.append((connection.ops.adapt_json_value(data, None), attempt_pk))
        self._readings.append((attempt_pk, at, data))

    def show_on_trial(self, trial_pk: int, revision: int, intermediate: Sequence[float | None],
                      final: tuple[str, float | None] | None) -> None:
        """Keep the trial's row ready for tables: latest intermediate result, their count, the first final value."""
        if intermediate:
            latest = next((number for number in reversed(intermediate) if number is not None), None)
            self._progress.append((trial_pk, revision, len(intermediate), latest))
        elif final is None:
            self._revisions.append((trial_pk, revision))
        if final is not None:
            self._finals.append((revision, final[1], to_bytes(final[0]), trial_pk))

    def write_trials(self) -> None:
        """Write what trials show now, before an end that looks at it."""
        _change(_REVISION, self._revisions)
        _change(_PROGRESS, self._progress)
        _write(_FINAL, self._finals)
        for rows in (self._revisions, self._progress, self._finals):
            rows.clear()

    def write(self) -> None:
        """Write everything. Raises Overtaken."""
        if _change(_HEARD, self._heard) != len(self._heard):
            raise Overtaken
        self.write_trials()
        _write(_STARTED, self._started)
        _write_metrics(self.metrics)
        _write(_OUTPUT, self.output)
        _write(_RESOURCES, self._resources)
        store_readings(self._readings)


def _write(statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(statement, rows)


def _change(change: tuple[str, str], rows: Sequence[tuple[Any, ...]]) -> int:
    """How many rows were changed; the first column of each is the key. A row that is named twice is changed twice."""
    if not rows:
        return 0
    changed = start = 0
    is_repeated = len({row[0] for row in rows}) < len(rows)
    with connection.cursor() as cursor:
        while left := len(rows) - start:
            count = 1 if is_repeated else next(size for size in _CHANGED_AT_ONCE if size <= left)
            chunk = rows[start: start + count]
            cursor.execute(_change_statement(change, count), list(chain.from_iterable(chunk)))
            changed += cursor.rowcount
            start += count
    return changed


@cache
def _change_statement(change: tuple[str, str], count: int) -> str:
    columns, statement = change
    places = f"({', '.join(['%s'] * len(columns.split(',')))})"
    # inside: of a statement that begins with WITH, Python does not say how many rows it changed
    new = f"(WITH new ({columns}) AS (VALUES {', '.join([places] * count)}) SELECT * FROM new) AS new"
    return statement.replace(" FROM new ", f" FROM {new} ")


def _write_metrics(rows: Sequence[tuple[Any, ...]]) -> None:
    start = 0
    with connection.cursor() as cursor:
        while left := len(rows) - start:
            count = next((size for size in _METRICS_AT_ONCE if size <= left), left)
            chunk = rows[start: start + count]
            cursor.execute(_metrics_statement(count), list(chain.from_iterable(chunk)))
            start += count


@cache
def _metrics_statement(count: int) -> str:
    return _METRIC.format(", ".join([_METRIC_PLACES] * count))


#: The first moment that Python has a date for, in seconds since the epoch.
_FIRST_MOMENT = -62_135_596_800.0
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # UTC


def corrected_times(offset: float, now: datetime) -> Callable[[float], Any]:
    """Makes entries' times (seconds since the epoch) what the database's driver wants: by the server's clock, never in
    the future; what no date is becomes ``now``, which is in UTC. On SQLite as Django writes it, in a tenth of the time.
    """
    if connection.vendor != "sqlite":
        return lambda at: for_database(corrected(at, offset, now))
    latest, last = now.timestamp(), str(for_database(now))
    second, written_second = -1, ""

    def written(at: float) -> str:
        nonlocal second, written_second
        moment = at + offset
        if not _FIRST_MOMENT <= moment < latest:
            return last
        whole = math.floor(moment)
        if whole != second:  # many entries of a report are of the same second
            second, written_second = whole, (_EPOCH + timedelta(seconds=whole)).isoformat(" ")
        return f"{written_second}.{int((moment - whole) * 1_000_000):06d}"

    return written


def for_database(at: datetime) -> Any:
    """A time (UTC) as the database's driver wants it."""
    if connection.vendor == "sqlite":
        return at.isoformat(" ")[:-6]  # less its +00:00
    return connection.ops.adapt_datetimefield_value(at)


def corrected(at: float, offset: float, now: datetime) -> datetime:
    """The entry's time by the server's clock, never in the future. Seconds since the epoch; ``now`` in UTC."""
    try:
        found = datetime.fromtimestamp(at + offset, UTC)
    except (OverflowError, ValueError, OSError):
        return now
    return found if found < now else now
