"""Threads that live long give their database connection back while they have nothing to do with it."""

from django.db import connection


def give_connection_back() -> None:
    """Put this thread's connection back into PostgreSQL's pool; it takes another one when it needs it.

    There are more threads than connections. On SQLite each thread keeps its own: it costs nothing to hold and is dear
    to open. Inside a transaction nothing is done.
    """
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        connection.close()
