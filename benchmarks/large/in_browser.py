"""The pages of a large installation in Debian's chromium: seconds until each is drawn, nothing cached.

Of a database and of one of a hundredth of its rows, each behind a server of its own.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.dashboard import ACROSS, ANOTHER_TABLE, CURVE, DRAWN, MATTERS, SIDE_BY_SIDE, TABLE
from benchmarks.large.kept import CLUSTER, Made
from benchmarks.reporting import Report
from tests.end_to_end.browser.conftest import PATIENCE, sign_in
from tests.end_to_end.browser.one_browser import ARGUMENTS, CHROMIUM
from tests.end_to_end.running_server import RunningServer

#: Times that each page is opened. The first one finds nothing cached on the server either, and is what has a limit.
VIEWS = 3


def _there(selector: str) -> str:
    """Resolves with the milliseconds since the navigation began at which this is in the page, and drawn."""
    return f"""() => new Promise((done) => {{
    const look = () => requestAnimationFrame(
        document.querySelector("{selector}") ? () => done(performance.now()) : look);
    look();
}})"""


@dataclass(frozen=True)
class View:
    """``address``: {e} stands for an experiment, {t} for a trial, {c} for a cluster. ``ready``: a script that resolves
    with milliseconds. ``limit``: seconds, in an experiment of up to 10,000 trials, and of 100,000; as for dashboard.py.
    """

    what: str
    address: str
    ready: str
    limit: tuple[float, float] = (1.0, 2.0)


OF_ALL = (
    View("home", "/", _there("#experiments tbody tr")),
    View("usage", "/usage/?days=all", _there("table.usage tbody tr, main p")),
    View("clusters", "/clusters/", _there("#fresh article.card")),
)
OF_ONE = (
    View("overview", "/experiments/{e}/", DRAWN),
    View("table of trials", "/experiments/{e}/trials/", TABLE),
    View("a trial", "/trials/{t}/", CURVE),
    View("compare", "/experiments/{e}/compare/?trials=0,1,2,3,4", SIDE_BY_SIDE),
    View("hyper-parameters", "/experiments/{e}/parameters/", ACROSS, (2.0, 2.0)),
    View("importance", "/experiments/{e}/parameters/", MATTERS, (10.0, 10.0)),
    View("timeline", "/experiments/{e}/timeline/", _there("#timeline-chart canvas, #timeline-chart svg")),
    View("its cluster", "/clusters/{c}/", _there("#fresh *")),
)
#: What is typed as a filter, the heading that is pressed; in the open table. With their limits.
OTHER_TABLES = (("sorted by result", "", "Result"), ("filtered by a result", "result > 0.999", ""),
                ("filtered by a parameter", "x > 0.999", ""), ("searched for a text", "nothing-has-this", ""))
OTHER_TABLE_LIMIT = (0.3, 2.0)


def measure(hundredth: RunningServer, large: RunningServer, made: Made, report: Report) -> None:
    """Django need not be set up. Beside each figure of the large database stands the one of the other."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        with closing(hundredth):
            hundredth.start()
            with closing(_Pages(browser, hundredth)) as pages:
                of_all, before = pages.of_all(), pages.of_one(made.small)
        small = f"{made.trials:,} trials in the database"
        with closing(large):
            large.start()
            with closing(_Pages(browser, large)) as pages:
                _report(report, pages.of_all(), of_all, {view.what: view.limit[0] for view in OF_ALL}, small)
                for experiment, name, which in ((made.large, small, 0),
                                                (made.wide, f"{made.within:,} trials in the experiment", 1)):
                    limits = {view.what: view.limit[which] for view in OF_ONE}
                    limits |= {what: OTHER_TABLE_LIMIT[which] for what, _, _ in OTHER_TABLES}
                    _report(report, pages.of_one(experiment), before, limits, name)
        browser.close()


def _report(report: Report, found: Mapping[str, Sequence[float]], before: Mapping[str, Sequence[float]],
            limits: Mapping[str, float], name: str) -> None:
    for what, seconds in found.items():
        again = f"; median {statistics.median(seconds):.2f} s" if len(seconds) > 1 else ""
        report.add(f"in chromium: {what}, {name}", seconds[0], "s", limit=limits[what],
                   beside=f"a hundredth: {before[what][0]:.2f} s{again}; load {os.getloadavg()[0]:.1f}")


class _Pages:
    """One signed-in browser in front of one server. Figures are seconds, the first view first."""

    def __init__(self, browser: Any, server: RunningServer) -> None:
        self._server = server
        self._context = browser.new_context(base_url=server.url)
        self._page = self._context.new_page()
        self._page.set_default_timeout(PATIENCE)
        sign_in(self._page, server)
        self._page.goto("/new/")  # what a server loads for its first form is no matter of large databases

    def close(self) -> None:
        self._context.close()

    def of_all(self) -> dict[str, list[float]]:
        return {view.what: self._views(view.address, view.ready) for view in OF_ALL}

    def of_one(self, experiment: str) -> dict[str, list[float]]:
        trial = self._found(f"experiments/{experiment}/trials/?page_size=1")[0]["id"]
        cluster = next(each["id"] for each in self._found("clusters/") if each["name"] == CLUSTER)
        found = {view.what: self._views(view.address.format(e=experiment, t=trial, c=cluster), view.ready)
                 for view in OF_ONE}
        self._page.goto(f"/experiments/{experiment}/trials/")
        self._page.wait_for_selector("#live[data-state=live]")
        for what, words, heading in OTHER_TABLES:
            found[what] = [self._page.evaluate(ANOTHER_TABLE, [words, heading]) / 1000]
        return found

    def _found(self, path: str) -> list[dict[str, Any]]:
        """What REST answers to the person who is signed in."""
        return list(self._page.request.get(f"/api/v1/{path}").json()["results"])

    def _views(self, address: str, ready: str) -> list[float]:
        return [self._view(address, ready) for _ in range(VIEWS)]

    def _view(self, address: str, ready: str) -> float:
        session = self._context.new_cdp_session(self._page)
        session.send("Network.enable")
        session.send("Network.clearBrowserCache")
        session.detach()
        self._page.goto(address, wait_until="commit")
        return float(self._page.evaluate(ready)) / 1000


def server_of(data: Path, url: str) -> RunningServer:
    """``url``: of its database; "" where it is in the data folder."""
    server = RunningServer(data, {"NNIWEB_DATABASE_URL": url} if url else {})
    server.log_file.unlink(missing_ok=True)  # of an earlier run, with links to sign in that were used
    return server
