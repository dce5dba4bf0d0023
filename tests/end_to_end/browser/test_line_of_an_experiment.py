"""What stays in sight above every tab of an experiment, and what goes with one from tab to tab."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from nniweb.dashboard.experiment_tabs.head import TABS
from tests.end_to_end.browser.clicks import clicks, count_clicks
from tests.end_to_end.browser.conftest import SOON
from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.browser.menus import in_menu
from tests.end_to_end.browser.shown_charts import wait_for_chart
from tests.end_to_end.running_server import RunningServer
from tests.end_to_end.simulated_trials import SimulatedTrials

#: What overflows to the right, with the element that begins it.
OVERFLOW = """() => document.documentElement.scrollWidth <= document.documentElement.clientWidth ? [] :
    [...document.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
        .slice(0, 3).map((one) => one.outerHTML.slice(0, 120))"""
#: Widths of windows besides that of a phone; 720: 1440 at 200 %.
WIDER = (720, 768, 1440)
ADDRESSES = ("/", "/new/", "/new/?way=fields", "/clusters/", "/clusters/new/", "/platforms/", "/notifications/",
             "/account/", "/usage/", "/reasons/", "/trials/{trial}/", "/experiments/{experiment}/report/",
             *("/experiments/{experiment}/" + name.removeprefix("experiment").replace("-", "", 1) for name in TABS))


@pytest.fixture(scope="module")
def simulated(server: RunningServer) -> SimulatedTrials:
    """Sixty trials, of which two run."""
    return SimulatedTrials(server, finished=58, curve=5, running=2)


@pytest.mark.slow
def test_the_line_has_48_pixels_and_stays_in_sight(server: RunningServer, open_page: Any,
                                                   simulated: SimulatedTrials) -> None:
    page = open_page(server, f"/experiments/{simulated.experiment}/trials/", height=600)
    assert page.locator("#head").bounding_box()["height"] == 48
    expect(page.locator("#controls > button:visible.primary")).to_have_count(1)
    page.mouse.wheel(0, 900)
    page.wait_for_function("() => scrollY > 200")
    assert page.locator("#head").bounding_box()["y"] == 0
    for place in ("#selection", "#trials-table thead th:nth-child(3)"):
        assert 40 <= page.locator(place).bounding_box()["y"] <= 110, place


@pytest.mark.slow
def test_on_a_phone_the_first_screen_is_not_all_head(server: RunningServer, open_page: Any,
                                                     simulated: SimulatedTrials) -> None:
    page = open_page(server, "/", width=390, height=844)
    for name in TABS:
        tab = name.removeprefix("experiment").replace("-", "", 1)
        page.goto(f"{server.url}/experiments/{simulated.experiment}/{tab}")
        tabs = page.locator("nav.tabs").bounding_box()
        assert tabs["y"] + tabs["height"] < 200, name
    share = page.get_by_role("button", name="Share…")
    expect(share).to_be_hidden()
    in_menu(page, "Share…").click()
    expect(page.get_by_role("dialog")).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 3], ids=["finished", "running"])
def test_on_a_phone_the_line_has_room_for_the_name(server: RunningServer, open_page: Any, tmp_path: Any, limit: int
                                                   ) -> None:
    trials = LedTrials(server, tmp_path, experimentName="mixed-precision ResNet", maxTrialNumber=limit)
    trials.tell(0, "final 0.5", "end")
    if limit == 1:
        server.wait_for_experiment(trials.experiment)
    page = open_page(server, f"/experiments/{trials.experiment}/log/", width=390, height=844)
    expect(page.locator("#controls > button:visible.primary")).to_have_text("Run more…" if limit == 1 else "Pause",
                                                                            use_inner_text=True)
    cut = page.locator("#head h1").evaluate(
        "(h1) => [h1.scrollWidth - h1.clientWidth, h1.scrollHeight - h1.clientHeight]")
    assert cut == [0, 0]
    assert page.locator("#head").bounding_box()["height"] == 48
    for trial in range(1, limit):
        trials.tell(trial, "end")


@pytest.mark.slow
def test_no_page_is_wider_than_the_window(server: RunningServer, open_page: Any, simulated: SimulatedTrials) -> None:
    page = open_page(server, "/", width=390)
    found = {}
    for address in ADDRESSES:
        page.set_viewport_size({"width": 390, "height": 900})
        page.goto(server.url + address.format(experiment=simulated.experiment, trial=simulated.one_finished))
        page.settle()
        for width in (390, *WIDER, 390):  # as it is loaded, in wider windows, and narrowed again
            page.set_viewport_size({"width": width, "height": 450 if width == 720 else 900})
            page.evaluate(SOON)
            if wide := page.evaluate(OVERFLOW):
                found[address, width] = wide
    assert found == {}


@pytest.mark.slow
def test_what_is_opened_or_written_widens_no_page(server: RunningServer, open_page: Any, simulated: SimulatedTrials
                                                  ) -> None:
    page = open_page(server, "/new/", width=390)
    page.get_by_label("from this computer").check()
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(SOON)
        assert page.evaluate(OVERFLOW) == []
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(f"/trials/{simulated.one_finished}/")
    page.locator("#whereabouts").evaluate(
        "(place) => place.replaceChildren('Folder: ', document.createElement('code')) ?? "
        "place.lastChild.append('/data/' + 'trials'.repeat(20))")
    page.evaluate(SOON)
    assert page.evaluate(OVERFLOW) == []
    page.goto(f"/experiments/{simulated.experiment}/parameters/")
    page.settle()
    page.locator("summary", has_text="Axes").click()
    menu = page.locator("details.menu:has(#axis-choices) > div").bounding_box()
    assert 0 <= menu["x"] < menu["x"] + menu["width"] <= 390
    page.evaluate(SOON)
    assert page.evaluate(OVERFLOW) == []


@pytest.mark.slow
def test_the_selection_goes_along_between_tabs_and_stands_in_the_address(server: RunningServer, open_page: Any,
                                                                         simulated: SimulatedTrials) -> None:
    page = open_page(server, f"/experiments/{simulated.experiment}/trials/")
    expect(page.locator("#live")).to_have_text("● live")
    for number in (1, 3):
        page.get_by_label(f"Select trial {59 - number}", exact=True).check()
    page.wait_for_url(re.compile(r"selected=\w+(,|%2C)\w+"))
    page.get_by_role("link", name="Timeline").click()
    page.get_by_role("link", name="Compare").click()
    expect(page.locator("#compare-table thead th")).to_have_count(2)
    page.get_by_role("link", name="Trials", exact=True).click()
    expect(page.locator("#chosen")).to_have_text("2 selected")
    page.reload()
    expect(page.locator("#chosen")).to_have_text("2 selected")
    page.get_by_role("link", name="Duration").click()
    expect(page.locator("th[aria-sort]")).to_have_text("Duration")
    expect(page.locator("#chosen")).to_have_text("2 selected")
    page.get_by_role("button", name="Clear selection").click()
    page.wait_for_url(lambda address: "selected" not in address)


@pytest.mark.slow
def test_enter_in_the_dialog_of_tags_saves_them(server: RunningServer, open_page: Any,
                                                simulated: SimulatedTrials) -> None:
    page = open_page(server, f"/experiments/{simulated.experiment}/trials/")
    page.get_by_label("Select trial 57", exact=True).check()
    page.get_by_role("button", name="Tags…").click()
    page.get_by_label("Add", exact=True).fill("kept")
    page.keyboard.press("Enter")
    expect(page.locator("#many-done")).to_contain_text("1 tagged")
    tagged = server.get(f"experiments/{simulated.experiment}/trials/", tag="kept")["results"]
    assert [trial["sequence_id"] for trial in tagged] == [57]
    page.get_by_role("button", name="Tags…").click()
    page.get_by_label("Add", exact=True).fill("never")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not server.get(f"experiments/{simulated.experiment}/trials/", tag="never")["results"]


@pytest.mark.slow
def test_a_name_that_is_changed_elsewhere_is_changed_in_the_line_and_in_the_title(
        server: RunningServer, open_page: Any, tmp_path: Any) -> None:
    trials = LedTrials(server, tmp_path, experimentName="before")
    page = open_page(server, f"/experiments/{trials.experiment}/log/")
    expect(page.locator("#live")).to_have_text("● live")
    server.patch(f"experiments/{trials.experiment}/", {"name": "after $&"})
    expect(page.locator("#head h1")).to_have_text("after $&")
    expect(page.page).to_have_title("Log of after $& – NNI Web")


@pytest.mark.slow
def test_the_card_names_the_two_parameters_that_matter_most(server: RunningServer, open_page: Any,
                                                            simulated: SimulatedTrials) -> None:
    page = open_page(server, f"/experiments/{simulated.experiment}/")
    expect(page.locator("#matters li b")).to_have_count(2, timeout=60_000)
    best = server.get(f"experiments/{simulated.experiment}/")["progress"]["best_sequence_id"]
    expect(page.locator("#verdict .big")).to_contain_text(f"trial {best}")


@pytest.mark.slow
def test_the_card_names_what_matters_soon_after_there_are_enough_results(
        server: RunningServer, open_page: Any, tmp_path: Any) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=11)
    for number in range(9):
        trials.tell(number, f"final 0.{number}", "end")
    server.wait_until(lambda: server.get(f"experiments/{trials.experiment}/")["progress"]["ended"] == 9, 60)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    expect(page.locator("#live")).to_have_text("● live")
    expect(page.locator("#matters")).to_contain_text("Known from 10 results on.")
    trials.tell(9, "final 0.9", "end")
    expect(page.locator("#matters li b")).to_have_count(1, timeout=30_000)


@pytest.mark.slow
def test_the_buttons_do_not_move_when_the_scripts_have_run(server: RunningServer, open_page: Any,
                                                           simulated: SimulatedTrials) -> None:
    page = open_page(server, "/")
    page.add_init_script("""new PerformanceObserver((list) => {
        window.shifted ??= 0;
        for (const one of list.getEntries()) window.shifted += one.hadRecentInput ? 0 : one.value;
    }).observe({type: "layout-shift", buffered: true})""")
    for address in ("", "trials/"):
        page.goto(f"{server.url}/experiments/{simulated.experiment}/{address}")
        page.settle()
        assert page.evaluate("window.shifted ?? 0") < 0.1, address


@pytest.mark.slow
def test_the_chart_is_zoomed_keeps_its_part_and_says_the_parameters_of_a_point(server: RunningServer, open_page: Any,
                                                                              simulated: SimulatedTrials) -> None:
    page = open_page(server, f"/experiments/{simulated.experiment}/")
    shown = wait_for_chart(page, "#result-chart", lambda now: any(one["data"] for one in now["series"]))
    x, y = next(one for one in shown["series"] if one["name"] == "result")["data"][20][:2]
    chart = page.locator("#result-chart")
    chart.scroll_into_view_if_needed()
    place = chart.evaluate("(element, at) => globalThis.echarts.getInstanceByDom(element).convertToPixel('grid', at)",
                           [x, y])
    box = chart.bounding_box()
    with page.expect_response(re.compile(r"/api/v1/trials/\w+/$")) as asked:
        page.mouse.move(box["x"] + place[0] + 1, box["y"] + place[1])
    assert asked.value.json()["sequence_id"] == x
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    whole = page.get_by_role("button", name="Show all")
    expect(whole).to_be_visible()
    part = wait_for_chart(page, "#result-chart", lambda now: now["dataZoom"][0]["start"] > 0)
    page.get_by_label("log y").check()  # drawn anew
    now = wait_for_chart(page, "#result-chart", lambda now: now["yAxis"][0]["type"] == "log")
    assert now["dataZoom"][0]["start"] == pytest.approx(part["dataZoom"][0]["start"])
    marks = page.locator("#result-chart").evaluate(
        "(element) => globalThis.echarts.getInstanceByDom(element).getModel().getComponent('xAxis').axis"
        ".getViewLabels().map((mark) => mark.formattedLabel)")
    assert marks
    assert all(re.fullmatch(r"\d*", mark) for mark in marks), marks
    whole.click()
    expect(whole).to_be_hidden()


@pytest.mark.slow
def test_the_chart_over_another_axis_is_whole_and_offers_nothing(server: RunningServer, open_page: Any,
                                                                 simulated: SimulatedTrials) -> None:
    page = open_page(server, f"/experiments/{simulated.experiment}/")
    wait_for_chart(page, "#result-chart", lambda now: any(one["data"] for one in now["series"]))
    chart = page.locator("#result-chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    whole = page.get_by_role("button", name="Show all")
    expect(whole).to_be_visible()
    page.get_by_role("button", name="by time").click()
    wait_for_chart(page, "#result-chart", lambda now: (now["xAxis"][0]["type"], now["dataZoom"][0]["start"]) == (
        "time", 0))
    expect(whole).to_be_hidden()


@pytest.mark.slow
def test_three_trials_are_compared_with_four_clicks(server: RunningServer, open_page: Any, simulated: SimulatedTrials
                                                    ) -> None:
    page = open_page(server, f"/experiments/{simulated.experiment}/trials/")
    expect(page.locator("#live")).to_have_text("● live")
    count_clicks(page)
    expect(page.locator("#live")).to_have_text("● live")
    for number in (1, 3, 5):
        page.get_by_label(f"Select trial {59 - number}", exact=True).check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#compare-table thead th")).to_have_count(3)
    assert clicks(page) == 4


@pytest.mark.slow
def test_a_name_of_a_parameter_without_a_space_stays_in_its_column(server: RunningServer, open_page: Any,
                                                                   tmp_path: Any) -> None:
    trials = LedTrials(server, tmp_path, maxTrialNumber=1,
                       searchSpace={"x" * 90: {"_type": "choice", "_value": ["y" * 90]}})
    trials.tell(0, "final 0.5", "end")
    server.wait_for_experiment(trials.experiment)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    best, after = (page.locator(f"#verdict .{part}").bounding_box() for part in ("best", "next"))
    for part in ("dt", "dd"):
        width = page.locator(f"#verdict .best {part}").first.evaluate("(one) => one.scrollWidth")
        assert 0 < width <= best["width"] < after["x"], part
