"""A page that nobody looks at: its charts ask for nothing, and it is up to date as soon as it is looked at again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.browser.shown_charts import wait_for_chart
from tests.end_to_end.running_server import RunningServer

pytestmark = pytest.mark.slow
#: As the browser tells a page whose tab goes behind another one; a headless one never does by itself.
SHOWN = """state => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
    Object.defineProperty(document, "hidden", { configurable: true, get: () => state === "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def points(option: Any) -> list[int]:
    return [len(series["data"]) for series in option["series"]]


def test_a_hidden_tab_asks_for_no_curves_and_shows_all_of_them_when_it_is_shown(
        server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    trials.tell(0, "metric 0.25")
    page = open_page(server, f"/experiments/{trials.experiment}/intermediate/?which=latest")
    wait_for_chart(page, "#curve-chart", lambda option: points(option) == [1])
    page.evaluate(SHOWN, "hidden")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    trials.tell(0, "metric 0.5", "metric 0.75", "final 1", "end")
    expect(page.locator("[data-cell=ended]").first).to_have_text("1")  # frames are heard all the same
    assert not [url for url in asked if "/series/" in url]
    page.evaluate(SHOWN, "visible")
    wait_for_chart(page, "#curve-chart", lambda option: 3 in points(option))


def test_a_page_that_the_browser_froze_catches_up(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/trials/")
    expect(page.locator("#live")).to_have_text("● live")
    page.evaluate("window.markOfTheTest = true")
    session = page.context.new_cdp_session(page.page)
    session.send("Page.setWebLifecycleState", {"state": "frozen"})
    trials.tell(0, "metric 0.5", "final 0.75", "end")
    server.wait_until(lambda: server.get(f"experiments/{trials.experiment}/")["progress"]["ended"] == 1,
                      what="the trial has ended")
    session.send("Page.setWebLifecycleState", {"state": "active"})
    row = page.locator("#trials-table tbody tr").last
    expect(row).to_contain_text("SUCCEEDED")
    expect(row.locator("[data-cell=result]")).to_have_text("0.75")
    expect(page.locator("#live")).to_have_text("● live")
    assert page.evaluate("window.markOfTheTest === true")


def test_a_clock_that_is_set_back_keeps_no_chart_from_being_taken_anew(server: RunningServer, open_page: Any) -> None:
    page = open_page(server)
    assert page.evaluate("""async () => {
        const { ThrottledReload } = await import("/static/js/lib/throttled_reload.js");
        return await new Promise((done) => {
            const reload = new ThrottledReload(async () => done("loaded"), 20);
            reload.loaded();
            const { now } = Date;
            Date.now = () => now() - 3_600_000;
            setTimeout(done, 10_000, "waits");
            reload.ask();
        });
    }""") == "loaded"
