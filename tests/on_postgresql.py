"""A pytest plugin: the tests run on a PostgreSQL server that is started for them.

    pytest -p tests.on_postgresql tests/nniweb          # "make test-postgresql" does this

Another server is used where NNIWEB_TEST_DATABASE_URL names one.
"""

from __future__ import annotations

import os

import pytest

from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer

_started: list[PostgresqlServer] = []


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before Django's settings are read; xdist's processes find the variable set."""
    if "NNIWEB_TEST_DATABASE_URL" in os.environ:
        return
    try:
        server = PostgresqlServer()
    except pytest.skip.Exception as missing:
        raise pytest.UsageError(str(missing)) from None
    _started.append(server)
    server.start()
    os.environ["NNIWEB_TEST_DATABASE_URL"] = server.url("postgres")
    os.environ["NNIWEB_TEST_DATABASE_TEMPLATE"] = server.blank_template()


def pytest_collection_finish() -> None:
    """Let go of the pool of connections to the server's own database, which a module made that asks when it is loaded
    (``nniweb.asgi``): Django would make the tests' tables there, in each of xdist's processes the same.
    """
    from django.db import connection

    connection.close_pool()


def pytest_unconfigure() -> None:
    while _started:
        _started.pop().close()
