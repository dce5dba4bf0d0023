"""A trial, or somebody who has its token, sends what it likes: pages show it as text, and others do not notice."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import expect

from nniweb.dashboard.experiment_tabs.head import TABS
from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer
from tests.end_to_end.simulated_trials import TOKEN, SimulatedTrials

#: In every text. Where a page took it for markup, the script would run, or the policy would report that it may not.
MARKUP = "<script>window.broken=1</script><img src=x onerror=window.broken=1>"
LINK = "javascript:window.broken=1"
ANSI = "\x1b[31mred\x1b[0m\x1b]0;title\x07"
EVIL = f"{MARKUP}\"'`{{{{7*7}}}}{ANSI}\u202e${{x}}"

PAGES = ["/", "/trials/{trial}/", "/clusters/", "/admin/experiments/trial/", "/admin/experiments/experiment/", *(
    "/experiments/{experiment}/" + name.removeprefix("experiment").replace("-", "", 1) for name in TABS)]


class Keeper:
    """Whoever has the token of a running trial."""

    def __init__(self, server: RunningServer, job: str) -> None:
        self._url = f"{server.url}/api/trialkeeper/v1/trials/{job}"
        self._headers = {"Authorization": f"Bearer {TOKEN}"}
        self.number = 0

    def entries(self, *entries: dict[str, Any]) -> list[dict[str, Any]]:
        """As they must be numbered."""
        return [{"n": self.number + place, "at": time.time(), **entry} for place, entry in enumerate(entries, 1)]

    def post(self, entries: list[dict[str, Any]], **more: Any) -> requests.Response:
        answer = requests.post(f"{self._url}/reports", headers=self._headers, timeout=60, json={
            "keeper": {"version": 1, "journal_id": "evil", "host": EVIL, "pid": 1}, "sent_at": time.time(),
            "entries": entries, **more})
        if answer.status_code == 200:
            self.number = answer.json()["accepted"]
        return answer

    def send(self, *entries: dict[str, Any], **more: Any) -> None:
        answer = self.post(self.entries(*entries), **more)
        assert answer.status_code == 200, answer.text

    def put(self, name: str, content: str) -> None:
        answer = requests.put(f"{self._url}/files/{name}", headers=self._headers, data=content.encode(), timeout=60)
        assert answer.status_code == 200, answer.text


def metric(value: str, kind: str = "PERIODICAL", sequence: int = 0) -> dict[str, Any]:
    return {"type": "metric", "kind": kind, "parameter_id": EVIL[:200], "sequence": sequence, "value": value}


def reported_violations(server: RunningServer) -> float:
    found = re.search(r"^nniweb_csp_reports_total (\S+)$", server.request("GET", "/metrics").text, re.M)
    assert found, "the figure is there"
    return float(found[1])


@pytest.mark.slow
def test_whatever_a_trial_sends_is_shown_as_text(server: RunningServer, open_page: Any) -> None:
    trials = SimulatedTrials(server, finished=3, curve=3, running=1)
    trial = trials.running[0]
    keeper = Keeper(server, trial)
    quoted = EVIL.replace("\\", "\\\\").replace('"', '\\"').replace("\x1b", "\\u001b").replace("\x07", "\\u0007")
    keeper.send({"type": "started", "pid": 1, "host": EVIL, "machine_id": EVIL, "gpu_indices": [0],
                 "working_directory": f"/{EVIL}"},
                metric("0.5"), metric(f'"{quoted}"', sequence=1), metric(MARKUP, sequence=2),
                metric(f'{{"default": 0.25, "{quoted}": 1, "url": "{LINK}"}}', sequence=3),
                {"type": "output", "stream": "stdout", "offset": 0, "data": EVIL.encode().decode("latin-1") + "\n"},
                {"type": "output", "stream": "stderr", "offset": 0, "data": f"Traceback\n{MARKUP}{ANSI}\n"},
                resources={"cpu_percent": 1e300, "memory_bytes": -1, "gpus": [{"index": MARKUP}]})
    keeper.put("%3Cimg src=x onerror=window.broken=1%3E.html", f"<html>{MARKUP}</html>")
    keeper.send(metric(f'{{"default": 0.75, "{quoted}": "{LINK}"}}', kind="FINAL"),
                {"type": "ended", "exit_code": 1, "signal": None, "reason": "exited", "message": EVIL,
                 "duration": 1.0})
    page = open_page(server, "/")
    for address in PAGES:
        page.goto(address.format(trial=trial, experiment=trials.experiment))
        page.settle()
        assert page.evaluate("window.broken") is None, address
        assert page.locator("img[src='x'], [onerror], a[href^='javascript']").count() == 0, address
    page.goto(f"/trials/{trial}/")
    expect(page.locator("[data-stream=stderr] pre")).to_contain_text("<script>window.broken=1</script>")
    [file] = server.get(f"trials/{trial}/files/")["results"]
    answer = server.request("GET", f"trials/{trial}/files/{file['id']}/")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert reported_violations(server) == 0
    # it would have been told
    page.allow("Content-Security-Policy|Content Security Policy|inline")
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.broken=1'}))")
    server.wait_until(lambda: reported_violations(server) > 0, what="the browser reports a violation")
    assert page.evaluate("window.broken") is None


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_flood_is_slowed_down_and_others_are_heard(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "data", {"NNIWEB_KEEPER_CALLS": "4"})
    try:
        flood_and_listen(server.start())
    finally:
        server.close()


def flood_and_listen(server: RunningServer) -> None:
    trials = SimulatedTrials(server, running=2)
    greedy = Keeper(server, trials.running[0])
    statuses: list[int] = []
    enough = threading.Event()

    def flood() -> None:
        while not enough.is_set():
            statuses.append(greedy.post([]).status_code)

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        heard = 0
        deadline = time.monotonic() + 90
        while 429 not in statuses and time.monotonic() < deadline:
            trials.report(trials.running[1], [0.5])  # asserts 200
            heard += 1
            time.sleep(0.5)
        for _ in range(5):
            trials.report(trials.running[1], [0.25])
            heard += 1
    finally:
        enough.set()
        for thread in threads:
            thread.join(60)
    assert set(statuses) == {200, 429}
    entries = greedy.entries(metric("1"))
    server.wait_until(lambda: greedy.post(entries).status_code == 200, what="what was put off is taken")
    rows = server.get(f"trials/{trials.running[1]}/metrics/")
    assert rows["count"] == heard


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_real_keeper_that_is_slowed_down_loses_nothing(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "server" / "data", {"NNIWEB_KEEPER_CALLS": "1"})
    try:
        server.start()
        trials = LedTrials(server, tmp_path / "code", maxTrialNumber=1)
        told = 0
        while 'nniweb_reports_total{status="429"}' not in server.request("GET", "/metrics").text:
            trials.tell(0, f"metric {told}")  # one at a time: what comes at once is one report
            told += 1
            assert told < 1000, "it was never slowed down"
        trials.tell(0, "print the end\\n", "final 1", "end")
        server.wait_for_experiment(trials.experiment, patience=180)
        [trial] = server.get(f"experiments/{trials.experiment}/trials/")["results"]
        assert (trial["status"], trial["final_value"]) == ("SUCCEEDED", "1")
        rows = server.get_all(f"trials/{trial['id']}/metrics/")
        assert [float(row["value"]) for row in rows if row["kind"] == "PERIODICAL"] == [float(n) for n in range(told)]
    finally:
        server.close()
