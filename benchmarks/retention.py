"""Whether keepers wait while retention removes what 10,000 trials left, and while their experiment is deleted.

    .venv/bin/python benchmarks/retention.py [--trials 10000] [--metrics 10] [--connections 8] [--rate 80] [--seconds 8]

Keepers of another experiment report at a steady rate all the time: with nothing else going on, while output,
intermediate results and readings of the many trials are removed, with nothing else again, while the experiment's rows
are removed, and once more with nothing else. The time that 99 of 100 answers take meanwhile is compared with that
before and after, in the same run.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.ingest import NO_SHARES, Keepers  # noqa: E402
from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402
from tests.end_to_end.simulated_trials import SimulatedTrials, with_output_of_long_ago  # noqa: E402

#: Milliseconds at most, and so many at most beyond what answers take with nothing else going on: what one piece of the
#: removal takes is what a report waits for at worst, however fast the machine is without it.
P99_LIMIT, LONGER_LIMIT = 150.0, 30.0
#: Seconds of one look at how long answers take; seconds until everything must be gone.
WINDOW, PATIENCE = 3.0, 600.0


def is_there(database: Path, question: str, experiment: str) -> bool:
    """Whether a question about rows of the experiment has an answer; read beside the server."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return connection.execute(f"SELECT 1 FROM experiments_trial t JOIN experiments_experiment e"
                                  f" ON e.id = t.experiment_id WHERE e.public_id = ? {question} LIMIT 1",
                                  [experiment]).fetchone() is not None


def p99(times: list[float]) -> float:
    """Milliseconds."""
    return 1000 * sorted(times)[int(0.99 * len(times))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--metrics", type=int, default=10)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--rate", type=float, default=80.0)
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as name, closing(RunningServer(Path(name) / "data", NO_SHARES)) as server:
        server.start()
        database = Path(name) / "data" / "nniweb.sqlite3"
        many = SimulatedTrials(server, finished=options.trials, curve=options.metrics).experiment
        with_output_of_long_ago(server, many)
        keepers = Keepers(server.port, SimulatedTrials(server, running=options.connections).running)

        def quiet() -> list[float]:
            return keepers.post(1, options.seconds, options.rate)

        def until_gone(question: str) -> tuple[list[float], float]:
            times: list[float] = []
            begin = time.monotonic()
            while is_there(database, question, many):
                assert time.monotonic() < begin + PATIENCE, "it is not gone"
                times += keepers.post(1, WINDOW, options.rate)
            return times, time.monotonic() - begin

        def compared(what: str, ask: Callable[[], object], question: str, before: list[float]) -> list[float]:
            ask()
            times, seconds = until_gone(question)
            after = quiet()
            alone = min(p99(before), p99(after))
            report.add(f"{what}: answers to reports meanwhile, 99 %", p99(times), "ms", limit=P99_LIMIT,
                       beside=f"{p99(before):.0f} and {p99(after):.0f} ms before and after; median "
                              f"{1000 * statistics.median(times):.0f} ms")
            report.add(f"{what}: longer than with nothing else going on, 99 %", p99(times) - alone, "ms",
                       limit=LONGER_LIMIT)
            report.add(f"{what}: until all was gone", seconds, "s")
            return after

        quiet()  # what is made at the first use
        rows = f"{options.trials:,} trials x {options.metrics} results"
        after = compared(f"retention of {rows}", lambda: server.patch(
            f"experiments/{many}/", {"retention": {"output": 30, "readings": 30, "files": 30}}),
            "AND t.files_removed_at IS NULL", quiet())
        compared(f"deletion of {rows}", lambda: server.request("DELETE", f"experiments/{many}/"), "", after)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
