"""What pages cost when the database is large: a million trials, tens of millions of metrics.

    .venv/bin/python benchmarks/large_database.py [--database postgresql] [--experiments 1000] [--trials 1000000]
                                                  [--metrics 30000000] [--within 100000] [--plans]

The database is made by statements that copy rows inside it. Then what pages and REST are asked for is asked in this
process, of an experiment that has its share of all trials and of one that has ``--within`` of them, and each is
compared with the same question of a hundredth of the database. What grows names its slowest statement; ``--plans``
prints how the database carries it out. Exports, retention and deletion follow, with the longest transaction of each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402

if TYPE_CHECKING:
    from rest_framework.test import APIClient

    from benchmarks.large.questions import Question

ASKED = 5


def set_up(folder: Path, url: str) -> None:
    """Django with a data folder and a database of its own, migrated."""
    os.environ.update(NNIWEB_DATA=str(folder / "data"), DJANGO_SETTINGS_MODULE="nniweb.settings", NNIWEB_DEMO="0")
    if url:
        os.environ["NNIWEB_DATABASE_URL"] = url
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", verbosity=0)


def client_of(user: Any) -> APIClient:
    from rest_framework.test import APIClient

    client = APIClient()
    client.force_authenticate(user)
    client.force_login(user)
    return client


def asked(client: APIClient, address: str) -> tuple[float, str, float]:
    """Milliseconds of one answer, the median; its slowest statement, and the milliseconds of that."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    times, slowest = [], ("", 0.0)
    for attempt in range(ASKED + 1):
        with CaptureQueriesContext(connection) if attempt == ASKED else nullcontext() as queries:
            began = time.perf_counter()
            answer = client.get(address)
            content = b"".join(answer.streaming_content) if answer.streaming else answer.content
            times.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, f"{address}: {answer.status_code} {content[:300]!r}"
        if queries is not None:
            worst = max(queries.captured_queries, key=lambda query: float(query["time"]), default=None)
            if worst is not None:
                slowest = (str(worst["sql"]), float(worst["time"]) * 1000)
    return statistics.median(times[1:ASKED] or times), *slowest


def plan_of(statement: str) -> str:
    from django.db import connection

    how = "EXPLAIN (ANALYZE, BUFFERS)" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
    with connection.cursor() as cursor:
        cursor.execute(f"{how} {statement}")
        return "\n".join("  ".join(map(str, row)) for row in cursor.fetchall())


def measure(options: argparse.Namespace, report: Report) -> None:
    from benchmarks.large import background
    from benchmarks.large.filling import Size, fill
    from benchmarks.large.questions import OF_ALL, OF_ONE
    from nniweb.experiments.downloads.export import csv_pieces, json_pieces
    from nniweb.experiments.models import User

    owner = User.objects.create_superuser("ada")
    client = client_of(owner)
    say: Callable[[str], object] = lambda text: print(text, flush=True)  # noqa: E731
    part = 100
    before = {}
    [small, *_] = fill(Size(max(1, options.experiments // part), max(1, options.trials // part),
                            max(1, options.metrics // part)), owner, say)
    _analyze()
    for question in (*OF_ALL, *OF_ONE):
        before[question] = asked(client, question.of(small, first_trial_of(small)))[0]
    began = time.monotonic()
    # the small ones stay: ids go on behind them
    [large, retained, *_] = fill(Size(options.experiments, options.trials, options.metrics), owner, say, "b")
    report.add("rows made", (options.trials * 4 + options.metrics) / (time.monotonic() - began), "rows/s")
    [wide] = fill(Size(1, options.within, options.within * 10), owner, say, "c")
    _analyze()
    report.add("database", database_bytes() / 1e9, "GB")

    def ask(questions: Sequence[Question], name: str, experiment: str, limits: bool = True) -> None:
        for question in questions:
            took, statement, worst = asked(client, question.of(experiment, first_trial_of(experiment)))
            report.add(f"{question.what}, {name}", took, "ms", limit=question.limit if limits else None,
                       beside=f"a hundredth: {before[question]:.1f} ms; slowest statement {worst:.1f} ms")
            if options.plans and statement and worst > question.limit / 4:
                print(f"{statement[:2000]}\n{plan_of(statement)}\n", flush=True)

    in_all, within = f"{options.trials:,} trials in the database", f"{options.within:,} trials in the experiment"
    ask(OF_ALL, "before ended trials are added up", large, limits=False)
    background.add_up_all(report)
    ask((*OF_ALL, *OF_ONE), in_all, large)
    ask(OF_ONE, within, wide)
    background.export(wide, lambda experiment, trials: json_pieces(experiment, trials, intermediate=True), report,
                      f"JSON, {within}")
    background.export(wide, lambda _, trials: csv_pieces(trials, intermediate=True), report, f"CSV, {within}")
    background.keep_to_retention(retained, report)
    background.keep_to_retention(wide, report)
    background.delete(wide, report)


def first_trial_of(experiment: str) -> str:
    from nniweb.experiments.models import Trial

    return Trial.objects.get(experiment__public_id=experiment, sequence_id=0).public_id


def database_bytes() -> int:
    from nniweb.backups.database import size

    return size()


def _analyze() -> None:
    """Have the database know what it has, as it does by itself after a while."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="postgresql")
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--metrics", type=int, default=30_000_000)
    parser.add_argument("--within", type=int, default=100_000, help="trials of one experiment beside the others")
    parser.add_argument("--plans", action="store_true", help="print the plans of statements that take long")
    parser.add_argument("--folder", type=Path, help="where the database is made, and left")
    options = parser.parse_args()
    report = Report(__file__)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="nniweb-large-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if options.database == "sqlite":
            set_up(folder, "")
            measure(options, report)
        else:
            from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer

            with closing(PostgresqlServer()) as server:
                server.start()
                set_up(folder, server.url("postgres"))
                measure(options, report)
                from django.db import connection

                connection.close_pool()  # type: ignore[attr-defined]  # of PostgreSQL's
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
