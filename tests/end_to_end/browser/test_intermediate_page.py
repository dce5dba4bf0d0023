"""The tab of intermediate results in a real browser: which curves, how they are drawn, and that they grow."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.browser.shown_charts import wait_for_chart
from tests.end_to_end.running_server import RunningServer

FILL = """
from datetime import timedelta
from django.utils import timezone
from nniweb.experiments.models import Attempt, Experiment, Metric, Trial
experiment = Experiment.objects.get(public_id="{experiment}")
now = timezone.now()
for number in range(10, 40):
    status = "EARLY_STOPPED" if number % 10 == 3 else "SUCCEEDED"
    trial = Trial.objects.create(
        experiment=experiment, sequence_id=number, status=status, taught=True, created_at=now, started_at=now,
        final_number=number / 100, ended_at=now, revision=1, intermediate_count=8)
    attempt = Attempt.objects.create(
        trial=trial, job_name=trial.public_id, created_at=now, started_at=now, stage="ended")
    Metric.objects.bulk_create([Metric(
        attempt=attempt, n=step, kind="PERIODICAL", sequence=step, value="1", number=number / 100 + step % 2,
        revision=1, recorded_at=now + timedelta(seconds=30 * step), received_at=now) for step in range(8)])
Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id=100)
"""


@pytest.fixture(scope="module")
def experiment(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An experiment with thirty curves of eight points, of which three were stopped by an assessor."""
    made = LedTrials(server, tmp_path_factory.mktemp("code")).experiment
    server.post(f"experiments/{made}/actions/stop/")
    server.wait_for_experiment(made, "STOPPED")
    server.manage("shell", "-c", FILL.format(experiment=made))
    return made


def wait_for(page: Any, condition: Callable[[list[Any]], bool]) -> list[Any]:
    """Wait until the chart's curves (of trials, not what lies behind them) are as wanted; returns them."""
    def curves(option: Any) -> list[Any]:
        return [series for series in option["series"] if not series["id"].startswith("raw-")]

    return curves(wait_for_chart(page, "#curve-chart", lambda option: condition(curves(option))))


def names(curves: list[Any]) -> list[str]:
    return [curve["name"] for curve in curves]


@pytest.mark.slow
def test_curves_are_chosen_by_kind_count_and_number(server: RunningServer, open_page: Callable[..., Any],
                                                    experiment: str) -> None:
    page = open_page(server, f"/experiments/{experiment}/")
    page.get_by_role("link", name="Intermediate", exact=True).click()
    wait_for(page, lambda curves: len(curves) == 20)
    expect(page.locator("#chart-note")).to_contain_text("20 of 30 trials.")
    expect(page.locator("#curves tbody tr")).to_have_count(20)
    page.locator("#count").select_option("5")
    wait_for(page, lambda curves: names(curves) == ["35", "36", "37", "38", "39"])  # the greatest, the best on top
    page.locator("#which").select_option("stopped")
    stopped = wait_for(page, lambda curves: names(curves) == ["13", "23", "33"])
    assert all(curve["lineStyle"]["type"] == "dashed" and curve["markPoint"]["data"] for curve in stopped)
    expect(page.locator("#stopped-note")).to_be_visible()
    expect(page.page).to_have_url(re.compile(r"\?which=stopped&count=5$"))
    page.locator("#which").select_option("running")
    expect(page.locator("#no-curves")).to_have_text("No trial runs now.")
    page.locator("#which").select_option("chosen")
    expect(page.locator("#no-curves")).to_contain_text("Enter numbers of trials")
    page.locator("#trials").fill("12, 33 20")
    page.locator("#trials").press("Enter")
    wait_for(page, lambda curves: names(curves) == ["12", "20", "33"])
    expect(page.page).to_have_url(re.compile(r"\?trials=12%2C33%2C20$"))
    page.reload()
    wait_for(page, lambda curves: names(curves) == ["12", "20", "33"])
    row = page.locator("#curves tbody tr").nth(1)
    row.hover()
    expect(row).to_have_class(re.compile("stands-out"))
    row.get_by_role("link", name="33").click()
    page.wait_for_url("**/trials/*/")
    expect(page.locator("h1")).to_contain_text("33")


