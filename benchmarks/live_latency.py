"""How long from a trial's reported metric to the changed page, with a real server and a real browser.

    .venv/bin/python benchmarks/live_latency.py [count]

First 100 metrics of one trial with a real keeper, then 50 trials that report once a second each, as their
keepers would post (50 real keepers would measure this machine's memory). Who reports and the browser run on
this machine and read the same clock: the time just before the report is noted, and a MutationObserver
notes when the number stands in the trial's row. Ends with 1 where a figure is above its limit stated below.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import requests  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402
from tests.end_to_end.simulated_trials import SimulatedTrials  # noqa: E402

#: Seconds from report to page that half of the metrics, and 95 of 100, may take at most.
MEDIAN_LIMIT, P95_LIMIT = 0.3, 0.5
#: Trials that report side by side, and for how many seconds.
SIDE_BY_SIDE, SECONDS = 50, 20
#: Seconds between two metrics: more than the shortest pause between frames, so that none is merged with the next.
PAUSE = 0.35

PROGRAM = """\
import json, sys, time
import nni

nni.get_next_parameter()
while not __import__("os").path.exists("go"):
    time.sleep(0.02)
times = []
for number in range(1, int(sys.argv[1]) + 1):
    times.append(time.time())
    nni.report_intermediate_result(number)
    time.sleep(float(sys.argv[2]))
open("times.new", "w").write(json.dumps(times))
__import__("os").rename("times.new", "times.json")
nni.report_final_result(0)
"""

OBSERVE_ALL = """() => {
    const seen = window.seenByTheBenchmark = {};
    const look = (row) => {
        const key = `${row.dataset.id} ${row.querySelector('[data-cell="latest"]').textContent}`;
        seen[key] ??= Date.now() / 1000;
    };
    new MutationObserver((changes) => {
        for (const change of changes) {
            const row = (change.target.closest ? change.target : change.target.parentElement)?.closest("tr[data-id]");
            if (row) look(row);
        }
    }).observe(document.querySelector("#trials-table tbody"), {childList: true, characterData: true, subtree: true});
}"""

OBSERVE = """() => {
    const seen = window.seenByTheBenchmark = {};
    const cell = document.querySelector('#trials-table [data-cell="latest"]');
    const look = () => { seen[cell.textContent] ??= Date.now() / 1000; };
    new MutationObserver(look).observe(cell, {childList: true, characterData: true, subtree: true});
}"""


def latencies(server: RunningServer, page: Any, folder: Path, count: int) -> list[float]:
    """Seconds from report to page, one for each metric. ``page`` is signed in; ``folder`` is empty."""
    import json

    (folder / "trial.py").write_text(PROGRAM)
    experiment = server.launch({
        "experimentName": "latency", "trialCommand": f"python3 trial.py {count} {PAUSE}",
        "trialCodeDirectory": str(folder), "trialConcurrency": 1, "maxTrialNumber": 1, "tuner": {"name": "Random"},
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trainingService": {"platform": "local"}}, folder)
    server.wait_until(lambda: server.get(f"experiments/{experiment}/trials/", status="RUNNING")["results"],
                      what="the trial runs")
    page.goto(f"/experiments/{experiment}/trials/")
    page.wait_for_selector('#live[data-state="live"]')
    page.evaluate(OBSERVE)
    (folder / "go").touch()
    server.wait_until((folder / "times.json").exists, count * PAUSE + 30, "the trial has reported everything")
    # a function: the page's security policy would forbid to evaluate an expression again
    page.wait_for_function("count => window.seenByTheBenchmark[count] !== undefined", arg=str(count))
    seen = page.evaluate("window.seenByTheBenchmark")
    reported = json.loads((folder / "times.json").read_text())
    # a number that was overtaken by the next is seen with that one
    found, later = [], None
    for number in range(count, 0, -1):
        later = seen.get(str(number), later)
        found.append(later - reported[number - 1])
    return found


def side_by_side(server: RunningServer, page: Any) -> list[float]:
    """Seconds from report to page, of every metric of ``SIDE_BY_SIDE`` trials that report once a second."""
    trials = SimulatedTrials(server, running=SIDE_BY_SIDE)
    page.goto(f"/experiments/{trials.experiment}/trials/")
    page.wait_for_selector('#live[data-state="live"]')
    page.evaluate(OBSERVE_ALL)
    reported: dict[str, float] = {}

    def report(name: str, wait: float) -> None:
        time.sleep(wait)
        with requests.Session() as session:
            begin = time.monotonic()
            for number in range(1, SECONDS + 1):
                reported[f"{name} {number}"] = time.time()
                trials.report(name, [number], session)
                time.sleep(max(0.0, begin + number - time.monotonic()))

    keepers = [threading.Thread(target=report, args=(name, place / SIDE_BY_SIDE))
               for place, name in enumerate(trials.running)]
    for keeper in keepers:
        keeper.start()
    while any(keeper.is_alive() for keeper in keepers):
        page.wait_for_timeout(200)  # the page's own work goes on
    last = [f"{name} {SECONDS}" for name in trials.running]
    page.wait_for_function("keys => keys.every((key) => window.seenByTheBenchmark[key] !== undefined)", arg=last)
    seen = page.evaluate("window.seenByTheBenchmark")
    found = []
    for name in trials.running:
        later = None
        for number in range(SECONDS, 0, -1):  # a number that was overtaken by the next is seen with that one
            later = seen.get(f"{name} {number}", later)
            found.append(later - reported[f"{name} {number}"])
    return found


def add(report: Report, what: str, measured: list[float]) -> None:
    measured = sorted(measured)
    report.add(f"{what}: report until the page has changed, median", statistics.median(measured), "s",
               limit=MEDIAN_LIMIT, beside=f"{len(measured)} metrics, at most {measured[-1]:.2f} s")
    report.add(f"{what}: report until the page has changed, 95 %", measured[int(len(measured) * 0.95)], "s",
               limit=P95_LIMIT)


def main(count: int) -> int:
    from playwright.sync_api import sync_playwright

    from tests.end_to_end.browser.conftest import sign_in
    from tests.end_to_end.browser.one_browser import ARGUMENTS, CHROMIUM

    report = Report(__file__)
    with tempfile.TemporaryDirectory() as folder:
        server = RunningServer(Path(folder) / "data")
        code = Path(folder) / "code"
        code.mkdir()
        try:
            server.start()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
                page = browser.new_context(base_url=server.url).new_page()
                sign_in(page, server)
                add(report, "one trial, a real keeper", latencies(server, page, code, count))
                add(report, f"{SIDE_BY_SIDE} trials, a report a second each", side_by_side(server, page))
                browser.close()
        finally:
            server.close()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
