"""Experiments with many parameters in a browser: tables, parallel coordinates, importance, comparison and forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.shown_charts import wait_for_chart
from tests.end_to_end.browser.test_every_page import AXE, not_reached_by_tab, serious_violations
from tests.end_to_end.running_server import RunningServer
from tests.end_to_end.simulated_trials import SimulatedTrials

#: What the result depends on; see SimulatedTrials.
MOST_IMPORTANT = ["encoder_block/layer4/learning_rate", "encoder_block/layer3/dropout"]
WIDTHS = (390, 768, 1440)
#: Page -> its address.
PAGES = {"overview": "/experiments/{experiment}/", "trials": "/experiments/{experiment}/trials/",
         "hyper-parameters": "/experiments/{experiment}/parameters/",
         "compare": "/experiments/{experiment}/compare/?trials=1,2,3,4,5,6",
         "trial": "/trials/{trial}/", "new experiment": "/new/?clone={experiment}"}


@pytest.fixture(scope="module")
def wide(server: RunningServer) -> SimulatedTrials:
    """Sixty trials of 24 parameters."""
    return SimulatedTrials(server, finished=60, curve=3, wide=24)


@pytest.fixture(scope="module")
def wider(server: RunningServer) -> SimulatedTrials:
    """Thirty trials of a hundred parameters."""
    return SimulatedTrials(server, finished=30, curve=3, wide=100)


@pytest.fixture
def parameters(server: RunningServer, open_page: Callable[..., Any], wide: SimulatedTrials) -> Any:
    """The page of hyper-parameters when it knows what matters."""
    page = open_page(server, f"/experiments/{wide.experiment}/parameters/")
    expect(heads(page).first).to_have_attribute("data-name", MOST_IMPORTANT[0], timeout=60_000)
    return page


def heads(page: Any) -> Any:
    return page.locator("button.axis-head")


def axes(page: Any) -> list[str]:
    return list(heads(page).evaluate_all("(all) => all.map((head) => head.dataset.name)"))


def overflow(page: Any) -> Any:
    """Pixels by which the page itself is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_no_page_is_wider_than_the_window_with_a_hundred_parameters(
        server: RunningServer, open_page: Callable[..., Any], wider: SimulatedTrials, name: str) -> None:
    path = PAGES[name].format(experiment=wider.experiment, trial=wider.one_finished)
    page = open_page(server, path)
    page.settle()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(100)
        assert overflow(page) <= 0, width
        assert page.evaluate("document.documentElement.scrollHeight") < 6000, "screens of 900"


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_many_parameters_can_be_read_and_used_by_everybody(
        server: RunningServer, open_page: Callable[..., Any], wide: SimulatedTrials, name: str) -> None:
    page = open_page(server, PAGES[name].format(experiment=wide.experiment, trial=wide.one_finished))
    page.settle()
    page.evaluate(AXE.read_text())
    assert not serious_violations(page)
    page.emulate_media(color_scheme="dark")
    assert not serious_violations(page, runOnly=["color-contrast"])
    assert not not_reached_by_tab(page)


@pytest.mark.slow
def test_headings_and_the_first_columns_stay_while_the_table_scrolls(
        server: RunningServer, open_page: Callable[..., Any], wide: SimulatedTrials) -> None:
    page = open_page(server, f"/experiments/{wide.experiment}/trials/")
    box = page.get_by_role("region", name="Table of trials")
    assert page.evaluate("document.documentElement.scrollHeight") < 2000
    assert max(row["height"] for row in [page.locator("#trials-table tbody tr").nth(n).bounding_box()
                                         for n in range(3)]) < 60
    box.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    box.evaluate("(box) => { box.scrollLeft = 900; box.scrollTop = 500; }")
    frame = box.bounding_box()
    place = {name: page.locator(selector).bounding_box() for name, selector in {
        "heading": "#trials-table thead th.pin-1", "number": "#trials-table tbody tr:nth-child(20) .pin-1",
        "result": "#trials-table tbody tr:nth-child(20) .pin-2",
        "choice": "#trials-table tbody tr:nth-child(20) .pin-0"}.items()}
    assert abs(place["choice"]["x"] - frame["x"]) < 2
    assert abs(place["number"]["x"] - place["choice"]["x"] - place["choice"]["width"]) < 2
    assert abs(place["result"]["x"] - place["number"]["x"] - place["number"]["width"]) < 2
    assert abs(place["heading"]["y"] - frame["y"]) < 2
    last = page.get_by_role("link", name="encoder_block/layer5/dropout")
    last.focus()
    expect(last).to_be_in_viewport()