@pytest.mark.slow
def test_smoothing_and_axes_stand_in_the_address(server: RunningServer, open_page: Callable[..., Any],
                                                 experiment: str) -> None:
    page = open_page(server, f"/experiments/{experiment}/intermediate/?trials=20", dark=True, width=390)
    raw = wait_for(page, lambda curves: len(curves) == 1)[0]["data"]
    assert [point[:2] for point in raw][:3] == [[0, 0.2], [1, 1.2], [2, 0.2]]
    slider = page.get_by_role("slider", name="smoothing")
    slider.focus()
    slider.press("End")
    expect(page.locator("#smoothing-value")).to_have_text("0.95")
    wait_for(page, lambda curves: abs(curves[0]["data"][7][1] - 0.7) < 0.1 and curves[0]["data"][0][1] == 0.2)
    page.get_by_role("button", name="by time").click()
    wait_for(page, lambda curves: [point[0] for point in curves[0]["data"]][:3] == [0, 30, 60])
    page.get_by_label("log x").check()
    wait_for(page, lambda curves: curves[0]["data"][0][0] == 30)  # nothing lies at zero of a logarithmic axis
    page.get_by_label("log y").check()
    wait_for_chart(page, "#curve-chart", lambda option: option["yAxis"][0]["type"] == "log")
    expect(page.page).to_have_url(re.compile(r"\?trials=20&smooth=0.95&x=time&logx=1&logy=1$"))
    page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")
    page.reload()
    wait_for_chart(page, "#curve-chart", lambda option: option["yAxis"][0]["type"] == "log")
    expect(page.get_by_role("button", name="by time")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#smoothing-value")).to_have_text("0.95")


@pytest.mark.slow
def test_curves_grow_while_trials_report(server: RunningServer, open_page: Callable[..., Any], tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/intermediate/?which=latest")
    expect(page.locator("#no-curves")).to_contain_text("No trial has reported an intermediate result yet.")
    page.evaluate("window.markOfTheTest = true")
    trials.tell(0, "metric 0.25")
    wait_for(page, lambda curves: [len(curve["data"]) for curve in curves] == [1])
    trials.tell(0, "metric 0.5", "metric 0.75")
    wait_for(page, lambda curves: [len(curve["data"]) for curve in curves] == [3])
    expect(page.locator("#curves tbody tr").first).to_contain_text("0.75")
    trials.tell(0, "final 1", "end")
    expect(page.locator("#curves tbody tr").first).to_contain_text("SUCCEEDED")
    assert page.evaluate("window.markOfTheTest === true")


@pytest.mark.slow
def test_the_best_curve_is_drawn_on_top_of_all_others(server: RunningServer, open_page: Callable[..., Any],
                                                      experiment: str) -> None:
    best = server.get(f"experiments/{experiment}/")["progress"]["best_sequence_id"]
    page = open_page(server, f"/experiments/{experiment}/intermediate/")
    curves = wait_for(page, lambda curves: len(curves) > 5)
    assert str(best) in names(curves)[-1], names(curves)
    assert curves[-1]["z"] == max(curve["z"] for curve in curves)


@pytest.mark.slow
def test_nothing_is_said_of_no_curves_before_the_server_has_answered(
        server: RunningServer, open_page: Callable[..., Any], experiment: str) -> None:
    page = open_page(server, "/")
    held: list[Any] = []
    is_held = [True]
    page.route("**/series/**", lambda route: held.append(route) if is_held else route.continue_())
    page.goto(f"/experiments/{experiment}/intermediate/")
    empty = page.locator("#no-curves")
    expect(empty).to_have_text("Reading the curves …")
    is_held.clear()  # a change of the experiment may ask anew: the newest answer counts
    for route in held:
        route.continue_()
    expect(empty).to_be_hidden()
    expect(page.locator("#curves tbody tr").first).to_be_visible()
