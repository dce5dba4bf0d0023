"""The table of trials and the trials side by side in a real browser: filter, columns, choice, actions, export, live."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer

MARK = "window.markOfTheTest = true"
FILL = """
from django.utils import timezone
from nniweb.experiments.models import Cluster, Experiment, Metric, Trial, TrialParameters, Attempt, User
now = timezone.now()
cluster, _ = Cluster.objects.get_or_create(name="still", defaults={"platform": "local", "enabled": False})
experiment = Experiment.objects.create(
    name="filled", cluster=cluster, owner=User.objects.first(), status="PAUSED", target="PAUSE", seed=1,
    search_space={"lr": {"_type": "uniform", "_value": [0, 1]}, "act": {"_type": "choice", "_value": ["relu", "tanh"]}},
    tuner={"name": "Random"}, optimize_mode="maximize", trial_command="true", trial_concurrency=1, max_trial_number=60,
    created_at=now, next_sequence_id=60)
for number in range(60):
    failed = number % 10 == 3
    trial = Trial.objects.create(experiment=experiment, sequence_id=number, status="FAILED" if failed else "SUCCEEDED",
        taught=True, final_number=None if failed else number / 100, created_at=now, started_at=now, ended_at=now,
        message="No such data set." if failed else "", intermediate_count=3)
    TrialParameters.objects.create(trial=trial, parameter_id=number,
                                   value={"lr": number / 1000, "act": "tanh" if number % 2 else "relu"})
    attempt = Attempt.objects.create(trial=trial, job_name=trial.public_id, stage="ended", created_at=now, duration=5.0,
                                     machine_name="alpha", exit_code=int(failed))
    Metric.objects.bulk_create(
        Metric(attempt=attempt, n=step, kind="PERIODICAL", sequence=step, value="0.5", number=0.5, recorded_at=now,
               received_at=now) for step in range(3))
