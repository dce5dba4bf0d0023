"""The tab of hyper-parameters in a real browser: each control, its address, and that it changes by itself."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.browser.shown_charts import wait_for_chart
from tests.end_to_end.running_server import RunningServer

SPACE = {
    "lr": {"_type": "loguniform", "_value": [1e-4, 0.1]},
    "units": {"_type": "choice", "_value": [32, 64, 128]},
    "layer": {"_type": "choice", "_value": [
        {"_name": "Conv", "kernel": {"_type": "randint", "_value": [1, 6]}}, {"_name": "Empty"}]},
}
FILL = """
import math, random
from django.utils import timezone
from nniweb.experiments.models import Experiment, Trial, TrialParameters
chance = random.Random(6)
experiment = Experiment.objects.get(public_id="{experiment}")
experiment.search_space = {space}
experiment.save()
now = timezone.now()
points = []
for number in range(40):
    layer = dict([("_name", "Conv"), ("kernel", chance.randint(1, 5))]) if number % 2 else dict(_name="Empty")
    points.append(dict(lr=10 ** chance.uniform(-4, -1), units=chance.choice([32, 64, 128]), layer=layer))
trials = Trial.objects.bulk_create([Trial(
    experiment=experiment, sequence_id=number + 10, status="SUCCEEDED", taught=True, created_at=now, started_at=now,
    final_number=1 - abs(math.log10(point["lr"]) + 2) / 2, ended_at=now, revision=1)
    for number, point in enumerate(points)])
TrialParameters.objects.bulk_create([TrialParameters(trial=trial, parameter_id=trial.sequence_id, value=point)
                                     for trial, point in zip(trials, points)])
Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id=100)
"""
GREAT = """
from django.utils import timezone
from nniweb.experiments.models import Cluster, Experiment, Trial, TrialParameters, User
now = timezone.now()
cluster, _ = Cluster.objects.get_or_create(name="still", defaults={{"platform": "local", "enabled": False}})
experiment = Experiment.objects.create(
    name="great", cluster=cluster, owner=User.objects.first(), status="STOPPED", target="STOP", seed=1,
    search_space={{"seed": {{"_type": "randint", "_value": [2**60, 2**60 + 3]}},
                  "x": {{"_type": "uniform", "_value": [0, 1]}}}},
    tuner={{"name": "Random"}}, optimize_mode="maximize", trial_command="true", trial_concurrency=1, created_at=now,
    next_sequence_id=3)
for number, result in enumerate({results}):
    trial = Trial.objects.create(experiment=experiment, sequence_id=number, status="SUCCEEDED", taught=True,
                                 final_number=result, created_at=now, started_at=now, ended_at=now)
    TrialParameters.objects.create(trial=trial, parameter_id=number, value={{"seed": 2**60, "x": result}})
print(experiment.public_id)
"""


def shown(option: Any) -> dict[str, Any]:
    """What the tests look at: lower ends of the axes, and how many trials a series has."""
    axes = option.get("parallelAxis") or []
    return {"lowest": [axis["min"] for axis in axes],
            "counts": {series["name"]: len(series["data"]) for series in option["series"]}}


def wait_for(page: Any, selector: str, condition: Callable[[Any], bool]) -> Any:
    return shown(wait_for_chart(page, selector, lambda option: condition(shown(option))))


def wait_for_chosen(page: Any, count: int) -> Any:
    return wait_for(page, "#parallel-chart", lambda now: now["counts"]["chosen"] == count)


@pytest.fixture(scope="module")
def experiment(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An experiment with forty results."""
    made = LedTrials(server, tmp_path_factory.mktemp("code")).experiment
    server.post(f"experiments/{made}/actions/stop/")
    server.wait_for_experiment(made, "STOPPED")
    server.manage("shell", "-c", FILL.format(experiment=made, space=json.dumps(SPACE)))
    return made


