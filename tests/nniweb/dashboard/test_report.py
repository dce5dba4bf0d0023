"""An experiment's report: all that matters of it on one page that needs neither scripts nor the server."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.dashboard import markdown
from nniweb.experiments.charts import parameter_importance
from nniweb.experiments.charts.parameter_importance import Importance, NotWorkedOut
from nniweb.experiments.models import Attempt, Experiment, Metric, Trial, TrialParameters, User

Make = Callable[..., Experiment]
MakeAttempt = Callable[..., Attempt]
Page = Callable[..., str]

SPACE = {"lr": {"_type": "loguniform", "_value": [1e-4, 1e-1]}, "kind": {"_type": "choice", "_value": ["a", "b"]}}


@pytest.fixture(autouse=True)
def importance(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other process would answer, which has tests of its own."""
    monkeypatch.setattr("nniweb.dashboard.report.content.importance_of", lambda key, results: Importance(
        [{"importance": 0.75 - place / 4, "correlation": None, "count": 12} for place, _ in enumerate(results.columns)],
        len(results.values), len(results.values), results.revision))


def search(make_experiment: Make, make_attempt: MakeAttempt, trials: int = 12, **fields: Any) -> Experiment:
    experiment = make_experiment(search_space=SPACE, name="A <b>bold</b> search", **fields)
    for number in range(trials):
        attempt = make_attempt(experiment, status="SUCCEEDED", final_number=1 / (number + 1), ended_at=timezone.now())
        TrialParameters.objects.update_or_create(trial=attempt.trial, index=0, defaults={
            "value": {"lr": 10 ** (-1 - number / 8), "kind": "ab"[number % 2]}})
    return experiment


def address(experiment: Experiment) -> str:
    return f"/experiments/{experiment.public_id}/report/"


