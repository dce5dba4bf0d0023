"""How budgets stand: whose they are, sums of the ledger that are kept, and trials that begin at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.budgets import ledger_sums
from nniweb.experiments.budgets.concerned import Held, budgets_of
from nniweb.experiments.budgets.ledger_check import months
from nniweb.experiments.budgets.spending import Spending
from nniweb.experiments.budgets.standing import attempts_under_way, standing
from nniweb.experiments.budgets.starting import how_many_in_budget
from nniweb.experiments.ingest.entry_times import clock_of_report
from nniweb.experiments.models import ApiToken, Attempt, Budget, BudgetUse, Experiment, LedgerEntry, Trial, User
from nniweb.experiments.models.limits import next_month
from nniweb.experiments.models.trial import job_name
from nniweb.experiments.pubsub.revisions import next_revision
from tests.nniweb.at_once import at_once
from tests.trialkeeper.keeper_run import wait_until

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


def entries(count: int, *, seconds: int = 3600, month: str = "2026-11", owner: int = 1, first: bool = True,
            **fields: Any) -> None:
    began = LedgerEntry.objects.count()
    LedgerEntry.objects.bulk_create([LedgerEntry(**{
        "at": NOW, "job_name": f"job{began + index}", "number": 1 if first else 2, "trial": "t", "sequence_id": index,
        "experiment_id": 1, "experiment": "e", "experiment_name": "e", "owner_id": owner, "cluster_id": 1,
        "cluster": "c", "month": month, "ended_at": NOW, "milliseconds": seconds * 1000, "measured_by": "keeper",
        "gpus": 2, "milli_cpus": 500, "gpu_hour_price": 0, "cpu_hour_price": 0, "money": 1_500_000, **fields})
        for index in range(count)])


def until_kept(budget: Budget, trials: int) -> None:
    """On PostgreSQL a row counts as certain when all transactions that were open with it, also those of other tests'
    databases on the same server, have ended.
    """
    def is_kept() -> bool:
        with transaction.atomic():
            Budget.objects.select_for_update().get(pk=budget.pk)
            assert ledger_sums.spent(budget, 0, "", keeps=True).trials == trials
        return BudgetUse.objects.filter(budget=budget, trials=trials).exists()

    wait_until(is_kept)


@pytest.mark.django_db
def test_an_experiment_counts_towards_the_budgets_of_its_person_group_token_and_its_own(
        make_experiment: Callable[..., Experiment], admin) -> None:
    group = Group.objects.create(name="vision")
    token, other = (ApiToken.make_with_row(admin, name, "admin", None)[1] for name in ("one", "two"))
    experiment = make_experiment(owner=admin, group=group, token=token)
    assert budgets_of(experiment) == []
    mine, each, total = (Budget.objects.create(**fields) for fields in (
        {"user": admin}, {}, {"period": "total"}))
    of_group, of_token, of_other, own = (Budget.objects.create(**fields) for fields in (
        {"group": group}, {"token": token}, {"token": other}, {"experiment": experiment, "period": "total"}))
    Budget.objects.create(user=User.objects.create(username="stranger"))
    assert {held.budget for held in budgets_of(experiment)} == {mine, total, of_group, of_token, own}, \
        "that of each person counts for those who have none of their own for the period"
    assert of_other in {held.budget for held in budgets_of(experiment, [other.pk])}
    mine.delete()
    assert Held(each, admin.pk) in budgets_of(experiment)


@pytest.mark.django_db
def test_a_budget_says_what_was_used_what_runs_and_what_is_left(make_attempt: Callable[..., Attempt], admin) -> None:
    held = Held(Budget.objects.create(user=admin, gpu_hours=Decimal(10), trials=5, money=Decimal(4),
                                      wall_hours=Decimal(3), cpu_hours=Decimal(9)))
    entries(1, owner=admin.pk)
    entries(1, owner=admin.pk, first=False, seconds=1800)
    entries(3, owner=admin.pk, month="2026-10")
    entries(3, owner=admin.pk + 1)
    attempt = make_attempt()
    Experiment.objects.update(owner=admin, gpus_of_a_trial=1)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=NOW, started_at=NOW)
    found = standing(held, NOW + timedelta(minutes=30))
    assert found.used == Spending(1, 5_400_000, 10_800_000, 2_700_000_000, 3_000_000)
    assert found.running == Spending(1, 1_800_000, 1_800_000, 1_800_000_000, 0)
    assert {unit: found.left(unit) for unit in found.limits} == {
        "gpu_hours": Decimal("6.5"), "trials": 3, "money": 1, "wall_hours": 1, "cpu_hours": Decimal("7.75")}
    assert found.begins_anew == datetime(2026, 12, 1, tzinfo=UTC)
    assert found.used_up == []
    late = standing(held, NOW + timedelta(hours=1))
    assert (late.used_up, late.left("wall_hours")) == ([], Decimal("0.5"))
    assert standing(held, NOW + timedelta(hours=2)).used_up == ["wall_hours"]
    december = standing(held, datetime(2026, 12, 1, tzinfo=UTC))
    assert (december.used, december.running) == (Spending(), Spending())


@pytest.mark.django_db
def test_what_runs_takes_no_more_than_has_passed_since_the_server_made_it_whatever_its_machines_clock_said(
        make_attempt: Callable[..., Attempt], admin) -> None:
    attempt, now = make_attempt(), timezone.now()
    # the machine's clock was set between the beginning and the report of it
    began = clock_of_report(now.timestamp(), now).corrected(5.0)
    Attempt.objects.filter(pk=attempt.pk).update(started_at=began, created_at=now - timedelta(seconds=36))
    assert standing(Held(Budget.objects.create(user=admin, wall_hours=1)), now).left("wall_hours") == Decimal("0.99")


@pytest.mark.django_db
def test_what_runs_is_found_without_looking_at_what_has_ended(make_attempt: Callable[..., Attempt], admin) -> None:
    make_attempt()
    helds = [Held(Budget.objects.create(user=admin, trials=1)),
             Held(Budget.objects.create(group=Group.objects.create(name="vision"), trials=1))]
    for some in (helds[:1], helds[1:], helds):
        with CaptureQueriesContext(connection) as asked:
            attempts_under_way(some)
        assert len(asked) == 1
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN QUERY PLAN {asked[0]['sql']}")
                plan = [row[3] for row in cursor.fetchall()]
            of_unfinished = ("SCAN a USING INDEX attempts_unfinished", "SCAN a USING INDEX attempts_of_clusters")
            assert [step for step in plan if step.startswith("SCAN") and step not in of_unfinished] == [], plan
            assert any(step in of_unfinished for step in plan), plan


def test_months_follow_each_other() -> None:
    assert next_month(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)) == datetime(2027, 1, 1, tzinfo=UTC)
    assert next_month(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 2, 1, tzinfo=UTC)


def test_a_long_ledger_is_read_once_and_not_for_each_trial(transactional_db, admin, monkeypatch) -> None:
    monkeypatch.setattr(ledger_sums, "_settled", ledger_sums._Settled())
    budget = Budget.objects.create(user=admin, period="total", trials=10_000)
    rows = ledger_sums.KEEP_AFTER
    for _ in range(3):
        entries(rows, owner=admin.pk, seconds=1)
        until_kept(budget, LedgerEntry.objects.count())
    kept = BudgetUse.objects.get()
    assert (kept.trials, kept.counted_to) == (3 * rows, LedgerEntry.objects.order_by("-pk")[0].pk)
    entries(5, owner=admin.pk, seconds=1)
    assert ledger_sums.spent(budget, 0, "") == ledger_sums.sum_for(budget, 0, "")[0]
    with CaptureQueriesContext(connection) as asked:
        assert ledger_sums.spent(budget, 0, "", keeps=True).trials == 3 * rows + 5
    assert len(asked) == 2


def test_a_row_that_is_committed_after_later_ones_is_not_left_out(transactional_db, admin, monkeypatch) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    monkeypatch.setattr(ledger_sums, "_settled", ledger_sums._Settled())
    budget = Budget.objects.create(user=admin, period="total", trials=10_000)
    wrote, goes_on = threading.Event(), threading.Event()

    def slow() -> None:
        with transaction.atomic():
            User.objects.filter(pk=admin.pk).update(first_name="slow")
            entries(1, owner=admin.pk, job_name="early")
            wrote.set()
            assert goes_on.wait(30)
        connection.close()

    thread = threading.Thread(target=slow)
    thread.start()
    assert wrote.wait(30)
    entries(2 * ledger_sums.KEEP_AFTER, owner=admin.pk)
    for _ in range(3):
        assert ledger_sums.spent(budget, 0, "", keeps=True).trials == 2 * ledger_sums.KEEP_AFTER
    goes_on.set()
    thread.join(30)
    until_kept(budget, 2 * ledger_sums.KEEP_AFTER + 1)


def test_eight_that_start_trials_at_the_same_time_start_no_more_than_the_budget_has(
        transactional_db, make_experiment: Callable[..., Experiment], admin) -> None:
    Budget.objects.create(user=admin, trials=21, period="total")
    experiments = [make_experiment(owner=admin) for _ in range(8)]

    def start(experiment: Experiment) -> None:
        for number in range(5):
            with transaction.atomic():
                next_revision(experiment.pk)  # as a worker's round begins
                count, _ = how_many_in_budget(experiment, 1, timezone.now())
                for _ in range(count):
                    trial = Trial.objects.create(experiment=experiment, sequence_id=number, created_at=timezone.now())
                    Attempt.objects.create(trial=trial, job_name=job_name(trial.public_id, 1),
                                           created_at=timezone.now(), cluster=experiment.cluster)

    at_once(*(lambda _, one=one: start(one) for one in experiments))
    assert Attempt.objects.count() == 21


@pytest.mark.django_db
def test_sums_of_the_most_that_is_believed_are_exact(admin: User) -> None:
    budget = Budget.objects.create(user=admin, period="total", cpu_hours=1)
    rows, year = 3 * ledger_sums.KEEP_AFTER, 366 * 24 * 3600
    entries(rows, seconds=year, owner=admin.pk, gpus=1_000_000, milli_cpus=100_000_000, money=10**15 - 1)
    used = standing(Held(budget), NOW).used
    assert used == Spending(rows, rows * year * 1000, rows * year * 10**9, rows * year * 10**11, rows * (10**15 - 1))
    with transaction.atomic():
        Budget.objects.select_for_update().get(pk=budget.pk)
        assert ledger_sums.spent(budget, 0, "", keeps=True) == used
    [month] = months(LedgerEntry.objects.all())
    assert (month.gpu_milliseconds, month.micros) == (used.gpu_milliseconds, used.money)
