"""Statements that write the rows of a group of reports: one for many rows, put together by hand.

One statement for each report was most of what a report cost (docs/decisions/0040). PostgreSQL gets the rows as one
parameter, a JSON text that it takes apart itself: psycopg needs longer to put hundreds of parameters into a statement
than PostgreSQL to carry it out.
"""

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import orjson
from django.db import connection


class HeardRow(NamedTuple):
    """How far an attempt's journal is. ``was_accepted``, ``was_of``, ``was_listened``: what the row must still say."""

    id: int
    accepted: int
    journal_id: str
    heard_at: Any
    report_within: int
    parameter_index: int
    awaited_index: int
    stored_bytes: int
    was_accepted: int
    was_of: str
    was_listened: int


class ResourcesRow(NamedTuple):
    """An attempt's latest reading, as the database's driver wants JSON."""

    id: int
    resources: Any


class ListenedRow(NamedTuple):
    """How much came by a service's listener."""

    listened: int
    stored_bytes: int
    awaited_index: int
    id: int


class RevisionRow(NamedTuple):
    """A trial that has changed."""

    id: int
    revision: int


class ProgressRow(NamedTuple):
    """A trial with so many more intermediate results, and the latest number among them."""

    id: int
    revision: int
    added: int
    latest: float | None


class StartedRow(NamedTuple):
    """Where an attempt runs, as its keeper says."""

    machine_name: str
    working_directory: str
    id: int


class FinalRow(NamedTuple):
    """A trial's final result."""

    revision: int
    final_number: float | None
    final_value: bytes
    id: int


class MetricRow(NamedTuple):
    """A metric; times as ``for_database`` makes them, ``value`` as the keeper sent it."""

    attempt_id: int
    n: int
    kind: str
    parameter_id: str
    sequence: int
    value: bytes
    number: float | None
    recorded_at: Any
    received_at: Any
    revision: int


class OutputRow(NamedTuple):
    """A piece of a trial's output."""

    attempt_id: int
    stream: str
    offset: int
    data: bytes
    skipped: int
    revision: int


class Change(NamedTuple):
    """``statement`` changes all rows of ``new``, whose columns are those of ``row``, with one execution.

    ``types``: PostgreSQL's, of these columns, where a JSON text can carry the rows; "" elsewhere.
    """

    row: type[tuple[Any, ...]]
    statement: str
    types: str = ""


# the name by which the platform knows the machine is better than the one it has for itself
STARTED = ("UPDATE experiments_attempt SET machine_name = COALESCE(NULLIF(machine_name, ''), %s),"
           " working_directory = %s WHERE id = %s")
RESOURCES = Change(ResourcesRow, "UPDATE experiments_attempt SET resources = new.resources"
                                 " FROM new WHERE experiments_attempt.id = new.id")
# nearly all reports need these three
HEARD = Change(HeardRow,
               "UPDATE experiments_attempt SET accepted = new.accepted, journal_id = new.journal_id,"
               " heard_at = new.heard_at, report_within = new.report_within, unseen_since = NULL,"
               " parameter_index = new.parameter_index,"
               " awaited_index = new.awaited_index, stored_bytes = new.stored_bytes"
               " FROM new WHERE experiments_attempt.id = new.id AND experiments_attempt.accepted = new.was_accepted"
               " AND experiments_attempt.journal_id = new.was_of"
               " AND experiments_attempt.listened = new.was_listened",
               "id bigint, accepted bigint, journal_id text, heard_at timestamptz, report_within smallint,"
               " parameter_index integer, awaited_index integer, stored_bytes bigint, was_accepted bigint, was_of text,"
               " was_listened bigint")
# what is told of a trial is a sign that it is there
LISTENED = ("UPDATE experiments_attempt SET listened = %s, stored_bytes = %s, awaited_index = %s, unseen_since = NULL"
            " WHERE id = %s")
REVISION = Change(RevisionRow,
                  "UPDATE experiments_trial SET revision = new.revision FROM new WHERE experiments_trial.id = new.id",
                  "id bigint, revision bigint")
PROGRESS = Change(ProgressRow,
                  "UPDATE experiments_trial SET revision = new.revision,"
                  " intermediate_count = intermediate_count + new.added,"
                  # of nothing but NULLs PostgreSQL does not know what they would be
                  " latest_number = COALESCE(CAST(new.latest AS double precision), latest_number)"
                  " FROM new WHERE experiments_trial.id = new.id",
                  "id bigint, revision bigint, added integer, latest double precision")
