"""What is acknowledged survives a loss of power: asked of the very connection that reports are committed on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from nniweb.experiments import ingest
from nniweb.experiments.models import Attempt
from nniweb.experiments.models.account import hash_of
from nniweb.keeperapi.group_commit import GroupCommit

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


@pytest.mark.django_db(transaction=True)
def test_the_thread_that_commits_reports_waits_for_the_disk(make_attempt: Callable[..., Attempt],
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    store, found = ingest.store, []

    def store_and_ask(deliveries: list[ingest.Delivery]) -> list[ingest.Answer]:
        answers = store(deliveries)
        found.append(how_it_commits())
        return answers

    monkeypatch.setattr(ingest, "store", store_and_ask)
    body = json.dumps({"keeper": {"version": 1, "journal_id": "j"}, "entries": [
        {"n": 1, "at": 0.0, "type": "started", "pid": 1, "host": "h"}]}).encode()
    commit = GroupCommit("abc")
    try:
        answer = asyncio.run(commit.submit(make_attempt().job_name, hash_of("token"), body, ""))
    finally:
        commit.close()
    assert (answer.status, answer.body["accepted"]) == (200, 1)
    assert found == [["wal", SQLITE_FULL] if connection.vendor == "sqlite" else ["on"]]
