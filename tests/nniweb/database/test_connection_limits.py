"""The connections of all processes are added up before there are too few of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection

from nniweb.database import connection_limits
from nniweb.database.connection_limits import ConnectionRoom, _added_up, own_name, room, warn_if_too_few
from nniweb.doctor.database import database_connections
from nniweb.doctor.findings import Verdict


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGAPPNAME", raising=False)
    monkeypatch.setattr(connection_limits, "_is_announced", True)


@pytest.fixture
def another_process(db: None) -> Iterator[None]:
    """One that may open more connections than any PostgreSQL takes."""
    if connection.vendor != "postgresql":
        yield
        return
    parameters = connection.get_connection_params()
    parameters.pop("pool", None)
    wanted = {name: parameters[name] for name in ("dbname", "host", "port", "user", "password") if parameters.get(name)}
    with psycopg.connect(**wanted, application_name="nniweb elsewhere:1 at most 99999"):
        yield


def test_each_process_counts_with_what_it_may_open_and_other_programs_with_what_they_have_open() -> None:
    names = {"nniweb one:17 at most 20": 3, "nniweb two:4 at most 5": 0, "psql": 2, "": 1,
             "nniweb two:5 at most many": 1}
    found = _added_up(30, names)
    assert found == ConnectionRoom(limit=30, processes=2, promised=25, others=4)
    assert found.is_enough
    assert not _added_up(28, names).is_enough
    assert str(found) == ("Webs and workers (2 processes) may open 25 connections together; other programs have 4 open."
                          " PostgreSQL takes 30")


def test_a_name_says_the_limit_and_fits(announced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict.setdefault("OPTIONS", {}), "pool", {"max_size": 12_345})
    monkeypatch.setattr(connection_limits.socket, "gethostname", lambda: "a host " + "x" * 100)
    name = own_name()
    assert name is not None
    assert len(name) == connection_limits.LONGEST_NAME
    assert _added_up(1, {name: 1}).promised == 12_345


def test_a_name_that_the_environment_gives_stays(announced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGAPPNAME", "mine")
    assert own_name() is None


def test_commands_promise_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "_is_announced", False)
    assert own_name() is None


def test_too_few_are_a_warning_of_the_log_and_of_the_doctor(announced: None, another_process: None,
                                                            caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, connection_limits.logger.name):
        warn_if_too_few()
    found = list(database_connections())
    if connection.vendor != "postgresql":
        assert (room(), found, caplog.messages) == (None, [], [])
        return
    [line], [finding] = caplog.messages, found
    assert finding.verdict is Verdict.WARNING
    assert "NNIWEB_DATABASE_CONNECTIONS" in finding.remedy
    assert "99999" not in line, "this process counts, too"
    assert "may open" in line
