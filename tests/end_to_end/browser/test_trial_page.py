"""A trial's page in a browser: each of its controls, and what changes on it by itself."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer

MARK = "window.markOfTheTest = true"
#: What the browser says of a server that is away.
AWAY = "WebSocket connection|ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET"


def trial_id(server: RunningServer, trials: LedTrials, number: int = 0) -> str:
    """The id of a trial as soon as it is there."""
    address = f"experiments/{trials.experiment}/trials/"
    rows = server.wait_until(lambda: server.get(address, q=str(number))["results"], what=f"trial {number} is there")
    return str(rows[0]["id"])


def open_trial(server: RunningServer, open_page: Any, trials: LedTrials, number: int = 0, **how: Any) -> Any:
    return open_page(server, f"/trials/{trial_id(server, trials, number)}/", **how)


def assert_fits_on_a_phone(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("() => document.documentElement.scrollWidth <= 390")  # charts follow a moment later
    page.set_viewport_size({"width": 1440, "height": 900})


@pytest.mark.slow
def test_output_is_searched_followed_and_let_go(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    trials.tell(0, "print " + "\\n".join(f"Loss of step {number}" for number in range(150)) + "\\n")
    page = open_trial(server, open_page, trials)
    section = page.locator("[data-stream=stdout]")
    output, field = section.locator("pre"), section.get_by_role("searchbox")
    expect(output).to_contain_text("step 149")
    follow = section.get_by_label("follow")
    expect(follow).to_be_checked()
    field.fill("loss of STEP 1")  # 1, 10 to 19, 100 to 149
    found = section.locator("[data-found]")
    expect(found).to_have_text("1 of 61")
    expect(follow).not_to_be_checked()
    assert output.evaluate("pre => pre.scrollTop < 200"), "it went to the first place"
    field.press("Shift+Enter")
    expect(found).to_have_text("61 of 61")
    section.get_by_role("button", name="Next in stdout").click()
    expect(found).to_have_text("1 of 61")
    section.get_by_role("button", name="Previous in stdout").click()
    expect(found).to_have_text("61 of 61")
    assert page.evaluate("CSS.highlights.get('found-stdout').size") == 61
    trials.tell(0, "print Loss of step 1000\\n")
    expect(found).to_have_text("61 of 62")  # what comes is searched too
    field.fill("no such word")
    expect(found).to_have_text("not found")
    expect(section.get_by_role("button", name="Next in stdout")).to_be_disabled()
    field.fill("")
    expect(found).to_have_text("")
    output.evaluate("pre => { pre.scrollTop = 0; }")
    expect(follow).not_to_be_checked()
    trials.tell(0, "print the end\\n")
    expect(output).to_contain_text("the end")
    assert output.evaluate("pre => pre.scrollTop") == 0, "who reads is left alone"
    follow.check()
    assert output.evaluate("pre => pre.scrollHeight - pre.scrollTop - pre.clientHeight < 24")


@pytest.mark.slow
def test_what_was_before_the_end_of_long_output_is_fetched(server: RunningServer, open_page: Any,
                                                           tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    line = "x" * 90
    trials.tell(0, "print the very first\\n" + f"{line}\\n" * 900 + "the last\\n", "end")
    server.wait_for_experiment(trials.experiment)
    page = open_trial(server, open_page, trials)
    section = page.locator("[data-stream=stdout]")
    expect(section.locator("pre")).to_contain_text("the last")
    expect(section.locator("pre")).not_to_contain_text("the very first")
    section.get_by_role("button", name=re.compile("from before this")).click()
    expect(section.locator("pre")).to_contain_text("the very first")
    expect(section.locator("[data-earlier]")).to_be_hidden()
    text = section.locator("pre").evaluate("pre => pre.textContent")
    assert text == f"the very first\n{f'{line}{chr(10)}' * 900}the last\n", "nothing twice, nothing missing"


@pytest.mark.slow
def test_the_metric_is_drawn_and_its_axis_stands_in_the_address(server: RunningServer, open_page: Any,
                                                                tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    trials.tell(0, "metric 0.25", "metric 0.75")
    page = open_trial(server, open_page, trials)
    chart = page.locator("#metric-chart")
    expect(chart).to_have_attribute("aria-label", "2 intermediate results, from 0.25 to 0.75, the latest 0.75")
    page.get_by_label("log y").check()
    page.wait_for_url("**/?log=1")
    page.reload()
    expect(page.get_by_label("log y")).to_be_checked()
    trials.tell(0, "metric 1.5")
    expect(chart).to_have_attribute("aria-label", "3 intermediate results, from 0.25 to 1.5, the latest 1.5")
    page.get_by_label("log y").uncheck()
    page.wait_for_url(lambda address: "log" not in address)
    assert_fits_on_a_phone(page)


@pytest.mark.slow
def test_of_results_that_come_for_days_a_part_is_kept(server: RunningServer, open_page: Any) -> None:
    page = open_page(server)
    kept, left_out = page.evaluate("""async () => {
        const { MetricChart } = await import("/static/js/charts/metric_chart.js");
        const chart = new MetricChart(document.createElement("div"), [], 0);
        chart.started = true; // nothing is drawn
        for (let number = 0; number < 200_000; number += 1) {
            chart.take(number, number);
            if (number % 1_000 === 999) chart.changed();
        }
        return [chart.values.size, chart.leftOut];
    }""")
    assert kept <= 5_000
    assert kept + left_out == 200_000


@pytest.mark.slow
def test_what_it_uses_of_its_machine_is_drawn_as_it_is_read(server: RunningServer, open_page: Any,
                                                            tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    page = open_trial(server, open_page, trials)
    page.evaluate(MARK)
    # keepers read ten seconds after the start, then every ten seconds
    expect(page.locator("#last-reading")).to_have_text(re.compile(r"memory \d+\.\d.MB"), timeout=60_000)
    expect(page.locator("#memory-chart canvas")).to_be_visible()
    expect(page.locator("#busy-chart canvas")).to_be_visible()
    assert page.evaluate("window.markOfTheTest === true")
    address = f"trials/{trial_id(server, trials)}/resources/"
    assert server.get(address)["readings"][0]["memory_bytes"] > 0
    assert server.get(address)["attempt"] == 1


@pytest.mark.slow
def test_a_failed_trial_says_what_to_do_and_is_run_with_changes(server: RunningServer, open_page: Any,
                                                                tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=9, searchSpace={
        "x": {"_type": "uniform", "_value": [0, 1]}, "act": {"_type": "choice", "_value": ["relu", "tanh"]}})
    page = open_trial(server, open_page, trials)
    trials.tell(0, "fail no such data set")
    expect(page.get_by_role("link", name="Next")).to_be_visible()  # the next one was made after the page was opened
    advice = page.get_by_role("list", name="What to do")
    expect(advice).to_contain_text("Correct it there, then run the trial again")
    advice.get_by_role("link", name="Go to stderr").click()
    page.wait_for_url("**/#stderr")
    page.get_by_role("button", name="Run with changes").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("act")).to_have_value(re.compile("relu|tanh"))
    assert_fits_on_a_phone(page)
    dialog.get_by_label("x", exact=False).first.fill("7")
    expect(dialog.get_by_role("status").first).to_contain_text("Outside the search space: 7 is not a value of")
    dialog.get_by_label("x", exact=False).first.fill("oops")
    dialog.get_by_role("button", name="Run it").click()
    expect(dialog.get_by_role("status").first).to_contain_text("This is not a value")
    expect(dialog.locator("[aria-invalid]")).to_be_focused()
    dialog.get_by_label("x", exact=False).first.fill("0.125")
    expect(dialog.get_by_role("status").first).to_have_text("")
    failed = page.url.partition("#")[0]
    dialog.get_by_role("button", name="Run it").click()
    page.wait_for_url(lambda address: "/trials/" in address and not address.startswith(failed))
    expect(page.locator("p", has_text="Rerun of trial 0.")).to_be_visible()
    expect(page.locator("#parameters")).to_contain_text("0.125")
    expect(page.locator("#events")).to_contain_text("Rerun of trial 0 with x = 0.125.")


@pytest.mark.slow
def test_a_run_with_changes_keeps_what_is_not_changed_to_the_last_digit(server: RunningServer, open_page: Any,
                                                                        tmp_path: Path) -> None:
    values = {"seed": 2**53 + 1, "rate": 2.0, "words": "a\nb ", "layers": [1.0, {"n": 2**60 + 1}], "none": None}
    trials = LedTrials(server, tmp_path, maxTrialNumber=1, searchSpace={
        "x": {"_type": "uniform", "_value": [0, 1]},
        **{name: {"_type": "choice", "_value": [value]} for name, value in values.items()}})
    page = open_trial(server, open_page, trials)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copied = []
    for form in ("JSON", "Python", "command line"):
        page.evaluate("() => navigator.clipboard.writeText('')")
        page.get_by_role("button", name=form).click()
        copied.append(page.wait_for_function("() => navigator.clipboard.readText()").json_value())
    given = server.get(f"trials/{trial_id(server, trials, 0)}/")["parameters"]
    assert [repr(json.loads(copied[0])), repr(ast.literal_eval(copied[1]))] == [repr(given)] * 2
    words = dict(zip(*[iter(shlex.split(copied[2]))] * 2, strict=True))
    assert words == {"--x": repr(given["x"]), "--seed": "9007199254740993", "--rate": "2.0", "--words": "a\nb ",
                     "--layers": '[1.0,{"n": 1152921504606846977}]'}
    first = page.url.partition("#")[0]
    page.get_by_role("button", name="Run with changes").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("choice [9007199254740993]")
    dialog.locator("[name=x]").fill("9007199254740995")
    dialog.get_by_role("button", name="Run it").click()
    page.wait_for_url(lambda address: "/trials/" in address and not address.startswith(first))
    parameters = server.get(f"trials/{trial_id(server, trials, 1)}/")["parameters"]
    assert repr(sorted(parameters.items())) == repr(sorted({**values, "x": 2**53 + 3}.items()))


@pytest.mark.slow
def test_at_the_limit_a_run_with_changes_raises_it_by_one(server: RunningServer, open_page: Any,
                                                          tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    page = open_trial(server, open_page, trials)
    first = page.url.partition("#")[0]
    page.get_by_role("button", name="Run with changes").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("x", exact=False).first.fill("0.125")
    dialog.get_by_role("button", name="Run it").click()
    page.wait_for_url(lambda address: "/trials/" in address and not address.startswith(first))
    assert server.get(f"experiments/{trials.experiment}/")["max_trial_number"] == 2
    assert len(server.get(f"experiments/{trials.experiment}/trials/")["results"]) == 2


@pytest.mark.slow
def test_each_parameter_set_of_a_multi_phase_trial_is_shown_with_its_result(
        server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1, multiPhase=True,
                       searchSpace={"x": {"_type": "choice", "_value": [11, 22, 33]}},
                       tuner={"name": "GridSearch", "classArgs": {"optimize_mode": "maximize"}})
    page = open_trial(server, open_page, trials)
    table = open_page(server, f"/experiments/{trials.experiment}/trials/")
    sets, of_table = page.locator("#parameter-sets"), table.locator("details.parameter-sets")
    expect(page.locator(".headline .status")).to_have_text("RUNNING", timeout=60_000)
    expect(sets).to_be_hidden()
    trials.tell(0, "final 0.25", "next", "final 0.75", "next", "final 0.5")
    expect(sets.locator("tbody tr")).to_have_count(3, timeout=60_000)
    expect(sets.locator("tbody tr.best")).to_contain_text("1 ★")
    expect(sets.locator("tbody tr.best")).to_contain_text("0.75")
    expect(page.locator("[data-cell=result]")).to_have_text("0.75")
    second = server.get(f"trials/{trial_id(server, trials)}/parameters/")["results"][1]
    expect(page.locator("#parameters")).to_contain_text(str(second["value"]["x"]))
    expect(of_table.locator("summary")).to_have_text("3 sets", timeout=60_000)
    of_table.locator("summary").click()
    expect(of_table.locator("li")).to_have_count(3)
    expect(of_table.locator("li.best")).to_contain_text("0.75")
    table.reload()
    expect(of_table.locator("li.best")).to_contain_text("0.75")
    trials.tell(0, "end")
    expect(page.locator(".headline .status")).to_have_text("SUCCEEDED", timeout=60_000)


@pytest.mark.slow
def test_refresh_asks_the_platform_and_says_when_it_did(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    page = open_trial(server, open_page, trials)
    expect(page.locator(".headline .status")).to_have_text("RUNNING", timeout=60_000)
    expect(page.locator("#refresh")).to_be_hidden()
    page.get_by_role("button", name="Refresh").click()
    expect(page.locator("#refresh")).to_contain_text("what is shown here is what it said", timeout=60_000)
    assert server.get(f"trials/{trial_id(server, trials)}/")["refresh"]["message"] == ""
    page.reload()
    expect(page.locator("#refresh")).to_contain_text("The platform was asked about it")
    trials.tell(0, "final 0.5", "end")
    expect(page.locator(".headline .status")).to_have_text("SUCCEEDED", timeout=60_000)
    expect(page.get_by_role("button", name="Refresh")).to_be_hidden()
    expect(page.locator("#refresh")).to_be_hidden()


@pytest.mark.slow
def test_tags_and_the_way_to_the_neighbours(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=2, trialConcurrency=2)
    trial_id(server, trials, 1)
    page, onlooker = (open_trial(server, open_page, trials) for _ in range(2))
    page.get_by_role("button", name="Put a tag on this trial").click()
    page.keyboard.type("keep")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(onlooker.locator(".tag")).to_have_text(re.compile("keep"))
    onlooker.get_by_role("button", name="Take the tag keep off this trial").click()
    expect(page.locator(".tag")).to_have_count(0)
    assert server.get(f"trials/{trial_id(server, trials)}/")["tags"] == []
    page.get_by_role("link", name="Next").click()
    expect(page.locator("h1")).to_have_text("Trial 1")
    page.get_by_role("link", name="Previous").click()
    expect(page.locator("h1")).to_have_text("Trial 0")


@pytest.mark.slow
def test_notes_are_written_and_drawn_on_the_trial_and_on_its_experiment(
        server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    trials.tell(0, "final 0.5", "end")
    for page in (open_trial(server, open_page, trials), open_page(server, f"/experiments/{trials.experiment}/")):
        notes = page.locator("#notes")
        notes.get_by_role("button", name="Add notes").click()
        field = notes.get_by_label("Notes in Markdown")
        expect(field).to_be_focused()
        field.fill("A **large** rate\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<script>window.harmed = 1</script>")
        field.press("Control+Enter")
        expect(notes.locator(".written strong")).to_have_text("large")
        expect(notes.locator(".written td")).to_have_text(["1", "2"])
        assert page.evaluate("window.harmed") is None
        edit = notes.get_by_role("button", name="Edit")
        expect(edit).to_be_focused()
        edit.click()
        field.fill("something else")
        field.press("Escape")
        expect(notes.locator(".written strong")).to_have_text("large")
        edit.click()
        expect(field).to_have_value(re.compile(r"^A \*\*large"))
        field.fill("")
        notes.get_by_role("button", name="Save").click()
        expect(notes.get_by_role("button", name="Add notes")).to_be_visible()
        assert_fits_on_a_phone(page)


@pytest.mark.slow
def test_a_second_attempt_takes_the_place_of_the_first_which_can_still_be_seen(
        server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    # the orders of a trial are read anew by each of its attempts
    trials = LedTrials(server, tmp_path, maxTrialNumber=1, retry={"onFailure": 1})
    trials.tell(0, "metric 0.5", "print only this\\n")
    page = open_trial(server, open_page, trials)
    expect(page.locator("[data-stream=stdout] pre")).to_have_text("only this\n")
    page.evaluate(MARK)
    trials.tell(0, "fail it broke")
    expect(page.locator("[data-cell=attempt]")).to_have_text("attempt 2", timeout=60_000)
    # of the second attempt: what the first one wrote was taken away
    expect(page.locator("[data-stream=stderr] pre")).to_have_text(re.compile("it broke"), timeout=60_000)
    table = page.get_by_role("region", name="Attempts")
    expect(page.locator(".headline .status")).to_have_text("FAILED", timeout=60_000)
    expect(table.get_by_role("row")).to_have_count(3)
    assert page.evaluate("window.markOfTheTest === true")
    table.get_by_role("link", name="Show attempt 1").click()
    page.wait_for_url("**/?attempt=1")
    expect(page.locator("#earlier-attempt")).to_contain_text("This is attempt 1, which is not the latest.")
    expect(page.locator("[data-stream=stdout] pre")).to_have_text("only this\n")
    page.get_by_role("link", name="Show the latest").click()
    page.wait_for_url(lambda address: "attempt" not in address)


@pytest.mark.slow
def test_kept_files_appear_and_are_downloaded(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1, keepFiles=["orders/0-0"])
    page = open_trial(server, open_page, trials)
    expect(page.get_by_role("heading", name="Kept files")).to_be_hidden()
    page.evaluate(MARK)
    trials.tell(0, "final 0.5", "end")
    link = page.locator("#files").get_by_role("link", name="orders/0-0")
    expect(link).to_be_visible(timeout=60_000)
    with page.expect_download() as download:
        link.click()
    assert Path(download.value.path()).read_text() == "final 0.5"
    assert page.evaluate("window.markOfTheTest === true")


@pytest.mark.slow
def test_pages_that_were_open_while_the_server_was_away_catch_up(make_server: Any, open_page: Any,
                                                                 tmp_path: Path) -> None:
    server = make_server().start()
    trials = LedTrials(server, tmp_path / "code", maxTrialNumber=2)
    trials.tell(0, "metric 0.25", "print before\\n")
    pages = [open_trial(server, open_page, trials), open_page(server, "/"), open_page(server, "/clusters/")]
    trial, listed, clusters = pages
    expect(trial.locator("[data-stream=stdout] pre")).to_have_text("before\n")
    for page in pages:
        page.allow(AWAY)
        expect(page.locator("#live")).to_have_text("● live")
        page.evaluate(MARK)
    server.stop()
    for page in pages:
        expect(page.locator("#live")).to_have_text(re.compile("reconnecting|stale since"))
    # more than a frame carries: the page begins anew with what the server has
    trials.tell(0, "print " + ("x" * 99 + "\\n") * 3000 + "after\\n", *["metric 0.5"] * 5, "final 0.75", "end")
    server.start()
    expect(trial.locator(".headline .status")).to_have_text("SUCCEEDED", timeout=60_000)
    expect(trial.locator("[data-stream=stdout] pre")).to_contain_text("after")
    expect(trial.locator("#metric-chart")).to_have_attribute("aria-label", re.compile("^6 intermediate results"))
    expect(trial.locator("#live")).to_have_text("● live")
    expect(listed.locator("[data-cell=trials]")).to_have_text("1 / 2", timeout=60_000)
    expect(listed.locator("[data-cell=best]")).to_have_text("0.75")
    running = clusters.locator("article.card [data-fact=running]")
    expect(running).to_have_text("1", timeout=60_000)  # the next one
    trials.tell(1, "final 0.5", "end")
    expect(running).to_have_text("0", timeout=60_000)
    for page in pages:
        assert page.evaluate("window.markOfTheTest === true")


MORE_THAN_A_FRAME = """
from django.db import transaction
from django.utils import timezone
from nniweb.experiments.models import Attempt, Metric, Trial
from nniweb.experiments.pubsub.revisions import next_revision
now = timezone.now()
attempt = Attempt.objects.get(trial__public_id="{trial}")
with transaction.atomic():
    revision = next_revision(attempt.trial.experiment_id)
    Metric.objects.bulk_create(
        Metric(attempt=attempt, n=10_000 + step, kind="PERIODICAL", sequence=step, value="0.5", number=0.5,
               recorded_at=now, received_at=now, revision=revision) for step in range(2001))
    Trial.objects.filter(pk=attempt.trial_id).update(revision=revision, intermediate_count=2001)
