"""Who uses the clusters: persons and groups with their running and waiting trials and GPU-hours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer


@pytest.mark.slow
def test_a_running_trial_is_counted_for_its_person_and_its_cluster(server: RunningServer, open_page: Any,
                                                                   tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    server.wait_until(lambda: server.get(f"experiments/{trials.experiment}/trials/", status="RUNNING")["results"],
                      what="a trial runs")
    page = open_page(server, "/clusters/")
    expect(page.locator("article.card", has_text="local").locator("[data-fact=owners]")).to_have_text("admin 1")
    page.get_by_role("link", name="Usage by person and group").click()
    row = page.locator("table.usage tbody tr", has_text="admin")
    expect(row.locator("td")).to_have_text(["admin", "–", "1", "0", "0", "0.0"])
    page.get_by_label("Cluster").select_option(label="local")
    expect(page.locator("h1")).to_have_text("Usage of local")
    expect(page.locator("table.usage tbody tr", has_text="admin").locator("td").nth(2)).to_have_text("1")
