"""The pages of experiments and trials in a real browser: they change by themselves, and they steer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.clicks import clicks, count_clicks
from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.browser.menus import in_menu
from tests.end_to_end.browser.shown_charts import wait_for_chart
from tests.end_to_end.running_server import RunningServer

#: Set on the page before something shall change; a reload would lose it.
MARK = "window.markOfTheTest = true"


def not_reloaded(page: Any) -> bool:
    return bool(page.evaluate("window.markOfTheTest === true"))


def row(page: Any, number: int) -> Any:
    return page.locator("#trials-table tbody tr").filter(has=page.locator("[data-cell=number]", has_text=re.compile(
        rf"^{number}$")))


def test_an_empty_list_offers_the_example_and_one_click_launches_it(make_server: Any, open_page: Any) -> None:
    server = make_server().start()
    page = open_page(server)
    expect(page.get_by_text("No experiment was launched yet.")).to_be_visible()
    onlooker = open_page(server, "/")
    expect(onlooker.locator("#live")).to_have_text("● live")
    count_clicks(page)
    page.get_by_role("button", name="Launch the example").click()
    page.wait_for_url("**/experiments/*/")
    assert clicks(page) == 1
    expect(page.locator("h1")).not_to_be_empty()
    expect(page.locator("[data-cell=running]")).not_to_have_text("0")
    expect(page.locator("[data-cell=started] time")).to_be_visible()  # without a reload
    expect(onlooker.locator("#experiments tr[data-id]")).to_have_count(1)


def test_an_experiment_page_changes_without_being_reloaded(server: RunningServer, open_page: Any,
                                                           tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/trials/")
    expect(row(page, 0).locator(".status")).to_have_text("RUNNING")
    expect(page.locator("[data-cell=ended]")).to_have_text("0")
    page.evaluate(MARK)
    trials.tell(0, "metric 0.25")
    expect(row(page, 0).locator("[data-cell=latest]")).to_have_text("0.25")
    trials.tell(0, "final 0.75", "end")
    expect(row(page, 0).locator(".status")).to_have_text("SUCCEEDED")
    expect(row(page, 0).locator("[data-cell=result]")).to_have_text("0.75")
    expect(page.locator("#head [data-cell=ended]")).to_have_text("1")
    expect(page.locator("#head [data-cell=best]")).to_have_text("0.75")
    expect(page.locator("#counts li[data-status=SUCCEEDED] b")).to_have_text("1")
    expect(row(page, 1).locator(".status")).to_have_text("RUNNING")  # a row that was not there
    assert not_reloaded(page)


@pytest.mark.slow
def test_what_could_not_be_done_is_said_beside_its_button_until_the_connection_is_back(
        server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    page.allow("ERR_INTERNET_DISCONNECTED")
    expect(page.locator("#live")).to_have_text("● live")
    page.context.set_offline(True)
    page.get_by_role("button", name="Pause").click()
    error = page.locator("#controls .error")
    expect(error).to_have_text("The server does not answer. Nothing was changed; try again.")
    page.context.set_offline(False)
    expect(error).to_have_count(0)
    expect(page.locator("#live")).to_have_text("● live")
    server.post(f"experiments/{trials.experiment}/actions/stop/")


@pytest.mark.slow
def test_the_overview_shows_the_best_trials_and_how_long_they_took(server: RunningServer, open_page: Any,
                                                                   tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    expect(page.locator("#no-top")).to_be_visible()
    expect(page.locator("#no-durations")).to_be_visible()
    page.evaluate(MARK)
    trials.tell(0, "final 0.25", "end")
    trials.tell(1, "final 0.75", "end")
    numbers = page.locator("#top-trials [data-cell=number]")
    expect(numbers).to_have_text(["1", "0"])
    expect(page.locator("#top-trials [data-cell=result]").first).to_have_text("0.75")
    expect(page.locator("#result-chart canvas")).to_be_visible()
    expect(page.locator("#duration-chart canvas")).to_be_visible()
    expect(page.locator("#events")).to_contain_text("launched")
    expect(page.locator("#verdict .big")).to_contain_text("trial 1")
    expect(page.locator("#budgets")).to_contain_text("by the 2 trials that have ended", timeout=30_000)
    assert not_reloaded(page)
    page.get_by_role("button", name="by time").click()
    page.get_by_label("log y").check()
    expect(page.page).to_have_url(re.compile(r"\?axis=time&log=1$"))
    page.reload()  # a link shows a colleague the same
    expect(page.get_by_role("button", name="by time")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("log y")).to_be_checked()
    wait_for_chart(page, "#result-chart", lambda option: (option["xAxis"][0]["type"], option["yAxis"][0]["type"]) == (
        "time", "log"))
    expect(numbers).to_have_text(["1", "0"])
    page.get_by_role("link", name="SUCCEEDED").click()
    expect(page.locator("#trials-table tbody tr")).to_have_count(2)


@pytest.mark.slow
def test_the_chart_says_of_a_trial_that_succeeded_without_a_result_that_it_has_none(
        server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=2)
    trials.tell(0, "metric 0.25", "end")
    trials.tell(1, "final -0.5", "end")
    server.wait_for_experiment(trials.experiment)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    option = wait_for_chart(page, "#result-chart", lambda option: any(one["data"] for one in option["series"]))
    assert option["legend"][0]["data"] == ["result", "no final result", "best so far"]
    assert not option["xAxis"][0]["axisLine"]["onZero"]  # the axis of trials is at the edge, below negative results


@pytest.mark.slow
def test_the_chart_tells_stopped_trials_from_running_and_failed_ones(server: RunningServer, open_page: Any,
                                                                      tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, trialConcurrency=4, maxTrialNumber=4)
    page = open_page(server, f"/experiments/{trials.experiment}/trials/")
    trials.tell(0, "metric 0.25")
    expect(row(page, 0).locator("[data-cell=latest]")).to_have_text("0.25")
    trials.tell(2, "fail no")
    expect(row(page, 2).locator(".status")).to_have_text("FAILED")
    for number in (0, 1):
        row(page, number).get_by_role("button", name="Stop").click()
        page.get_by_role("dialog").get_by_role("button", name="Stop trial").click()
        expect(row(page, number).locator(".status")).to_have_text("STOPPED")
    trials.tell(3, "metric 0.5")
    page.goto(f"/experiments/{trials.experiment}/")
    wanted = {"stopped": [0], "no result": [1], "failed": [2], "running": [3], "result": []}

    def is_shown(option: Any) -> bool:
        shown = {one["name"]: [point[0] for point in one["data"]] for one in option["series"]}
        return {name: shown.get(name) for name in wanted} == wanted

    legend = wait_for_chart(page, "#result-chart", is_shown)["legend"][0]["data"]
    assert legend == ["result", "running", "stopped", "best so far", "failed", "no result"]
    trials.tell(3, "final 0.5", "end")
    legend = wait_for_chart(page, "#result-chart", lambda option: not is_shown(option))["legend"][0]["data"]
    assert legend == ["result", "stopped", "best so far", "failed", "no result"]
    expect(page.locator("#result-chart canvas")).to_be_visible()


@pytest.mark.slow
def test_a_trial_is_canceled_from_the_table_after_one_question(server: RunningServer, open_page: Any,
                                                               tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/trials/")
    cancel = row(page, 0).get_by_role("button", name="Stop")
    cancel.click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(row(page, 0).locator(".status")).to_have_text("RUNNING")
    page.evaluate(MARK)
    cancel.click()
    page.get_by_role("dialog").get_by_role("button", name="Stop trial").click()
    expect(row(page, 0).locator(".status")).to_have_text("STOPPED")
    row(page, 0).get_by_role("button", name="Rerun").click()
    again = page.get_by_role("dialog").get_by_role("button", name="Run again")
    expect(again, "nothing is lost by it").to_have_class("primary")
    again.click()
    expect(page.locator("#trials-table tbody tr")).to_have_count(3)
    assert not_reloaded(page)


@pytest.mark.slow
def test_a_trial_that_is_heard_of_after_its_successor_has_its_row_too(server: RunningServer, open_page: Any,
                                                                      tmp_path: Path) -> None:
    """The answer to one's own rerun may come before the frame with a trial that was there first."""
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/trials/")
    expect(row(page, 0).locator(".status")).to_have_text("RUNNING")
    server.post(f"/api/v1/experiments/{trials.experiment}/actions/pause/")
    trials.tell(0, "final 0.5", "end")
    expect(row(page, 0).locator(".status")).to_have_text("SUCCEEDED")
    held: list[tuple[Any, str]] = []
    passes: list[bool] = []

    def hold(socket: Any) -> None:
        socket.connect_to_server().on_message(
            lambda message: socket.send(message) if passes else held.append((socket, message)))

    page.route_web_socket(re.compile("/live/"), hold)
    page.goto(f"/experiments/{trials.experiment}/trials/")
    expect(row(page, 0).locator(".status")).to_have_text("SUCCEEDED")
    first = server.get_all(f"/api/v1/experiments/{trials.experiment}/trials/")[0]
    server.post(f"/api/v1/trials/{first['id']}/actions/rerun/")
    row(page, 0).get_by_role("button", name="Rerun").click()
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    numbers = page.locator("#trials-table tbody [data-cell=number]")
    expect(numbers).to_have_text(["2", "0"])
    passes.append(True)
    for socket, message in held:
        socket.send(message)
    expect(numbers).to_have_text(["2", "1", "0"])


