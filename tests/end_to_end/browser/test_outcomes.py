"""What came of an experiment, as a browser shows it: a DONE of which every trial failed is no success."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.clicks import clicks, count_clicks
from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer, free_port


@pytest.fixture(scope="module")
def failed(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of an experiment that is DONE and of which every trial failed."""
    folder = tmp_path_factory.mktemp("failed")
    (folder / "trial.py").write_text("import no_such_module\n")
    experiment = server.launch({
        "experimentName": "failed", "trialCommand": "python3 trial.py", "trialCodeDirectory": str(folder),
        "trialConcurrency": 2, "maxTrialNumber": 3, "tuner": {"name": "Random", "classArgs": {"seed": 1}},
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trainingService": {"platform": "local"}}, folder)
    server.wait_for_experiment(experiment)
    return experiment


@pytest.mark.slow
def test_equal_failures_stand_together_and_lead_to_their_trials(server: RunningServer, open_page: Any, failed: str
                                                                ) -> None:
    page = open_page(server, f"/experiments/{failed}/")
    causes = page.locator("#failures li")
    expect(causes).to_have_count(1)
    expect(causes).to_contain_text("No module named 'no_such_module'")
    causes.get_by_role("link", name="3 trials").click()
    expect(page.locator("#trials-table tbody tr[data-id]")).to_have_count(3)


@pytest.mark.slow
def test_an_experiment_at_its_limit_offers_more_trials_and_runs_them(server: RunningServer, open_page: Any,
                                                                    tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    trials.tell(0, "final 0.5", "end")
    server.wait_for_experiment(trials.experiment)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    expect(page.get_by_role("button", name="Resume")).to_be_hidden()
    page.get_by_role("button", name="Run more trials…").click()
    page.get_by_label("Further trials").fill("2")
    page.get_by_label("Further trials").press("Enter")
    expect(page.locator(".headline .status").first).to_have_text("RUNNING")
    expect(page.locator("summary [data-cell=max_trial_number], [data-cell=max_trial_number]").first).to_have_text("3")
    trials.tell(1, "final 0.25", "end")
    trials.tell(2, "final 0.75", "end")
    server.wait_for_experiment(trials.experiment)


@pytest.mark.slow
def test_the_best_trial_runs_again_with_a_change_after_the_end_with_four_clicks(server: RunningServer, open_page: Any,
                                                                              tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    trials.tell(0, "final 0.5", "end")
    server.wait_for_experiment(trials.experiment)
    page = open_page(server, "/")
    count_clicks(page)
    page.locator(f"tr[data-id='{trials.experiment}'] [data-cell=name]").click()
    page.locator("#head [data-cell=best]").click()
    expect(page.get_by_role("heading", name="Trial 0")).to_be_visible()
    expect(page.locator("#live")).to_have_text("● live")  # the page's script runs
    page.get_by_role("button", name="Run with changes…").click()
    page.get_by_role("dialog").locator("input[name=x]").fill("0.125")  # it has the focus
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_role("heading", name="Trial 1")).to_be_visible()
    assert clicks(page) == 4
    trials.tell(1, "final 0.25", "end")
    ended = server.wait_for_experiment(trials.experiment)
    assert (ended["status"], ended["max_trial_number"], ended["progress"]["total"]) == ("DONE", 2, 2)


@pytest.mark.slow
def test_digits_separate_what_is_ranked(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=3)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    trials.tell(0, "final 1.00989", "end")
    results = page.locator("#top-trials [data-cell=result]")
    expect(results).to_have_text(["1.01"])
    trials.tell(1, "final 1.00993", "end")
    trials.tell(2, "final 0.5", "end")
    expect(results).to_have_text(["1.00993", "1.00989", "0.5"])  # as they come in
    page.reload()
    expect(results).to_have_text(["1.00993", "1.00989", "0.5"])
    page.goto(f"/experiments/{trials.experiment}/compare/?trials=0,1")
    expect(page.locator("[data-fact=result] [data-cell=result]")).to_have_text(["1.00989", "1.00993"])
    expect(page.locator("[data-fact=result] .best")).to_have_text(["1.00993"])
    page.goto(f"/experiments/{trials.experiment}/trials/?order=-final_value")
    expect(page.locator("#trials-table [data-cell=result]")).to_have_text(["1.00993", "1.00989", "0.5"])


def colour(page: Any, locator: Any) -> tuple[str, str]:
    """Of the element, and of what is good."""
    return tuple(locator.evaluate("""(element) => {
        const good = document.body.appendChild(document.createElement("span"));
        good.className = "status SUCCEEDED";
        return [getComputedStyle(element).color, getComputedStyle(good).color];
    }"""))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["list", "page"])
def test_an_experiment_whose_trials_all_failed_is_not_green(server: RunningServer, open_page: Any, failed: str,
                                                            place: str) -> None:
    page = open_page(server, "/" if place == "list" else f"/experiments/{failed}/")
    within = page.locator(f'#experiments tr[data-id="{failed}"]' if place == "list" else ".headline")
    expect(within.locator(".came-of-it")).to_have_text("3 of 3 trials failed")
    status = within.locator(".status").first
    expect(status).to_have_text("DONE")
    its, good = colour(page, status)
    assert its != good


@pytest.mark.slow
def test_an_unreachable_cluster_is_not_good_and_its_experiment_shows_why(server: RunningServer, open_page: Any,
                                                                         tmp_path: Path) -> None:
    closed = free_port()
    server.post("clusters/", {"name": "lab", "platform": "remote", "settings": {"machineList": [
        {"host": "127.0.0.1", "port": closed, "user": "nobody", "password": "no"}]}})
    (tmp_path / "trial.py").write_text("")
    experiment = server.launch({
        "experimentName": "unreachable", "trialCommand": "python3 trial.py", "trialCodeDirectory": str(tmp_path),
        "trialConcurrency": 1, "maxTrialNumber": 2, "tuner": {"name": "Random"}, "cluster": "lab",
        "nniManagerIp": "127.0.0.1",
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}}, tmp_path)
    page = open_page(server, f"/experiments/{experiment}/")
    expect(page.locator("#why")).to_contain_text(f"127.0.0.1:{closed} refuses connections")
    expect(page.locator("[data-cell=eta]")).to_have_text("–")
    page.goto("/clusters/")
    row = page.locator("article.card", has_text="lab")
    expect(row.locator(".card-health .health")).to_contain_text("cannot be asked at the moment")
    expect(row).to_contain_text("refuses connections")
    server.post(f"experiments/{experiment}/actions/stop/")


@pytest.mark.slow
def test_a_chart_without_results_says_so_until_there_is_one(server: RunningServer, open_page: Any, tmp_path: Path
                                                            ) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    says = ("(shown) => { const [title] = globalThis.echarts?.getInstanceByDom(document.getElementById('result-chart'))"
            "?.getOption()?.title ?? []; return title?.text === 'No result yet.' && title.show === shown; }")
    page.wait_for_function(says, arg=True)
    trials.tell(0, "final 0.5", "end")
    page.wait_for_function(says, arg=False)


@pytest.mark.slow
def test_a_paused_experiment_of_which_nothing_runs_says_that_it_is_paused(server: RunningServer, open_page: Any,
                                                                         tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    page.get_by_role("button", name="Pause").click()
    trials.tell(0, "final 0.5", "end")
    expect(page.locator("[data-cell=running]").first).to_have_text("0")
    expect(page.locator("#why")).to_contain_text("No new trial is started until the experiment is resumed.")
    expect(page.locator("#why")).not_to_contain_text("slot")
    server.post(f"experiments/{trials.experiment}/actions/stop/")


@pytest.mark.slow
def test_a_trial_says_its_rank_and_its_parameters_are_copied_in_three_forms(server: RunningServer, open_page: Any,
                                                                           tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=2,
                       searchSpace={"x": {"_type": "uniform", "_value": [0, 1]},
                                    "act": {"_type": "choice", "_value": ["relu"]}})
    trials.tell(0, "final 0.5", "end")
    trials.tell(1, "final 0.75", "end")
    server.wait_for_experiment(trials.experiment)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#head [data-cell=best]").click()
    expect(page.locator("#rank")).to_have_text("1st of 2")
    for form, text in (("JSON", '"act": "relu"'), ("command line", "--act"), ("Python", '"act"')):
        page.get_by_role("button", name=form).click()
        page.wait_for_function("(text) => navigator.clipboard.readText().then((copied) => copied.includes(text))",
                               arg=text)


@pytest.mark.slow
def test_headings_and_cells_of_the_table_of_clusters_are_in_sight(server: RunningServer, open_page: Any, tmp_path: Path
                                                                  ) -> None:
    for name in ("workstations", "cloud"):
        server.post("clusters/", {"name": name, "platform": "local", "settings": {}})
    (tmp_path / "trial.py").write_text("")
    experiment = server.launch({
        "experimentName": "on two", "trialCommand": "python3 trial.py", "trialCodeDirectory": str(tmp_path),
        "trialConcurrency": 1, "maxTrialNumber": 2, "tuner": {"name": "Random"},
        "clusters": [{"name": "workstations", "upTo": 2}, {"name": "cloud", "weight": 0, "cost": 2}],
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}}, tmp_path)
    page = open_page(server, f"/experiments/{experiment}/", width=768)
    page.settle()
    page.locator("#clusters").scroll_into_view_if_needed()
    shown, needed = page.locator("#clusters .table").evaluate("(box) => [box.clientWidth, box.scrollWidth]")
    assert needed <= shown
    cut = page.locator("#clusters th").evaluate_all(
        "(cells) => cells.filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)")
    assert cut == []
    page.set_viewport_size({"width": 390, "height": 900})
    shown, needed = page.locator("#clusters .table").evaluate("(box) => [box.clientWidth, box.scrollWidth]")
    assert needed <= shown
    names = page.locator('#clusters [data-cluster="cloud"] td[data-label]').evaluate_all(
        "(cells) => cells.map((cell) => getComputedStyle(cell, '::before').content)")
    assert '"Weight "' in names
