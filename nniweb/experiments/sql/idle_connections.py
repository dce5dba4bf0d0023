"""Threads that live long give their database connection back while they have nothing to do with it."""

from django.db import connection


def give_connection_back() -> None:
    """Put this thread's connection back into PostgreSQL's pool; it takes another one when it needs it.

    There are more threads than connections. On SQLite each thread keeps its own: it costs nothing to hold and is dear
    to open. Inside a transaction nothing is done.
    """
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        connection.close()


def drop_connection() -> None:
    """End this thread's connection after the database refused a write, so that the next one is made anew.

    From PostgreSQL's pool the same one would come again; after a fail-over it leads to the server that only reads.
    Inside a transaction (of a caller that goes on) nothing is done.
    """
    if connection.in_atomic_block:
        return
    if connection.vendor == "postgresql" and connection.connection is not None:
        connection.connection.close()
    connection.close()
