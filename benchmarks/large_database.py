"""What pages cost when the database is large: a million trials, tens of millions of metrics.

    .venv/bin/python benchmarks/large_database.py [--database postgresql] [--experiments 1000] [--trials 1000000]
                                                  [--metrics 30000000] [--within 100000] [--plans]
    .venv/bin/python benchmarks/large_database.py --keep FOLDER ...         # and leave the database there
    .venv/bin/python benchmarks/large_database.py --use FOLDER [--browser]  # ask it again

The database is made by statements that copy rows inside it. Then what pages and REST are asked for is asked in this
process, of an experiment that has its share of all trials and of one that has ``--within`` of them, and each is
compared with the same question of a hundredth of the database. Beside each figure stands the processor time of this
process and of PostgreSQL's processes, which does not depend on what else runs. What grows names its slowest statement;
``--plans`` prints how the database carries it out. Exports, retention and deletion follow, with the longest transaction
of each, of an experiment that is made for them.

``--browser`` opens the pages in Debian's chromium instead, of this database and of its hundredth.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.large.kept import HUNDREDTH, LARGE, Made  # noqa: E402
from benchmarks.large.processor_time import ProcessorTime, taken  # noqa: E402
from benchmarks.reporting import Report  # noqa: E402

if TYPE_CHECKING:
    from rest_framework.test import APIClient

    from benchmarks.large.questions import Question
    from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer

ASKED = 5
PART = 100
#: Of the installation and of that of the hundredth, in the folder; PostgreSQL's.
DATA, DATA_OF_HUNDREDTH, POSTGRESQL = "data", "data-of-hundredth", "pg"
OWNER = "ada"


def set_up(folder: Path, url: str) -> None:
    """Django with a data folder and a database of its own, migrated."""
    os.environ.update(NNIWEB_DATA=str(folder / DATA), DJANGO_SETTINGS_MODULE="nniweb.settings", NNIWEB_DEMO="0")
    if url:
        os.environ["NNIWEB_DATABASE_URL"] = url
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", verbosity=0)


def say(text: str) -> None:
    print(text, flush=True)


def client_of(user: Any) -> APIClient:
    from rest_framework.test import APIClient

    client = APIClient()
    client.force_authenticate(user)
    client.force_login(user)
    return client


class Asking:
    """Asks this process what pages ask. ``server``: PostgreSQL's, None where the database is SQLite's."""

    def __init__(self, report: Report, server: PostgresqlServer | None, with_plans: bool) -> None:
        from nniweb.experiments.models import User

        self._report, self._with_plans = report, with_plans
        self._client = client_of(User.objects.get(username=OWNER))
        self._pid = _pid_of(server)

    def ask(self, questions: Sequence[Question], name: str, experiment: str, before: dict[str, float],
            has_limits: bool = True) -> None:
        for question in questions:
            took, spent, statement, worst = self.one(question.of(experiment, first_trial_of(experiment)))
            self._report.add(f"{question.what}, {name}", took, "ms", limit=question.limit if has_limits else None,
                             beside=f"{spent}; a hundredth: {before[question.what]:.1f} ms; slowest statement "
                                    f"{worst:.1f} ms")
            if self._with_plans and statement and worst > question.limit / 4:
                print(f"{statement[:2000]}\n{plan_of(statement)}\n", flush=True)

    def one(self, address: str) -> tuple[float, ProcessorTime, str, float]:
        """Milliseconds of one answer and its processor time, the medians; its slowest statement, and the milliseconds
        of that.
        """
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        times, spent, slowest = [], [], ("", 0.0)
        for attempt in range(ASKED + 1):
            with CaptureQueriesContext(connection) if attempt == ASKED else nullcontext() as queries:
                before, began = taken(self._pid), time.perf_counter()
                answer = self._client.get(address)
                content = b"".join(answer.streaming_content) if answer.streaming else answer.content
                times.append((time.perf_counter() - began) * 1000)
                spent.append(taken(self._pid) - before)
            assert answer.status_code == 200, f"{address}: {answer.status_code} {content[:300]!r}"
            if queries is not None:
                worst = max(queries.captured_queries, key=lambda query: float(query["time"]), default=None)
                if worst is not None:
                    slowest = (str(worst["sql"]), float(worst["time"]) * 1000)
        # the first one loads what the others find, the last one notes its statements
        middle = ProcessorTime(*(statistics.median(values[1:ASKED]) for values in (
            [each.web for each in spent], [each.database for each in spent])))
        return statistics.median(times[1:ASKED]), middle, *slowest


def plan_of(statement: str) -> str:
    from django.db import connection

    how = "EXPLAIN (ANALYZE, BUFFERS)" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
    with connection.cursor() as cursor:
        cursor.execute(f"{how} {statement}")
        return "\n".join("  ".join(map(str, row)) for row in cursor.fetchall())


def make(options: argparse.Namespace, folder: Path, server: PostgresqlServer | None, report: Report) -> Made:
    """Fill the database and add up what has ended, as a worker does; its hundredth is copied on the way."""
    from benchmarks.large import background
    from benchmarks.large.filling import Size, fill
    from benchmarks.large.questions import OF_ALL, OF_ONE
    from nniweb.experiments.models import User

    owner = User.objects.create_superuser(OWNER)
    asking = Asking(report, server, options.plans)
    [small, *_] = fill(Size(max(1, options.experiments // PART), max(1, options.trials // PART),
                            max(1, options.metrics // PART)), owner, say)
    _analyze()
    before = {question.what: asking.one(question.of(small, first_trial_of(small)))[0]
              for question in (*OF_ALL, *OF_ONE)}
    if options.keep or options.browser:
        _copy(folder, server)
    began, spent = time.monotonic(), taken(_pid_of(server))
    # the small ones stay: ids go on behind them
    [large, *_] = fill(Size(options.experiments, options.trials, options.metrics), owner, say, "b")
    report.add("rows made", (options.trials * 4 + options.metrics) / (time.monotonic() - began), "rows/s",
               beside=f"{taken(_pid_of(server)) - spent}")
    [wide] = fill(Size(1, options.within, options.within * 10), owner, say, "c")
    _analyze()
    report.add("database", database_bytes() / 1e9, "GB")
    if not options.browser:
        asking.ask(OF_ALL, "before ended trials are added up", large, before, has_limits=False)
    background.add_up_all(report)
    made = Made(small, large, wide, options.trials, options.within, before)
    if options.keep:
        made.keep(folder)
    return made


def measure(made: Made, server: PostgresqlServer | None, options: argparse.Namespace, report: Report) -> None:
    from benchmarks.large import background
    from benchmarks.large.filling import Size, fill
    from benchmarks.large.questions import OF_ALL, OF_ONE
    from nniweb.experiments.downloads.export import csv_pieces, json_pieces
    from nniweb.experiments.models import Experiment, User

    asking = Asking(report, server, options.plans)
    within = f"{made.within:,} trials in the experiment"
    asking.ask((*OF_ALL, *OF_ONE), f"{made.trials:,} trials in the database", made.large, made.before)
    asking.ask(OF_ONE, within, made.wide, made.before)
    background.export(made.wide, lambda experiment, trials: json_pieces(experiment, trials, intermediate=True), report,
                      f"JSON, {within}")
    background.export(made.wide, lambda _, trials: csv_pieces(trials, intermediate=True), report, f"CSV, {within}")
    # of its own: the others stay as they are for whoever asks them again
    [removed] = fill(Size(1, made.within, made.within * 10), User.objects.get(username=OWNER), say,
                     f"r{Experiment.objects.order_by('pk').values_list('pk', flat=True).last()}-")
    background.keep_to_retention(removed, report)
    background.delete(removed, report, is_whole=options.keep is not None or options.use is not None)


def _pid_of(server: PostgresqlServer | None) -> int | None:
    return None if server is None else server.pid


def _copy(folder: Path, server: PostgresqlServer | None) -> None:
    """The database as it is, beside itself."""
    _close()
    if server is None:
        shutil.copytree(folder / DATA, folder / DATA_OF_HUNDREDTH)
    else:
        (folder / DATA_OF_HUNDREDTH).mkdir()
        server.execute(f"CREATE DATABASE {HUNDREDTH} TEMPLATE {LARGE}", "template1")


def _close() -> None:
    from django.db import connection

    connection.close()
    if connection.vendor == "postgresql":
        connection.close_pool()  # type: ignore[attr-defined]  # of PostgreSQL's


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
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


def run(options: argparse.Namespace, folder: Path, server: PostgresqlServer | None, report: Report) -> None:
    """Make the database if it is not to be used again, and ask it."""
    set_up(folder, server.url(LARGE) if server else "")
    try:
        made = Made.read(folder) if options.use else make(options, folder, server, report)
        assert made is not None, "checked before"
        if not options.browser:
            measure(made, server, options, report)
    finally:
        _close()
    if options.browser:
        from benchmarks.large import in_browser

        in_browser.measure(
            in_browser.server_of(folder / DATA_OF_HUNDREDTH, server.url(HUNDREDTH) if server else ""),
            in_browser.server_of(folder / DATA, server.url(LARGE) if server else ""), made, report)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="postgresql")
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--metrics", type=int, default=30_000_000)
    parser.add_argument("--within", type=int, default=100_000, help="trials of one experiment beside the others")
    parser.add_argument("--plans", action="store_true", help="print the plans of statements that take long")
    parser.add_argument("--browser", action="store_true", help="open pages in chromium instead of asking over REST")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--keep", type=Path, metavar="FOLDER", help="make the database there, and leave it")
    where.add_argument("--use", type=Path, metavar="FOLDER", help="ask the database that --keep has left there")
    options = parser.parse_args()
    folder = options.use or options.keep
    if options.use and Made.read(folder) is None:
        parser.error(f"--use: there is no whole database in {folder}; --keep {folder} makes one")
    if options.keep and folder.exists() and any(folder.iterdir()):
        parser.error(f"--keep: {folder} is not empty; --use {folder} asks the database there")
    if options.use:
        options.database = "postgresql" if (folder / POSTGRESQL).exists() else "sqlite"
    report = Report(__file__)
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="nniweb-large-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if options.database == "sqlite":
            run(options, folder, None, report)
        else:
            from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer

            kept = folder / POSTGRESQL if options.keep or options.use else None
            with closing(PostgresqlServer(kept=kept)) as server:
                server.start()
                run(options, folder, server, report)
    finally:
        if not (options.keep or options.use):
            shutil.rmtree(folder, ignore_errors=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
