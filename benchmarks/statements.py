"""What statements put together by hand buy: processor time of each, and of the same question through Django's ORM.

    .venv/bin/python benchmarks/statements.py [--rounds 1000]

In this process, on a SQLite database of its own with a few rows, so that the time is that of putting the statement
together and of making something of the answer. What is not at least twice as fast by hand has no reason to be.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
_FOLDER = tempfile.TemporaryDirectory()
os.environ |= {"DJANGO_SETTINGS_MODULE": "nniweb.settings", "NNIWEB_DATA": _FOLDER.name}

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.db.models import Count, F, Q  # noqa: E402
from django.utils import timezone  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from nniweb.experiments.clusters.lease import Lease  # noqa: E402
from nniweb.experiments.ingest.reporting_attempts import reporting_attempts  # noqa: E402
from nniweb.experiments.models import (  # noqa: E402
    Attempt,
    Cluster,
    Experiment,
    NotificationDelivery,
    Trial,
    TrialEvent,
    User,
)
from nniweb.experiments.pubsub.revisions import next_revision  # noqa: E402
from nniweb.experiments.sql.changed_rows import update  # noqa: E402
from nniweb.experiments.sql.new_rows import insert  # noqa: E402
from nniweb.experiments.sql.selected_rows import is_any, select  # noqa: E402
from nniweb.worker.rounds.work_counts import work_counts_of  # noqa: E402
from trainingservice.trial_job_status import UNFINISHED  # noqa: E402

#: What a statement by hand may take of the time of the ORM's.
PART = 0.5
TRIALS = 8
_COLUMNS = ("id", "public_id", "sequence_id", "ask_number", "status", "message", "final_number", "final_value")

Pair = tuple[str, Callable[[], object], Callable[[], object]]


def pairs(experiment: Experiment, attempts: list[Attempt], lease: Lease) -> list[Pair]:
    """What, by hand, through the ORM."""
    now, trial, attempt = timezone.now(), attempts[0].trial, attempts[0]
    names, unfinished = [one.job_name for one in attempts], [status.value for status in UNFINISHED]
    own = Cluster.objects.filter(pk=lease.cluster_pk, lease_holder=lease.worker_id, lease_epoch=lease.epoch)

    def revision() -> int:
        Experiment.objects.filter(pk=experiment.pk).update(revision=F("revision") + 1, changed_at=timezone.now())
        return int(Experiment.objects.values_list("revision", flat=True).get(pk=experiment.pk))

    def begun() -> None:
        with lease.transaction():
            pass

    def begun_by_django() -> None:
        with transaction.atomic():
            own.update(lease_epoch=F("lease_epoch"))

    def counted() -> object:
        under_way = Count("attempts", filter=Q(attempts__stage__in=("submitting", "submitted")))
        trials = Trial.objects.filter(experiment__in=[experiment.pk]).order_by()
        return (list(trials.filter(status__in=unfinished).values("experiment").annotate(
                    under_way=under_way, unwanted=Count("pk", filter=~Q(target="RUN"), distinct=True))),
                list(trials.filter(taught=False).exclude(status__in=unfinished).values("experiment").annotate(
                    count=Count("pk"))))

    def event(at: datetime) -> TrialEvent:
        return TrialEvent(trial=trial, at=at, kind="RUNNING")

    return [
        ("the next revision (revisions.py)", lambda: next_revision(experiment.pk), revision),
        ("the lease at the beginning of a transaction (lease.py)", begun, begun_by_django),
        ("a new row (new_rows.py)", lambda: insert([event(now)]), lambda: TrialEvent.objects.bulk_create([event(now)])),
        ("a changed row (changed_rows.py)",
         lambda: update(Trial, "id = %s AND status = 'WAITING'", [trial.pk], submitted_at=now, revision=1),
         lambda: Trial.objects.filter(pk=trial.pk, status="WAITING").update(submitted_at=now, revision=1)),
        (f"{TRIALS} rows read (selected_rows.py)",
         lambda: select(Trial, _COLUMNS, "WHERE experiment_id = %s ORDER BY id", [experiment.pk]),
         lambda: list(Trial.objects.filter(experiment=experiment.pk).only(*_COLUMNS).order_by("pk"))),
        ("whether there is any row (selected_rows.py)",
         lambda: is_any(NotificationDelivery, "state = %s", ["waiting"]),
         lambda: NotificationDelivery.objects.filter(state="waiting").exists()),
        ("what a round finds to do (work_counts.py)",
         lambda: work_counts_of([experiment.pk], experiment.cluster_id), counted),
        (f"{TRIALS} attempts that report (reporting_attempts.py)", lambda: reporting_attempts(names),
         lambda: list(Attempt.objects.filter(job_name__in=names).select_related("trial__experiment"))),
        ("one column of one row (selected_rows.py)",
         lambda: select(Attempt, ("id", "observed_end"), "WHERE id = %s", [attempt.pk]),
         lambda: Attempt.objects.values_list("observed_end", flat=True).get(pk=attempt.pk)),
    ]


def microseconds(ask: Callable[[], object], rounds: int) -> float:
    """Of the processor for each; the least of five turns, which other work on the machine disturbs least."""
    found = []
    for _ in range(5):
        begin = time.process_time()
        for _ in range(rounds):
            ask()
        found.append(1e6 * (time.process_time() - begin) / rounds)
    return min(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000)
    rounds = parser.parse_args().rounds
    report = Report(__file__)
    call_command("migrate", verbosity=0)
    cluster = Cluster.objects.create(name="nowhere", platform="local", enabled=False)
    experiment = Experiment.objects.create(
        name="one", owner=User.objects.create_user("ann"), cluster=cluster, seed=1, search_space={},
        tuner={"name": "Random"}, optimize_mode="minimize", trial_command="true", trial_concurrency=TRIALS,
        created_at=timezone.now(), status="RUNNING")
    attempts = [Attempt.objects.create(
        trial=Trial.objects.create(experiment=experiment, sequence_id=number, created_at=timezone.now()),
        job_name=f"job{number}", created_at=timezone.now(), stage="submitted", cluster=cluster)
        for number in range(TRIALS)]
    lease = Lease.acquire(cluster, "benchmark")
    assert lease is not None
    for what, by_hand, by_django in pairs(experiment, attempts, lease):
        with transaction.atomic():
            through_orm = microseconds(by_django, rounds)
            report.add(what, microseconds(by_hand, rounds), "µs", limit=PART * through_orm,
                       beside=f"the ORM takes {through_orm:.0f} µs")
    connection.close()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
