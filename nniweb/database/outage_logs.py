"""What is logged while the database is away, or takes nothing: a line each, no traceback, not the same all the time."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable

from django.db import InterfaceError, InternalError, OperationalError

#: Pause between two lines of the same kind from a logger that repeats itself, in seconds.
REPEAT_SECONDS = 60.0
#: PostgreSQL's read_only_sql_transaction and idle_in_transaction_session_timeout.
_PASSING_INTERNAL_ERRORS = frozenset({"25006", "25P03"})
#: SQLite's result codes for what passes by itself, or when somebody makes room.
_SQLITE_TAKES_NOTHING = frozenset({
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN})


def takes_nothing(error: BaseException) -> bool:
    """Whether the database refuses everything for now, rather than this one statement.

    PostgreSQL after a fail-over (this connection leads to what is now a stand-by) and a transaction that it ended for
    being idle are internal errors to its driver, and pass like the others.
    """
    if isinstance(error, OperationalError | InterfaceError):
        return True
    return isinstance(error, InternalError) and getattr(error.__cause__, "sqlstate", "") in _PASSING_INTERNAL_ERRORS


def is_database_away(error: BaseException | None) -> bool:
    """Whether an error says that PostgreSQL cannot be reached, or that SQLite takes nothing now (a full disk, another
    program's lock), not that something is wrong with what was asked.
    """
    if error is None or not takes_nothing(error):
        return False
    cause = error.__cause__
    if isinstance(cause, sqlite3.OperationalError):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE_TAKES_NOTHING
    return type(cause).__module__.partition(".")[0] in ("psycopg", "psycopg_pool")


def first_line(error: BaseException) -> str:
    """psycopg's texts go on with hints that are the same each time."""
    return (str(error).splitlines() or [type(error).__name__])[0]


class NoTracebackWhileDatabaseIsAway(logging.Filter):
    """A filter of handlers: the reason is outside of this program, so its stack says nothing."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if error is not None and is_database_away(error):
            record.msg = f"{record.getMessage()} (the database's error: {first_line(error)})"
            record.args = None
            record.exc_info = record.exc_text = None
        return True


class OnceAMinute(logging.Filter):
    """A filter of loggers that try again and again and say so each time: one line a minute for each kind of text."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._next: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._monotonic()
        if now < self._next.get(str(record.msg), 0.0):
            return False
        self._next[str(record.msg)] = now + REPEAT_SECONDS
        return True
