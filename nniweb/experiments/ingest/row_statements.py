"""Statements that write the rows of a group of reports: one for many rows, put together by hand.

One statement for each report was most of what a report cost (docs/decisions/0040). PostgreSQL gets the rows of each
kind as one parameter, a JSON text that it takes apart itself: psycopg needs longer to put hundreds of parameters into a
statement than PostgreSQL to carry it out. New rows come by COPY, which costs half of that (docs/performance.md).
"""

import json
from collections.abc import Iterator, Sequence
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

    id: int
    listened: int
    stored_bytes: int
    awaited_index: int


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

    id: int
    machine_name: str
    working_directory: str


class FinalRow(NamedTuple):
    """A trial's final result."""

    id: int
    revision: int
    final_number: float | None
    final_value: bytes


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

    The first column is the key. ``types``: PostgreSQL's, of these columns.
    """

    row: type[tuple[Any, ...]]
    statement: str
    types: str


# the name by which the platform knows the machine is better than the one it has for itself
STARTED = Change(StartedRow,
                 "UPDATE experiments_attempt SET"
                 " machine_name = COALESCE(NULLIF(experiments_attempt.machine_name, ''), new.machine_name),"
                 " working_directory = new.working_directory FROM new WHERE experiments_attempt.id = new.id",
                 "id bigint, machine_name text, working_directory text")
RESOURCES = Change(ResourcesRow,
                   "UPDATE experiments_attempt SET resources = new.resources"
                   " FROM new WHERE experiments_attempt.id = new.id",
                   "id bigint, resources jsonb")
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
LISTENED = Change(ListenedRow,
                  "UPDATE experiments_attempt SET listened = new.listened, stored_bytes = new.stored_bytes,"
                  " awaited_index = new.awaited_index, unseen_since = NULL"
                  " FROM new WHERE experiments_attempt.id = new.id",
                  "id bigint, listened bigint, stored_bytes bigint, awaited_index integer")
REVISION = Change(RevisionRow,
                  "UPDATE experiments_trial SET revision = new.revision FROM new WHERE experiments_trial.id = new.id",
                  "id bigint, revision bigint")
PROGRESS = Change(ProgressRow,
                  "UPDATE experiments_trial SET revision = new.revision,"
                  " intermediate_count = intermediate_count + new.added,"
                  " latest_number = COALESCE(new.latest, latest_number)"
                  " FROM new WHERE experiments_trial.id = new.id",
                  "id bigint, revision bigint, added integer, latest double precision")
# CASE looks at the row as it was, so the first final value stays, number and text together
FINAL = Change(FinalRow,
               "UPDATE experiments_trial SET revision = new.revision, final_number = CASE"
               " WHEN experiments_trial.final_value IS NULL THEN new.final_number ELSE experiments_trial.final_number"
               " END, final_value = COALESCE(experiments_trial.final_value, new.final_value)"
               " FROM new WHERE experiments_trial.id = new.id",
               "id bigint, revision bigint, final_number double precision, final_value bytea")
#: Rows that one statement of SQLite changes: each lets the threads that read reports go on, who then keep us waiting.
_CHANGED_AT_ONCE = (32, 8, 1)


class New(NamedTuple):
    """New rows of ``table``; those that are there already stay as they are. ``types``: as of ``Change``."""

    row: type[tuple[Any, ...]]
    table: str
    types: str


METRIC = New(MetricRow, "experiments_metric",
             "attempt_id bigint, n bigint, kind text, parameter_id text, sequence bigint, value bytea,"
             " number double precision, recorded_at timestamptz, received_at timestamptz, revision bigint")
OUTPUT = New(OutputRow, "experiments_trialoutput",
             'attempt_id bigint, stream text, "offset" bigint, data bytea, skipped bigint, revision bigint')
#: Rows of one statement of SQLite: a metric costs a quarter less than in a statement of its own; see also above.
_INSERTED_AT_ONCE = (250, 50)


def write_rows(new: New, rows: Sequence[tuple[Any, ...]], *, all_are_new: bool = False) -> None:
    """Insert rows. ``all_are_new``: none is there already, as far as is known; raises IntegrityError where one is."""
    if not rows:
        return
    start = 0
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            if all_are_new:
                _copy(cursor, new, rows)
            else:
                cursor.execute(_json_insert(new), [_as_json(new.row, rows)])
            return
        while left := len(rows) - start:
            count = next((size for size in _INSERTED_AT_ONCE if size <= left), left)
            chunk = rows[start: start + count]
            cursor.execute(_insert_statement(new, count), list(chain.from_iterable(chunk)))
            start += count


def _copy(cursor: Any, new: New, rows: Sequence[tuple[Any, ...]]) -> None:
    statement, types = _copy_statement(new)
    with connection.wrap_database_errors, cursor.copy(statement) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


@cache
def _copy_statement(new: New) -> tuple[str, list[str]]:
    """The statement, and the types of its columns."""
    types = [column.split(" ", 1)[1] for column in new.types.split(", ")]
    # numbers, names and times are in PostgreSQL's own form: nothing is written as text and read again
    return f"COPY {new.table} ({_quoted(_columns(new.row))}) FROM STDIN (FORMAT BINARY)", types


def change_rows(change: Change, rows: Sequence[tuple[Any, ...]]) -> int:
    """How many rows were changed. A row that is named twice is changed twice, in the order of ``rows``."""
    if not rows:
        return 0
    changed = start = 0
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            for each in _once_each(rows):
                cursor.execute(_json_statement(change), [_as_json(change.row, each)])
                changed += int(cursor.rowcount)
            return changed
        is_repeated = len({row[0] for row in rows}) < len(rows)
        while left := len(rows) - start:
            count = 1 if is_repeated else next(size for size in _CHANGED_AT_ONCE if size <= left)
            chunk = rows[start: start + count]
            cursor.execute(_change_statement(change, count), list(chain.from_iterable(chunk)))
            changed += cursor.rowcount
            start += count
    return changed


def _once_each(rows: Sequence[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """The rows in as few groups as name none twice, each in the order of the keys: two processes that change the same
    rows do not wait for each other in a circle.
    """
    left = list(rows)
    while left:
        first = {row[0]: row for row in reversed(left)}
        yield [first[key] for key in sorted(first)]
        left = [row for row in left if row is not first[row[0]]]


def _columns(row: type[tuple[Any, ...]]) -> tuple[str, ...]:
    return row._fields  # type: ignore[attr-defined, no-any-return]  # of a NamedTuple


@cache
def _change_statement(change: Change, count: int) -> str:
    names = _columns(change.row)
    columns, places = ", ".join(names), f"({', '.join(['%s'] * len(names))})"
    # inside: of a statement that begins with WITH, Python does not say how many rows it changed
    new = f"(WITH new ({columns}) AS (VALUES {', '.join([places] * count)}) SELECT * FROM new) AS new"
    return change.statement.replace(" FROM new ", f" FROM {new} ")


@cache
def _json_statement(change: Change) -> str:
    return change.statement.replace(" FROM new ", f" FROM json_to_recordset(%s::json) AS new ({change.types}) ")


@cache
def _insert_statement(new: New, count: int) -> str:
    names = _columns(new.row)
    places = f"({', '.join(['%s'] * len(names))})"
    return (f"INSERT INTO {new.table} ({_quoted(names)}) VALUES {', '.join([places] * count)} ON CONFLICT DO NOTHING")


@cache
def _json_insert(new: New) -> str:
    columns = _quoted(_columns(new.row))
    return (f"INSERT INTO {new.table} ({columns}) SELECT {columns}"
            f" FROM json_to_recordset(%s::json) AS new ({new.types}) ON CONFLICT DO NOTHING")


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _as_json(row: type[tuple[Any, ...]], rows: Sequence[tuple[Any, ...]]) -> str:
    names = _columns(row)
    return orjson.dumps([dict(zip(names, each, strict=True)) for each in rows], default=_plain).decode()


def _plain(value: Any) -> Any:
    """What orjson does not know: bytes, as PostgreSQL reads them, and JSON as its driver has it."""
    return rf"\x{value.hex()}" if isinstance(value, bytes) else orjson.Fragment(json.dumps(value.obj))
