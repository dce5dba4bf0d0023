"""An experiment that started from an earlier one, as a browser shows it while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer

MINIMIZED = {"name": "Auto", "classArgs": {"optimize_mode": "minimize", "seed": 1}}


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
