"""What holds for every page: axe-core finds nothing serious, in both themes; all of it is reached by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from nniweb.dashboard.experiment_tabs.head import TABS
from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import ROOT, RunningServer

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
#: Page -> its address; {experiment}, {trial} and {cluster} are filled in.
PAGES = {
    "experiments": "/", "experiments, none found": "/?q=nothing-like-it", "new experiment": "/new/",
    "new experiment, field by field": "/new/?way=fields", "new experiment, from a template": "/new/?template=sketch",
    "trial": "/trials/{trial}/", "clusters": "/clusters/", "cluster": "/clusters/{cluster}/",
    "cluster, new": "/clusters/new/", "cluster, settings": "/clusters/{cluster}/edit/",
    "no such page": "/nowhere/", "sign-in": "/sign-in/", "sign-in by link": "/sign-in/{link}/",
    "platforms": "/platforms/", "reasons": "/reasons/", "usage": "/usage/", "notifications": "/notifications/",
    "notification": "/notifications/{rule}/", "account": "/account/",
    "password forgotten": "/password-reset/", "link asked for": "/password-reset/asked/",
    "API": "/api/docs/", "API, for reading": "/api/docs/redoc/",
    "report": "/experiments/{experiment}/report/",
    **{f"experiment: {title}": "/experiments/{experiment}/" + name.removeprefix("experiment").replace("-", "", 1)
       for name, title in TABS.items()},
}
#: Those that are looked at by people who are not signed in.
OF_STRANGERS = ("sign-in", "sign-in by link", "password forgotten", "link asked for")
#: What can be used, as far as it is shown; a group of radio buttons is one stop of the Tab key.
USABLE = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
    .filter((element) => element.checkVisibility({visibilityProperty: true}) && !element.disabled
        && element.tabIndex >= 0 && !["hidden", "radio"].includes(element.type) && !element.closest("[inert]"))
    .map((element, number) => { element.dataset.stop = number; return element.outerHTML.slice(0, 120); })"""


@pytest.fixture(scope="module")
def addresses(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Something of everything to look at: a running trial, one that succeeded and one that failed."""
    trials = LedTrials(server, tmp_path_factory.mktemp("code"), trialConcurrency=3)
    trials.tell(0, "print words\\n", "metric 0.25", "metric 0.5", "final 0.75", "end")
    trials.tell(1, "metric 0.5", "fail no such data set")
    trials.tell(2, "metric 0.125", "print more words\\n")

    def wanted() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = server.get(f"experiments/{trials.experiment}/trials/")["results"]
        return rows if [row["status"] for row in rows] == ["SUCCEEDED", "FAILED", "RUNNING"] else []

    rows = server.wait_until(wanted, what="one trial succeeded, one failed, one runs")
    cluster = server.get("clusters/")["results"][0]["id"]
    rule = server.post("notifications/", {"channel": "webhook", "url": "https://hook.example/", "enabled": False})
    person = server.post("users/", {"username": "nora"})["id"]
    link = server.post(f"users/{person}/actions/sign-in-link/")["url"].rstrip("/").rpartition("/")[2]
    yield {"experiment": trials.experiment, "trial": rows[0]["id"], "cluster": cluster, "rule": rule["id"],
           "link": link}
    trials.tell(2, "end")


def serious_violations(page: Any, **options: Any) -> list[str]:
    """What axe-core finds, of impact serious or critical."""
    found = page.evaluate("options => axe.run(document, {resultTypes: ['violations'], ...options})", options)
    return [f"{violation['id']}: {violation['help']}\n    " + "\n    ".join(
        f"{node['html'][:200]} {node['failureSummary']}" for node in violation["nodes"][:5])
        for violation in found["violations"] if violation["impact"] in ("serious", "critical")]


def not_reached_by_tab(page: Any) -> list[str]:
    """What can be used but is no stop of the Tab key, as HTML."""
    for _ in range(5):
        usable = page.evaluate(USABLE)
        left = stops_left(page, len(usable))
        # what came anew while the page was walked through (it lives) is walked through again
        if page.evaluate("numbers => numbers.every((n) => document.querySelector(`[data-stop='${n}']`))", sorted(left)):
            return [usable[number] for number in sorted(left)]
    raise AssertionError("the page never stays as it is")


#: Notes each stop that has the focus; called again, it begins anew.
NOTE_STOPS = """() => {
    document.activeElement.blur();
    if (!window.stops) document.addEventListener("focusin", (event) => stops.add(event.target.dataset.stop), true);
    window.stops = new Set();
}"""
#: Presses of the Tab key between two looks at which stops were reached: asking for each one takes as long as pressing.
PRESSES = 20


def stops_left(page: Any, count: int) -> set[int]:
    """The numbers of the stops that the Tab key does not reach."""
    page.evaluate(NOTE_STOPS)
    left = set(range(count))
    presses = 2 * count + 10
    while left and presses > 0:
        for _ in range(min(presses, PRESSES, len(left) + 5)):
            page.keyboard.press("Tab")
            presses -= 1
        left -= {int(stop) for stop in page.evaluate("[...stops]") if re.fullmatch(r"\d+", stop or "")}
    return left


#: Thousands of places: minutes on a machine that does other things as well.
LARGE = (pytest.mark.slow, pytest.mark.timeout(900))
#: Made of the same pieces as others.
LIKE_OTHERS = ("sign-in by link", "experiments, none found", "new experiment, from a template", "experiment: Events",
               "experiment: Timeline", "experiment: Log", "account", "platforms", "reasons",
               "new experiment, field by field", "password forgotten", "link asked for")


def marks(name: str) -> Any:
    return LARGE if "API" in name else pytest.mark.slow if name in LIKE_OTHERS else ()


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in PAGES])
def test_a_page_can_be_read_and_used_by_everybody(server: RunningServer, open_page: Any, addresses: dict[str, str],
                                                  name: str) -> None:
    page = open_page(server, PAGES[name].format(**addresses), signed_in=name not in OF_STRANGERS)
    page.allow("status of 404")
    page.settle()
    page.evaluate(AXE.read_text())
    assert not serious_violations(page)
    page.emulate_media(color_scheme="dark")
    assert not serious_violations(page, runOnly=["color-contrast"])
    assert not not_reached_by_tab(page)


def test_these_checks_find_what_they_look_for(server: RunningServer, open_page: Any) -> None:
    page = open_page(server, "/clusters/")
    page.evaluate(AXE.read_text())
    page.evaluate("document.getElementById('main').insertAdjacentHTML('beforeend', '<button></button>')")
    assert [text.partition(":")[0] for text in serious_violations(page)] == ["button-name"]
    page.evaluate("document.addEventListener('keydown', (event) => event.preventDefault())")
    assert len(not_reached_by_tab(page)) > 5, "the Tab key is dead"