class Links(HTMLParser):
    """What a page would ask somebody else for."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found += [str(value) for name, value in attrs if name in ("src", "href", "action", "srcset", "data")]
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"]


def test_it_has_the_best_trial_the_charts_the_table_and_the_config(
        page: Page, make_experiment: Make, make_attempt: MakeAttempt) -> None:
    experiment = search(make_experiment, make_attempt, config_text="trialCommand: python3 t.py\n",
                        description="It **matters**.")
    failed = make_attempt(experiment, status="FAILED").trial
    Trial.objects.filter(pk=failed.pk).update(failure="exit_code:1", message="It exited with 1.")
    html = page(address(experiment))
    best = Trial.objects.get(experiment=experiment, sequence_id=11)
    assert best.final_number == pytest.approx(1 / 12)
    assert "Trial 11: Result 0.08333" in html
    assert re.search(r"<td>lr</td><td class=\"value\">0\.00421\d+</td>", html)
    assert 'aria-label="Result of each trial, and the best so far"' in html
    assert 'aria-label="Result over lr"' in html
    assert 'aria-label="Result over kind"' in html
    assert re.search(r'<text class="up"[^>]*>0\.4</text>', html)
    assert re.search(r'<text class="under"[^>]*>10</text>', html)
    assert "It <strong>matters</strong>." in html
    assert "trialCommand: python3 t.py" in html
    assert "1 trial, 12: It exited with 1." in html
    assert "A &lt;b&gt;bold&lt;/b&gt; search" in html
    assert [int(number) for number in re.findall(r'<tr><td class="number">(\d+)</td>', html)] == list(range(11, -1, -1))


def test_a_stored_report_asks_nobody_for_anything_and_runs_nothing(
        admin: User, page: Page, make_experiment: Make, make_attempt: MakeAttempt) -> None:
    experiment = search(make_experiment, make_attempt)
    client = Client()
    client.force_login(admin)
    stored = client.get(address(experiment), {"file": "1"})
    assert stored["Content-Disposition"] == f'attachment; filename="{experiment.public_id}-report.html"'
    links = Links(stored.content.decode())
    assert links.found == []
    assert not links.tags & {"script", "link", "img", "iframe", "form", "object"}
    assert "Save as a file" not in stored.content.decode()
    icon, *others = Links(page(address(experiment))).found
    assert icon.endswith(".svg")
    assert others == [f"/experiments/{experiment.public_id}/", "?file=1"]


def test_the_browser_is_told_to_take_its_style_and_no_other(
        admin: User, make_experiment: Make) -> None:
    client = Client()
    client.force_login(admin)
    answer = client.get(address(make_experiment()))
    [style] = re.findall(r"<style>(.*?)</style>", answer.content.decode(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = answer["Content-Security-Policy"]
    assert f"'sha256-{digest}'" in policy
    assert "unsafe-inline" not in policy


def test_without_results_it_says_so(page: Page, make_experiment: Make) -> None:
    html = page(address(make_experiment()))
    assert "No trial has a result yet." in html
    assert "<svg" not in html


def test_a_problem_with_the_importance_is_said_and_the_rest_is_there(
        page: Page, make_experiment: Make, make_attempt: MakeAttempt, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Importance:
        raise NotWorkedOut("The importance of the parameters could not be computed.")

    monkeypatch.setattr("nniweb.dashboard.report.content.importance_of", fails)
    html = page(address(search(make_experiment, make_attempt)))
    assert "The importance of the parameters could not be computed." in html
    assert "Best trials" in html


def test_values_that_cannot_be_drawn_do_no_harm(page: Page, make_experiment: Make, make_attempt: MakeAttempt) -> None:
    experiment = make_experiment(search_space=SPACE)
    for number, value in enumerate([1.7e308, -1.7e308, 0.0, 5e-324, 1.0]):
        attempt = make_attempt(experiment, status="SUCCEEDED", final_number=value)
        for step, reported in enumerate([value, value / 2]):
            Metric.objects.create(attempt=attempt, kind="PERIODICAL", n=step, sequence=step, value=str(reported),
                                  number=reported, recorded_at=timezone.now(), received_at=timezone.now(),
                                  revision=number)
    html = page(address(experiment))
    assert 'aria-label="Intermediate results of the 5 best trials that have them"' in html
    assert not re.search(r'"[^"]*\b(nan|inf)\b[^"]*"', html)


def test_notes_are_markdown_that_cannot_do_anything(page: Page, make_experiment: Make) -> None:
    html = page(address(make_experiment(description=(
        "# Top\n\n<script>alert(1)</script> <img src=x onerror=alert(1)>\n\n[a](javascript:alert(1)) "
        "[b](https://example.org) ![c](https://example.org/c.png)\n\n|x|y|\n|-|-|\n|1|2|\n"))))
    assert "<h3>Top</h3>" in html
    assert "<script" not in html
    assert "<img" not in html
    assert 'href="javascript' not in html
    assert '<a href="https://example.org" rel="noopener noreferrer nofollow">b</a>' in html
    assert "<td>1</td>" in html


def test_tables_in_notes_are_read_up_to_a_number_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown, "MOST_PARTS_OF_TABLES", 100)
    table = "a|" * 8 + "a\n" + "-|" * 8 + "-\n" + "a|\n" * 8 + "\n"
    assert [markdown.markdown(table * count).count("<table") for count in (1, 5, 1)] == [1, 1, 1]
    assert "<table" not in markdown.markdown("a|" * 300 + "a\n" + "-|" * 300 + "-\na|\n")


def test_it_is_for_those_who_see_the_experiment(make_experiment: Make) -> None:
    experiment = make_experiment()
    client = Client()
    assert client.get(address(experiment)).status_code == 302
    client.force_login(User.objects.create_user("stranger"))
    assert client.get(address(experiment)).status_code == 404


def test_its_queries_and_its_size_do_not_grow_with_the_trials(
        admin: User, make_experiment: Make, make_attempt: MakeAttempt) -> None:
    client = Client()
    client.force_login(admin)
    experiment = search(make_experiment, make_attempt, 20)

    def asked() -> tuple[int, int]:
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(address(experiment))
        return len(queries), answer.content.decode().count("<tr>")

    few, rows_of_few = asked()
    for number in range(120):
        make_attempt(experiment, status="SUCCEEDED", final_number=2.0 + number)
    many, rows_of_many = asked()
    assert many <= few + 1
    assert rows_of_many == rows_of_few + 80
    assert parameter_importance.MOST_TRIALS <= 2_000
