"""Transactions that are done one after the other, on any number of processes: of what counts before it writes."""

import contextlib
from collections.abc import Iterator

from django.db import connection, transaction


@contextlib.contextmanager
def one_after_another(number: int) -> Iterator[None]:
    """A transaction that begins when no other one of this number is under way.

    ``number``: PostgreSQL's advisory locks are numbers.
    """
    with transaction.atomic():
        if connection.vendor == "postgresql":  # on SQLite the transaction itself is the lock
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])
        yield
