"""Transactions whose commit does not wait for the disk, for what can be done once more after a power cut.

A commit waits until all that others write to the same disk at that moment is there, and on SQLite everybody who wants
to write waits with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def flushed_later() -> Iterator[None]:
    """A transaction that all see when it ends, and that is durable when the next other one is: both databases write
    their log in one order. A power cut before that undoes it; the end of a process does not.

    Within another transaction it is a part of that one.
    """
    if connection.in_atomic_block:
        with transaction.atomic():
            yield
    elif connection.vendor == "sqlite":
        _sqlite_waits("NORMAL")  # not possible within a transaction
        try:
            with transaction.atomic():
                yield
        finally:
            _wait_again()
    else:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit TO off")
            yield


def _wait_again() -> None:
    """As settings say for all connections. One of which that is not sure is closed: the thread goes on to use it."""
    try:
        _sqlite_waits("FULL")
    except Exception:
        connection.close()
        raise


def _sqlite_waits(when: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA synchronous={when}")
