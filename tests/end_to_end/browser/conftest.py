"""A real browser in front of a real server; whatever the browser complains about fails the test.

    def test_something(server, open_page):
        page = open_page(server, "/")                     # signed in by the link the server printed
        expect(page.get_by_role("heading")).to_have_text("Experiments")

A console error, an exception in a script, a violation of the Content-Security-Policy or a request to
anywhere but the server fails the test when it ends. What a test provokes it allows beforehand:
``page.allow(r"status of 400")`` (a pattern searched for in the complaint).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.end_to_end.browser import one_browser
from tests.end_to_end.running_server import RunningServer

#: Milliseconds an expectation or a click waits; it ends what hangs, and says nothing of speed: a machine may be busy.
PATIENCE = 120_000
#: What is looked at so often, with a pause in which scripts run and the page is drawn, has settled.
LOOKS = 3
SOON = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)))"
#: The page tells the console of every violation, also of those the browser itself would keep quiet about.
TELL_OF_VIOLATIONS = """document.addEventListener("securitypolicyviolation", (event) => console.error(
    `Content-Security-Policy: ${event.violatedDirective} forbids ${event.blockedURI || event.sourceFile}`));"""


class WatchedPage:
    """A Playwright page and what the browser complained about. Attributes are the page's own."""

    def __init__(self, page: Page, own_address: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._allowed: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.add_init_script(TELL_OF_VIOLATIONS)
        page.on("console", lambda message: self._complain(f"console: {message.text} ({message.location.get('url')})")
                if message.type == "error" else None)
        page.on("pageerror", lambda error: self._complain(f"exception: {error}"))
        self._own = (own_address + "/", own_address.replace("http", "ws", 1) + "/", "data:", "blob:", "about:")
        page.on("request", lambda request: self._check_address(request.url))
        #: Requests that have begun and neither ended nor failed, since the page was opened.
        self._requests: set[Any] = set()
        page.on("request", self._begun)
        page.on("requestfinished", lambda request: self._requests.discard(request))
        page.on("requestfailed", lambda request: self._requests.discard(request))
        page.on("websocket", lambda socket: self._check_address(socket.url))

    def _check_address(self, url: str) -> None:
        if not url.startswith(self._own):
            self._complain(f"fetched from elsewhere: {url}")

    def _begun(self, request: Any) -> None:
        if request.is_navigation_request() and request.frame == self.page.main_frame:
            self._requests.clear()
        self._requests.add(request)

    def settle(self) -> None:
        """Wait until the page's scripts have run and have all that they asked for.

        Playwright's "networkidle" wants half a second without a request, which a page that lives may never have.
        """
        self.page.wait_for_load_state("load")
        deadline = time.monotonic() + PATIENCE / 1000
        looks = 0
        while looks < LOOKS:
            self.page.evaluate(SOON)
            looks = 0 if self._requests else looks + 1
            assert time.monotonic() < deadline, f"still open: {[request.url for request in self._requests]}"

    def _complain(self, complaint: str) -> None:
        self.complaints.append(complaint)

    def allow(self, pattern: str) -> None:
        """Complaints in which this pattern is found are expected."""
        self._allowed.append(pattern)

    def check(self) -> None:
        """Fail where the browser complained about something that was not allowed."""
        left = [text for text in self.complaints if not any(re.search(pattern, text) for pattern in self._allowed)]
        assert not left, "the browser complained:\n" + "\n".join(left)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)


def sign_in_link(server: RunningServer) -> str:
    """The link the server printed last. It works once."""
    found = server.wait_until(lambda: re.findall(r"http://\S+/sign-in/\S+", server.log_file.read_text()),
                              what="the server prints a sign-in link")
    return str(found[-1])


def sign_in(page: Any, server: RunningServer) -> None:
    """Open the link that the server printed and press its button; then the page is the list of experiments."""
    page.goto(sign_in_link(server))
    page.get_by_role("button", name="Sign in as").click()
    page.wait_for_url(f"{server.url}/")


@pytest.fixture(scope="module")
def chromium() -> Browser:
    """The browser, one for all files of this folder that one process runs: each test has a profile of its own in it."""
    expect.set_options(timeout=PATIENCE)
    return one_browser.opened()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for all tests of a file; those that stop it or count its rows make one of their own."""
    running = RunningServer(tmp_path_factory.mktemp("server") / "data")
    try:
        yield running.start()
    finally:
        running.close()


_sessions: dict[Path, Any] = {}


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[..., Any]]:
    """``open_page(server, path="/", width=1440, height=900, dark=False, signed_in=True)``; closed after the test."""
    contexts: list[BrowserContext] = []
    pages: list[WatchedPage] = []

    def open_page(server: RunningServer, path: str = "/", *, width: int = 1440, height: int = 900,
                  dark: bool = False, signed_in: bool = True) -> Any:
        state = _sessions.get(server.data_folder) if signed_in else None
        context = chromium.new_context(viewport={"width": width, "height": height}, base_url=server.url,
                                       color_scheme="dark" if dark else "light", storage_state=state)
        contexts.append(context)
        page = WatchedPage(context.new_page(), server.url)
        pages.append(page)
        if signed_in and state is None:
            sign_in(page, server)
            _sessions[server.data_folder] = context.storage_state()
        if not (signed_in and state is None and path == "/"):
            page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    for page in pages:
        page.check()
