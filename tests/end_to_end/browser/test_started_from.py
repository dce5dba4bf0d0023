"""An experiment that starts from an earlier one: how it is chosen in the form, and what is shown while it runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer

MINIMIZED = {"name": "Auto", "classArgs": {"optimize_mode": "minimize", "seed": 1}}


@pytest.mark.slow
def test_the_open_overview_says_how_earlier_results_agree_and_which_tuner_proposes(
        server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    earlier = LedTrials(server, tmp_path / "earlier", maxTrialNumber=4, tuner=MINIMIZED)
    for number in range(4):
        earlier.tell(number, f"final {number}", "end")
    server.wait_for_experiment(earlier.experiment)
    now = LedTrials(server, tmp_path / "now", maxTrialNumber=9, tuner=MINIMIZED, startFrom=[earlier.experiment])
    page = open_page(server, f"/experiments/{now.experiment}/")
    agreement = page.locator("#started-from li")
    expect(agreement).to_contain_text("There are too few results yet")
    for number in range(5):
        now.tell(number, f"final {number}", "end")
    expect(agreement).to_contain_text("rank correlation", timeout=30_000)
    expect(page.locator("#tuner-choice")).to_contain_text("Auto: GP")


@pytest.mark.slow
def test_where_the_search_begins_is_set_field_by_field(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    earlier = LedTrials(server, tmp_path, maxTrialNumber=1, experimentName="one to start from")
    earlier.tell(0, "final 1", "end")
    server.wait_for_experiment(earlier.experiment)
    page = open_page(server, "/new/?way=fields")
    text = page.get_by_label("Experiment file")
    text.fill("trialCommand: true\nsearchSpace:\n  x: {_type: uniform, _value: [0, 1]}\n"
              "startFrom: [aaaaaaaaaaaa]\nreplicates: {seeds: [1, 2]}\n")
    group = page.get_by_role("group", name="Start from the results of")
    expect(group.get_by_label("aaaaaaaaaaaa")).to_be_checked()  # what the file says is kept, known or not
    expect(page.get_by_label("Replicates")).to_have_value("2")
    group.get_by_label("one to start from").check()
    expect(text).to_have_value(re.compile(rf"startFrom: \[aaaaaaaaaaaa, {earlier.experiment}\]"))
    group.get_by_label("aaaaaaaaaaaa").uncheck()
    expect(text).to_have_value(re.compile(rf"startFrom: \[{earlier.experiment}\]"))
    page.get_by_label("Constraints on parameters").fill("x < 0.9\nx > 0.1\n")
    page.get_by_label("Points to try first").fill('{"x": 0.5}')
    page.get_by_label("Replicates").fill("3")
    expect(text).to_have_value(re.compile(r"constraints: \[x < 0.9, x > 0.1\]"))
    expect(text).to_have_value(re.compile(r"startPoints: \[\{x: 0.5\}\]"))
    page.get_by_label("Points to try first").fill("0.5")
    page.get_by_label("Points to try first").blur()
    expect(page.get_by_text("Each line is a JSON object")).to_be_visible()
    expect(text).to_have_value(re.compile(r"replicates:\n  seeds: \[1, 2\]\n  n: 3"))
    page.get_by_label("Constraints on parameters").fill("")
    page.get_by_label("Constraints on parameters").blur()
    expect(text).not_to_have_value(re.compile("constraints"))


@pytest.mark.slow
def test_an_answer_about_the_text_leaves_what_is_wrong_in_a_field_and_what_is_said_of_it(
        server: RunningServer, open_page: Any) -> None:
    page = open_page(server, "/new/?way=fields")
    note = page.locator("#fields-note")
    page.get_by_label("Experiment file").fill("trialCommand: true\n"
                                              "searchSpace:\n  x: {_type: uniform, _value: [0, 1]}\n")
    expect(page.get_by_label("Command of one trial")).to_have_value("true")
    held: list[Any] = []
    page.route("**/experiments/config-fields/", lambda route: route.continue_() if held else held.append(route))
    points = page.get_by_label("Points to try first")
    with page.expect_request("**/experiments/config-fields/"):
        page.get_by_label("Replicates").fill("3")
        points.fill("0.5")
    points.blur()
    expect(note).to_contain_text("Each line is a JSON object")
    held[0].continue_()
    expect(page.get_by_label("Experiment file")).to_have_value(re.compile("replicates: 3"))
    expect(note).to_contain_text("Each line is a JSON object")
    expect(points).to_have_value("0.5")
    points.fill('{"x": 0.5}')
    points.blur()
    expect(page.get_by_label("Experiment file")).to_have_value(re.compile(r"startPoints: \[\{x: 0.5\}\]"))
    expect(note).not_to_contain_text("Each line is a JSON object")