@pytest.mark.slow
def test_the_parameters_are_drawn_with_a_place_for_what_is_not_used(
        server: RunningServer, open_page: Callable[..., Any], experiment: str) -> None:
    page = open_page(server, f"/experiments/{experiment}/")
    page.get_by_role("navigation", name="Parts of this experiment").get_by_role("link", name="Hyper-parameters").click()
    wait_for_chosen(page, 40)
    heads = page.locator(".axis-head")
    expect(heads).to_have_count(5)
    assert {*heads.locator("[aria-hidden]").all_inner_texts()} == {"lr", "units", "layer", "kernel (Conv)"}
    expect(heads.last).to_have_text("result")
    option = wait_for(page, "#parallel-chart", lambda now: len(now["lowest"]) == 5)
    assert [low < 0 for low in option["lowest"]].count(True) == 1, "the axis of what not all trials have"
    expect(page.locator("#chosen tbody tr")).to_have_count(10)
    expect(page.locator("#chosen-note")).to_have_text("All 40; the best 10:")
    expect(page.locator("#parallel-chart")).to_have_attribute("aria-label", re.compile("40 trials across 4 parameters"))
    expect(page.locator("#importance tbody tr")).to_have_count(4, timeout=60_000)  # a process of its own works it out
    expect(page.locator("#importance-note")).to_contain_text("From 40 results")
    assert page.locator("#importance tbody th").first.inner_text() == "lr"
    page.locator("#slices").scroll_into_view_if_needed()
    expect(page.locator("#slices figure")).to_have_count(4)
    wait_for(page, "#slices [data-name=lr]", lambda now: now["counts"]["chosen"] == 40)
    page.locator("#chosen tbody a").first.click()
    page.wait_for_url("**/trials/*/")


@pytest.mark.slow
def test_the_top_and_a_range_choose_trials_and_stand_in_the_address(
        server: RunningServer, open_page: Callable[..., Any], experiment: str) -> None:
    page = open_page(server, f"/experiments/{experiment}/parameters/")
    wait_for_chosen(page, 40)
    page.get_by_role("combobox", name="Trials").select_option("20")
    wait_for(page, "#parallel-chart", lambda now: now["counts"] == {"chosen": 8, "others": 32})
    expect(page.page).to_have_url(re.compile(r"\?top=20$"))
    page.get_by_role("combobox", name="Trials").select_option("100")
    # drawn with the mouse: the upper half of the axis of lr
    box = page.locator("#parallel-chart canvas").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 130, steps=4)
    page.mouse.move(box["x"] + 60, box["y"] + 200, steps=4)
    page.mouse.up()
    now = wait_for(page, "#parallel-chart", lambda now: 0 < now["counts"]["chosen"] < 40)
    expect(page.page).to_have_url(re.compile(r"\?range=lr%3A[\d.e-]+%7E[\d.e-]+$"))
    count = now["counts"]["chosen"]
    expect(page.locator("#chosen-note")).to_contain_text(f"{count} of 40")
    page.reload()
    wait_for_chosen(page, count)
    page.get_by_role("button", name="Clear ranges").click()
    wait_for_chosen(page, 40)
    expect(page.page).to_have_url(re.compile(r"/parameters/$"))


