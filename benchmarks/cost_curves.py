"""How the server's cost grows with trials, metrics, experiments and open pages, on SQLite and on PostgreSQL.

    .venv/bin/python benchmarks/cost_curves.py [--databases sqlite,postgresql] [--rounds 3]

Each is measured at four sizes, twice as large each time: processor time of the server's process (the median of the
rounds), and its memory. The slope is that of the line through the logarithms: 1 where twice as much costs twice as
much; more than 1.1 is a bug or needs an explanation. What costs the same whatever the size has a slope near 0.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import pytest  # noqa: E402
import requests  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

from benchmarks.long_histories import EXPERIMENTS  # noqa: E402
from benchmarks.reporting import Report, in_short  # noqa: E402
from tests.end_to_end.running_server import RunningServer, sign_in_by_link  # noqa: E402
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer  # noqa: E402
from tests.end_to_end.simulated_trials import SimulatedTrials  # noqa: E402

LIMIT = 1.1
TRIALS, METRICS, EXPERIMENT_COUNTS, PAGES = (25, 50, 100, 200), (2000, 4000, 8000, 16000), (250, 500, 1000, 2000), \
    (5, 10, 20, 40)


def processor_seconds(server: RunningServer) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kilobytes(server: RunningServer) -> int:
    """Memory of the server's process."""
    return int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1000


def slope(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """Of the line of least squares through the logarithms."""
    points = [(math.log(size), math.log(max(cost, 1e-3))) for size, cost in zip(sizes, costs, strict=True)]
    middle_x, middle_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, _ in points)


def trials(server: RunningServer, folder: Path, count: int) -> None:
    experiment = server.launch({
        "trialCommand": "true", "trialCodeDirectory": str(folder), "trialConcurrency": 4, "maxTrialNumber": count,
        "tuner": {"name": "Random"}, "trainingService": {"platform": "local"},
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}}, folder)
    while server.get(f"experiments/{experiment}/")["status"] != "DONE":
        time.sleep(0.5)


def metrics(server: RunningServer, _: Path, count: int) -> None:
    running = SimulatedTrials(server, running=10)
    with requests.Session() as session:
        for _turn in range(count // 100):
            for name in running.running:
                running.report(name, [0.5] * 10, session)


def experiments(server: RunningServer, _: Path, count: int) -> None:
    """A list of so many, looked at page by page: what one page costs is in long_histories.py."""
    missing = count - server.get("experiments/", page_size=1)["count"]
    if missing > 0:
        subprocess.run([sys.executable, "-c", EXPERIMENTS, str(missing)], cwd=ROOT, check=True,
                       env={**server.environment, "DJANGO_SETTINGS_MODULE": "nniweb.settings"})
    for page in range(1, count // 50 + 1):
        server.get("experiments/", page_size=50, page=page)


def pages(server: RunningServer, _: Path, count: int) -> None:
    running = SimulatedTrials(server, running=10)
    cookie = {"Cookie": f"sessionid={session_of(server)}"}
    watched = json.dumps({"watch": f"experiment/{running.experiment}", "since": 0})
    with ExitStack() as stack:
        for _number in range(count):
            page = stack.enter_context(connect(server.url.replace("http", "ws", 1) + "/live/", proxy=None,
                                               origin=server.url, additional_headers=cookie))  # type: ignore[arg-type]
            page.send(watched)
            threading.Thread(target=lambda page=page: list(page), daemon=True).start()  # takes its frames
        with requests.Session() as session:
            for turn in range(20):
                for name in running.running:
                    running.report(name, [float(turn)], session)
                time.sleep(0.1)
        time.sleep(0.5)


@functools.cache
def session_of(server: RunningServer) -> str:
    """A session of the first user, by a link for one use."""
    from tests.end_to_end.browser.conftest import sign_in_link

    with requests.Session() as session:
        session.trust_env = False
        sign_in_by_link(session, sign_in_link(server))
        return session.cookies["sessionid"]


CURVES: dict[str, tuple[Callable[[RunningServer, Path, int], None], tuple[int, ...]]] = {
    "trials": (trials, TRIALS), "metrics": (metrics, METRICS),
    "experiments in the list": (experiments, EXPERIMENT_COUNTS), "open pages": (pages, PAGES)}
#: So short that the smallest would be over before the processor, which is fast for a moment, is as slow as for the
#: largest: each size is done so often that it takes as long.
SHORT = {"experiments in the list"}


@contextmanager
def installation(kind: str, folder: Path) -> Iterator[RunningServer]:
    """A running server on a new database."""
    with ExitStack() as stack:
        environment = {}
        if kind == "postgresql":
            database = stack.enter_context(closing(PostgresqlServer())).start()
            database.execute("CREATE DATABASE curves")
            environment["NNIWEB_DATABASE_URL"] = database.url("curves")
        server = stack.enter_context(closing(RunningServer(folder / kind / "data", environment)))
        yield server.start()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("--curves", default=",".join(CURVES))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    report = Report(__file__)
    for kind in options.databases.split(","):
        with tempfile.TemporaryDirectory() as name:
            try:
                with installation(kind, Path(name)) as server:
                    code = Path(name) / "code"
                    code.mkdir()
                    for what in options.curves.split(","):
                        work, sizes = CURVES[what]
                        work(server, code, sizes[0])  # what is loaded or made once is there
                        before = kilobytes(server)
                        spent, memory = [], []
                        for size in sizes:
                            costs = []
                            times = sizes[-1] // size if what in SHORT else 1
                            for _ in range(options.rounds):
                                seconds = processor_seconds(server)
                                for _time in range(times):
                                    work(server, code, size)
                                costs.append((processor_seconds(server) - seconds) / times)
                            spent.append(statistics.median(costs))
                            memory.append(kilobytes(server) / 1000)
                        report.add(f"{kind}: {what}, slope of the processor time", slope(sizes, spent), "", limit=LIMIT,
                                   beside=" ".join(f"{size}: {in_short(cost)} s"
                                                   for size, cost in zip(sizes, spent, strict=True)))
                        report.add(f"{kind}: {what}, slope of the memory", slope(sizes, memory), "", limit=LIMIT,
                                   beside=" ".join(f"{size}: {cost:.0f} MB"
                                                   for size, cost in zip(sizes, memory, strict=True))
                                   + f"; before them {before / 1000:.0f} MB")
            except pytest.skip.Exception as reason:
                print(f"{kind} is left out: {reason}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
