"""The database's clock, for what several hosts must agree on: leases, claims, which workers are alive.

A column is written and judged by one clock: those of this module by the database's, all others by that of the process
(``timezone.now()``). ``COLUMNS`` are the former; a test holds the code to it. Both clocks count microseconds, and on
SQLite, whose clock is this machine's, they are the same: SQLite's own function has milliseconds, and what is due now
would be found only in the next one.
"""

from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models.functions import Now

#: Model and column of the times that the database's clock writes.
COLUMNS = frozenset({("Cluster", "lease_expires_at"), ("NotificationDelivery", "claimed_until"),
                     ("Worker", "heard_at"), ("Worker", "started_at")})


class DatabaseNow(Now):
    """An expression for the time of the statement, to be compared with and written to one of ``COLUMNS``."""

    def as_sqlite(self, compiler: Any, connection: Any, **extra_context: Any) -> tuple[str, tuple[str | int, ...]]:
        return "%s", (connection.ops.adapt_datetimefield_value(datetime.now(UTC)),)


def database_now() -> datetime:
    """The same for a comparison in Python. One query on PostgreSQL, none on SQLite. Raises DatabaseError."""
    if connection.vendor == "sqlite":
        return datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT CLOCK_TIMESTAMP()")
        now: datetime
        [now] = cursor.fetchone()
    return now
