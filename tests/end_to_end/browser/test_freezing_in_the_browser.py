"""Trials and experiments are frozen and thawed on their pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.running_server import RunningServer

TRIAL = """\
import nni, time
found = nni.load_checkpoint()
nni.get_next_parameter()
for epoch in range(0 if found is None else found.step + 1, 10_000):
    with nni.save_checkpoint(step=epoch) as path, open(path, "w") as file:
        file.write("saved")
    time.sleep(0.2)
"""


@pytest.mark.slow
def test_a_trial_selected_ones_and_an_experiment_are_frozen_and_go_on(server: RunningServer, open_page: Any,
                                                                     tmp_path: Path) -> None:
    (tmp_path / "trial.py").write_text(TRIAL)
    experiment = server.launch({
        "experimentName": "to freeze", "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "trialCommand": "python3 trial.py", "trialConcurrency": 1, "maxTrialNumber": 1, "tuner": {"name": "Random"},
        "trainingService": {"platform": "local"}}, tmp_path)
    server.wait_until(lambda: [one for one in server.get_all(f"experiments/{experiment}/trials/")
                               if one["status"] == "RUNNING"], what="its trial runs")
    trial, = server.get_all(f"experiments/{experiment}/trials/")
    page = open_page(server, f"/trials/{trial['id']}/")
    page.get_by_role("button", name="Freeze…").click()
    page.get_by_role("button", name="Freeze trial").click()
    expect(page.locator("#why")).to_contain_text("Frozen by")
    expect(page.locator('[data-cell="status"]')).to_have_text("WAITING")
    expect(page.get_by_role("button", name="Freeze…")).to_be_hidden()
    page.get_by_role("button", name="Thaw").click()
    expect(page.locator('[data-cell="status"]')).to_have_text("RUNNING")
    expect(page.locator('[data-cell="attempt"]')).to_have_text("attempt 2")

    page = open_page(server, f"/experiments/{experiment}/trials/")
    page.wait_for_load_state("load")
    page.get_by_label("Select all of this page").check()
    page.locator("#selection").get_by_role("button", name="Freeze…").click()
    page.get_by_role("button", name="Freeze trial").click()
    expect(page.locator("#many-done")).to_have_text("1 being frozen.")
    row = page.locator(f'tr[data-id="{trial["id"]}"]')
    expect(row).to_contain_text("Frozen by")
    expect(row).to_contain_text("WAITING")
    page.locator("#selection").get_by_role("button", name="Thaw").click()
    expect(page.locator("#many-done")).to_have_text("1 thawed.")
    expect(row).to_contain_text("RUNNING")

    page.get_by_label("More actions").click()
    page.get_by_role("button", name="Freeze…").first.click()
    page.get_by_role("button", name="Freeze experiment").click()
    expect(page.locator('#head [data-cell="status"]')).to_have_text("PAUSED")
    expect(row).to_contain_text("Frozen because the experiment was paused")
    expect(row).to_contain_text("WAITING")  # and does not run any more
    page.get_by_role("button", name="Resume").click()
    expect(page.locator('#head [data-cell="status"]')).not_to_have_text("PAUSED")
    expect(row).to_contain_text("RUNNING")
    server.post(f"experiments/{experiment}/actions/stop/")
    server.wait_for_experiment(experiment, "STOPPED")
