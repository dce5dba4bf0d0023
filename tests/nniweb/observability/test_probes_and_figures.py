"""What monitoring asks: probes without a sign-in, figures for who may read them."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models import DateTimeField, Value
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from nniweb.experiments.models import (
    ApiToken,
    Attempt,
    Cluster,
    NotificationDelivery,
    NotificationRule,
    Trial,
    User,
    Worker,
)
from nniweb.experiments.sql import database_health
from nniweb.keeperapi.group_commit import GroupCommit
from nniweb.observability import readiness
from nniweb.observability.database_figures import DatabaseFigures
from nniweb.observability.probes import probe_application


def probe(path: str, method: str = "GET") -> tuple[int, Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("a probe has no body")

    asyncio.run(probe_application({"type": "http", "method": method, "path": path}, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"] or "null")


def failed(document: Any) -> dict[str, str]:
    return {check["name"]: check["message"] for check in document["checks"] if not check["ok"]}


def test_a_process_that_lives_says_so_without_the_database() -> None:
    assert probe("/healthz") == (200, {"alive": True})  # this test may not use the database
    assert probe("/healthz", "POST")[0] == 405


@pytest.mark.django_db(transaction=True)
def test_a_worker_is_missed_where_there_is_something_to_do(make_experiment) -> None:
    status, document = probe("/readyz")
    assert (status, document["ready"], document["warnings"]) == (200, True, []), document
    make_experiment()
    status, document = probe("/readyz")
    assert (status, document["ready"]) == (200, True), "web processes without a worker still serve pages and reports"
    assert "no worker is alive" in document["warnings"][0]
    now = timezone.now()
    Worker.objects.create(id="one", host="h", pid=1, started_at=now, heard_at=now + timedelta(hours=1))
    assert probe("/readyz")[1]["warnings"] == []


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_or_old_is_named_and_nothing_private_with_it(monkeypatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError("connection to postgres://user:password@host failed")

    monkeypatch.setattr(readiness, "missing_migrations", lambda: 2)
    monkeypatch.setattr(readiness, "_is_migrated", False)
    status, document = probe("/readyz")
    assert (status, "2 changes are missing" in failed(document)["migrations"]) == (503, True)
    monkeypatch.setattr("django.db.backends.base.base.BaseDatabaseWrapper.cursor", away)
    status, document = probe("/readyz")
    assert (status, list(failed(document))) == (503, ["database"])
    assert "password" not in json.dumps(document)


@pytest.mark.django_db(transaction=True)
def test_a_full_disk_is_a_warning_because_pages_can_still_be_read(settings) -> None:
    try:
        database_health.note_refused(OperationalError("database or disk is full"))
        status, document = probe("/readyz")
        assert (status, "does not accept writes" in document["warnings"][0]) == (200, True)
    finally:
        database_health.note_written()
    settings.LOW_SPACE_BYTES = 10**18
    assert "nearly full" in probe("/readyz")[1]["warnings"][0]


@pytest.fixture
def figures_of(client: Client) -> Any:
    def read(**headers: str) -> Any:
        answer = client.get("/metrics", headers=headers)
        if answer.status_code != 200:
            return answer.status_code
        return {(sample.name, *sorted(sample.labels.items())): sample.value
                for family in text_string_to_metric_families(answer.content.decode()) for sample in family.samples}

    return read


def test_figures_are_for_administrators_and_for_who_has_the_token(admin: User, client: Client, figures_of,
                                                                  settings) -> None:
    assert figures_of() == 401
    assert figures_of(authorization="Bearer ") == 401, "no token is set, so none is right"
    settings.METRICS_TOKEN = "scrape-me"
    assert figures_of(authorization="Bearer scrape-you") == 401
    assert figures_of(authorization="Token scrape-me") == 401
    assert isinstance(figures_of(authorization="Bearer scrape-me"), dict)
    assert isinstance(figures_of(authorization=f"Token {ApiToken.make(admin)}"), dict)
    member = User.objects.create_user("mo")
    assert figures_of(authorization=f"Token {ApiToken.make(member)}") == 401
    client.force_login(member)
    assert figures_of() == 401
    client.force_login(admin)
    assert isinstance(figures_of(), dict)


def test_figures_of_the_rows(admin: User, client: Client, figures_of, make_experiment, make_attempt,
                             monkeypatch) -> None:
    client.force_login(admin)
    experiment = make_experiment()
    now = timezone.now()
    monkeypatch.setattr("nniweb.observability.database_figures.timezone.now", lambda: now)
    monkeypatch.setattr("nniweb.observability.database_figures.DatabaseNow", lambda: Value(now, DateTimeField()))
    make_attempt(experiment, status="RUNNING")
    waiting = make_attempt(experiment, status="WAITING")
    Trial.objects.filter(pk=waiting.trial_id).update(created_at=now - timedelta(seconds=100))
    Attempt.objects.filter(pk=waiting.pk).update(stage="submitting", created_at=now - timedelta(seconds=50))
    make_attempt(experiment, status="SUCCEEDED")
    make_experiment(status="DONE")
    make_experiment(status="DONE", deleted_at=now)
    Cluster.objects.update(lease_holder="one", lease_epoch=7, lease_expires_at=now + timedelta(seconds=12))
    rule = NotificationRule.objects.create(owner=admin, channel="webhook", created_at=now)
    for seconds, state in ((-60, "waiting"), (30, "waiting"), (40, "waiting"), (500, "delivered")):
        due = now - timedelta(seconds=seconds)
        NotificationDelivery.objects.create(rule=rule, occasion="test", body="{}", created_at=due, planned_at=due,
                                            due_at=due, state=state)
    found = figures_of()
    local = ("cluster", "local")
    assert found["nniweb_trials", local, ("status", "RUNNING")] == 1
    assert found["nniweb_trials", local, ("status", "FAILED")] == 0
    assert found["nniweb_experiments", local, ("status", "DONE")] == 1
    assert found["nniweb_oldest_waiting_trial_seconds", local] == 100
    assert found["nniweb_oldest_submission_seconds", local] == 50
    assert (found["nniweb_lease_held", local], found["nniweb_lease_epoch", local]) == (1, 7)
    assert found["nniweb_lease_renewed_seconds", local] == 3
    assert found["nniweb_workers",] == 0
    assert (found["nniweb_notifications_due",], found["nniweb_oldest_due_notification_seconds",]) == (2, 40)


def test_the_process_is_measured_while_the_database_is_away(admin: User, figures_of, settings, monkeypatch) -> None:
    settings.METRICS_TOKEN = "scrape-me"
    assert figures_of(authorization="Bearer scrape-me")["nniweb_database_answers",] == 1

    def away(*_: object, **__: object) -> None:
        raise OperationalError("connection refused")

    with monkeypatch.context() as outage:
        outage.setattr("django.db.backends.base.base.BaseDatabaseWrapper.cursor", away)
        found = figures_of(authorization="Bearer scrape-me")
    assert found["nniweb_database_answers",] == 0
    assert "nniweb_reports_waiting" in {name for name, *_ in found}
    assert "nniweb_workers" not in {name for name, *_ in found}, "not known is not none"


def test_a_scrape_asks_eight_questions_and_finds_trials_in_an_index(make_experiment, make_attempt) -> None:
    for _ in range(3):
        make_attempt(make_experiment(), status="WAITING")
    with CaptureQueriesContext(connection) as asked:
        list(DatabaseFigures().collect())
    assert len(asked) == 8, [query["sql"] for query in asked]
    if connection.vendor != "sqlite":
        return  # an empty table is always scanned there
    for query in asked:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
            plan = [row[3] for row in cursor.fetchall()]
        for step in plan:
            assert "experiments_metric" not in step, plan
            assert not step.startswith(("SCAN experiments_trial", "SCAN experiments_attempt")) or "INDEX" in step, plan


@pytest.mark.django_db(transaction=True)
def test_reports_are_counted_with_their_answers_and_the_time_they_took(admin: User, client: Client, figures_of,
                                                                      make_attempt) -> None:
    client.force_login(admin)
    commit = GroupCommit("abc")
    body = json.dumps({"keeper": {"version": 1, "journal_id": "j"}, "entries": [
        {"n": 1, "at": 0.0, "type": "started", "pid": 1, "host": "h"}]}).encode()
    name = make_attempt().job_name
    before = figures_of()

    def grown(name: str, *labels: tuple[str, str]) -> float:
        return float(figures_of()[name, *labels] - before.get((name, *labels), 0.0))

    try:
        from nniweb.experiments.models.account import hash_of

        assert asyncio.run(commit.submit(name, hash_of("token"), body, "")).status == 200
        assert asyncio.run(commit.submit(name, hash_of("wrong"), body, "")).status == 401
    finally:
        commit.close()
    assert grown("nniweb_reports_total", ("status", "200")) == 1
    assert grown("nniweb_reports_total", ("status", "401")) == 1
    assert grown("nniweb_report_entries_total") == 2
    assert grown("nniweb_commit_seconds_count") == grown("nniweb_commit_group_reports_sum") == 2
    assert grown("nniweb_report_seconds_count") == 2
    assert figures_of()["nniweb_oldest_report_waiting_seconds",] == 0
