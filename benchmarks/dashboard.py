"""How fast an experiment's pages are at 10,000 trials of 100 intermediate results, at 100,000 of 10, and at 3,000 of
10 with 100 parameters.

    .venv/bin/python benchmarks/dashboard.py [10000x100 3000x10x100 ...]

Fills a database, serves it, and opens the pages in Debian's chromium: time until chart and table stand
there (first visit, nothing cached), bytes transferred, time to sort and to filter the table of trials (in
the open page, and by a link), and the longest task on the page's main thread and the frames it gets while
1,000 metrics a second arrive (250 running trials, each reporting four). Every figure is printed beside its
limit, as stated below; ends with 1 above any. How long a metric takes to the page: live_latency.py.

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

from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.browser.conftest import sign_in  # noqa: E402
from tests.end_to_end.browser.one_browser import ARGUMENTS, CHROMIUM  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402
from tests.end_to_end.simulated_trials import SimulatedTrials  # noqa: E402

#: Trials x intermediate results x parameters (0: four plain ones) -> seconds of the first view, of a filter or another
#: order.
SIZES = {(10_000, 100, 0): (1.0, 0.3), (100_000, 10, 0): (2.0, 2.0), (3_000, 10, 100): (1.0, 0.5)}
#: Seconds until all trials stand across their parameters, and until what matters is worked out beside it.
PARAMETERS, IMPORTANCE = 2.0, 10.0
#: Frames a second that changes cost the page at most, however many there are.
MOST_FRAMES = 4.0
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
#: The same for lines across all parameters.
ACROSS = """() => new Promise((done) => {
    const look = () => {
        const drawn = document.querySelector("#parallel-chart canvas") && document.querySelector("#chosen tbody tr");
        requestAnimationFrame(drawn ? () => done(performance.now()) : look);
    };
    look();
})"""
#: The same for the table of what matters.
MATTERS = """() => new Promise((done) => {
    const look = () => requestAnimationFrame(
        document.querySelector("#importance:not([hidden]) tbody tr") ? () => done(performance.now()) : look);
    look();
})"""
#: The same for trials side by side.
SIDE_BY_SIDE = """() => new Promise((done) => {
    const look = () => {
        const drawn = document.querySelector("#compare-chart canvas")
            && document.querySelector("#compare-parameters td");
        requestAnimationFrame(drawn ? () => done(performance.now()) : look);
    };
    look();
})"""
#: The same for the form of a new experiment with the search space of another one.
SPACE = """() => new Promise((done) => {
    const look = () => requestAnimationFrame(
        document.querySelector("#space-rows .space-row") ? () => done(performance.now()) : look);
    look();
})"""
#: The same for the curve of one trial, and what it wrote.
CURVE = """() => new Promise((done) => {
    const look = () => requestAnimationFrame(
        document.querySelector("#metric-chart canvas") ? () => done(performance.now()) : look);
    look();
})"""
#: Resolves with the milliseconds from asking for another table, in the open page, until it stands there.
ANOTHER_TABLE = """([filter, heading]) => new Promise((done) => {
    const before = document.getElementById("trials-table");
    const began = performance.now();
    const look = () => requestAnimationFrame(
        document.getElementById("trials-table") === before ? look : () => done(performance.now() - began));
    if (heading) [...before.querySelectorAll("th a")].find((link) => link.textContent === heading).click();
    else {
        const form = document.getElementById("trial-filter");
        form.elements.filter.value = filter;
        form.requestSubmit();
    }
    look();
})"""
#: Filters as people type them, and what they are called in the report.
FILTERS = {"status and number": "status = FAILED and lr < 0.01", "a word of a parameter": "act = tanh and result > 0.9",
           "text anywhere": "such", "nothing fits": "lr > 5"}
WATCH_TASKS = """() => {
    window.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((task) => {
        window.longest = Math.max(window.longest, task.duration);
    })).observe({type: "longtask"});
}"""


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


class Measured:
    """One browser in front of one filled server."""

    def __init__(self, server: RunningServer, trials: SimulatedTrials, browser: Any, report: Report,
                 size: tuple[int, int, int]) -> None:
        self._first_view, self._another_table = SIZES.get(size, (1.0, 0.3))
        self._trials, self._report = trials, report
        self._size = f"{size[0]:,} x {size[1]}" + (f", {size[2]} parameters" if size[2] else "")
        self._address = f"/experiments/{trials.experiment}/"
        self._context = browser.new_context(base_url=server.url)
        self._page = self._context.new_page()
        #: What came over websockets.
        self._frames: list[Any] = []
        self._page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: self._frames.append(frame)))
        sign_in(self._page, server)

    def close(self) -> None:
        self._context.close()

    def _say(self, what: str, milliseconds: float, limit: float) -> None:
        self._report.add(f"{self._size}, {what}", milliseconds / 1000, "s", limit=limit)

    def _view_first(self, name: str, address: str, ready: str) -> None:
        """Nothing cached: neither in the browser nor, of this experiment, on the server."""
        self._page.goto("/sign-in/")
        session = self._context.new_cdp_session(self._page)
        session.send("Network.enable")
        session.send("Network.clearBrowserCache")
        sizes: list[float] = []
        session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        self._page.goto(address, wait_until="commit")
        self._say(f"{name}: first view", self._page.evaluate(ready), self._first_view)
        self._page.wait_for_load_state("networkidle")
        self._report.add(f"{self._size}, {name}: transferred", sum(sizes) / 1e6, "MB", limit=MOST_BYTES / 1e6)
        session.detach()

    def pages_of_many_parameters(self) -> None:
        experiment = self._trials.experiment
        self._page.goto("/new/")  # what a server loads for its first form is no matter of many parameters
        for name, address, ready in (
                ("overview", self._address, DRAWN), ("trials", f"{self._address}trials/", TABLE),
                ("hyper-parameters", f"{self._address}parameters/", ACROSS),
                ("compare", f"{self._address}compare/?trials=1,2,3,4,5", SIDE_BY_SIDE),
                ("a trial", f"/trials/{self._trials.one_finished}/", CURVE),
                ("new experiment", f"/new/?clone={experiment}", SPACE)):
            self._view_first(name, address, ready)
        self._page.goto(f"{self._address}parameters/", wait_until="commit")
        self._say("hyper-parameters: what matters is there", self._page.evaluate(MATTERS), IMPORTANCE)
        self._page.goto(f"{self._address}trials/")
        self._page.wait_for_selector("#live[data-state=live]")
        for heading in ("Result", "encoder_block/layer0/dropout"):
            self._say(f"trials: sorted by {heading}, in the page", self._page.evaluate(ANOTHER_TABLE, ["", heading]),
                      self._another_table)

    def first_views(self) -> None:
        for name, path, ready in (("overview", "", DRAWN), ("trials", "trials/", TABLE)):
            self._view_first(name, self._address + path, ready)
        self._page.goto(f"{self._address}parameters/", wait_until="commit")
        self._say("hyper-parameters: first view", self._page.evaluate(ACROSS), PARAMETERS)
        self._say("hyper-parameters: what matters is there", self._page.evaluate(MATTERS), IMPORTANCE)
        self._page.goto(f"{self._address}parameters/", wait_until="commit")
        self._say("hyper-parameters: opened again", self._page.evaluate(ACROSS), self._first_view)
        self._page.goto(f"/trials/{self._trials.one_finished}/", wait_until="commit")
        self._say("a trial: first view", self._page.evaluate(CURVE), self._first_view)

    def other_tables(self) -> None:
        self._page.goto(f"{self._address}trials/")
        self._page.wait_for_selector("#live[data-state=live]")
        for heading in ("Result", "Duration", "lr"):
            self._say(f"trials: sorted by {heading}, in the page", self._page.evaluate(ANOTHER_TABLE, ["", heading]),
                      self._another_table)
        for what, words in FILTERS.items():
            self._say(f"trials: filtered, {what}, in the page", self._page.evaluate(ANOTHER_TABLE, [words, ""]),
                      self._another_table)
        for what, query in (("by result", "order=-final_value"), ("by duration", "order=-duration"),
                            ("status", "status=FAILED"), ("text in parameters", "q=tanh")):
            self._page.goto(f"{self._address}trials/?{query}", wait_until="commit")
            self._say(f"trials: {what}, by a link", self._page.evaluate(TABLE), self._first_view)  # a page of its own

    def bursts(self) -> None:
        for name, path, ready in (("overview", "", DRAWN), ("trials", "trials/", TABLE)):
            self._page.goto(self._address + path)
            self._page.evaluate(ready)
            self._page.wait_for_selector('#live[data-state="live"]')
            self._page.wait_for_timeout(1000)
            self._page.evaluate(WATCH_TASKS)
            self._frames.clear()
            burst = Burst(self._trials)
            self._page.wait_for_timeout(BURST * 1000)
            longest, heard = self._page.evaluate("window.longest"), len(self._frames)
            rate = burst.stop()
            self._report.add(f"{self._size}, {name}: frames a second while metrics arrive", heard / BURST, "1/s",
                             limit=MOST_FRAMES, beside=f"{rate:.0f} metrics/s")
            self._say(f"{name}: longest task meanwhile", longest, LONGEST_TASK)


def measure(size: tuple[int, int, int], folder: Path, browser: Any, report: Report) -> None:
    count, curve, wide = size
    server = RunningServer(folder / "data")
    try:
        server.start()
        began = time.monotonic()
        trials = SimulatedTrials(server, finished=count, curve=curve, running=RUNNING, wide=wide)
        print(f"{count} trials of {curve} intermediate results (filled in {time.monotonic() - began:.0f} s), "
              f"load {os.getloadavg()[0]:.1f}", flush=True)
        measured = Measured(server, trials, browser, report, size)
        if wide:
            measured.pages_of_many_parameters()
        else:
            measured.first_views()
            measured.other_tables()
            measured.bursts()
        measured.close()
    finally:
        server.close()


def main(sizes: list[tuple[int, int, int]]) -> int:
    report = Report(__file__)  # chromium and server share the machine
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                measure(size, Path(folder), browser, report)
        browser.close()
    return report.finish()


if __name__ == "__main__":
    wanted = [[int(number) for number in text.split("x")] for text in sys.argv[1:]]
    sys.exit(main([(count, curve, more[0] if more else 0) for count, curve, *more in wanted] or list(SIZES)))