print(experiment.public_id)
"""


def filled(server: RunningServer) -> str:
    """A paused experiment of sixty trials: every tenth failed, lr rises with the number."""
    return server.manage("shell", "-c", FILL).stdout.split()[-1]


def numbers(page: Any) -> Any:
    return page.locator("#trials-table [data-cell=number]")


@pytest.mark.slow
def test_the_table_is_filtered_sorted_paged_and_its_columns_are_chosen_without_a_reload(
        server: RunningServer, open_page: Callable[..., Any]) -> None:
    experiment = filled(server)
    page = open_page(server, f"/experiments/{experiment}/trials/")
    expect(page.locator("#live")).to_have_text("● live")
    page.evaluate(MARK)
    page.keyboard.press("/")
    box = page.get_by_label("Filter")
    expect(box).to_be_focused()
    box.fill("status = FAILED and lr < 0.03")
    box.press("Enter")
    expect(numbers(page)).to_have_text(["23", "13", "3"])
    expect(page.locator("#fitting-count")).to_have_text("3 trials match")
    expect(page.page).to_have_url(re.compile(r"filter=status\+%3D\+FAILED"))
    page.get_by_role("link", name="lr").click()
    expect(numbers(page)).to_have_text(["3", "13", "23"])
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("lr")
    expect(page.get_by_role("link", name="lr")).to_be_focused()
    page.locator("#column-choice summary").click()
    page.get_by_label("Exit code").check()
    expect(page.locator("#trials-table [data-cell=exit_code]")).to_have_text(["1", "1", "1"])
    page.get_by_label("act parameter").uncheck()
    expect(page.get_by_role("link", name="act")).to_have_count(0)
    colleague = open_page(server, page.url)  # a link shows the same
    expect(numbers(colleague)).to_have_text(["3", "13", "23"])
    expect(colleague.locator("#trials-table [data-cell=exit_code]")).to_have_count(3)
    page.get_by_role("button", name="Reset columns").click()
    expect(page.locator("#trials-table [data-cell=exit_code]")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#column-choice .sheet")).to_be_hidden()
    page.go_back()
    expect(page.locator("#trials-table [data-cell=exit_code]")).to_have_count(3)
    box.fill("lrr < 3")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.locator("#filter-mistake")).to_contain_text("did you mean lr?")
    expect(page.locator("#filter-mistake mark")).to_have_text("lrr")
    expect(numbers(page)).to_have_count(0)
    page.locator("#filter-help summary").click()
    expect(page.locator("#filter-help")).to_contain_text("exit_code")
    page.get_by_role("link", name="Show all").click()
    expect(numbers(page)).to_have_count(50)
    expect(box).to_have_value("")
    page.get_by_role("link", name="Next").click()
    expect(numbers(page)).to_have_count(10)
    page.get_by_label("Rows").select_option("100")
    expect(numbers(page)).to_have_count(60)
    page.locator("#counts li[data-status=FAILED] a").click()
    expect(numbers(page)).to_have_count(6)
    assert page.evaluate("window.markOfTheTest === true"), "all of it without a reload"


@pytest.mark.slow
def test_many_are_chosen_tagged_exported_run_again_and_stopped(server: RunningServer, open_page: Callable[..., Any]
                                                               ) -> None:
    experiment = filled(server)
    page = open_page(server, f"/experiments/{experiment}/trials/?filter=number+<+52")
    chosen, done = page.locator("#chosen"), page.locator("#many-done")
    boxes = page.locator("[data-choose]")
    boxes.nth(0).click()
    boxes.nth(3).click(modifiers=["Shift"])
    expect(chosen).to_have_text("4 selected")
    page.get_by_role("link", name="Next").click()
    expect(numbers(page)).to_have_text(["1", "0"])
    boxes.nth(1).check()
    expect(chosen).to_have_text("5 selected")  # those on the other page, too
    page.get_by_role("button", name="Tags").click()
    page.get_by_label("Add", exact=True).fill("good, seen")
    page.get_by_role("button", name="Save").click()
    expect(done).to_have_text("5 tagged.")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV", exact=True).click()
    with open(download.value.path(), newline="") as file:
        assert [row["sequence_id"] for row in csv.DictReader(file)] == ["0", "48", "49", "50", "51"]
    page.get_by_role("button", name="Clear selection").click()
    expect(chosen).to_have_text("None selected")
    expect(page.get_by_role("button", name="Run again")).to_be_disabled()
    page.get_by_label("Filter").fill("tag = good or number < 50")
    page.get_by_label("Filter").press("Enter")
    expect(numbers(page)).to_have_count(50)  # it was page 2 of as many
    page.get_by_label("Select all of this page").check()
    expect(chosen).to_have_text("50 selected")
    page.get_by_role("button", name="Select all 52 that match").click()
    expect(chosen).to_have_text("All 52 that match are selected")
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON", exact=True).click()
    assert len(json.loads(Path(download.value.path()).read_text())["trials"]) == 52
    page.get_by_role("button", name="Run again").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Run 52 trials again?")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Run again").click()
    expect(dialog.get_by_role("button", name="Run again"), "nothing is lost by it").to_have_class("primary")
    dialog.get_by_role("button", name="Run again").click()
    expect(done).to_have_text("52 queued again.")
    expect(page.locator("#counts li[data-status=WAITING] b")).to_have_text("52")
    page.get_by_label("Filter").fill("source = rerun")
    page.get_by_label("Filter").press("Enter")
    expect(page.locator("#trials-table .status")).to_have_text(["WAITING"] * 50)
    page.get_by_label("Select all of this page").check()
    page.get_by_role("button", name="Select all 52 that match").click()
    page.get_by_role("button", name="Stop…").last.click()
    expect(dialog).to_contain_text("metrics that they have not reported yet are lost")
    dialog.get_by_role("button", name="Stop trials").click()
    expect(done).to_have_text("52 stopped.")
    expect(page.locator("#counts li[data-status=USER_CANCELED] b")).to_have_text("52")


@pytest.mark.slow
def test_a_choice_survives_what_changes_and_leads_to_trials_side_by_side(server: RunningServer,
                                                                         open_page: Callable[..., Any], tmp_path: Path
                                                                         ) -> None:
    trials = LedTrials(server, tmp_path, trialConcurrency=2, maxTrialNumber=2)
    page = open_page(server, f"/experiments/{trials.experiment}/trials/?columns=status,latest,intermediates,machine")
    row = page.locator("#trials-table tbody tr")
    expect(row.locator(".status")).to_have_text(["RUNNING", "RUNNING"])
    expect(page.get_by_role("button", name="Compare")).to_be_disabled()
    page.get_by_label("Select trial 0").check()
    page.get_by_label("Select trial 1").check()
    trials.tell(0, "metric 0.25")
    expect(page.locator("[data-cell=latest]").last).to_have_text("0.25")
    expect(page.locator("[data-cell=intermediates]").last).to_have_text("1")
    expect(page.get_by_label("Select trial 0")).to_be_checked()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare/?trials=*")
    expect(page.locator("#compare-table thead th")).to_have_count(2)
    expect(page.locator("#compare-chart canvas")).to_be_visible()
    expect(page.locator("#compare-parameters .differs th")).to_contain_text("x")
    page.evaluate(MARK)
    first = page.locator("#compare-table tr[data-fact=result] td").first
    trials.tell(0, "metric 0.5", "final 0.75", "end")
    expect(first).to_have_text("0.75")
    expect(first.locator(".best")).to_have_count(1)
    expect(page.locator("#compare-table tr[data-fact=intermediates] td").first).to_have_text("2")
    trials.tell(1, "metric 0.5", "final 0.5", "end")
    expect(page.locator("#compare-table .status")).to_have_text(["SUCCEEDED", "SUCCEEDED"])
    assert page.evaluate("window.markOfTheTest === true")


@pytest.mark.slow
def test_compared_trials_are_added_left_out_and_reduced_to_what_differs(server: RunningServer,
                                                                        open_page: Callable[..., Any]) -> None:
    experiment = filled(server)
    page = open_page(server, f"/experiments/{experiment}/compare/?trials=2,4", width=390)
    heads = page.locator("#compare-table thead th")
    expect(heads).to_have_count(2)
    act = page.locator("#compare-parameters tr", has_text="act")
    expect(act).to_be_visible()
    page.get_by_label("only what differs").check()
    expect(act).to_be_hidden()
    expect(page.page).to_have_url(re.compile("only=differing"))
    page.get_by_label("Trials to add").fill("5")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(heads).to_have_count(3)
    expect(act).to_be_visible()  # 5 has another one
    page.get_by_role("link", name="Leave out trial 5").click()
    expect(heads).to_have_count(2)
    expect(act).to_be_hidden()
    page.locator("#log-axis").check()
    expect(page.page).to_have_url(re.compile("log=1"))
    expect(page.locator("#compare-chart canvas")).to_be_visible()
    page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")


MANY_MORE = """
from django.db import transaction
from django.utils import timezone
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.pubsub.revisions import next_revision
experiment = Experiment.objects.get(public_id="{experiment}")
with transaction.atomic():
    revision = next_revision(experiment.pk)
    Trial.objects.bulk_create(Trial(experiment=experiment, sequence_id=number, status="SUCCEEDED", revision=revision,
                                    created_at=timezone.now()) for number in range(60, 261))
    Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id=261)
