"""The page of a trial that runs on several nodes, in a real browser: where its ranks are, and what they write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.running_server import RunningServer

WAITS = """
import os, sys, time
rank = os.environ["RANK"]
print("rank %s of %s works" % (rank, os.environ["WORLD_SIZE"]), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
if rank == "1":
    sys.exit("the data of rank 1 is damaged")
time.sleep(600)
"""


@pytest.mark.slow
def test_a_trial_shows_its_ranks_what_they_write_and_which_of_them_failed(
        server: RunningServer, open_page: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "trial.py").write_text(WAITS)
    experiment = server.launch({
        "trialCommand": f"python3 trial.py {tmp_path}/go", "trialCodeDirectory": str(tmp_path), "trialConcurrency": 1,
        "maxTrialNumber": 1, "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
        "trainingService": {"platform": "local", "nodes": 3}}, tmp_path)
    server.wait_until(lambda: [trial["status"] for trial in server.get_all(f"experiments/{experiment}/trials/")]
                      == ["RUNNING"], what="the trial runs")
    [trial] = server.get_all(f"experiments/{experiment}/trials/")
    server.wait_until(lambda: [rank["status"] for rank in server.get(f"trials/{trial['id']}/ranks/")["ranks"]]
                      == ["RUNNING"] * 3, what="all ranks run")
    page = open_page(server, f"/trials/{trial['id']}/")
    expect(page.locator("#live")).to_have_text("● live")
    rows = page.locator("#ranks tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("RUNNING")
    page.get_by_role("button", name="stdout of rank 1").click()
    expect(page.locator("#rank-output pre")).to_have_text("rank 1 of 3 works\n")
    expect(page.locator("#rank-output-heading")).to_have_text("stdout of rank 1")
    (tmp_path / "go").touch()
    expect(page.locator("[data-cell=status]").first).to_contain_text("FAILED")
    expect(page.locator("[data-cell=message]")).to_contain_text("Rank 1 on machine")
    expect(page.locator("[data-cell=message]")).to_contain_text("the data of rank 1 is damaged")
    expect(rows.nth(1)).to_contain_text("FAILED")
    page.get_by_role("button", name="stderr of rank 1").click()
    expect(page.locator("#rank-output pre")).to_have_text("the data of rank 1 is damaged\n")
    if folder := os.environ.get("SCREENSHOTS_OF_RANKS"):
        page.screenshot(path=f"{folder}/ranks.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
