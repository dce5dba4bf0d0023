"""What a report costs with one web and with two, on PostgreSQL, and whether two webs wait for each other.

Trials report a metric each second, or several, all the time (benchmarks/simulated_fleet), once to one web and once to
two, in turns; all are of one experiment, then of fifty. They do not gather metrics as a web that is the limit asks for:
each report has one. Measured is the processor time of the webs, of PostgreSQL and of the simulated keepers for each
report, and how often a look at PostgreSQL finds one of its processes waiting for a lock of another one.

How many more reports two webs take than one is measured where the webs are the limit: each is kept to a part of a core
by a control group, so that PostgreSQL and the simulated keepers have what they need beside them.

    .venv/bin/python benchmarks/several_webs.py [--keepers 1500] [--seconds 20] [--rounds 3] [--share 0.2]

PostgreSQL flushes each commit to the disk, as it does where it is used.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
_FOLDER = tempfile.TemporaryDirectory()
os.environ |= {"DJANGO_SETTINGS_MODULE": "nniweb.settings", "NNIWEB_DATA": _FOLDER.name}

import django  # noqa: E402

django.setup()

from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer  # noqa: E402
from tests.end_to_end.scaled_out.redis_server import RedisServer  # noqa: E402
from tests.end_to_end.scaled_out.several_processes import Installation, WebProcess  # noqa: E402

TOKEN = "of-the-fleet"
#: Targets: reports of two webs, of those of one; processor time of webs and PostgreSQL for a report, of that with one
#: web; the part of looks that find a process waiting for another one's lock.
MORE, COST, WAITING = 1.6, 1.15, 0.02
#: Seconds between two looks at what PostgreSQL's processes wait for.
LOOK = 0.02
#: Microseconds of the period in which a web may use its part of a core: short, so that it never stands for long.
PERIOD = 10_000
#: Seconds that are not counted at the beginning.
WARM = 3.0


@dataclass(frozen=True)
class Run:
    """``seconds`` are of the clock; the others are processor seconds."""

    seconds: float
    reports: int
    webs: float
    postgresql: float
    keepers: float
    looks: int
    waiting: int

    @property
    def rate(self) -> float:
        return self.reports / self.seconds

    @property
    def cost(self) -> float:
        """Milliseconds of webs and PostgreSQL for a report."""
        return 1000 * (self.webs + self.postgresql) / self.reports

    @property
    def in_words(self) -> str:
        each = [f"{1000 * used / self.reports:.3f} ms {of}" for used, of in (
            (self.webs, "webs"), (self.postgresql, "PostgreSQL"), (self.keepers, "simulated keepers"))]
        return f"{self.rate:.0f} reports/s; of one report {', '.join(each)}"


def used_by(*pids: int) -> float:
    """Processor seconds of processes, of their children, and of children that have ended."""
    found = 0.0
    for pid in pids:
        process = psutil.Process(pid)
        times = process.cpu_times()
        found += times.user + times.system + times.children_user + times.children_system
        for child in process.children(recursive=True):
            try:
                of_child = child.cpu_times()
            except psutil.NoSuchProcess:
                continue
            found += of_child.user + of_child.system
    return found


class Looks:
    """Looks again and again whether one of PostgreSQL's processes waits for a lock, on a thread of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._over = threading.Event()
        self.looks = self.waiting = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Looks:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._over.wait(LOOK):
                [(waiting,)] = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchall()
                self.looks += 1
                self.waiting += bool(waiting)


@contextmanager
def kept_to(share: float, webs: list[WebProcess]) -> Iterator[None]:
    """Each web gets this part of a core, with control groups of either version."""
    folder = Path("/sys/fs/cgroup")
    is_old = not (folder / "cgroup.controllers").exists()
    groups = [folder / ("cpu" if is_old else "") / f"several-webs-{os.getpid()}-{web.name}" for web in webs]
    used = int(share * PERIOD)
    try:
        for web, group in zip(webs, groups, strict=True):
            group.mkdir()
            if is_old:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD))
                (group / "cpu.cfs_quota_us").write_text(str(used))
            else:
                (group / "cpu.max").write_text(f"{used} {PERIOD}")
            (group / "cgroup.procs").write_text(str(web.pid))
        yield
    finally:
        back = folder / ("cpu" if is_old else "") / "cgroup.procs"
        for web, group in zip(webs, groups, strict=True):
            if group.exists():
                back.write_text(str(web.pid))
                group.rmdir()