"""
RESUMED = """
from django.utils import timezone
from nniweb.experiments.models import Trial, TrialEvent
TrialEvent.objects.create(trial=Trial.objects.get(public_id="{trial}"), at=timezone.now(), kind="resumed")
"""


@pytest.mark.slow
def test_what_no_frame_carries_is_asked_for_until_it_is_here(server: RunningServer, open_page: Any, tmp_path: Path
                                                             ) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    page = open_trial(server, open_page, trials)
    expect(page.locator("[data-cell=status]")).to_have_text("RUNNING")
    page.allow("status of 503")
    refused: list[Any] = []
    page.route(re.compile("/trials/[a-z0-9]+/$"), lambda route: route.continue_() if refused
               else (refused.append(route), route.fulfill(status=503, body="")))
    server.manage("shell", "-c", MORE_THAN_A_FRAME.format(trial=trial_id(server, trials)))
    expect(page.locator("#metric-chart")).to_have_attribute("aria-label", re.compile("^[0-9]+ intermediate results"))
    expect(page.locator("#action-error")).to_be_hidden()
    assert refused


@pytest.mark.slow
def test_the_page_of_a_trial_that_went_on_from_a_checkpoint_is_not_taken_anew_with_each_result(
        server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    trials.tell(0, "metric 0.5")
    page = open_trial(server, open_page, trials)
    expect(page.locator("[data-cell=latest]")).to_contain_text("latest of 1")
    server.manage("shell", "-c", RESUMED.format(trial=trial_id(server, trials)))
    page.reload()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.resource_type == "fetch"
            and re.search("/trials/[a-z0-9]+/$", request.url) else None)
    for number in range(2, 6):
        trials.tell(0, f"metric 0.{number}")
        expect(page.locator("[data-cell=latest]")).to_contain_text(f"latest of {number}")
        page.settle()  # what comes while the page is taken anew has it taken once more
    assert len(asked) <= 1
    expect(page.locator("#metric-chart")).to_have_attribute("aria-label", re.compile("^5 intermediate results"))


@pytest.mark.slow
def test_a_long_path_in_the_history_makes_the_page_no_wider(server: RunningServer, open_page: Any, tmp_path: Path
                                                            ) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    trials.tell(0, "fail no such file: " + "/data/of/many/people" * 8)
    page = open_trial(server, open_page, trials, width=720, height=450)  # a window of 1440 pixels at 200 %
    expect(page.locator("#events")).to_contain_text("no such file", timeout=60_000)
    for width in (1440, 768, 720, 390):
        page.set_viewport_size({"width": width, "height": 450})
        page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    page.goto(f"/experiments/{trials.experiment}/events/?of=trials")
    page.wait_for_function("document.documentElement.scrollWidth <= 390")


@pytest.mark.slow
def test_after_a_dialog_the_focus_is_where_it_was(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    trials.tell(0, "final 0.5", "end")
    page = open_trial(server, open_page, trials)
    for name in ("Run again…", "Run with changes…"):
        button = page.get_by_role("button", name=name)
        button.focus()
        page.keyboard.press("Enter")
        expect(page.locator("dialog[open]")).to_be_visible()
        page.keyboard.press("Escape")
        expect(button).to_be_focused()
    # what opened it is in a menu that has closed: the menu is focused
    page.goto(f"/experiments/{trials.experiment}/")
    menu = page.locator("#controls details.menu")
    menu.locator("summary").click()
    menu.get_by_role("button", name="Tuner…").click()
    expect(page.locator("#tuner-dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu.locator("summary")).to_be_focused()