@pytest.mark.slow
def test_rows_stand_closer_where_that_is_chosen_and_a_link_says_so(
        server: RunningServer, open_page: Callable[..., Any], wide: SimulatedTrials) -> None:
    page = open_page(server, f"/experiments/{wide.experiment}/trials/?order=final_value")
    row = page.locator("#trials-table tbody tr").nth(5)
    comfortable = row.bounding_box()["height"]
    page.get_by_label("Density").select_option("compact")
    expect(page.locator("#trials-table.compact")).to_be_visible()
    expect(page.page).to_have_url(re.compile("density=compact"))
    assert row.bounding_box()["height"] < 0.8 * comfortable
    page.get_by_role("link", name="Duration").click()
    expect(page.page).to_have_url(re.compile("order=-duration.*density=compact|density=compact.*order=-duration"))
    expect(page.locator("#trials-table.compact")).to_be_visible()
    page.get_by_label("Density").select_option("comfortable")
    expect(page.page).not_to_have_url(re.compile("density"))


@pytest.mark.slow
def test_columns_are_found_among_many_and_chosen_together(
        server: RunningServer, open_page: Callable[..., Any], wide: SimulatedTrials) -> None:
    page = open_page(server, f"/experiments/{wide.experiment}/trials/")
    headings = page.locator("#trials-table thead th.breaks")
    expect(headings).to_have_count(24)
    choices = page.locator("#column-names label").count()
    page.locator("#column-choice summary").click()
    page.get_by_role("button", name="No parameters").click()
    expect(headings).to_have_count(0)
    page.get_by_label("Find a column").fill("layer3 drop")
    expect(page.locator("#column-names label:visible")).to_have_count(1)
    page.get_by_label("Find a column").press("Enter")
    page.get_by_label("encoder_block/layer3/dropout").check()
    expect(headings).to_have_text(["encoder_block/layer3/dropout"])
    page.get_by_label("Find a column").press("Escape")
    expect(page.locator("#column-names label:visible")).to_have_count(choices)
    page.get_by_role("button", name="All parameters").click()
    expect(headings).to_have_count(24)
    expect(page.page).not_to_have_url(re.compile("columns"))
    page.get_by_label("encoder_block/layer3/dropout").uncheck()
    expect(headings).to_have_count(23)
    expect(page.page).to_have_url(re.compile(r"/trials/\?without=[^&,]+$"))  # one name, not the 23 others
    page.reload()
    expect(headings).to_have_count(23)
    page.get_by_label("Density").select_option("compact")
    expect(headings).to_have_count(23)


@pytest.mark.slow
def test_the_most_important_axes_come_first_and_names_are_told_apart(parameters: Any) -> None:
    assert axes(parameters)[:2] == MOST_IMPORTANT
    assert len(axes(parameters)) == 12
    names = heads(parameters).locator("[aria-hidden]").all_inner_texts()
    assert len(set(names)) == 12
    assert any("…" in name for name in names)
    expect(heads(parameters).first).to_have_attribute("title", MOST_IMPORTANT[0])
    expect(parameters.locator("#chart-note")).to_contain_text("12 of 24 parameters have an axis, the most important")
    wait_for_chart(parameters, "#parallel-chart", lambda option: len(option["parallelAxis"]) == 13)
    for width in WIDTHS:
        parameters.set_viewport_size({"width": width, "height": 900})
        result = parameters.locator("span.axis-head")
        expect(result).to_have_text("result")
        wait_for_chart(parameters, "#parallel-chart",
                       lambda option: len(option["parallelAxis"]) == heads(parameters).count() + 1)
        place = result.bounding_box()
        assert place["x"] > 0
        assert place["x"] + place["width"] <= width
        assert overflow(parameters) <= 0


