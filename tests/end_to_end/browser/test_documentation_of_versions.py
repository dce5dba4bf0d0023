"""The selector of versions, as a browser shows it: read from the folder alone, with any web server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from docs_site.versions import add_version
from playwright.sync_api import Browser, expect

from tests.end_to_end.browser.conftest import WatchedPage
from tests.small_docs_site import small_site

pytestmark = pytest.mark.slow


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[str]:
    """The address of a web server with two versions."""
    config = small_site(tmp_path / "small")
    for version in ("0.9.0", "0.10.0"):
        add_version(tmp_path / "host", version, config)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "host"))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_the_selector_offers_the_versions_and_leads_to_them(host: str, chromium: Browser) -> None:
    context = chromium.new_context(base_url=host)
    page = WatchedPage(context.new_page(), host)
    page.allow("sitemap.xml")  # by which the theme would find the same page of the other version
    page.allow("status of 404")
    page.goto("/")
    page.wait_for_url("**/0.10.0/index.html")
    selector = page.locator(".md-version")
    expect(selector.locator(".md-version__current")).to_contain_text("0.10.0")
    selector.locator(".md-version__current").focus()
    expect(selector.locator(".md-version__link")).to_have_text(["0.10.0", "0.9.0"])
    selector.get_by_role("link", name="0.9.0").click()
    page.wait_for_url("**/0.9.0/**")
    expect(page.locator(".md-version__current")).to_contain_text("0.9.0")
    context.close()
    page.check()
