"""How many keepers' reports the server takes, each answered only when it is durable.

Client processes post reports over kept-alive connections, as keepers do, one after the other: to the real server, and
in the same run to an ASGI function under the same web server that only checks the token, drops doubles and commits in
groups (``benchmarks/limits/bare_ingest.py``). Measured with reports of one metric and of a hundred: posts a second
with nothing else going on, and while a browser shows the experiment and trials start all the time; and how long an
answer takes at half of what the server can do.

    .venv/bin/python benchmarks/ingest.py [--seconds 5] [--connections 16] [--rounds 3]
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.running_server import RunningServer, free_port  # noqa: E402
from tests.end_to_end.simulated_trials import TOKEN, SimulatedTrials  # noqa: E402

#: At least so much of what the bare function reaches: with nothing else going on, and with a page and trials.
QUIET_LIMIT, BUSY_LIMIT = 0.6, 0.4
#: Milliseconds within which 99 of 100 answers have come, at half of the load.
P99_LIMIT = 150.0
METRICS = (1, 100)
#: A keeper here sends as fast as it can, which one keeper may not: it stands for many.
NO_SHARES = {"NNIWEB_KEEPER_CALLS": "0", "NNIWEB_KEEPER_MB": "0", "NNIWEB_TRIAL_MB": "0"}


def post_for(port: int, job_name: str, first: int, metrics: int, seconds: float, pause: float,
             results: multiprocessing.Queue[tuple[str, int, list[float]]]) -> None:
    """One keeper: posts reports of so many metrics, each as soon as the last was answered (or ``pause`` later)."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times: list[float] = []
    n = first
    begin = time.monotonic()
    while (now := time.monotonic()) < begin + seconds:
        entries = [{"n": n + index, "at": time.time(), "type": "metric", "kind": "PERIODICAL", "parameter_id": 0,
                    "sequence": n + index, "value": "0.12345678"} for index in range(metrics)]
        n += metrics
        body = json.dumps({"keeper": {"version": 1, "journal_id": job_name, "host": "box", "pid": 1},
                           "sent_at": time.time(), "entries": entries})
        connection.request("POST", f"/api/trialkeeper/v1/trials/{job_name}/reports", body,
                           {"Authorization": f"Bearer {TOKEN}"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        times.append(time.monotonic() - now)
        assert response.status == 200, answer
        assert answer["accepted"] == n - 1, answer
        if pause:
            time.sleep(max(0.0, pause - (time.monotonic() - now)))
    results.put((job_name, n - 1, times))


class Keepers:
    """Reporting trials, each with its count of what was accepted. ``port``: of the server they report to."""

    def __init__(self, port: int, names: list[str]) -> None:
        self._port = port
        self._accepted = dict.fromkeys(names, 0)

    def post(self, metrics: int, seconds: float, rate: float = 0.0) -> list[float]:
        """The seconds that the answers took, sorted. ``rate``: posts a second of all together; 0: as many as can be."""
        results: multiprocessing.Queue[tuple[str, int, list[float]]] = multiprocessing.Queue()
        pause = len(self._accepted) / rate if rate else 0.0
        clients = [multiprocessing.Process(target=post_for, args=(self._port, name, first + 1, metrics, seconds, pause,
                                                                  results))
                   for name, first in self._accepted.items()]
        for client in clients:
            client.start()
        found: list[float] = []
        for _ in clients:
            name, self._accepted[name], times = results.get()
            found += times
        for client in clients:
            client.join()
        return sorted(found)


@contextmanager
def bare_server(database: Path) -> Iterator[int]:
    """The bare function, served, on a new database; yields its port."""
    port = free_port()
    server = subprocess.Popen([sys.executable, str(ROOT / "benchmarks" / "limits" / "bare_ingest.py"),
                               str(database), str(port), TOKEN], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline().strip() == "listening"
        yield port
    finally:
        server.terminate()
        server.wait()


@contextmanager
def page_and_trials(server: RunningServer, experiment: str, folder: Path) -> Iterator[None]:
    """While it lasts a browser shows the experiment, and trials of another one start and end all the time."""
    from playwright.sync_api import sync_playwright

    from tests.end_to_end.browser.conftest import sign_in
    from tests.end_to_end.browser.one_browser import ARGUMENTS, CHROMIUM

    folder.mkdir()
    server.launch({"trialCommand": "true", "trialCodeDirectory": str(folder), "trialConcurrency": 2,
                   "tuner": {"name": "Random"}, "trainingService": {"platform": "local"},
                   "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}}, folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        page = browser.new_context(base_url=server.url).new_page()
        sign_in(page, server)
        page.goto(f"/experiments/{experiment}/trials/")
        page.wait_for_selector('#live[data-state="live"]')
        yield
        browser.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    report = Report(__file__)

    with tempfile.TemporaryDirectory() as name, closing(RunningServer(Path(name) / "data", NO_SHARES)) as server:
        server.start()
        folder = Path(name)

        trials = SimulatedTrials(server, running=options.connections)
        ours = Keepers(server.port, trials.running)

        def rate(keepers: Keepers, metrics: int) -> float:
            return len(keepers.post(metrics, options.seconds)) / options.seconds

        def beside_bare(what: str, metrics: int, limit: float) -> float:
            found: list[tuple[float, float]] = []
            for turn in range(options.rounds):
                with bare_server(folder / f"{what[:1]}{metrics}-{turn}.sqlite3") as port:
                    bare = rate(Keepers(port, [f"t{number}" for number in range(options.connections)]), metrics)
                found.append((rate(ours, metrics), bare))
            ratio = statistics.median(here / bare for here, bare in found)
            here = statistics.median(here for here, _ in found)
            report.add(f"reports of {metrics} a POST, {what}", ratio, "x bare ASGI", limit=limit, at_least=True,
                       beside=f"{here:.0f} posts/s beside {statistics.median(bare for _, bare in found):.0f}")
            return here

        reached = {metrics: beside_bare("nothing else going on", metrics, QUIET_LIMIT) for metrics in METRICS}
        for metrics in METRICS:
            times = ours.post(metrics, options.seconds, reached[metrics] / 2)
            report.add(f"reports of {metrics} a POST at half of that load, answer, 99 %",
                       1000 * times[int(0.99 * len(times))], "ms", limit=P99_LIMIT,
                       beside=f"median {1000 * statistics.median(times):.0f} ms")
        with page_and_trials(server, trials.experiment, folder / "code"):
            for metrics in METRICS:
                beside_bare("a page open and trials starting", metrics, BUSY_LIMIT)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
