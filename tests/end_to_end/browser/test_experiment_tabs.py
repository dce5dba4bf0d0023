"""The tabs log, timeline and events of an experiment and what its head offers, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.browser.menus import in_menu
from tests.end_to_end.running_server import RunningServer

#: Set on the page before something shall change; a reload would lose it.
MARK = "window.markOfTheTest = true"
TUNER = """
import logging
from nni.tuner import Tuner

log = logging.getLogger("mine")

class Mine(Tuner):
    def update_search_space(self, search_space):
        print("a space of", len(search_space))
    def generate_parameters(self, number, **more):
        log.warning("careful with %d", number)
        return {"x": number}
    def receive_trial_result(self, number, parameters, value, **more):
        if value > 0.5:
            raise RuntimeError("too good to be true")
        print("heard of", value)
"""


def not_reloaded(page: Any) -> bool:
    return bool(page.evaluate("window.markOfTheTest === true"))


@pytest.mark.slow
def test_the_log_shows_what_worker_and_tuner_say_as_they_say_it(server: RunningServer, open_page: Any,
                                                                tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TUNER)
    trials = LedTrials(server, tmp_path, tuner={"className": "mine.Mine", "codeDirectory": str(tmp_path)})
    page = open_page(server, f"/experiments/{trials.experiment}/")
    page.get_by_role("link", name="Log", exact=True).click()
    lines, log = page.locator("#log-lines li"), page.get_by_role("log")
    expect(log).to_contain_text("the tuner proposed trial 0")
    expect(log).to_contain_text("a space of 1")
    expect(lines.filter(has_text="careful with 0").locator(".level")).to_have_text("WARNING")
    expect(lines.filter(has_text="trial 0 was submitted").locator(".source")).to_have_text("worker")
    page.evaluate(MARK)
    trials.tell(0, "final 0.25", "end")
    expect(log).to_contain_text("trial 0 ended: SUCCEEDED; the tuner gets 0.25")
    expect(lines.filter(has_text="heard of 0.25").locator(".source")).to_have_text("tuner")
    trials.tell(1, "final 0.75", "end")
    expect(log).to_contain_text("RuntimeError: too good to be true")
    expect(log).to_contain_text("Traceback (most recent call last)")
    expect(lines.filter(has_text="it cannot continue").locator(".level")).to_have_text("ERROR")
    assert not_reloaded(page)
    page.get_by_label("Level").select_option("ERROR")
    page.wait_for_url("**level=ERROR*")
    expect(lines).to_have_count(1)
    page.get_by_label("Level").select_option("WARNING")
    page.wait_for_url("**level=WARNING*")
    page.get_by_label("Text").fill("careful")
    page.get_by_role("button", name="Filter").click()
    expect(lines).to_have_count(2)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    text = Path(download.value.path()).read_text().splitlines()
    assert [line.partition("WARNING tuner: ")[2] for line in text] == ["mine: careful with 0", "mine: careful with 1"]
    page.get_by_role("link", name="Show all").click()
    lines.filter(has_text="trial 0 was submitted").get_by_role("link").click()
    expect(page.locator(".headline .status")).to_have_text("SUCCEEDED")


FILL_LOG = """
from django.utils import timezone
from nniweb.experiments.models import Experiment, LogLine
experiment = Experiment.objects.get(public_id="{experiment}")
last = LogLine.objects.filter(experiment=experiment).order_by("-number").first().number
LogLine.objects.bulk_create(LogLine(experiment=experiment, number=last + index, at=timezone.now(), level=20,
                                    source="worker", message=f"line {{index}}") for index in range(1, 701))