#: Rows that one statement changes: each statement lets the threads that read reports go on, who then keep us waiting.
_CHANGED_AT_ONCE = (32, 8, 1)
# CASE looks at the row as it was, so the first final value stays, number and text together
FINAL = ("UPDATE experiments_trial SET revision = %s,"
         " final_number = CASE WHEN final_value IS NULL THEN %s ELSE final_number END,"
         " final_value = COALESCE(final_value, %s) WHERE id = %s")


def _insert(table: str, row: type[tuple[Any, ...]]) -> tuple[str, str]:
    """The beginning of a statement, and the places of one row."""
    names = row._fields  # type: ignore[attr-defined]  # of a NamedTuple
    columns = ", ".join(f'"{name}"' for name in names)
    return f"INSERT INTO {table} ({columns}) VALUES ", f"({', '.join(['%s'] * len(names))})"


_METRIC, _METRIC_PLACES = _insert("experiments_metric", MetricRow)
#: Metrics of one statement: a row costs a quarter less than in a statement of its own; see also above.
_METRICS_AT_ONCE = (250, 50)
_METRICS_AS_JSON = (
    f"INSERT INTO experiments_metric ({', '.join(MetricRow._fields)}) SELECT attempt_id, n, kind, parameter_id,"
    " sequence, decode(value, 'hex'), number, recorded_at, received_at, revision FROM json_to_recordset(%s::json)"
    " AS new (attempt_id bigint, n bigint, kind text, parameter_id text, sequence bigint, value text,"
    " number double precision,"
    " recorded_at timestamptz, received_at timestamptz, revision bigint) ON CONFLICT DO NOTHING")
OUTPUT = " ".join((*_insert("experiments_trialoutput", OutputRow), "ON CONFLICT DO NOTHING"))


def write_rows(statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Execute the statement for each row."""
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(statement, rows)


def change_rows(change: Change, rows: Sequence[tuple[Any, ...]]) -> int:
    """How many rows were changed; the first column of each is the key. A row that is named twice is changed twice."""
    if not rows:
        return 0
    changed = start = 0
    is_repeated = len({row[0] for row in rows}) < len(rows)
    with connection.cursor() as cursor:
        if change.types and not is_repeated and connection.vendor == "postgresql":
            cursor.execute(_json_statement(change), [_as_json(change.row, rows)])
            return int(cursor.rowcount)
        while left := len(rows) - start:
            count = 1 if is_repeated else next(size for size in _CHANGED_AT_ONCE if size <= left)
            chunk = rows[start: start + count]
            cursor.execute(_change_statement(change, count), list(chain.from_iterable(chunk)))
            changed += cursor.rowcount
            start += count
    return changed


@cache
def _change_statement(change: Change, count: int) -> str:
    names = change.row._fields  # type: ignore[attr-defined]  # of a NamedTuple
    columns, places = ", ".join(names), f"({', '.join(['%s'] * len(names))})"
    # inside: of a statement that begins with WITH, Python does not say how many rows it changed
    new = f"(WITH new ({columns}) AS (VALUES {', '.join([places] * count)}) SELECT * FROM new) AS new"
    return change.statement.replace(" FROM new ", f" FROM {new} ")


@cache
def _json_statement(change: Change) -> str:
    return change.statement.replace(" FROM new ", f" FROM json_to_recordset(%s::json) AS new ({change.types}) ")


def _as_json(row: type[tuple[Any, ...]], rows: Sequence[tuple[Any, ...]]) -> str:
    names = row._fields  # type: ignore[attr-defined]  # of a NamedTuple
    return orjson.dumps([dict(zip(names, each, strict=True)) for each in rows], default=bytes.hex).decode()


def write_metrics(rows: Sequence[MetricRow]) -> None:
    """Insert metrics; those that are there already stay as they are."""
    if not rows:
        return
    start = 0
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_METRICS_AS_JSON, [_as_json(MetricRow, rows)])
            return
        while left := len(rows) - start:
            count = next((size for size in _METRICS_AT_ONCE if size <= left), left)
            chunk = rows[start: start + count]
            cursor.execute(_metrics_statement(count), list(chain.from_iterable(chunk)))
            start += count


@cache
def _metrics_statement(count: int) -> str:
    return f"{_METRIC}{', '.join([_METRIC_PLACES] * count)} ON CONFLICT DO NOTHING"
