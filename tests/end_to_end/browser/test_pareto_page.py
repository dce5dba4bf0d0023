"""Several objectives and versioned changes in a real browser: the chart of the front, its marks, and an undo."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.browser.menus import in_menu
from tests.end_to_end.browser.shown_charts import wait_for_chart
from tests.end_to_end.running_server import RunningServer

FILL = """
from django.utils import timezone
from nniweb.experiments.models import Experiment, MetricName, MetricNumber, Trial, TrialParameters
experiment = Experiment.objects.get(public_id="{experiment}")
experiment.objectives = [dict(metric="gain", optimize_mode="maximize"), dict(metric="cost", optimize_mode="minimize")]
experiment.optimize_mode = "maximize"
experiment.save()
now = timezone.now()
trials = Trial.objects.bulk_create([Trial(
    experiment=experiment, sequence_id=number + 10, status="SUCCEEDED", taught=True, created_at=now, started_at=now,
    ended_at=now, revision=1, final_number=number, on_front=number % 2 == 0) for number in range(30)])
TrialParameters.objects.bulk_create([TrialParameters(trial=trial, value=dict(x=1)) for trial in trials])
cost, size = [MetricName.objects.create(experiment=experiment, name=name) for name in ("cost", "size")]
MetricNumber.objects.bulk_create([
    MetricNumber(trial=trial, metric=metric, final=factor * (number + 1 + number % 2))
    for number, trial in enumerate(trials) for metric, factor in ((cost, 1), (size, 100))])
Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id=100)
"""


@pytest.fixture(scope="module")
def experiment(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Thirty results, every second one on the front, with a third metric."""
    made = LedTrials(server, tmp_path_factory.mktemp("code")).experiment
    server.post(f"experiments/{made}/actions/stop/")
    server.wait_for_experiment(made, "STOPPED")
    server.manage("shell", "-c", FILL.format(experiment=made))
    return made


def counts(option: Any) -> dict[str, int]:
    return {series["name"]: len(series["data"]) for series in option["series"]}


@pytest.mark.slow
def test_the_front_is_drawn_listed_and_found_in_the_table(
        server: RunningServer, open_page: Callable[..., Any], experiment: str) -> None:
    page = open_page(server, f"/experiments/{experiment}/")
    option = wait_for_chart(page, "#pareto-chart", lambda now: counts(now) == {"results": 15, "front": 15})
    assert (option["xAxis"][0]["name"], option["yAxis"][0]["name"]) == ("gain (maximize)", "cost (minimize)")
    expect(page.locator("#front-note")).to_have_text("15 trials are on the front.")
    expect(page.locator("#top-trials tbody tr")).to_have_count(10)
    page.get_by_role("combobox", name="metric").select_option("size")
    chart = wait_for_chart(page, "#result-chart", lambda now: counts(now)["result"] == 30
                           and now["series"][0]["data"][0][1] == 100)
    assert counts(chart)["best so far"] == 0, "nobody said what is better"
    expect(page.page).to_have_url(re.compile(r"\?metric=size$"))
    page.locator('[data-cell="front_size"]').click()
    expect(page.locator("#fitting-count")).to_have_text("15 trials match")
    expect(page.locator('#trials-table [data-cell="front"]').first).to_have_text("★ front")
    expect(page.locator('#trials-table [data-metric="size"]').first).to_have_text("2900")


@pytest.mark.slow
def test_parameters_and_compared_trials_are_shown_by_each_metric(
        server: RunningServer, open_page: Callable[..., Any], experiment: str) -> None:
    page = open_page(server, f"/experiments/{experiment}/parameters/?range=%40result%3A5%7E20")
    wait_for_chart(page, "#parallel-chart", lambda now: counts(now) == {"others": 14, "chosen": 16})
    result = page.locator("span.axis-head")
    expect(result).to_have_text("gain")
    metric = page.get_by_role("combobox", name="metric")
    metric.select_option("cost")
    wait_for_chart(page, "#parallel-chart", lambda now: counts(now) == {"others": 0, "chosen": 30})
    expect(result).to_have_text("cost")
    expect(page.locator("#chosen thead")).to_contain_text("cost")
    expect(page.locator("#chosen tbody td").nth(1)).to_have_text("1")
    expect(page.get_by_label("better is")).to_be_hidden()
    metric.select_option("size")
    expect(page.locator("#chosen tbody td").nth(1)).to_have_text("100")
    page.get_by_label("better is").select_option("maximize")
    expect(page.locator("#chosen tbody td").nth(1)).to_have_text("3100")
    expect(page.page).to_have_url(re.compile(r"\?metric=size&better=more$"))
    page.goto(f"/experiments/{experiment}/compare/?trials=10,11")
    expect(page.locator('[data-fact="metrics.cost"] .best')).to_have_text("1")
    expect(page.locator('[data-fact="result"] .best')).to_have_text("1")
    expect(page.locator('[data-fact="front"]')).to_contain_text("★ front")
    expect(page.get_by_role("combobox", name="metric")).to_be_visible()