"""


@pytest.mark.slow
def test_a_long_log_is_read_backwards_and_let_go_of(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    server.post(f"experiments/{trials.experiment}/actions/stop/")
    server.wait_for_experiment(trials.experiment, "STOPPED")
    server.wait_until(lambda: any("STOPPED" in line["message"] for line in server.get(
        f"experiments/{trials.experiment}/log/")["lines"]), what="the worker has logged the end")
    server.manage("shell", "-c", FILL_LOG.format(experiment=trials.experiment))
    page = open_page(server, f"/experiments/{trials.experiment}/log/")
    lines, log, follow = page.locator("#log-lines li"), page.get_by_role("log"), page.get_by_label("follow the end")
    expect(lines).to_have_count(300)
    at_end = "log => log.scrollHeight - log.scrollTop - log.clientHeight < 24"
    assert log.evaluate(at_end)
    page.get_by_role("button", name="Earlier lines").click()
    expect(lines).to_have_count(600)
    expect(follow).not_to_be_checked()
    expect(page.page).to_have_url(re.compile("follow=0"))
    page.reload()
    expect(follow).not_to_be_checked()
    follow.check()
    expect(page.page).not_to_have_url(re.compile("follow=0"))
    page.wait_for_function(f"() => ({at_end})(document.getElementById('log'))")


@pytest.mark.slow
def test_lines_that_come_while_the_last_ones_are_asked_for_stay(server: RunningServer, open_page: Any, tmp_path: Path
                                                                ) -> None:
    experiment = LedTrials(server, tmp_path).experiment
    page = open_page(server, f"/experiments/{experiment}/log/")
    expect(page.locator("#live")).to_have_text("● live")
    page.evaluate("""async (topic) => {
        const { live } = await import("/static/js/lib/live.js");
        const tell = live.watches.get(topic).handler;
        const line = { number: 1001, at: null, level: "INFO", source: "worker", message: "late", trial: "" };
        let answer;
        const { fetch } = window;
        window.fetch = () => new Promise((done) => { answer = done; });
        tell({ complete: false, lines: [] });
        window.fetch = fetch;
        tell({ complete: true, lines: [line] });
        answer(new Response(JSON.stringify({ lines: [], last: 1000, has_earlier: false, first: 1 })));
    }""", f"log/{experiment}")
    expect(page.locator("#log-lines li")).to_have_count(1)
    expect(page.locator("#log-lines li")).to_contain_text("late")


#: Once the whole extent is drawn: what is clicked before that moves away under the mouse.
MIDDLE_OF_A_RUNNING_BAR = """() => {
    const chart = echarts.getInstanceByDom(document.getElementById("timeline-chart"));
    const zoom = chart.getOption().dataZoom[0];
    if (zoom.end - zoom.start < 99.9) return null;
    const bar = chart.getOption().series.find((each) => each.name === "RUNNING")?.data[0];
    if (!bar) return null;
    const [row, begin, end] = bar.value;
    const [x, y] = chart.convertToPixel({ xAxisIndex: 0, yAxisIndex: 0 }, [(begin + end) / 2, row]);
    return { x, y };
}"""


@pytest.mark.slow
def test_the_timeline_shows_who_runs_where_and_who_waits(server: RunningServer, open_page: Any,
                                                         tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, trialConcurrency=2, maxTrialNumber=5)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    page.get_by_role("link", name="Timeline").click()
    chart, attempts = page.locator("#timeline-chart"), page.locator("#timeline-rows tbody tr td:nth-child(3)")
    expect(chart.locator("canvas").first).to_be_visible()
    expect(attempts).to_have_text(["1", "1"])
    expect(page.locator("#timeline-none-waits")).to_be_visible()
    page.evaluate(MARK)
    server.post(f"experiments/{trials.experiment}/trials/", {"parameters": {"x": 0.5}})
    waiting = page.locator("#timeline-waiting li")
    expect(waiting).to_contain_text("The trial waits for a free slot.")
    trials.tell(0, "final 0.5", "end")
    expect(page.locator("#timeline-none-waits")).to_be_visible()  # it has begun
    # the rows stand in the order in which their first trials began, which is anybody's guess
    one, two = (attempts.filter(has_text=re.compile(f"^{count}$")) for count in (1, 2))
    expect(one).to_have_count(1)
    expect(two).to_have_count(1)
    assert not_reloaded(page)
    page.get_by_role("button", name="Zoom in").click()
    expect(page.page).to_have_url(re.compile(r"begin=.*end="))
    page.get_by_role("button", name="Earlier").click()
    chart.focus()
    page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    there = page.url
    page.reload()
    expect(chart.locator("canvas").first).to_be_visible()
    assert page.url == there, "a link shows a colleague the same"
    page.get_by_role("button", name="All", exact=True).click()
    expect(page.page).not_to_have_url(re.compile("begin="))
    expect(one).to_have_count(1)
    expect(two).to_have_count(1)
    chart.hover()
    asked_for = re.compile(r"/timeline/\?.*begin=")  # once the last move was told, and a moment after it
    with page.page.expect_response(asked_for):
        page.keyboard.down("Control")
        page.mouse.wheel(0, -500)
        page.keyboard.up("Control")
    expect(page.page).to_have_url(re.compile(r"begin=.*end="))  # zoomed in, where the mouse is
    zoomed, place = page.url, chart.bounding_box()
    with page.page.expect_response(asked_for):
        page.mouse.down()
        page.mouse.move(place["x"] + place["width"] / 2 - 150, place["y"] + place["height"] / 2, steps=5)
        page.mouse.up()
    expect(page.page).not_to_have_url(zoomed)  # dragged to a later part
    page.get_by_role("button", name="All", exact=True).click()
    expect(page.page).not_to_have_url(re.compile("begin="))
    chart.click(position=page.wait_for_function(MIDDLE_OF_A_RUNNING_BAR).json_value())
    page.wait_for_url("**/trials/*/")
    expect(page.locator(".headline .status")).to_have_text("RUNNING")


@pytest.mark.slow
def test_the_search_space_is_changed_while_the_experiment_runs(server: RunningServer, open_page: Any,
                                                               tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    expect(page.locator("[data-cell=running]")).to_have_text("1")
    page.allow("status of 400")
    in_menu(page, "Search space…").click()
    dialog, text = page.get_by_role("dialog"), page.get_by_label("Search space as JSON")
    expect(dialog).to_contain_text("1 running and 0 waiting")
    text.fill('{\n  "x": {"_type": "uniform", "_value": [0, 1]},\n  "y": {"_type": "unifrom", "_value": [0, 1]}\n}')
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Line 3")
    expect(dialog.get_by_role("alert")).to_contain_text("uniform")
    expect(dialog.locator(".gutter .wrong")).to_have_text(re.compile("3$"))
    text.fill('{"x": {"_type": "uniform", "_value": [2, 3]}}')
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#events")).to_contain_text("searchSpace")
    page.get_by_role("link", name="Log", exact=True).click()
    expect(page.get_by_role("log")).to_contain_text("the tuner gets the new search space: x")
    trials.tell(0, "final 0.5", "end")
    server.wait_until(lambda: any(2 <= trial["parameters"]["x"] <= 3 for trial in server.get(
        f"experiments/{trials.experiment}/trials/")["results"]), what="a trial is of the new space")


@pytest.mark.slow
def test_the_head_tags_clones_and_exports(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, experimentName="to be tagged")
    trials.tell(0, "final 0.5", "end")
    page = open_page(server, f"/experiments/{trials.experiment}/")
    onlooker = open_page(server, f"/experiments/{trials.experiment}/")
    expect(page.locator("#head [data-cell=ended]")).to_have_text("1")
    page.get_by_role("button", name="Put a tag on this experiment").click()
    page.get_by_label("New tag of this experiment").fill("nightly")
    page.keyboard.press("Enter")
    expect(onlooker.locator("#facts-of-experiment .tag")).to_contain_text("nightly")
    with page.expect_download() as download:
        in_menu(page, "Export as CSV", "link").click()
    assert len(Path(download.value.path()).read_text().splitlines()) >= 2
    page.locator("#facts-of-experiment .tag a").click()
    page.wait_for_url("**/?tag=nightly")
    expect(page.locator("#experiments tr[data-id]")).to_have_count(1)
    page.get_by_role("link", name="to be tagged").click()
    page.get_by_role("button", name="Take the tag nightly off this experiment").click()
    expect(onlooker.locator("#facts-of-experiment .tag")).to_have_count(0)
    in_menu(page, "Clone", "link").click()
    page.wait_for_url("**/new/?clone=*")
    expect(page.locator("#config")).to_have_value(re.compile("to be tagged"))


@pytest.mark.slow
def test_on_a_phone_the_tiles_stand_two_in_a_row(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/", width=390, height=844)
    expect(page.locator(".tiles > div").first).to_be_visible()
    tops = page.locator(".tiles > div:not([hidden])").evaluate_all(
        "tiles => tiles.map((tile) => tile.getBoundingClientRect().top)")
    assert [tops[index] == tops[index + 1] for index in range(0, len(tops) - 1, 2)] == [True] * (len(tops) // 2)
    page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_underscores_are_seen_in_the_filter(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/trials/")
    pictures = []
    for text in ("batch_size", "batch size"):
        page.get_by_label("Filter", exact=True).fill(text)
        pictures.append(page.get_by_label("Filter", exact=True).screenshot(caret="hide"))
    assert pictures[0] != pictures[1]


@pytest.mark.slow
def test_events_are_filtered_paged_and_live(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path)
    page = open_page(server, f"/experiments/{trials.experiment}/events/")
    rows = page.locator(".events li")
    expect(rows.last).to_contain_text("launched by admin")
    expect(rows.first).to_contain_text("RUNNING")  # the newest first
    page.evaluate(MARK)
    server.patch(f"experiments/{trials.experiment}/", {"description": "of a test"})
    expect(rows.first).to_contain_text("changed by admin")
    assert not_reloaded(page)
    page.locator("select[name=by]").select_option("admin")
    page.wait_for_url("**by=admin*")
    expect(rows).to_have_count(2)
    page.get_by_label("What").select_option("launched")
    page.wait_for_url("**kind=launched*")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Show all").click()
    page.get_by_label("Events of").select_option("true")
    page.wait_for_url("**trials=true*")
    expect(rows.filter(has_text="trial 0").filter(has_text="RUNNING")).to_have_count(1)
    page.evaluate(MARK)
    trials.tell(0, "final 0.5", "end")
    expect(rows.filter(has_text="trial 0").filter(has_text="SUCCEEDED")).to_have_count(1)
    assert not_reloaded(page)
    rows.filter(has_text="SUCCEEDED").get_by_role("link").click()
    expect(page.locator(".headline .status")).to_have_text("SUCCEEDED")


#: Draws two attempts and a wait of a second each, first in a window of their own length, then in one that leaves
#: them a pixel; says what is written in the bars, and where the word of the present stands, each time.
WORDS_IN_BARS = """async () => {
    const { TimelineChart } = await import("/static/js/experiment/timeline/timeline_chart.js");
    const element = document.createElement("div");
    element.style.width = "1000px";
    document.body.append(element);
    const chart = new TimelineChart(element, { moved() {} });
    const started = performance.now(), now = Date.now() / 1000;
    performance.now = () => started;  // a busy machine takes longer than what the window shows of the time to come
    const found = (window) => ({
        now, extent: [now - 1000, now], window, statuses: ["SUCCEEDED", "RUNNING"],
        rows: [{ machine: "m", gpu: null, lane: 0 }],
        runs: { id: ["a", "b"], status: [0, 1], row: [0, 0], begin: [now - 2, now - 1], end: [now - 1, null],
                sequence_id: [11, 12], attempt: [1, 1], merged: [null, null] },
        waits: { id: ["c"], reason: [""], lane: [0], begin: [now - 2], end: [now - 1], sequence_id: [13],
                 attempt: [1] },
    });
    const words = () => chart.chart.getZr().storage.getDisplayList(true)
        .filter((each) => each.type === "tspan" && each.style.text)
        .map((each) => each.style.text.trim()).filter((text) => /^(now|\\D*1[123])$/.test(text));
    const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const shown = [];
    for (const window of [[now - 3, now + 1], [now - 1000, now]]) {
        await chart.take(found(window));
        await frame();
        chart.chart.getZr().flush();
        shown.push(words().map((text) => text.replace(/[^a-z0-9]/g, "")).sort());
    }
    delete performance.now;
    element.remove();
    return shown;
}"""


def test_bars_without_room_lose_their_words(server: RunningServer, open_page: Any, tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1)
    page = open_page(server, f"/experiments/{trials.experiment}/timeline/")
    near, far = page.evaluate(WORDS_IN_BARS)
    assert near == ["11", "12", "13", "now"]
    assert far == ["now"]
