"""Constraints in a real browser: where the search space is shown, and results that break one where results are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.shown_charts import wait_for_chart
from tests.end_to_end.running_server import RunningServer

TRIAL = """\
import nni
size = nni.get_next_parameter()["size"]
nni.report_final_result({"default": size, "latency": size * 5})
"""


@pytest.fixture(scope="module")
def experiment(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sizes 1, 3, 5, 7 and 9, of which the last two are too slow."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "trial.py").write_text(TRIAL)
    made = server.launch(json.dumps({
        "experimentName": "constrained", "trialCommand": "python3 trial.py", "trialConcurrency": 1,
        "searchSpace": {"size": {"_type": "randint", "_value": [0, 10]}}, "constraints": ["size % 2 = 1"],
        "outcomeConstraints": ["latency <= 25"], "tuner": {"name": "GridSearch"}, "seed": 1,
        "objectives": [{"metric": "default", "optimizeMode": "maximize"}],
        "trainingService": {"platform": "local"}}), folder)
    server.wait_for_experiment(made, "TUNER_NO_MORE_TRIAL", "DONE")
    server.wait_until(lambda: sum(trial["feasible"] is not None for trial in server.get_all(
        f"experiments/{made}/trials/")) == 5, what="all five are judged")
    return made


@pytest.mark.slow
def test_constraints_stand_beside_the_search_space(server: RunningServer, open_page: Callable[..., Any], experiment: str
                                                   ) -> None:
    page = open_page(server, f"/experiments/{experiment}/config/")
    space = page.locator("#search-space")
    expect(space.get_by_role("list", name="Constraints on parameters")).to_have_text("size % 2 = 1")
    expect(space.get_by_role("list", name="Constraints on outcomes")).to_have_text("latency <= 25")


@pytest.mark.slow
def test_feasible_results_lead_and_the_others_are_marked(server: RunningServer, open_page: Callable[..., Any],
                                                         experiment: str) -> None:
    page = open_page(server, f"/experiments/{experiment}/")
    expect(page.locator('[data-cell="best"]').first).to_have_text("5")
    rows = page.locator("#top-trials tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.locator('[data-cell="result"]')).to_have_text(["5", "3", "1", "9", "7"])
    expect(rows.locator('[data-cell="feasible"]')).to_have_text(["", "", "", "infeasible", "infeasible"])
    option = wait_for_chart(page, "#result-chart", lambda now: len(now["series"]) > 3)
    drawn = {series["name"]: sorted(place[1] for place in series["data"]) for series in option["series"]}
    assert (drawn["result"], drawn["infeasible"], drawn["running"]) == ([1, 3, 5], [7, 9], [])
    assert max(drawn["best so far"]) == 5
    slow = next(trial for trial in server.get_all(f"experiments/{experiment}/trials/") if trial["final_number"] == 9)
    page.goto(f"{server.url}/trials/{slow['id']}/")
    expect(page.get_by_text("The result breaks the constraint latency <= 25 (latency = 45)").first).to_be_visible()
    ids = ",".join(trial["id"] for trial in server.get_all(f"experiments/{experiment}/trials/"))
    page.goto(f"{server.url}/experiments/{experiment}/compare/?trials={ids}")
    expect(page.locator('#compare-table [data-fact="result"] .best')).to_have_text("5")
