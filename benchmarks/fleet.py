"""50,000 running trials on two webs, a worker and PostgreSQL, all on this machine, for ten minutes.

    .venv/bin/python benchmarks/fleet.py [--keepers 50000] [--minutes 10] [--reporting 0.05]

Each trial has a simulated keeper (benchmarks/simulated_fleet). Most are quiet; 5 % report a metric each second. Their
platform can be asked for the first fifth of the time and is away after that, so that only reports say that trials live.
Meanwhile trials are stopped over REST, chosen at random, and one web is killed and started again. Printed: whether all
reports were answered, how soon, and that nothing was lost; memory of the webs for each trial; the processor time of
each part, also of the simulated keepers, which take it from the server.

PostgreSQL flushes each commit to the disk, as it does where it is used.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
_FOLDER = tempfile.TemporaryDirectory()
os.environ |= {"DJANGO_SETTINGS_MODULE": "nniweb.settings", "NNIWEB_DATA": _FOLDER.name}

import django  # noqa: E402

django.setup()

from benchmarks.reporting import Report  # noqa: E402
from benchmarks.simulated_fleet.platform import AWAY_FILE, STOPS_PORT  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer  # noqa: E402
from tests.end_to_end.scaled_out.redis_server import RedisServer  # noqa: E402
from tests.end_to_end.scaled_out.several_processes import Installation, WebProcess  # noqa: E402

TOKEN = "of-the-fleet"
#: Trials of one experiment, at most.
OF_AN_EXPERIMENT = 1_000
#: Targets: of all reports, so many are answered; 99 % within so many seconds; kilobytes of both webs for a trial;
#: seconds from a stop to its keeper (median).
ANSWERED, WITHIN, MEMORY, STOPPED_WITHIN = 1.0, 1.0, 6.0, 2.0
#: Seconds until the worker must have taken over all jobs.
DRIVEN_WITHIN = 900.0
#: Seconds between two stops.
STOP_EACH = 5.0
#: Parts of the time after which the platform is away, a web is killed, and it is started again.
AWAY_AT, KILLED_AT, BACK_AT = 0.2, 0.5, 0.55


@dataclass
class Stops:
    """Stops trials one after the other over REST, on a thread of its own."""

    web: WebProcess
    names: list[str]
    over: threading.Event = field(default_factory=threading.Event)
    #: Job name -> monotonic time before the request.
    asked_at: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        for name in self.names:
            if self.over.wait(STOP_EACH):
                return
            self.asked_at[name] = time.monotonic()
            self.web.post(f"trials/{name}/actions/cancel/", {})


class Uses:
    """Processor time of processes and their children, also of those that were ended meanwhile."""

    def __init__(self, parts: dict[str, Callable[[], int]]) -> None:
        """``parts``: name -> the pid of its first process now."""
        self._parts = parts
        self._last: dict[tuple[str, int], float] = {}
        self._first: dict[tuple[str, int], float] = {}

    def look(self) -> None:
        for name, pid in self._parts.items():
            try:
                first = psutil.Process(pid())
                processes = [first, *first.children(recursive=True)]
            except psutil.Error:
                continue
            for process in processes:
                try:
                    times = process.cpu_times()
                except psutil.Error:
                    continue
                self._last[name, process.pid] = times.user + times.system
                self._first.setdefault((name, process.pid), self._last[name, process.pid])

    def begin(self) -> None:
        """What was used until now does not count; of processes that come later everything does."""
        self.look()
        known = dict(self._last)
        self._first = _Zero(known)

    def of(self, name: str) -> float:
        """Seconds."""
        return sum(used - self._first[key] for key, used in self._last.items() if key[0] == name)


class _Zero(dict[tuple[str, int], float]):
    """Of processes that were not there at the begin: zero."""

    def __missing__(self, key: tuple[str, int]) -> float:
        return 0.0

    def setdefault(self, key: tuple[str, int], default: float = 0.0) -> float:
        return self[key]


def resident(process: RunningServer, *, most: bool = False) -> int:
    """Bytes of memory of a process: now, or the most that it ever had."""
    name = "VmHWM:" if most else "VmRSS:"
    [line] = [line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1]) * 1024


def make_rows(web: WebProcess, keepers: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.simulated_fleet.rows", str(keepers),
         str(-(-keepers // OF_AN_EXPERIMENT)), TOKEN], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
        stdin=subprocess.DEVNULL, env={**web.environment, "DJANGO_SETTINGS_MODULE": "nniweb.settings"})
    return list(json.loads(done.stdout))


def quantile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else float("inf")


@dataclass
class Run:
    """One measurement: what is started is in ``stack``, which ends it."""

    keepers: int
    seconds: float
    reporting: float
    folder: Path
    stack: ExitStack

    def __post_init__(self) -> None:
        postgresql = PostgresqlServer(durable=True)
        self.stack.callback(postgresql.close)
        self.postgresql = postgresql.start()
        redis = RedisServer()
        self.stack.callback(redis.close)
        redis.start()
        self.away = self.folder / "away"
        self.installation = Installation(self.folder, postgresql.new_database(), postgresql.token, redis.url, {
            "NNIWEB_EXTRA_PLATFORMS": "fleet=benchmarks.simulated_fleet.platform:FleetTrainingService",
            AWAY_FILE: str(self.away)})
        self.stack.callback(self.installation.close)
        self.webs = [self.installation.web(name).start() for name in ("web1", "web2")]
        began = time.monotonic()
        self.names = make_rows(self.webs[0], keepers=self.keepers)
        random.shuffle(self.names)
        postgresql.execute("ANALYZE", self.installation.database_url.rpartition("/")[2])
        print(f"{self.keepers:,} running trials were made in {time.monotonic() - began:.0f} s", flush=True)

    def measure(self) -> dict[str, Any]:
        """The program of the keepers tells what it found; see ``Found`` there."""
        for web in self.webs:
            web.get("experiments/")  # what is loaded once is loaded
        self.before = [resident(web) for web in self.webs]
        keepers = subprocess.Popen([sys.executable, "-m", "benchmarks.simulated_fleet.keepers"], cwd=ROOT, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.stack.callback(_end, keepers)
        assert keepers.stdin is not None
        assert keepers.stdout is not None
        quiet_interval = min(max(self.keepers / 500, 10.0), 120.0)
        keepers.stdin.write(json.dumps({
            "names": self.names, "ports": [web.port for web in self.webs], "token": TOKEN, "seconds": self.seconds,
            "reporting": self.reporting, "spread": quiet_interval}) + "\n")
        keepers.stdin.flush()
        port = json.loads(keepers.stdout.readline())["stops"]
        self.worker = self.installation.worker("worker", **{STOPS_PORT: str(port)}).start()
        self._wait_until_driven()
        self.uses = Uses({"web1": lambda: self.webs[0].pid, "web2": lambda: self.webs[1].pid,
                          "worker": lambda: self.worker.pid, "PostgreSQL": lambda: self.postgresql.pid})
        self.uses.begin()
        stops = Stops(self.webs[0], random.sample(self.names, min(len(self.names) // 4, int(self.seconds / STOP_EACH))))
        stopping = threading.Thread(target=stops.run, daemon=True)
        keepers.stdin.write("begin\n")
        keepers.stdin.flush()
        self.began = began = time.monotonic()
        stopping.start()
        self.unknown = 0
        self.memory: list[int] = [0, 0]
        todo: list[tuple[float, Callable[[], Any]]] = [
            (AWAY_AT, self.away.touch), (KILLED_AT, self._kill), (BACK_AT, lambda: self.webs[1].start(wait=False))]
        while (passed := time.monotonic() - began) < self.seconds:
            while todo and passed >= todo[0][0] * self.seconds:
                todo.pop(0)[1]()
            self._look()
            time.sleep(min(2.0, max(0.0, self.seconds - passed)))
        self.uses.look()
        stops.over.set()
        found: dict[str, Any] = json.loads(keepers.stdout.readline())
        stopping.join(60)
        self._look()
        found["asked_at"] = stops.asked_at
        return found

    def _wait_until_driven(self) -> None:
        self.worker.wait_until(
            lambda: self.installation.rows("SELECT 1 FROM experiments_cluster WHERE name = 'fleet' AND health = 'good'"
                                           " AND lease_holder <> ''"), DRIVEN_WITHIN, "the worker drives the cluster")

    def _kill(self) -> None:
        self.memory[1] = resident(self.webs[1], most=True)
        self.webs[1].kill()

    def _look(self) -> None:
        self.uses.look()
        [(unknown,)] = self.installation.rows("SELECT count(*) FROM experiments_trial WHERE status = 'UNKNOWN'")
        self.unknown = max(self.unknown, unknown)
        for place, web in enumerate(self.webs):
            if web.is_alive:
                self.memory[place] = max(self.memory[place], resident(web, most=True))


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def slow_stretches(durations: list[float], sent_at: list[float], began: float) -> str:
    """When answers took longer than ``WITHIN``: stretches of seconds, with how many such answers each has."""
    seconds = Counter(int(at - began) for duration, at in zip(durations, sent_at, strict=True) if duration > WITHIN)
    stretches: list[tuple[int, int, int]] = []
    for second, count in sorted(seconds.items()):
        if stretches and second - stretches[-1][1] <= 2:
            first, _, before = stretches.pop()
            stretches.append((first, second, before + count))
        else:
            stretches.append((second, second, count))
    most = sorted(sorted(stretches, key=lambda stretch: -stretch[2])[:8])
    return ", ".join(f"{first} to {last + 1} s: {count:,}" for first, last, count in most) or "none"


def checkpoints(log: Path, seconds: float) -> str:
    """When PostgreSQL wrote checkpoints, in seconds since the keepers began, which was so many seconds ago."""
    ago = datetime.now(UTC).timestamp() - seconds
    found = [(datetime.strptime(when, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp() - ago, what)
             for when, what in re.findall(r"^([\d-]+ [\d:]+)\S* \S+ \S+ LOG:  checkpoint (starting|complete)",
                                          log.read_text(errors="replace"), re.MULTILINE)]
    return ", ".join(f"{what} at {at:.0f} s" for at, what in found if at >= 0) or "none"


def tell(report: Report, run: Run, found: dict[str, Any]) -> None:
    """The figures."""
    seconds, keepers = run.seconds, run.keepers
    asked = found["answered"] + found["refused"] + found["unanswered"]
    report.add(f"{keepers:,} keepers, {run.reporting:.0%} with a metric a second: reports answered of those sent",
               found["answered"] / asked, "", limit=ANSWERED, at_least=True,
               beside=f"{found['answered'] / seconds:.0f}/s, {found['quiet'] / seconds:.0f}/s of them quiet; "
                      f"{found['repeated']} sent again, {found['put_off']} of them because the server asked for it")
    due = keepers * run.reporting * seconds
    report.add("metrics that came of those due", sum(number - 1 for number in found["accepted"].values()) / due, "",
               beside="those that were being gathered in the end are missing, and those of stopped trials")
    report.add("answer, 99 %", quantile(found["durations"], 0.99), "s", limit=WITHIN,
               beside=f"median {1000 * quantile(found['durations'], 0.5):.0f} ms, "
                      f"95 % {1000 * quantile(found['durations'], 0.95):.0f} ms")
    print(f"answers that took longer than {WITHIN:g} s, by when they were sent: "
          f"{slow_stretches(found['durations'], found['sent_at'], run.began)}\n"
          f"PostgreSQL's checkpoints: {checkpoints(run.postgresql.log_file, time.monotonic() - run.began)}", flush=True)
    away = (run.began + (KILLED_AT - 0.01) * seconds, run.began + (BACK_AT + 0.05) * seconds)
    report.add("answer, 99 %, before and after a web is away", quantile(
        [duration for duration, at in zip(found["durations"], found["sent_at"], strict=True)
         if not away[0] <= at <= away[1]], 0.99), "s")
    report.add("a keeper with metrics is asked to gather them for, median", quantile(found["gathered"], 0.5), "s")
    report.add("a quiet keeper is asked to report within, median", quantile(found["intervals"], 0.5), "s")
    report.add("trials that were UNKNOWN while their platform was away", run.unknown, "trials", limit=0)
    waits = [found["stopped"][name][0] - at if name in found["stopped"] else float("inf")
             for name, at in found["asked_at"].items()]
    by_answer = sum(by for _, by in found["stopped"].values())
    report.add("from a stop over REST to its keeper, median", quantile(waits, 0.5), "s", limit=STOPPED_WITHIN,
               beside=f"{len(waits)} stops, 95 % {quantile(waits, 0.95):.2f} s, {by_answer} by the answer to a report")
    stored = dict(run.installation.rows("SELECT job_name, accepted FROM experiments_attempt"))
    lost = sum(number > stored.get(name, 0) for name, number in found["accepted"].items())
    [(metrics,)] = run.installation.rows("SELECT count(*) FROM experiments_metric")
    ended = sum(name in found["stopped"] for name in found["accepted"])
    acknowledged = sum(number - 1 for number in found["accepted"].values())
    report.add("trials of which something acknowledged is lost", lost, "trials", limit=0)
    report.add("acknowledged metrics that are not stored", max(0, acknowledged - ended - metrics), "metrics", limit=0)
    memory = (sum(run.memory) - sum(run.before)) / keepers / 1000
    report.add("memory of both webs for a running trial", memory, "kB", limit=MEMORY)
    report.add("memory of the worker for a running trial", resident(run.worker, most=True) / keepers / 1000, "kB",
               beside="all of its memory")
    for name in ("web1", "web2", "worker", "PostgreSQL"):
        report.add(f"processor time of {name}", run.uses.of(name) / seconds, "cores")
    report.add("processor time of the simulated keepers", found["processor_seconds"] / seconds, "cores",
               beside="one process; the machine is shared with it")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keepers", type=int, default=50_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--reporting", type=float, default=0.05, help="the part that sends a metric each second")
    options = parser.parse_args()
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        run = Run(options.keepers, 60 * options.minutes, options.reporting, Path(name), stack)
        tell(report, run, run.measure())
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
