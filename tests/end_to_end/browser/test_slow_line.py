"""A page whose scripts come late: what is clicked meanwhile is done, and nothing moves when they run."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer

#: Adds up what the page shifts of itself. Where nothing shifts it stays 0.
SUM_OF_SHIFTS = """window.shifted = 0; new PerformanceObserver((list) => {
    for (const one of list.getEntries()) window.shifted += one.hadRecentInput ? 0 : one.value;
}).observe({type: "layout-shift", buffered: true})"""
#: Modules of the page itself wait until they are let through.
OF_THE_PAGE = "**/js/pages/*.js"
#: From 0.1 on the layout counts as unstable in Core Web Vitals. The light of the live connection is 0.002.
MOST = 0.02


@pytest.fixture(scope="module")
def led(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> LedTrials:
    """One trial that runs and has reported nothing yet."""
    return LedTrials(server, tmp_path_factory.mktemp("led"))


def only_trial(server: RunningServer, led: LedTrials) -> str:
    path = f"experiments/{led.experiment}/trials/"
    server.wait_until(lambda: server.get(path, status="RUNNING")["results"], what="a trial runs")
    return str(server.get(path)["results"][0]["id"])


class HeldScripts:
    """Requests of scripts that wait for ``let_through``."""

    def __init__(self, page: Any) -> None:
        self._waiting: list[Any] = []
        self._is_open = Event()
        page.route(OF_THE_PAGE, lambda route: route.continue_() if self._is_open.is_set()
                   else self._waiting.append(route))

    def let_through(self) -> None:
        self._is_open.set()
        for route in self._waiting:
            route.continue_()


@pytest.mark.parametrize(("address", "button", "heading"), [
    ("/trials/{trial}/", "Stop…", "Stop this trial?"),
    pytest.param("/trials/{trial}/", "Run with changes…", "with changes", marks=pytest.mark.slow),
    pytest.param("/experiments/{experiment}/", "Share…", "Share", marks=pytest.mark.slow),
])
def test_a_click_before_the_scripts_have_run_is_done_when_they_have(
        server: RunningServer, open_page: Callable[..., Any], led: LedTrials, address: str, button: str, heading: str
        ) -> None:
    page = open_page(server, "/")
    held = HeldScripts(page)
    where = address.format(trial=only_trial(server, led), experiment=led.experiment)
    page.goto(server.url + where, wait_until="commit")
    clicked = page.get_by_role("button", name=button, exact=True)
    clicked.click()
    expect(clicked).to_have_attribute("aria-busy", "true")
    held.let_through()
    expect(page.get_by_role("dialog")).to_contain_text(heading)
    assert clicked.get_attribute("aria-busy") is None


@pytest.mark.slow
@pytest.mark.parametrize("address", [
    "/", "/experiments/{experiment}/", "/new/", "/new/?way=fields", "/clusters/", "/trials/{trial}/",
    "/experiments/{experiment}/trials/", "/experiments/{experiment}/intermediate/",
    "/experiments/{experiment}/compare/"])
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_moves_when_late_scripts_have_run(server: RunningServer, open_page: Callable[..., Any], led: LedTrials,
                                                  address: str, width: int) -> None:
    page = open_page(server, "/", width=width)
    page.page.add_init_script(SUM_OF_SHIFTS)
    held = HeldScripts(page)
    where = address.format(trial=only_trial(server, led), experiment=led.experiment)
    page.goto(server.url + where, wait_until="commit")
    expect(page.locator("main h1").first).to_be_visible()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    held.let_through()
    page.settle()
    assert page.evaluate("window.shifted") <= MOST
