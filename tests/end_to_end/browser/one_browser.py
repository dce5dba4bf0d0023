"""The browser of a process that runs tests: opened for the first file that needs it, and closed when it is in the way.

Opening it and closing it again takes more of a processor than a short file with it; the files with a browser take turns
with others (tests/conftest.py).
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
#: The same browser without the windows around a page: opening a page takes it a fifteenth of the processor time.
HEADLESS_SHELL = Path("/usr/bin/chromium-headless-shell")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync"]
END_TO_END = Path(__file__).parent.parent

#: What is open: Playwright and the browser.
_open = ExitStack()
_browsers: list[Browser] = []


def opened() -> Browser:
    """Skips the test where there is none."""
    program = HEADLESS_SHELL if HEADLESS_SHELL.exists() else CHROMIUM
    if not program.exists():
        pytest.skip("chromium is not installed")
    if not (_browsers and _browsers[0].is_connected()):
        close()
        playwright = _open.enter_context(sync_playwright())
        _browsers.append(playwright.chromium.launch(executable_path=str(program), args=ARGUMENTS, env={
            name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}))
        _open.callback(_browsers[0].close)
    return _browsers[0]


def close() -> None:
    _browsers.clear()
    _open.close()


def is_in_the_way_of(item: pytest.Item | None) -> bool:
    """Whether it is to be closed before this test, or None: the end. While Playwright is open, this thread has an event
    loop: Django refuses to use the database here, and asyncio runs no other.
    """
    if item is None or not item.path.is_relative_to(END_TO_END):
        return True
    module = item.getparent(pytest.Module)
    return module is None or "asyncio" in vars(module.obj)
