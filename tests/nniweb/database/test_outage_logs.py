"""While PostgreSQL is away the log has a line each and no tracebacks; other errors keep theirs."""

from __future__ import annotations

import logging
import sys

import psycopg
import pytest
from django.db import OperationalError

from nniweb.database.outage_logs import NoTracebackWhileDatabaseIsAway, OnceAMinute


def record_of(error: Exception, message: str = "%s could not be read", *args: object) -> logging.LogRecord:
    try:
        raise error
    except Exception:
        return logging.LogRecord("nniweb", logging.ERROR, __file__, 1, message, args or ("a frame",), sys.exc_info())


def away() -> OperationalError:
    error = OperationalError("connection failed: Connection refused\n\tIs the server running?")
    error.__cause__ = psycopg.OperationalError()
    return error


def test_an_outage_is_one_line_with_its_reason() -> None:
    record = record_of(away())
    assert NoTracebackWhileDatabaseIsAway().filter(record)
    assert logging.Formatter("%(message)s").format(record) == \
        "a frame could not be read (the database's error: connection failed: Connection refused)"


@pytest.mark.parametrize("error", [ValueError("a defect"), OperationalError("no such column: x")],
                         ids=["a defect", "SQLite's"])
def test_any_other_error_keeps_its_traceback(error: Exception) -> None:
    record = record_of(error)
    assert NoTracebackWhileDatabaseIsAway().filter(record)
    assert "Traceback" in logging.Formatter("%(message)s").format(record)


def test_a_text_that_comes_again_and_again_comes_once_a_minute() -> None:
    now = 0.0
    kept = OnceAMinute(lambda: now)
    first, other = record_of(away()), record_of(away(), "something else about %s", "it")
    assert kept.filter(first)
    assert not kept.filter(first)
    assert kept.filter(other)
    now = 61.0
    assert kept.filter(first)