@pytest.mark.slow
def test_curves_of_a_further_metric_are_compared_as_they_grow(
        server: RunningServer, open_page: Callable[..., Any], tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, trialConcurrency=2)
    for trial in range(2):
        trials.tell(trial, f"metric {trial}.5")
    server.wait_until(lambda: [one["intermediate_count"] for one in server.get(
        f"experiments/{trials.experiment}/trials/")["results"]] == [1, 1],
                      what="both have reported")
    page = open_page(server, f"/experiments/{trials.experiment}/compare/?trials=0,1")
    wait_for_chart(page, "#compare-chart", lambda now: counts(now) == {"0": 1, "1": 1})
    expect(page.locator("#metric-choice")).to_be_hidden()
    trials.tell(1, 'metric {"default": 2.5, "loss": 0.125}', 'metric {"default": 3.5, "loss": 0.0625}')
    expect(page.locator('[data-fact="latest.loss"]')).to_contain_text("0.0625", timeout=30_000)
    page.get_by_role("combobox", name="metric").select_option("loss")
    wait_for_chart(page, "#compare-chart", lambda now: counts(now) == {"0": 0, "1": 2})
    trials.tell(1, 'metric {"default": 2.5, "loss": 0.03125}')
    wait_for_chart(page, "#compare-chart", lambda now: counts(now) == {"0": 0, "1": 3})
    expect(page.locator('[data-fact="latest.loss"]')).to_contain_text("0.03125")


@pytest.mark.slow
def test_a_click_on_the_front_leads_to_its_trial(
        server: RunningServer, open_page: Callable[..., Any], experiment: str) -> None:
    page = open_page(server, f"/experiments/{experiment}/", width=390)
    wait_for_chart(page, "#pareto-chart", lambda now: counts(now) == {"results": 15, "front": 15})
    place = page.locator("#pareto-chart").evaluate(
        "(element) => globalThis.echarts.getInstanceByDom(element).convertToPixel({seriesIndex: 1}, [28, 29])")
    page.locator("#pareto-chart").scroll_into_view_if_needed()
    box = page.locator("#pareto-chart").bounding_box()
    page.mouse.click(box["x"] + place[0], box["y"] + place[1])
    page.wait_for_url("**/trials/*/")
    expect(page.locator("h1")).to_have_text("Trial 38")
    expect(page.locator("#on-front")).to_be_visible()
    expect(page.locator("#metrics")).to_contain_text("cost")


@pytest.mark.slow
def test_the_tuner_is_exchanged_on_the_page_and_that_undone(
        server: RunningServer, open_page: Callable[..., Any], tmp_path: Path) -> None:
    experiment = LedTrials(server, tmp_path).experiment
    page = open_page(server, f"/experiments/{experiment}/config/", width=390)
    page.allow("status of 400")
    page.allow("status of 409")
    expect(page.locator("#tuner-now")).to_have_text('Random {"seed": 1}')
    in_menu(page, "Tuner…").click()
    dialog = page.get_by_role("dialog", name="Tuner")
    expect(dialog.get_by_label("Its arguments")).to_have_value('{"seed": 1}')
    dialog.get_by_role("combobox").select_option("TPE")
    expect(dialog.get_by_label("Its arguments")).to_have_value("")
    expect(dialog).to_contain_text("constant_liar_type")
    for wrong, words in (("{seed: 1}", "are not a JSON object"), ('{"sead": 1}', 'Did you mean "seed"?')):
        dialog.get_by_label("Its arguments").fill(wrong)
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("alert")).to_contain_text(words)
    page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")
    dialog.get_by_label("Its arguments").fill('{"seed": 3}')
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#tuner-now")).to_have_text('TPE {"seed": 3}', timeout=30_000)
    page.get_by_role("button", name="Undo change 1…").click()
    page.get_by_role("button", name="Undo it").click()
    expect(page.locator("#tuner-now")).to_have_text('Random {"seed": 1}', timeout=30_000)
    in_menu(page, "Tuner…").click()
    expect(dialog.get_by_role("combobox")).to_have_value("Random")


@pytest.mark.slow
def test_a_long_number_among_the_arguments_of_the_tuner_stays_what_it_is(
        server: RunningServer, open_page: Callable[..., Any], tmp_path: Path) -> None:
    seed = 2**53 + 1
    experiment = LedTrials(server, tmp_path, tuner={"name": "TPE", "classArgs": {"seed": seed}}).experiment
    page = open_page(server, f"/experiments/{experiment}/config/")
    dialog = page.get_by_role("dialog", name="Tuner")
    in_menu(page, "Tuner…").click()
    arguments = dialog.get_by_label("Its arguments")
    expect(arguments).to_have_value(f'{{"seed": {seed}}}')
    arguments.fill(f'{{"seed": {seed}, "optimize_mode": "minimize"}}')
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()
    in_menu(page, "Tuner…").click()
    expect(arguments).to_have_value(f'{{"seed": {seed}, "optimize_mode": "minimize"}}')
    assert server.get(f"experiments/{experiment}/")["tuner"]["class_args"] == {
        "seed": seed, "optimize_mode": "minimize"}


@pytest.mark.slow
def test_a_change_is_listed_and_undone(server: RunningServer, open_page: Callable[..., Any], experiment: str) -> None:
    server.patch(f"experiments/{experiment}/", {"description": "first"})
    page = open_page(server, f"/experiments/{experiment}/config/")
    server.patch(f"experiments/{experiment}/", {"description": "second"})
    expect(page.locator("#changes [data-undo]")).to_have_count(2, timeout=30_000)
    page.get_by_role("button", name="Undo change 2…").click()
    page.get_by_role("button", name="Undo it").click()
    expect(page.locator("#changes")).to_contain_text("undoes 2", timeout=30_000)
    expect(page.locator('#changes tr[data-change="2"]')).to_contain_text("undone")
    assert server.get(f"experiments/{experiment}/")["description"] == "first"
