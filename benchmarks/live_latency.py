"""How long from a trial's reported metric to the changed page: 100 metrics, a real keeper, server and browser.

    .venv/bin/python benchmarks/live_latency.py [count]

Trial and browser run on this machine and read the same clock. The trial notes the time just before
it reports; a MutationObserver on the trial's row notes the time at which the number stands there.
Ends with 1 where the median is above the limit stated below.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.end_to_end.running_server import RunningServer  # noqa: E402

#: Seconds from report to page that half of the metrics may take at most.
LIMIT = 0.5
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
    page.wait_for_function(f"window.seenByTheBenchmark['{count}'] !== undefined")
    seen = page.evaluate("window.seenByTheBenchmark")
    reported = json.loads((folder / "times.json").read_text())
    # a number that was overtaken by the next is seen with that one
    found, later = [], None
    for number in range(count, 0, -1):
        later = seen.get(str(number), later)
        found.append(later - reported[number - 1])
    return found


def main(count: int) -> int:
    from playwright.sync_api import sync_playwright

    from tests.end_to_end.browser.conftest import ARGUMENTS, CHROMIUM, sign_in_link

    with tempfile.TemporaryDirectory() as folder:
        server = RunningServer(Path(folder) / "data")
        code = Path(folder) / "code"
        code.mkdir()
        try:
            server.start()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
                page = browser.new_context(base_url=server.url).new_page()
                page.goto(sign_in_link(server))
                measured = sorted(latencies(server, page, code, count))
                browser.close()
        finally:
            server.close()
    median = statistics.median(measured)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {count} metrics, from report to page, in seconds:")
    print(f"  median {median:.3f}  90 % within {measured[int(count * 0.9)]:.3f}"
          f"  least {measured[0]:.3f}  most {measured[-1]:.3f}; {median / LIMIT:.2f} x the limit")
    return 1 if median > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
