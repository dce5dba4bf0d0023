"""How long a newcomer waits: from ``git clone`` to the first number of a trial, and to the first live curve.

    .venv/bin/python benchmarks/newcomers_walk.py

Clones this checkout's last commit into a temporary folder, says ``make run`` there with an empty data
folder, follows the link it prints in a browser, opens the demo and waits for the first intermediate
result, then opens the newest running trial and waits for a curve of two points; no page is loaded again.
At last the demo must end well: DONE, with a best accuracy above 0.9.
Needs chromium, playwright, and the network for packages. What pip and npm have in their caches already makes it faster.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from trainingservice.testing.processes import end_processes, processes_of  # noqa: E402

#: Seconds for the installation, and for each step on the page.
INSTALLING, STEP = 1800, 120
#: Whether a cell of the column "Latest" shows a number.
SOMETHING_MOVES = r"""() => [...document.querySelectorAll("table")].some((table) => {
    const column = [...table.querySelectorAll("th")].findIndex((head) => head.textContent.includes("Latest"));
    return [...table.querySelectorAll("tbody tr")].some((row) => /\d/.test(row.children[column]?.textContent ?? ""));
})"""
#: Whether a trial's curve is drawn, of two points at least: how many it has is written above it.
CURVE = r"""() => document.querySelector("#metric-chart canvas") !== null
    && Number(/latest of (\d+)/.exec(document.querySelector("[data-cell=latest]").textContent)?.[1] ?? 0) >= 2"""
#: Whether the experiment has ended well.
DONE = r"""() => /DONE/.test(document.querySelector("[data-cell=status]").textContent)"""


def walk(folder: Path, report: Report) -> None:
    begun = time.monotonic()

    def reached(what: str) -> None:
        report.add(what, time.monotonic() - begun, "s")

    checkout = folder / "nniweb"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(checkout)], check=True)
    reached("cloned")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    plain = {name: value for name, value in os.environ.items()
             if not name.startswith("NNIWEB_") and name != "VIRTUAL_ENV"}
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(["make", "run"], cwd=checkout, stdout=log, stderr=subprocess.STDOUT,
                                  env={**plain, "NNIWEB_PORT": str(port), "PYTHONUNBUFFERED": "1"},
                                  start_new_session=True)
    try:
        link = printed_link(folder / "log", server)
        reached("installed; the link is printed")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--headless", "--no-sandbox", "--disable-gpu"],
                env={name: value for name, value in plain.items() if not name.lower().endswith("_proxy")})
            page = browser.new_page()
            page.set_default_timeout(STEP * 1000)
            page.goto(link)
            page.get_by_role("button", name="Sign in as").click()
            reached("signed in")
            page.locator("tbody tr a").first.click()
            reached("the demo's page is open")
            page.get_by_role("link", name="Trials", exact=True).click()
            page.wait_for_function(SOMETHING_MOVES)
            reached("the first intermediate result is on the page")
            page.locator("#trials-table tr", has_text="RUNNING").first.locator("a").first.click()
            page.wait_for_url("**/trials/*/")
            page.wait_for_function(CURVE)
            reached("the first live curve: a running trial's, of two points or more")
            page.go_back()
            page.wait_for_function(DONE)
            reached("the demo is DONE")
            best = page.locator("[data-cell=best]").text_content() or ""
            report.add("the demo's best accuracy", float(best), "", limit=0.9, at_least=True)
            browser.close()
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGINT)
        server.wait(60)
        end_processes(processes_of([str(checkout)]))


def printed_link(log: Path, server: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + INSTALLING
    while time.monotonic() < deadline and server.poll() is None:
        if found := re.search(r"http://\S+/sign-in/\S+", log.read_text()):
            return found.group(0)
        time.sleep(0.1)
    raise SystemExit(f"make run printed no link:\n{log.read_text()}")


if __name__ == "__main__":
    found = Report(__file__)
    with tempfile.TemporaryDirectory(prefix="nniweb-walk-") as scratch:
        walk(Path(scratch), found)
    sys.exit(found.finish())