#: Where names over axes break into lines: the character before, and the one after.
BREAKS = """(heads) => heads.flatMap((head) => {
    const walker = document.createTreeWalker(head.querySelector("[aria-hidden]"), NodeFilter.SHOW_TEXT), places = [];
    while (walker.nextNode()) for (let at = 0; at < walker.currentNode.length; at += 1) {
        const range = new Range();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, at + 1);
        places.push([walker.currentNode.data[at], range.getBoundingClientRect().top]);
    }
    return places.slice(1).flatMap(([now, top], at) => Math.abs(top - places[at][1]) > 4 ? [places[at][0] + now] : []);
})"""


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_names_over_axes_break_between_their_parts_only(parameters: Any, width: int) -> None:
    parameters.set_viewport_size({"width": width, "height": 900})
    wait_for_chart(parameters, "#parallel-chart",
                   lambda option: len(option["parallelAxis"]) == heads(parameters).count() + 1)
    breaks = heads(parameters).evaluate_all(BREAKS)
    assert breaks, "some names take two lines"
    assert not [around for around in breaks if not re.match(r"[/._:… -]|[a-z0-9][A-Z]", around)]
    assert heads(parameters).evaluate_all("(all) => all.every((head) => head.scrollHeight <= head.clientHeight + 1)")


@pytest.mark.slow
def test_axes_are_moved_and_removed_by_keys(parameters: Any) -> None:
    before = axes(parameters)
    first = heads(parameters).first
    first.focus()
    parameters.keyboard.press("ArrowRight")
    expect(heads(parameters).nth(1)).to_have_attribute("data-name", before[0])
    expect(heads(parameters).nth(1)).to_be_focused()
    expect(parameters.get_by_role("button", name=f"{before[0]}, axis 2 of 12", exact=True)).to_be_focused()
    assert axes(parameters) == [before[1], before[0], *before[2:]]
    parameters.keyboard.press("End")
    expect(heads(parameters).last).to_be_focused()
    assert axes(parameters) == [*before[1:], before[0]]
    parameters.reload()
    expect(heads(parameters).last).to_have_attribute("data-name", before[0])
    assert axes(parameters) == [*before[1:], before[0]], "the address says so"
    heads(parameters).last.focus()
    parameters.keyboard.press("Delete")
    expect(heads(parameters)).to_have_count(11)
    expect(heads(parameters).last).to_be_focused()
    assert axes(parameters) == before[1:]
    parameters.get_by_text("Axes", exact=True).click()
    expect(parameters.get_by_label(before[0], exact=True)).not_to_be_checked()
    parameters.get_by_role("button", name="The most important").click()
    expect(heads(parameters)).to_have_count(12)
    assert axes(parameters) == before
    expect(parameters.page).to_have_url(re.compile("/parameters/$"))


@pytest.mark.slow
def test_an_axis_is_dragged_to_another_place(parameters: Any) -> None:
    before = axes(parameters)
    start, end = (heads(parameters).nth(place).bounding_box() for place in (0, 3))
    parameters.mouse.move(start["x"] + start["width"] / 2, start["y"] + 10)
    parameters.mouse.down()
    parameters.mouse.move(end["x"] + end["width"] / 2 - 30, end["y"] + 10, steps=4)
    expect(heads(parameters).nth(3)).to_have_class(re.compile("target"))
    parameters.mouse.move(end["x"] + end["width"] / 2, end["y"] + 10, steps=2)
    parameters.mouse.up()
    expect(heads(parameters).nth(3)).to_have_attribute("data-name", before[0])
    assert axes(parameters) == [*before[1:4], before[0], *before[4:]]
    expect(parameters.page).to_have_url(re.compile("axis="))
    # a range belongs to its axis, wherever that stands
    chart = parameters.locator("#parallel-chart canvas").bounding_box()
    across = heads(parameters).nth(3).bounding_box()
    place = across["x"] + across["width"] / 2
    parameters.mouse.move(place, chart["y"] + 60)
    parameters.mouse.down()
    parameters.mouse.move(place, chart["y"] + 150, steps=4)
    parameters.mouse.move(place, chart["y"] + 200, steps=4)
    parameters.mouse.up()
    expect(parameters.page).to_have_url(re.compile("range=encoder_block%2Flayer4%2Flearning_rate"))
    heads(parameters).nth(3).focus()
    parameters.keyboard.press("Home")
    expect(heads(parameters).first).to_have_attribute("data-name", before[0])
    expect(parameters.page).to_have_url(re.compile("range=encoder_block%2Flayer4%2Flearning_rate"))


