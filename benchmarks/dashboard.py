"""How fast an experiment's pages are at 10,000 trials of 100 intermediate results, and at 100,000 of 10.

    .venv/bin/python benchmarks/dashboard.py [10000x100 ...]

Fills a database, serves it, and opens the pages in Debian's chromium: time until chart and table stand
there (first visit, nothing cached), bytes transferred, time to sort and to filter the table of trials,
and the longest task on the page's main thread while 1,000 metrics a second arrive (250 running trials,
each reporting four). Every figure is printed beside the limit stated below; ends with 1 above any.

What others needed for the like with 10,000 trials of 100 results on two cores: NNI's overview 2.9 s and
27 MB, its trial page 4.0 s and 28 MB; Optuna Dashboard's list of trials 3.4 s and 20 MB.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import requests  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from tests.end_to_end.browser.conftest import ARGUMENTS, CHROMIUM, sign_in_link  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402
from tests.end_to_end.simulated_trials import SimulatedTrials  # noqa: E402

#: Trials x intermediate results -> seconds of the first view, of a filter or another order.
SIZES = {(10_000, 100): (1.0, 0.3), (100_000, 10): (2.0, 2.0)}
#: Most bytes of the first view, nothing cached.
MOST_BYTES = 1_000_000
#: Longest task on the main thread while changes pour in, in seconds.
LONGEST_TASK = 0.2
#: Running trials, reports of each a second, metrics of each report.
RUNNING, REPORTS, METRICS = 250, 1, 4
#: How long changes pour in, in seconds.
BURST = 10.0

#: Resolves with the milliseconds since the navigation began at which chart and table of the overview are drawn.
DRAWN = """() => new Promise((done) => {
    const look = () => {
        const chart = globalThis.echarts?.getInstanceByDom(document.getElementById("result-chart"));
        const points = chart?.getOption()?.series?.[0]?.data?.length ?? 0;
        const drawn = points > 0 && document.querySelector("#top-trials tbody tr");
        requestAnimationFrame(drawn ? () => done(performance.now()) : look);
    };
    look();
})"""
#: Resolves with the milliseconds since the navigation began at which the table of trials is there.
TABLE = """() => new Promise((done) => {
    const look = () => {
        const drawn = document.querySelector("#trials-table tbody tr");
        requestAnimationFrame(drawn ? () => done(performance.now()) : look);
    };
    look();
})"""
WATCH_TASKS = """() => {
    window.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((task) => {
        window.longest = Math.max(window.longest, task.duration);
    })).observe({type: "longtask"});
}"""


class Verdicts:
    """Figures beside their limits."""

    def __init__(self) -> None:
        self.above = 0

    def say(self, what: str, figure: float, limit: float, unit: str) -> None:
        self.above += figure > limit
        print(f"  {what:58} {figure:10.3f} {unit}  {figure / limit:5.2f} x the limit of {limit:g} {unit}")


class Burst:
    """All running trials report, each ``REPORTS`` times a second, until ``stop``."""

    def __init__(self, trials: SimulatedTrials) -> None:
        self._end = threading.Event()
        self._trials = trials
        self.reports = 0
        self._lock = threading.Lock()
        self._posters = [threading.Thread(target=self._post, args=(trials.running[place::8],)) for place in range(8)]
        self._began = time.monotonic()
        for poster in self._posters:
            poster.start()

    def _post(self, names: list[str]) -> None:
        with requests.Session() as session:
            while not self._end.is_set():
                began = time.monotonic()
                for name in names:
                    self._trials.report(name, [0.1, 0.2, 0.3, 0.4][:METRICS], session)
                    with self._lock:
                        self.reports += 1
                    if self._end.is_set():
                        return
                self._end.wait(max(0.0, 1 / REPORTS - (time.monotonic() - began)))

    def stop(self) -> float:
        """The metrics per second that were taken in."""
        seconds = time.monotonic() - self._began
        self._end.set()
        for poster in self._posters:
            poster.join()
        return METRICS * self.reports / seconds


def measure(count: int, curve: int, folder: Path, browser: Any, verdicts: Verdicts) -> None:
    first_view, sorting = SIZES.get((count, curve), (1.0, 0.3))
    server = RunningServer(folder / "data")
    try:
        server.start()
        began = time.monotonic()
        trials = SimulatedTrials(server, finished=count, curve=curve, running=RUNNING)
        print(f"{count} trials of {curve} intermediate results (filled in {time.monotonic() - began:.0f} s), "
              f"load {os.getloadavg()[0]:.1f}")
        context = browser.new_context(base_url=server.url)
        page = context.new_page()
        page.goto(sign_in_link(server))
        for name, path, ready in (("overview", "", DRAWN), ("trials", "trials/", TABLE)):
            page.goto("/sign-in/")
            session = context.new_cdp_session(page)
            session.send("Network.enable")
            session.send("Network.clearBrowserCache")
            sizes: list[float] = []
            session.on("Network.loadingFinished", lambda event, sizes=sizes: sizes.append(event["encodedDataLength"]))
            page.goto(f"/experiments/{trials.experiment}/{path}", wait_until="commit")
            verdicts.say(f"{name}: first view", page.evaluate(ready) / 1000, first_view, "s")
            page.wait_for_load_state("networkidle")
            verdicts.say(f"{name}: transferred", sum(sizes) / 1e6, MOST_BYTES / 1e6, "MB")
            session.detach()
        for what, query in (("by result", "order=-final_value"), ("by duration", "order=-duration"),
                            ("status", "status=FAILED"), ("text in parameters", "q=tanh")):
            page.goto(f"/experiments/{trials.experiment}/trials/?{query}", wait_until="commit")
            verdicts.say(f"trials: {what}", page.evaluate(TABLE) / 1000, sorting, "s")
        for name, path, ready in (("overview", "", DRAWN), ("trials", "trials/", TABLE)):
            page.goto(f"/experiments/{trials.experiment}/{path}")
            page.evaluate(ready)
            page.wait_for_selector('#live[data-state="live"]')
            page.wait_for_timeout(1000)
            page.evaluate(WATCH_TASKS)
            burst = Burst(trials)
            page.wait_for_timeout(BURST * 1000)
            longest = page.evaluate("window.longest") / 1000
            rate = burst.stop()
            verdicts.say(f"{name}: longest task while {rate:.0f} metrics/s arrive", longest, LONGEST_TASK, "s")
        context.close()
    finally:
        server.close()


def main(sizes: list[tuple[int, int]]) -> int:
    verdicts = Verdicts()
    print(f"{os.cpu_count()} cores, chromium and server share them")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        for count, curve in sizes:
            with tempfile.TemporaryDirectory() as folder:
                measure(count, curve, Path(folder), browser, verdicts)
        browser.close()
    return 1 if verdicts.above else 0


if __name__ == "__main__":
    wanted = [(int(count), int(curve)) for count, _, curve in (text.partition("x") for text in sys.argv[1:])]
    sys.exit(main(wanted or list(SIZES)))
