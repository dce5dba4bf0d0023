"""What budgets and the ledger cost each trial, beside a long ledger.

    .venv/bin/python benchmarks/budgets.py [--rows 100000] [--rounds 300]

In this process, on a SQLite database of its own. Measured is the processor time of the row that each ended attempt
gets, of the question before a trial starts where there is no budget, and of the same question where three budgets
concern the trial and the ledger has so many rows, all of them of these budgets. The last figure is the same without
kept sums.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
_FOLDER = tempfile.TemporaryDirectory()
os.environ |= {"DJANGO_SETTINGS_MODULE": "nniweb.settings", "NNIWEB_DATA": _FOLDER.name}

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.utils import timezone  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from nniweb.experiments.budgets.ledger import charge  # noqa: E402
from nniweb.experiments.budgets.starting import Candidate, why_not_in_budget  # noqa: E402
from nniweb.experiments.models import (  # noqa: E402
    Attempt,
    Budget,
    BudgetUse,
    Cluster,
    Experiment,
    LedgerEntry,
    Trial,
    User,
)
from nniweb.experiments.models.limits import month_of  # noqa: E402

#: What a trial may cost more, in milliseconds.
ROW, NO_BUDGET, WITH_BUDGETS = 1.0, 0.1, 10.0


def milliseconds(ask: Callable[[int], object], rounds: int) -> float:
    """Of the processor for each, in a transaction of its own."""
    spent = 0.0
    for number in range(rounds):
        with transaction.atomic():
            begin = time.process_time()
            ask(number)
            spent += time.process_time() - begin
    return 1000 * spent / rounds


def fill_ledger(experiment: Experiment, rows: int) -> None:
    now = timezone.now()
    for first in range(0, rows, 5000):
        LedgerEntry.objects.bulk_create([LedgerEntry(
            at=now, job_name=f"old{number}", number=1, trial="t", sequence_id=number, experiment_id=experiment.pk,
            experiment=experiment.public_id, experiment_name="one", owner_id=experiment.owner_id, owner="ann",
            cluster_id=experiment.cluster_id, cluster="nowhere", month=month_of(now), ended_at=now, milliseconds=60_000,
            measured_by="keeper", gpus=1, milli_cpus=1000, gpu_hour_price=0, cpu_hour_price=0, money=0)
            for number in range(first, min(first + 5000, rows))])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=300)
    given = parser.parse_args()
    report = Report(__file__)
    call_command("migrate", verbosity=0)
    owner = User.objects.create_user("ann")
    cluster = Cluster.objects.create(name="nowhere", platform="local", enabled=False)
    now = timezone.now()
    experiment = Experiment.objects.create(
        name="one", owner=owner, cluster=cluster, seed=1, search_space={}, tuner={"name": "Random"},
        optimize_mode="minimize", trial_command="true", trial_concurrency=8, created_at=now, status="RUNNING")
    attempts = [Attempt.objects.create(
        trial=Trial.objects.create(experiment=experiment, sequence_id=number, created_at=now), job_name=f"job{number}",
        created_at=now, started_at=now, stage="submitted", cluster=cluster) for number in range(given.rounds)]
    Attempt.objects.filter(pk__in=[attempt.pk for attempt in attempts[8:]]).update(stage="ended")
    fill_ledger(experiment, given.rows)

    def start(_: int) -> None:
        assert why_not_in_budget(experiment, [Candidate()], now) == [None]

    report.add("the ledger's row of an ended attempt", milliseconds(lambda number: charge(
        attempts[number].pk, duration=60.0, by_keeper=True, ended_at=now, now=now), given.rounds), "ms", limit=ROW)
    report.add("before a start: no budget", milliseconds(start, given.rounds), "ms", limit=NO_BUDGET)
    for subject in ({"user": owner}, {"experiment": experiment, "period": "total"}, {"user": owner, "period": "total"}):
        Budget.objects.create(**subject, trials=10_000_000, gpu_hours=10_000_000, money=10_000_000)
    with_budgets = milliseconds(start, given.rounds)
    report.add("before a start: three budgets", with_budgets, "ms", limit=WITH_BUDGETS,
               beside=f"{given.rows:,} rows, 8 trials run")

    def start_without_kept_sums(_: int) -> None:
        BudgetUse.objects.all().delete()
        start(0)

    report.add("the same without kept sums", milliseconds(start_without_kept_sums, 5), "ms",
               limit=None, beside="what each start would cost")
    connection.close()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