@pytest.mark.slow
def test_of_more_axes_than_fit_the_chart_shows_those_that_are_scrolled_to(parameters: Any) -> None:
    parameters.get_by_text("Axes", exact=True).click()
    parameters.get_by_label("Find a parameter").fill("layer5")
    expect(parameters.locator("#axis-choices label:visible")).to_have_count(2)
    parameters.get_by_role("button", name="All", exact=True).click()
    parameters.get_by_text("Axes", exact=True).click()
    expect(parameters.locator("#axes-seen")).to_contain_text(re.compile(r"Axes 1 to 1\d of 24"))
    seen = heads(parameters).count()
    parameters.locator(".axis-frame").evaluate("(frame) => { frame.scrollLeft = frame.scrollWidth; }")
    expect(parameters.locator("#axes-seen")).to_contain_text("to 24 of 24")
    assert heads(parameters).count() == seen
    assert MOST_IMPORTANT[0] not in axes(parameters)
    expect(parameters.locator("span.axis-head")).to_be_in_viewport()
    heads(parameters).last.focus()
    name = axes(parameters)[-1]
    parameters.keyboard.press("Home")
    expect(heads(parameters).first).to_have_attribute("data-name", name)
    expect(heads(parameters).first).to_be_focused()
    expect(parameters.locator("#axes-seen")).to_contain_text("Axes 1 to")


@pytest.mark.slow
def test_the_ten_most_important_are_shown_until_all_are_wanted(parameters: Any) -> None:
    rows = parameters.locator("#importance tbody tr:visible")
    expect(rows).to_have_count(10)
    expect(rows.first.locator("th")).to_have_text(MOST_IMPORTANT[0])
    parameters.locator("#all-importances").click()
    expect(rows).to_have_count(24)
    expect(parameters.locator("#all-importances")).to_be_hidden()
    slices = parameters.locator("#slices figure")
    expect(slices).to_have_count(12)
    expect(slices.first.locator("figcaption")).to_have_text(MOST_IMPORTANT[0])
    parameters.get_by_role("button", name="Show all 24").click()
    expect(slices).to_have_count(24)
    expect(slices.nth(12)).to_be_focused()


@pytest.mark.slow
def test_only_what_differs_hides_equal_facts_and_the_first_column_stays(
        server: RunningServer, open_page: Callable[..., Any], wide: SimulatedTrials) -> None:
    page = open_page(server, f"/experiments/{wide.experiment}/compare/?trials=1,2,3,4,5,6", width=768)
    exit_code, result = (page.locator(f'#compare-table [data-fact="{name}"]') for name in ("exit_code", "result"))
    expect(exit_code).to_be_visible()
    page.get_by_label("only what differs").check()
    expect(exit_code).to_be_hidden()
    expect(result).to_be_visible()
    page.reload()
    expect(exit_code).to_be_hidden()
    box = page.get_by_role("region", name="Trials side by side")
    box.evaluate("(box) => { box.scrollLeft = 300; box.scrollTop = 400; }")
    frame, name = box.bounding_box(), page.locator("#compare-parameters th[scope=row]").nth(5).bounding_box()
    head = page.locator("#compare-table thead th").first.bounding_box()
    assert abs(name["x"] - frame["x"]) < 2
    assert abs(head["y"] - frame["y"]) < 2


@pytest.mark.slow
def test_forms_of_many_parameters_find_one(server: RunningServer, open_page: Callable[..., Any],
                                           wider: SimulatedTrials) -> None:
    page = open_page(server, f"/trials/{wider.one_finished}/")
    names = page.locator("#parameters dt")
    expect(names).to_have_count(99 + page.locator("#parameters dt", has_text="momentum").count())
    page.get_by_role("button", name="Run with changes").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Run it")).to_be_in_viewport()
    dialog.get_by_label("Find a parameter").fill("layer20/units")
    expect(dialog.locator(".rerun-field:visible")).to_have_count(1)
    expect(dialog.locator(".rerun-field:visible")).to_contain_text("encoder_block/layer20/units")
    dialog.get_by_role("button", name="Cancel").click()
    page.goto(f"/new/?clone={wider.experiment}")
    rows = page.locator("#space-rows .space-row:visible")
    expect(rows).to_have_count(99)
    page.locator("#space").get_by_label("Find a parameter").fill("layer20 drop")
    expect(rows).to_have_count(1)
    expect(rows.get_by_label("name", exact=True)).to_have_value("encoder_block/layer20/dropout")
    page.get_by_role("button", name="Add a parameter").click()
    expect(rows).to_have_count(100)
    expect(rows.last.get_by_label("name", exact=True)).to_be_focused()