@pytest.mark.slow
def test_concurrency_and_limits_are_changed_beside_where_they_stand(server: RunningServer, open_page: Any,
                                                                    tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    expect(page.locator("[data-cell=running]")).to_have_text("1")
    expect(page.locator(".headline .status")).to_have_text("FINISHING")
    edit = page.locator("details[data-field=max_trial_number]")
    edit.locator("summary").click()
    edit.get_by_label("Trial limit").fill("2")
    edit.get_by_role("button", name="Save").click()
    expect(edit.locator("summary")).to_have_text("2")
    expect(page.locator("#events")).to_contain_text("maxTrialNumber = 2")
    expect(page.locator("[data-cell=running]")).to_have_text("1")  # there is one slot
    edit = page.locator("details[data-field=trial_concurrency]")
    edit.locator("summary").click()
    edit.get_by_label("Concurrency").fill("2")
    edit.get_by_role("button", name="Save").click()
    expect(edit.locator("summary")).to_have_text("2")
    expect(page.locator("[data-cell=running]")).to_have_text("2")
    expect(page.locator("#events")).to_contain_text("trialConcurrency = 2")
    page.allow("status of 400")
    edit = page.locator("details[data-field=max_duration]")
    edit.locator("summary").click()
    edit.get_by_label("Time limit").fill("soon")
    edit.get_by_role("button", name="Save").click()
    expect(edit.locator(".error")).to_contain_text("must be a duration such as")
    expect(edit.get_by_label("Time limit")).to_be_focused()


def test_pause_resume_and_stop(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    status = page.locator(".headline .status")
    page.get_by_role("button", name="Pause").click()
    expect(status).to_have_text("PAUSED")
    expect(page.locator("#why")).to_contain_text("No new trial is started until the experiment is resumed")
    page.get_by_role("button", name="Resume").click()
    expect(status).to_have_text("RUNNING")
    in_menu(page, "Stop…").click()
    expect(page.get_by_role("dialog")).to_contain_text("unfinished trial")
    page.get_by_role("dialog").get_by_role("button", name="Stop experiment").click()
    expect(status).to_have_text("STOPPED")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()


@pytest.mark.slow
def test_a_failed_trial_says_why(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    trials.tell(0, "print \\x1b[31mred\\x1b[0m words\\n", "fail no such data set")
    page = open_page(server, f"/experiments/{trials.experiment}/trials/")
    expect(row(page, 0).locator("[data-cell=message]")).to_contain_text("no such data set")
    row(page, 0).locator("a").click()
    expect(page.locator(".headline .status")).to_have_text("FAILED")
    expect(page.locator("#why")).to_contain_text("exit code 1")
    expect(page.locator("#why")).to_contain_text("no such data set")
    expect(page.locator("[data-stream=stdout] pre")).to_have_text("red words\n")
    with page.expect_download() as download:
        page.locator("[data-stream=stdout]").get_by_role("link", name="Download").click()
    assert Path(download.value.path()).read_text() == "\x1b[31mred\x1b[0m words\n"
    page.goto(f"{server.url}/experiments/{trials.experiment}/trials/")
    in_menu(page, "Rerun failed…").click()
    again = page.get_by_role("dialog").get_by_role("button", name="Rerun failed")
    expect(again, "nothing is lost by it").to_have_class("primary")
    again.click()
    expect(row(page, 1).locator(".status")).to_have_text("RUNNING")
    expect(page.locator("[data-cell=max_trial_number]")).to_have_text("2")


@pytest.mark.slow
def test_a_trial_page_shows_output_metrics_and_the_end_as_they_come(server: RunningServer, open_page: Any,
                                                                    tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    page = open_page(server, f"/experiments/{trials.experiment}/trials/")
    row(page, 0).locator("a").click()
    expect(page.locator(".headline .status")).to_have_text("RUNNING")
    expect(page.locator("#no-metric")).to_be_visible()
    page.evaluate(MARK)
    output = page.locator("[data-stream=stdout] pre")
    trials.tell(0, "print first line\\n")
    expect(output).to_have_text("first line\n")
    trials.tell(0, "print \\x1b[1mgr\\u00fc\\u00dfe\\x1b[0m\\n", "metric 0.125", "metric 0.5")
    expect(output).to_have_text("first line\ngrüße\n")
    expect(page.locator("[data-cell=latest]")).to_have_text("latest of 2: 0.5")
    expect(page.locator("#metric-chart canvas")).to_be_visible()
    trials.tell(0, "print " + "\\n".join(f"line {number}" for number in range(200)) + "\\n")
    expect(output).to_contain_text("line 199")
    assert output.evaluate("pre => pre.scrollHeight - pre.scrollTop - pre.clientHeight < 24"), "it follows the end"
    trials.tell(0, "final 0.875", "end")
    expect(page.locator(".headline .status")).to_have_text("SUCCEEDED")
    expect(page.locator("[data-cell=result]")).to_have_text("0.875")
    expect(page.locator("[data-cell=exit_code]")).to_have_text("0")
    expect(page.locator("#events")).to_contain_text("SUCCEEDED")
    assert not_reloaded(page)


@pytest.mark.slow
def test_a_trial_is_canceled_and_run_again_on_its_own_page(server: RunningServer, open_page: Any,
                                                           tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/trials/")
    expect(row(page, 0).locator(".status")).to_have_text("RUNNING")
    row(page, 0).locator("a").click()
    page.wait_for_url(re.compile(r"/trials/\w{12}/$"))
    expect(page.locator("#live")).to_have_attribute("data-state", "live")  # the buttons do something from then on
    status, why, dialog = page.locator(".headline .status"), page.locator("#why"), page.get_by_role("dialog")
    expect(status).to_have_text("RUNNING")
    expect(why).to_be_hidden()
    expect(page.get_by_role("button", name="Run again")).to_be_hidden()
    page.evaluate(MARK)
    page.get_by_role("button", name="Stop").click()
    dialog.get_by_role("button", name="Cancel").click()
    expect(status).to_have_text("RUNNING")
    page.get_by_role("button", name="Stop").click()
    expect(dialog.get_by_role("button", name="Stop trial"), "what it has not reported is lost").to_have_class("danger")
    dialog.get_by_role("button", name="Stop trial").click()
    expect(status).to_have_text("STOPPED")
    expect(why).to_have_text(re.compile(r"Stopped by \w+\."))
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    assert not_reloaded(page)
    server.wait_until(lambda: server.get(f"experiments/{trials.experiment}/trials/", status="RUNNING")["results"],
                      what="the next trial has taken the only slot")
    canceled = page.url
    page.get_by_role("button", name="Run again").click()
    expect(dialog.get_by_role("button", name="Run again"), "nothing is lost by it").to_have_class("primary")
    dialog.get_by_role("button", name="Run again").click()
    page.wait_for_url(lambda url: "/trials/" in url and url != canceled)
    expect(page.locator("p", has_text="Rerun of trial 0.")).to_be_visible()
    expect(status).to_have_text("WAITING")
    expect(why).to_have_text("The trial waits for a free slot.")
    page.evaluate(MARK)
    trials.tell(1, "final 0.5", "end")
    expect(status).to_have_text("RUNNING")
    expect(why).to_be_hidden()
    trials.tell(2, "final 0.75", "end")
    expect(status).to_have_text("SUCCEEDED")
    assert not_reloaded(page)


@pytest.mark.slow
def test_the_list_changes_by_itself_and_is_filtered_by_its_address(server: RunningServer, open_page: Any,
                                                                   tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, experimentName="needle", maxTrialNumber=1)
    page = open_page(server, "/?q=needle")
    rows = page.locator("#experiments tr[data-id]")
    expect(rows).to_have_count(1)
    expect(rows.locator(".status")).to_have_text("FINISHING")  # its one trial was submitted
    page.evaluate(MARK)
    trials.tell(0, "final 0.5", "end")
    expect(rows.locator(".status")).to_have_text("DONE")
    expect(rows.locator("[data-cell=best]")).to_have_text("0.5")
    expect(rows.locator("[data-cell=trials]")).to_have_text("1 / 1")
    expect(rows.locator(".sparkline svg")).to_have_count(1)
    assert not_reloaded(page)
    rows.get_by_label("Actions of needle").click()
    rows.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("No experiment matches this filter.")).to_be_visible()
    page.get_by_text("More filters").click()
    page.locator("select[name=archived]").select_option("true")
    page.wait_for_url("**/?*archived=true*")
    expect(rows).to_have_count(1)


@pytest.mark.slow
def test_a_page_that_was_open_while_the_server_was_away_catches_up(make_server: Any, open_page: Any,
                                                                   tmp_path: Path) -> None:
    server = make_server().start()
    trials = LedTrials(server, tmp_path / "code")
    page = open_page(server, f"/experiments/{trials.experiment}/trials/")
    page.allow("WebSocket connection|ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE")
    expect(row(page, 0).locator(".status")).to_have_text("RUNNING")
    expect(page.locator("#live")).to_have_text("● live")
    page.evaluate(MARK)
    server.stop()
    expect(page.locator("#live")).to_have_text(re.compile("reconnecting|stale since"))
    trials.tell(0, "metric 0.25", "final 0.5", "end")
    expect(page.locator("#live")).to_have_text(re.compile(r"stale since \d"))
    expect(row(page, 0).locator(".status")).to_have_text("RUNNING")
    server.start()
    expect(row(page, 0).locator(".status")).to_have_text("SUCCEEDED", timeout=60_000)
    expect(page.locator("#live")).to_have_text("● live")
    expect(row(page, 1).locator(".status")).to_have_text("RUNNING", timeout=60_000)
    expect(page.locator("#why")).to_have_text("")  # it does not go on saying that no worker is there
    assert not_reloaded(page)


@pytest.mark.slow
def test_a_chart_whose_first_answer_failed_says_so_and_is_drawn_after_the_next_frame(
        server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, trialConcurrency=1, maxTrialNumber=1)
    page = open_page(server)
    page.allow("status of 503")
    fails = True
    page.route("**/chart/", lambda route: route.fulfill(status=503, body="{}") if fails else route.continue_())
    page.goto(f"/experiments/{trials.experiment}/")
    expect(page.locator("#action-error")).to_have_text("The server answered 503.")
    fails = False
    trials.tell(0, "final 0.5", "end")
    wait_for_chart(page, "#result-chart", lambda option: len(option["series"][0]["data"]) == 1)
    expect(page.locator("#action-error")).to_be_hidden()


@pytest.mark.slow
def test_a_chart_keeps_what_it_hears_while_an_answer_is_on_its_way(server: RunningServer, open_page: Any,
                                                                   tmp_path: Path) -> None:
    experiment = LedTrials(server, tmp_path).experiment
    page = open_page(server, f"/experiments/{experiment}/")
    assert page.evaluate("""async (id) => {
        const { ResultChart } = await import("/static/js/experiment/overview/result_chart.js");
        const chart = new ResultChart(document.createElement("div"), { id, optimize_mode: "maximize", replicates: 1 });
        await chart.load();
        const { fetch } = window;
        let answer;
        window.fetch = () => new Promise((done) => { answer = done; });
        const loaded = chart.load();
        window.fetch = fetch;
        const columns = Object.fromEntries(["id", "sequence_id", "status", "value", "at", "final", "infeasible",
            "standard_error"].map((name) => [name, []]));
        chart.heard([{ id: "late", sequence_id: 1001, status: "SUCCEEDED", final_number: 0.5, latest_number: null,
            metrics: {}, started_at: null, ended_at: null, proposal: null }]);
        answer(new Response(JSON.stringify({ ...columns, statuses: [], left_out: 0, optimize_mode: "maximize" })));
        await loaded;
        return chart.points.has(1001);
    }""", experiment)


@pytest.mark.slow
def test_a_page_to_which_nothing_comes_any_more_connects_again(server: RunningServer, open_page: Any, tmp_path: Path
                                                               ) -> None:
    """As when the power of the server's machine fails: nobody ends the connection."""
    trials = LedTrials(server, tmp_path)
    page = open_page(server)
    sockets: list[dict[str, bool]] = []

    def pass_on(socket: Any) -> None:
        way = {"alive": True}
        sockets.append(way)
        there = socket.connect_to_server()
        there.on_message(lambda message: socket.send(message) if way["alive"] else None)
        socket.on_message(lambda message: there.send(message) if way["alive"] else None)

    page.route_web_socket("**/live/", pass_on)
    page.clock.install()
    page.goto(f"/experiments/{trials.experiment}/")
    expect(page.locator("#live")).to_have_text("● live")
    sockets[0]["alive"] = False
    trials.tell(0, "final 0.75", "end")
    server.wait_until(lambda: server.get(f"experiments/{trials.experiment}/")["progress"]["ended"] == 1,
                      what="the trial has ended")
    page.clock.run_for(30_000)
    assert len(sockets) == 1, "a server that is slow is not left"
    page.clock.run_for(30_000)
    expect(page.locator("[data-cell=ended]").first).to_have_text("1")
    assert len(sockets) > 1
    expect(page.locator("#live")).to_have_text("● live")


@pytest.mark.slow
def test_who_is_signed_out_elsewhere_gets_a_link_to_sign_in(make_server: Any, open_page: Any) -> None:
    server = make_server().start()
    page = open_page(server)
    expect(page.locator("#live")).to_have_text("● live")
    server.manage("shell", "-c", "from nniweb.experiments.models import Session; Session.objects.all().delete()")
    expect(page.locator("#live a")).to_have_attribute("href", re.compile("^/sign-in/"))


#: The page, its scripts and what they fetched.
BYTES_OF_THE_PAGE = """["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
    .reduce((sum, entry) => sum + entry.decodedBodySize, 0)"""
MANY = 10_000
FILL = """
import random
from django.utils import timezone
from nniweb.experiments.models import Experiment, Trial, TrialParameters
chance = random.Random(5)
experiment = Experiment.objects.get(public_id="{experiment}")
now = timezone.now()
trials = Trial.objects.bulk_create([Trial(
    experiment=experiment, sequence_id=number, status="FAILED" if number % 50 == 7 else "SUCCEEDED", taught=True,
    final_number=None if number % 50 == 7 else chance.random(), created_at=now, started_at=now, ended_at=now,
    revision=1)
    for number in range(10, {many} + 10)], batch_size=1000)
TrialParameters.objects.bulk_create([TrialParameters(trial=trial, parameter_id=trial.sequence_id, value={{"x": 0.5}})
                                     for trial in trials], batch_size=1000)
Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id={many} + 10)
"""


@pytest.mark.slow
def test_ten_thousand_trials_open_without_ten_thousand_rows_and_are_paged_and_filtered(
        server: RunningServer, open_page: Callable[..., Any], tmp_path: Path) -> None:
    experiment = LedTrials(server, tmp_path).experiment
    server.post(f"experiments/{experiment}/actions/stop/")
    server.wait_for_experiment(experiment, "STOPPED")
    server.manage("shell", "-c", FILL.format(experiment=experiment, many=MANY))
    finals = [trial["final_number"] for trial in server.get(
        f"experiments/{experiment}/trials/", order="-final_value", page_size=51)["results"]]
    chart = server.get(f"experiments/{experiment}/chart/")
    assert max(value for value in chart["value"] if value is not None) == finals[0], "the best is exact"
    assert len(chart["id"]) <= 2_500
    assert chart["left_out"] + len(chart["id"]) >= MANY
    page = open_page(server, "/sign-in/")
    page.goto(f"/experiments/{experiment}/", wait_until="commit")
    expect(page.locator("#top-trials tbody tr").first).to_be_visible()
    expect(page.locator("#result-chart canvas")).to_be_visible()
    expect(page.locator("#chart-note")).to_contain_text("left out")
    assert page.locator("#top-trials tbody tr").count() == 10
    assert page.evaluate(BYTES_OF_THE_PAGE) < 1_000_000
    page.get_by_role("link", name="Trials", exact=True).click()
    expect(page.locator("#trials-table tbody tr")).to_have_count(50)
    page.get_by_role("link", name="Result").click()  # sorted on the server
    expect(page.locator("#trials-table tbody tr").first.locator("[data-cell=result]")).to_have_text(
        re.compile(str(finals[0])[:5]))
    page.get_by_role("link", name="Next").click()
    expect(page.locator("#trial-pages")).to_contain_text("Page 2 of 20")
    expect(page.locator("#trials-table tbody tr").first.locator("[data-cell=result]")).to_have_attribute(
        "data-number", str(finals[50]))  # in the same order
    page.locator("#counts li[data-status=FAILED] a").click()
    expect(page.locator("#trial-pages")).to_contain_text("Page 1 of 4")
    assert page.locator("#trials-table .status").all_inner_texts() == ["FAILED"] * 50
    page.get_by_role("link", name="Next").click()
    expect(page.locator("#trial-pages")).to_contain_text("Page 2 of 4")  # of the same filter
    page.get_by_role("link", name="Show all").click()
    expect(page.locator("#trial-pages")).to_contain_text("Page 1 of 20")


def test_a_metric_reaches_the_page_soon(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    from benchmarks.live_latency import latencies

    page = open_page(server, "/")
    measured = sorted(latencies(server, page, tmp_path, count=20))
    assert len(measured) == 20
    assert measured[10] < 1.5, "the median is far below half a second on a quiet machine"