"""


@pytest.mark.slow
def test_more_than_a_frame_carries_is_asked_for_until_it_is_here(server: RunningServer, open_page: Callable[..., Any]
                                                                 ) -> None:
    experiment = filled(server)
    page = open_page(server, f"/experiments/{experiment}/trials/")
    expect(page.locator("#live")).to_have_text("● live")
    page.allow("status of 503")
    refused: list[Any] = []
    page.route(re.compile(f"/{experiment}/trials/$"), lambda route: route.continue_() if refused
               else (refused.append(route), route.fulfill(status=503, body="")))
    server.manage("shell", "-c", MANY_MORE.format(experiment=experiment))
    expect(numbers(page).first).to_have_text("260")
    assert refused


ONE_MORE = """
from django.db import transaction
from django.utils import timezone
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.pubsub.revisions import next_revision
experiment = Experiment.objects.get(public_id="{experiment}")
with transaction.atomic():
    Trial.objects.create(experiment=experiment, sequence_id=60, status="SUCCEEDED", created_at=timezone.now(),
                         revision=next_revision(experiment.pk))
    Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id=61)
"""


@pytest.mark.slow
def test_a_trial_that_is_heard_of_while_the_table_is_on_its_way_has_its_row(server: RunningServer,
                                                                           open_page: Callable[..., Any]) -> None:
    experiment = filled(server)
    page = open_page(server, f"/experiments/{experiment}/trials/")
    expect(page.locator("#live")).to_have_text("● live")
    held: list[tuple[Any, Any]] = []
    page.route(re.compile(rf"/{experiment}/trials/\?density="), lambda route: held.append((route, route.fetch())))
    page.evaluate("""() => {
        const choice = document.querySelector("#trial-filter [name=density]");
        choice.value = [...choice.options].find((option) => option.value !== choice.value).value;
        choice.dispatchEvent(new Event("change", { bubbles: true }));
    }""")
    expect(page.locator("#trials-table[aria-busy]")).to_have_count(1)
    server.manage("shell", "-c", ONE_MORE.format(experiment=experiment))
    expect(numbers(page).first).to_have_text("60")
    [(route, answer)] = held
    route.fulfill(response=answer)
    expect(page.locator("#trials-table[aria-busy]")).to_have_count(0)
    expect(numbers(page).first).to_have_text("60")