class Bench:
    def __init__(self, options: argparse.Namespace, folder: Path, stack: ExitStack) -> None:
        self._options = options
        self._stack = stack
        self._server = PostgresqlServer(durable=True)
        stack.callback(self._server.close)
        self._server.start()
        redis = RedisServer()
        stack.callback(redis.close)
        redis.start()
        self._installation = Installation(folder, self._server.new_database(), self._server.token, redis.url, {
            "NNIWEB_EXTRA_PLATFORMS": "fleet=benchmarks.simulated_fleet.platform:FleetTrainingService"})
        stack.callback(self._installation.close)
        self.webs = [self._installation.web(name).start() for name in ("web1", "web2")]
        for web in self.webs:
            web.get("experiments/")  # what is loaded once is loaded

    def rows(self, experiments: int) -> list[str]:
        """Job names of running trials."""
        made = subprocess.run(
            [sys.executable, "-m", "benchmarks.simulated_fleet.rows", str(self._options.keepers), str(experiments),
             TOKEN, f"fleet{experiments}"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL,
            env={**self.webs[0].environment, "DJANGO_SETTINGS_MODULE": "nniweb.settings"})
        self._server.execute("VACUUM ANALYZE", self._installation.database_url.rpartition("/")[2])
        return list(json.loads(made.stdout))

    def run(self, names: list[str], webs: list[WebProcess]) -> Run:
        """All of them report for a while."""
        seconds = self._options.seconds
        keepers = subprocess.Popen([sys.executable, "-m", "benchmarks.simulated_fleet.keepers"], cwd=ROOT, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        try:
            assert keepers.stdin is not None
            assert keepers.stdout is not None
            keepers.stdin.write(json.dumps({
                "names": names, "ports": [web.port for web in webs], "token": TOKEN, "seconds": WARM + seconds,
                "reporting": 1.0, "spread": 1.0, "gathers": False}) + "\n")
            keepers.stdin.flush()
            keepers.stdout.readline()
            keepers.stdin.write("begin\n")
            keepers.stdin.flush()
            time.sleep(WARM)
            parts = ([web.pid for web in webs], [self._server.pid], [keepers.pid])
            before, began = [used_by(*pids) for pids in parts], time.monotonic()
            reports = self._reports()
            with Looks(self._installation.database_url) as looks:
                time.sleep(seconds - 0.5)
            reports, took = self._reports() - reports, time.monotonic() - began
            used = [used_by(*pids) - was for pids, was in zip(parts, before, strict=True)]
            json.loads(keepers.stdout.readline())
        finally:
            if keepers.poll() is None:
                keepers.kill()
            keepers.wait()
        return Run(took, reports, *used, looks.looks, looks.waiting)

    def _reports(self) -> int:
        """How many have been stored: each has one entry."""
        [(accepted,)] = self._installation.rows("SELECT sum(accepted) FROM experiments_attempt")
        return int(accepted)


def median(runs: list[Run], of: str) -> float:
    return statistics.median(getattr(run, of) for run in runs)


def measure(report: Report, bench: Bench, options: argparse.Namespace, experiments: int) -> None:
    names = bench.rows(experiments)
    where = "one experiment" if experiments == 1 else f"{experiments} experiments"
    one: list[Run] = []
    two: list[Run] = []
    with kept_to(options.share, bench.webs):
        for _ in range(options.rounds):
            one.append(bench.run(names, bench.webs[:1]))
            print(f"  one web: {one[-1].in_words}", flush=True)
            two.append(bench.run(names, bench.webs))
            print(f"  two webs: {two[-1].in_words}", flush=True)
    report.add(f"{where}: reports of two webs, of those of one",
               statistics.median(b.rate / a.rate for a, b in zip(one, two, strict=True)), "x", limit=MORE,
               at_least=True, beside=f"each web has {options.share:g} of a core and uses "
                                     f"{median(one, 'webs') / median(one, 'seconds'):.2f} alone, "
                                     f"{median(two, 'webs') / median(two, 'seconds') / 2:.2f} beside the other")
    report.add(f"{where}: processor time of webs and PostgreSQL for a report, two webs of one",
               statistics.median(b.cost / a.cost for a, b in zip(one, two, strict=True)), "x", limit=COST,
               beside=f"one web: {one[-1].in_words}; two webs: {two[-1].in_words}")
    report.add(f"{where}: looks that find PostgreSQL waiting for a lock, two webs",
               sum(run.waiting for run in two) / sum(run.looks for run in two), "", limit=WAITING,
               beside=f"one web: {sum(run.waiting for run in one) / sum(run.looks for run in one):.3f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keepers", type=int, default=1_500, help="trials that report as often as once a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.2, help="the part of a core that each web has")
    parser.add_argument("--experiments", type=int, nargs="+", default=[1, 50])
    options = parser.parse_args()
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        bench = Bench(options, Path(name), stack)
        for experiments in options.experiments:
            measure(report, bench, options, experiments)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
