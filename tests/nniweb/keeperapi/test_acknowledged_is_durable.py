"""What is acknowledged survives a loss of power: asked of the connection that commits reports, and of its disk."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from nniweb.experiments.ingest import reports
from nniweb.experiments.ingest.one_report import Delivery
from nniweb.experiments.ingest.report_answers import Answer
from nniweb.experiments.models import Attempt
from nniweb.experiments.models.account import hash_of
from nniweb.keeperapi.group_commit import GroupCommit
from tests.nniweb.keeperapi.watched_disk import watched_disk

SQLITE_FULL = 2


def how_it_commits() -> list[Any]:
    questions = ["PRAGMA journal_mode", "PRAGMA synchronous"] if connection.vendor == "sqlite" else \
        ["SHOW synchronous_commit"]
    found = []
    with connection.cursor() as cursor:
        for question in questions:
            cursor.execute(question)
            found.append(cursor.fetchone()[0])
    return found


def report_once(attempt: Attempt) -> Answer:
    """One report, taken and answered as in the server."""
    body = json.dumps({"keeper": {"version": 1, "journal_id": "j"}, "entries": [
        {"n": 1, "at": 0.0, "type": "started", "pid": 1, "host": "h"}]}).encode()
    commit = GroupCommit("abc")
    try:
        return asyncio.run(commit.submit(attempt.job_name, hash_of("token"), body, ""))
    finally:
        commit.close()


@pytest.mark.django_db(transaction=True)
def test_the_thread_that_commits_reports_waits_for_the_disk(make_attempt: Callable[..., Attempt],
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    store, found = reports.store, []

    def store_and_ask(deliveries: list[Delivery]) -> list[Answer]:
        answers = store(deliveries)
        found.append(how_it_commits())
        return answers

    monkeypatch.setattr(reports, "store", store_and_ask)
    answer = report_once(make_attempt())
    assert (answer.status, answer.body["accepted"]) == (200, 1)
    assert found == [["wal", SQLITE_FULL] if connection.vendor == "sqlite" else ["on"]]


def flushed(events: list[tuple[str, str]]) -> bool:
    """Whether the last thing that was done to the write-ahead log was to flush it, after something was written."""
    log = [what for what, path in events if path.endswith("-wal")]
    return "write" in log and log[-1] == "sync"


@pytest.mark.django_db(transaction=True)
def test_a_report_is_answered_after_the_disk_was_told_to_keep_it(make_attempt: Callable[..., Attempt],
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL writes in processes of its own, and flushes as it is set up")
    attempt, answer_them = make_attempt(), GroupCommit._answer
    done_before: list[list[tuple[str, str]]] = []

    def note_and_answer(*args: Any) -> None:
        done_before.append(list(disk.events))
        answer_them(*args)

    monkeypatch.setattr(GroupCommit, "_answer", staticmethod(note_and_answer))
    with watched_disk() as disk:
        assert report_once(attempt).status == 200
    assert [flushed(events) for events in done_before] == [True], done_before


def test_a_commit_that_does_not_wait_for_the_disk_would_be_noticed(tmp_path: Path) -> None:
    with watched_disk() as disk, closing(sqlite3.connect(tmp_path / "x.sqlite3", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        # the calls above are those that the disk gets: this SQLite was not built to leave them out
        assert "NO_SYNC" not in {option for option, in database.execute("PRAGMA compile_options")}
        found = []
        for waits in ("NORMAL", "FULL"):
            database.execute(f"PRAGMA synchronous={waits}")
            del disk.events[:]
            database.execute(f"CREATE TABLE {waits} (number)")
            found.append(flushed(disk.events))
    assert found == [False, True]
