"""The ledger is computed again from the attempts: ``manage.py ledger --check``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from nniweb.experiments.budgets import ledger_sums
from nniweb.experiments.lifecycle.transitions import end_attempt
from nniweb.experiments.lifecycle.trial_end import TrialEnd
from nniweb.experiments.models import Attempt, Budget, BudgetUse, Experiment, LedgerEntry, Price
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = pytest.mark.django_db


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    monkeypatch.setattr("nniweb.management.commands.ledger.require_served_before", lambda: None)

    def run() -> str:
        output = StringIO()
        try:
            call_command("ledger", "--check", stdout=output)
        except CommandError as error:
            return f"{output.getvalue()}{error}"
        return output.getvalue()

    return run


@pytest.fixture
def ended(make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt]) -> list[Attempt]:
    """Three: measured by its keeper, seen by the server only, and one that never began."""
    experiment = make_experiment(gpus_of_a_trial=2)
    Price.objects.create(cluster=experiment.cluster, gpu_hour=Decimal("0.777"), cpu_hour=Decimal("0.0123"))
    attempts = [make_attempt(experiment) for _ in range(3)]
    now = timezone.now()
    Attempt.objects.filter(pk__in=[attempt.pk for attempt in attempts[:2]]).update(
        started_at=now - timedelta(seconds=100), created_at=now - timedelta(seconds=90))
    # a busy machine takes its time to make one
    Attempt.objects.filter(pk=attempts[2].pk).update(started_at=None, created_at=now)
    for attempt, duration in zip(attempts, (12.3456, None, None), strict=True):
        end_attempt(attempt, TrialEnd(TrialJobStatus.SUCCEEDED, "", "exited", 0, duration,
                                      by_keeper=duration is not None), now, revision=1)
    return attempts


def test_all_figures_agree_also_after_the_experiment_is_deleted(
        ended: list[Attempt], check: Callable[[], str]) -> None:
    month = f"{timezone.now():%Y-%m}"
    total = (12_346 + 90_000) / 3_600_000
    assert f"{month}: 3 trials, 3 attempts, {total:.4f} hours, {2 * total:.4f} GPU-hours, money 0.0445" in check()
    assert "All figures agree" in check()
    ended[0].trial.experiment.delete()
    assert "All figures agree" in check()


def test_what_differs_is_named(ended: list[Attempt], check: Callable[[], str], make_attempt: Callable[..., Attempt]
                               ) -> None:
    first, second, third = (Attempt.objects.get(pk=attempt.pk) for attempt in ended)
    Attempt.objects.filter(pk=first.pk).update(duration=99.0, charged_owner_id=99)
    Attempt.objects.filter(pk=second.pk).update(stage="submitted")
    late = make_attempt()
    Attempt.objects.filter(pk=late.pk).update(stage="ended", end_received_at=timezone.now())
    table = LedgerEntry._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET money = 5 WHERE job_name = %s", [third.job_name])
    said = check()
    owner = first.trial.experiment.owner_id
    for sentence in (f"{first.job_name}: owner {owner} is in the ledger, 99 is computed (id).",
                     f"{first.job_name}: milliseconds 12346 is in the ledger, 99000 is computed (ms).",
                     f"The ledger has {second.job_name}, which has not ended.",
                     f"{third.job_name}: money 5 is in the ledger, 0 is computed (millionths).",
                     f"{late.job_name} has ended and is not in the ledger.", "5 figure(s) differ."):
        assert sentence in said


def test_a_kept_sum_that_is_wrong_is_named(ended: list[Attempt], check: Callable[[], str], monkeypatch) -> None:
    monkeypatch.setattr(ledger_sums, "KEEP_AFTER", 1)
    monkeypatch.setattr(ledger_sums._settled, "row", lambda: LedgerEntry.objects.latest("pk").pk)
    budget = Budget.objects.create(experiment=ended[0].trial.experiment, period="total", trials=5)
    with transaction.atomic():
        assert ledger_sums.spent(budget, 0, "", keeps=True).trials == 3
    assert "All figures agree" in check()
    BudgetUse.objects.update(trials=7)
    assert "The kept sum of the budget of the experiment" in check()
