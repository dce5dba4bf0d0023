"""The report of an experiment: texts of people keep their places in it, and the saved file needs no server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer

#: Turns the direction of what follows, up to the end of the paragraph or of its isolated part.
TURN = "\u202e"
NOTES = f"""# {"heading" * 300}

{"word" * 800} <script>document.title = "taken"</script><img src=x onerror="document.title = 'taken'">

[a link](javascript:alert(1)) ![a picture](http://elsewhere.example/picture.png)

|{"cell" * 200}|other|
|-|-|
|1|2|

{TURN}turned
"""


@pytest.fixture(scope="module")
def experiment(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """With texts that go as far as they may."""
    trials = LedTrials(server, tmp_path_factory.mktemp("led"), maxTrialNumber=1, experimentName=f"<b>name</b>{TURN}",
                       searchSpace={"x" * 90: {"_type": "choice", "_value": ["y" * 900]}})
    trials.tell(0, "final 0.5", "end")
    server.wait_for_experiment(trials.experiment)
    server.patch(f"experiments/{trials.experiment}/", {"description": NOTES, "tags": [f"{TURN}first", "second"]})
    trial = server.get(f"experiments/{trials.experiment}/trials/")["results"][0]["id"]
    server.patch(f"trials/{trial}/", {"notes": NOTES})
    return trials.experiment


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_long_words_of_people_do_not_widen_the_report(server: RunningServer, open_page: Callable[..., Any],
                                                      experiment: str, width: int) -> None:
    page = open_page(server, f"/experiments/{experiment}/report/", width=width)
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@pytest.mark.slow
@pytest.mark.parametrize(("address", "tags"), [("/experiments/{}/report/", ".tag"), ("/experiments/{}/", ".tags .tag"),
                                               ("/", "tr[data-id='{}'] .tag")])
def test_a_text_that_turns_the_direction_turns_nothing_after_it(
        server: RunningServer, open_page: Callable[..., Any], experiment: str, address: str, tags: str) -> None:
    page = open_page(server, address.format(experiment))
    first, second = (page.locator(tags.format(experiment)).filter(has_text=word) for word in ("first", "second"))
    assert first.bounding_box()["x"] < second.bounding_box()["x"]


@pytest.mark.slow
def test_a_saved_report_runs_nothing_and_asks_nobody(server: RunningServer, open_page: Callable[..., Any],
                                                     experiment: str, tmp_path: Path) -> None:
    page = open_page(server, "/")
    answer = page.context.request.get(f"{server.url}/experiments/{experiment}/report/?file=1")
    file = tmp_path / "report.html"
    file.write_bytes(answer.body())
    asked: list[str] = []
    alone = page.context.new_page()
    alone.on("request", lambda request: asked.append(request.url))
    alone.goto(file.as_uri())
    assert asked == [file.as_uri()]
    assert alone.title() == f"<b>name</b>{TURN} – report"
    assert alone.evaluate("document.scripts.length + document.querySelectorAll('[href^=javascript]').length") == 0
    assert "turned" in alone.inner_text("main")
