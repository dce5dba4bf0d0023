"""What the points for traces cost where no traces are wanted, and where they are.

    .venv/bin/python benchmarks/traces.py [--points 300000] [--reports 300]

In this process, on a SQLite database of its own. The measure is the processor time in which a keeper's report of one
metric is stored, which is the least of the work that has a point. Off: the three kinds of points, each against an empty
call. On: recording one span for an exporter that keeps nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
_FOLDER = tempfile.TemporaryDirectory()
os.environ |= {"DJANGO_SETTINGS_MODULE": "nniweb.settings", "NNIWEB_DATA": _FOLDER.name}

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.utils import timezone  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from nniweb.experiments.ingest import reports  # noqa: E402
from nniweb.experiments.ingest.one_report import Delivery  # noqa: E402
from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial, User  # noqa: E402
from trainingservice import tracing  # noqa: E402
from trainingservice.receiver.report_reading import read_report  # noqa: E402

#: Of the time that one report takes: at most so much for a point where traces are off, and for one that records.
OFF, ON = 0.002, 0.5


def seconds_each(do: Callable[[], object], rounds: int) -> float:
    """Of the processor, for one call: the best of five tries, because whatever else goes on only adds."""
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        for _ in range(rounds // 5):
            do()
        best = min(best, (time.process_time() - begin) / (rounds // 5))
    return best


def nothing(name: str, **attributes: object) -> None:
    """What a point would cost that is only called."""


def block() -> None:
    with tracing.span("submit", experiment="abcdef123456", trial="fedcba654321", platform="local"):
        pass


def passed() -> None:
    tracing.passed("tell", 0.1, experiment="abcdef123456", trial="fedcba654321", platform="local")


def report_seconds(count: int) -> float:
    call_command("migrate", verbosity=0)
    cluster = Cluster.objects.create(name="nowhere", platform="local", enabled=False)
    now = timezone.now()
    experiment = Experiment.objects.create(
        name="one", owner=User.objects.create_user("ann"), cluster=cluster, seed=1, search_space={},
        tuner={"name": "Random"}, optimize_mode="minimize", trial_command="true", trial_concurrency=8, created_at=now,
        status="RUNNING")
    trial = Trial.objects.create(experiment=experiment, sequence_id=0, created_at=now)
    Attempt.objects.create(trial=trial, job_name="job", created_at=now, stage="submitted", cluster=cluster)
    numbers = iter(range(2, 10 * count))

    def store(entries: Sequence[dict[str, object]]) -> None:
        [answer] = reports.store([Delivery("job", None, read_report(
            {"keeper": {"version": 1, "journal_id": "j"}, "entries": entries}), timezone.now())])
        assert answer.status == 200, answer.body

    store([{"n": 1, "at": 1.0, "type": "started", "pid": 1, "host": "box"}])
    return seconds_each(lambda: store([{"n": (n := next(numbers)), "at": 1.0, "type": "metric", "kind": "PERIODICAL",
                                        "parameter_id": 0, "sequence": n, "value": "0.5"}]), count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=300_000)
    parser.add_argument("--reports", type=int, default=300)
    given = parser.parse_args()
    report = Report(__file__)
    one_report = report_seconds(given.reports)
    called = seconds_each(lambda: nothing("tell", experiment="abcdef123456", trial="fedcba654321", platform="local"),
                          given.points)
    report.add("one report stored", one_report * 1e6, "µs", beside="processor time; the measure of the others")
    assert not any(name.startswith("opentelemetry") for name in sys.modules)
    for what, do in (("off: a block", block), ("off: what took a while", passed), ("off: whether any", tracing.is_on)):
        took = seconds_each(do, given.points)
        report.add(f"{what}, of a report", took / one_report, "", limit=OFF,
                   beside=f"{took * 1e9:,.0f} ns; an empty call takes {called * 1e9:,.0f} ns")

    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    from nniweb.observability.trace_export import TraceExport

    class KeepsNothing(SpanExporter):
        def export(self, spans: Sequence[object]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    export = TraceExport("here", KeepsNothing())
    tracing.record_with(export)
    took = seconds_each(block, max(given.points // 20, 100))
    tracing.record_with(None)
    export.close()
    report.add("on: a span, of a report", took / one_report, "", limit=ON, beside=f"{took * 1e6:,.0f} µs")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