@pytest.mark.slow
def test_ranges_are_chosen_without_a_mouse(server: RunningServer, open_page: Callable[..., Any],
                                           experiment: str) -> None:
    page = open_page(server, f"/experiments/{experiment}/parameters/", width=390)
    wait_for_chosen(page, 40)
    page.get_by_text("Ranges as numbers").focus()
    page.keyboard.press("Enter")
    lr = page.get_by_role("group", name="lr")
    lr.get_by_label("from").fill("soon")
    lr.get_by_label("from").press("Tab")
    expect(lr.get_by_label("from")).to_have_attribute("aria-invalid", "true")
    lr.get_by_label("from").fill("0.01")
    lr.get_by_label("from").press("Tab")
    wait_for(page, "#parallel-chart", lambda now: 5 < now["counts"]["chosen"] < 40)
    page.get_by_role("group", name="kernel (Conv)").get_by_label("from").fill("none")
    page.get_by_role("group", name="kernel (Conv)").get_by_label("to").fill("none")
    page.get_by_role("group", name="kernel (Conv)").get_by_label("to").press("Tab")
    expect(page.page).to_have_url(re.compile("none%7Enone"))
    layers = page.locator("#chosen tbody tr td:nth-child(5)")
    expect(layers.first).to_have_text("Empty")
    assert set(layers.all_inner_texts()) == {"Empty"}
    lr.get_by_label("from").fill("0.09999")
    lr.get_by_label("to").fill("0.1")
    lr.get_by_label("to").press("Tab")
    expect(page.get_by_text("No trial lies in all of these ranges.")).to_be_visible()
    page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_axes_the_scale_and_the_contours_pair_are_choices_of_the_address(
        server: RunningServer, open_page: Callable[..., Any], experiment: str) -> None:
    page = open_page(server, f"/experiments/{experiment}/parameters/?x=units&y=lr", dark=True)
    wait_for_chosen(page, 40)
    expect(page.get_by_role("combobox", name="x", exact=True)).to_have_value("units")
    wait_for(page, "#contour-chart", lambda now: now["counts"]["trials"] == 40)
    page.get_by_role("combobox", name="x", exact=True).select_option("layer.Conv.kernel")
    wait_for(page, "#contour-chart", lambda now: now["counts"]["trials"] == 20)
    expect(page.locator("#contour-note")).to_have_text("20 of the 40 trials have both.")
    expect(page.page).to_have_url(re.compile("x=layer.Conv.kernel&|x=layer.Conv.kernel$"))
    page.get_by_text("Axes", exact=True).click()
    page.get_by_role("group", name="Parameters that have an axis").get_by_label("units").uncheck()
    wait_for(page, "#parallel-chart", lambda now: len(now["lowest"]) == 4)
    page.get_by_label("log result").check()
    expect(page.page).to_have_url(re.compile("log=1"))
    page.reload()
    wait_for(page, "#parallel-chart", lambda now: len(now["lowest"]) == 4 and now["counts"]["chosen"] == 40)
    expect(page.get_by_label("log result")).to_be_checked()
    expect(page.get_by_role("combobox", name="y", exact=True)).to_have_value("lr")


@pytest.mark.slow
def test_the_first_results_appear_by_themselves(server: RunningServer, open_page: Callable[..., Any],
                                                tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/parameters/")
    expect(page.get_by_text("No trial has a final result yet.")).to_be_visible()
    page.evaluate("window.markOfTheTest = true")
    trials.tell(0, "final 0.25", "end")
    wait_for_chosen(page, 1)
    expect(page.get_by_text("Importance needs at least 10 results; there is 1 so far.")).to_be_visible()
    trials.tell(1, "final 0.75", "end")
    wait_for_chosen(page, 2)
    expect(page.locator("#chosen tbody tr").first).to_contain_text("0.75")
    assert page.evaluate("window.markOfTheTest === true")


@pytest.mark.slow
@pytest.mark.parametrize("results", [
    [-1e308, 0.0, 1e308], [1e17, 1e17 + 16, 1e17 + 32], [5e15] * 3, [5e-324] * 3, [0.0, 5e-324, 0.0],
    [sys.float_info.max] * 3], ids=str)
def test_numbers_of_any_size_have_a_place_on_their_axes(server: RunningServer, open_page: Callable[..., Any],
                                                        results: list[float]) -> None:
    experiment = server.manage("shell", "-c", GREAT.format(results=results)).stdout.split()[-1]
    page = open_page(server, f"/experiments/{experiment}/parameters/")
    wait_for_chosen(page, 3)
    option = wait_for_chart(page, "#parallel-chart", lambda option: len(option["parallelAxis"]) == 3)
    [chosen] = [series for series in option["series"] if series["name"] == "chosen"]
    places = [place for line in chosen["data"] for place in line["value"]]
    assert all(isinstance(place, float | int) and 0 <= place <= 1 for place in places), places
    expect(page.locator("#chosen tbody tr")).to_have_count(3)
    page.goto("/")
    line = page.locator(f"#experiments tr[data-id='{experiment}'] .sparkline path")
    expect(line).to_have_attribute("d", re.compile(r"^[MHV\d. ]+$"))
