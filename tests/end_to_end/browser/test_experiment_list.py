"""The list of experiments in a browser: each of its controls, and that others see at once what one did."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer

MARK = "window.markOfTheTest = true"


def row(page: Any, name: str) -> Any:
    return page.locator("#experiments tr[data-id]").filter(has=page.get_by_role("link", name=name, exact=True))


def names(page: Any) -> list[str]:
    return [str(name) for name in page.locator('#experiments [data-cell="name"]').all_inner_texts()]


@pytest.fixture(scope="module")
def fruit(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Three experiments that have ended: apple and banana are tagged, cherry is not. Name -> id."""
    ids = {}
    for name, tags in (("apple", ["red", "round"]), ("banana", ["long"]), ("cherry", [])):
        trials = LedTrials(server, tmp_path_factory.mktemp(name), experimentName=name, maxTrialNumber=1)
        trials.tell(0, "final 0.5", "end")
        server.wait_for_experiment(trials.experiment)
        ids[name] = trials.experiment
        if tags:
            server.patch(f"experiments/{trials.experiment}/", {"tags": tags})
    return ids


@pytest.mark.slow
def test_nothing_of_a_row_is_cut_off_on_a_small_screen(server: RunningServer, open_page: Any, fruit: dict[str, str]
                                                       ) -> None:
    page = open_page(server, "/", width=1280, height=720)
    expect(row(page, "apple").get_by_label("Actions of apple")).to_be_visible()
    # a cluster that is named by the machine of an experiment's own section
    page.locator("#experiments td[data-label=Cluster] .line").evaluate_all(
        "(cells) => { for (const cell of cells) cell.textContent = 'remote-machine-17.example.org'; }")
    # a mean of replicates
    page.locator("#experiments [data-cell=best]").evaluate_all(
        "(cells) => { for (const cell of cells) cell.textContent = '-0.002162 ± 0.004214 (3)'; }")
    shown, needed = page.locator("#experiments .list").evaluate("(table) => [table.clientWidth, table.scrollWidth]")
    assert needed <= shown
    heights = page.locator("#experiments tbody tr").evaluate_all("(rows) => rows.map((row) => row.offsetHeight)")
    assert set(heights) <= {44, 45}
    starts = page.locator("#experiments .sparkline svg").evaluate_all(
        "(lines) => lines.map((line) => line.getBoundingClientRect().left)")
    assert len(set(starts)) == 1, "the small lines stand below each other"
    # "admin" in one line
    lines = page.locator("#experiments td[data-label=Owner] .line").first.evaluate(
        """(cell) => {
          const text = document.createRange();
          text.selectNodeContents(cell);
          return new Set([...text.getClientRects()].map((place) => place.bottom)).size;
        }""")
    assert lines == 1


@pytest.mark.slow
def test_filters_and_order_stand_in_the_address(server: RunningServer, open_page: Any, fruit: dict[str, str]) -> None:
    page = open_page(server, "/?owner=admin")
    page.get_by_label("Search", exact=True).fill("anan")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"[?&]q=anan\b"))
    assert names(page) == ["banana"]
    expect(page.locator("[name=owner]")).to_have_value("admin")
    page.get_by_role("link", name="Show all").click()
    page.wait_for_url(f"{server.url}/")
    page.get_by_role("link", name="Name", exact=True).click()
    page.wait_for_url("**/?order=name")
    assert [name for name in names(page) if name in fruit] == ["apple", "banana", "cherry"]
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Name")
    page.get_by_role("link", name="Name", exact=True).click()
    page.wait_for_url("**/?order=-name")
    assert [name for name in names(page) if name in fruit] == ["cherry", "banana", "apple"]
    page.get_by_text("More filters").click()
    page.get_by_role("combobox", name="Cluster").select_option("local")  # applies at once, and keeps the order
    page.wait_for_url(re.compile("cluster=local"))
    assert "order=-name" in page.url
    page.get_by_role("list", name="Parts of the list").get_by_role("link", name=re.compile("^Done")).click()
    page.wait_for_url(re.compile("state=done"))
    assert {"order=-name", "cluster=local"} <= set(page.url.partition("?")[2].split("&"))
    assert [name for name in names(page) if name in fruit] == ["cherry", "banana", "apple"]
    page.go_back()
    page.wait_for_url(lambda address: "state=" not in address)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(row(page, "apple").locator("[data-label='Last change']")).to_be_visible()
    page.wait_for_function("() => document.documentElement.scrollWidth <= 390")


@pytest.mark.slow
def test_tags_are_put_on_and_taken_off_by_keyboard_and_others_see_it(server: RunningServer, open_page: Any,
                                                                     fruit: dict[str, str]) -> None:
    page, onlooker = open_page(server, "/"), open_page(server, "/")
    expect(onlooker.locator("#live")).to_have_text("● live")
    onlooker.evaluate(MARK)
    mine, theirs = row(page, "cherry"), row(onlooker, "cherry")
    menu, add = mine.get_by_label("Actions of cherry"), mine.get_by_role("button", name="Add a tag")
    menu.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(add).to_be_focused()
    page.keyboard.press("Enter")
    expect(mine.get_by_label("New tag of cherry")).to_be_focused()
    page.keyboard.type("small & red")
    page.keyboard.press("Enter")
    expect(mine.locator(".tag")).to_have_text(re.compile("small & red"))
    expect(theirs.locator(".tag")).to_have_text(re.compile("small & red"))
    assert server.get(f"experiments/{fruit['cherry']}/")["tags"] == ["small & red"]
    menu.click()
    add.click()
    page.keyboard.type("never")
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    mine.get_by_role("link", name="small & red").click()
    page.wait_for_url("**/?tag=*")
    assert names(page) == ["cherry"]
    cherry = row(page, "cherry")
    cherry.get_by_label("Actions of cherry").click()
    cherry.get_by_role("button", name="Add a tag").click()
    cherry.get_by_role("button", name="Take the tag small & red off cherry").click()
    expect(theirs.locator(".tag")).to_have_count(0)
    assert server.get(f"experiments/{fruit['cherry']}/")["tags"] == []
    assert onlooker.evaluate("window.markOfTheTest === true")


def test_a_list_that_comes_while_somebody_writes_a_tag_leaves_the_field(
        server: RunningServer, open_page: Any, fruit: dict[str, str]) -> None:
    page = open_page(server, "/")
    expect(page.locator("#live")).to_have_text("● live")
    held: list[Any] = []
    page.route(re.compile("/$"), lambda route: route.continue_() if held or route.request.resource_type != "fetch"
               else held.append(route))
    with page.expect_request(re.compile("/$")):
        server.patch(f"experiments/{fruit['apple']}/", {"archived": True})
    row(page, "banana").get_by_label("Actions of banana").click()
    row(page, "banana").get_by_role("button", name="Add a tag").click()
    page.keyboard.type("yel")
    with page.expect_response(re.compile("/$")):
        held[0].continue_()
    page.keyboard.type("low")
    expect(page.get_by_label("New tag of banana")).to_have_value("yellow")
    with page.expect_response(re.compile("/$")):  # once nobody writes, the list is taken
        page.keyboard.press("Escape")
    server.patch(f"experiments/{fruit['apple']}/", {"archived": False})


@pytest.mark.slow
@pytest.mark.parametrize(("query", "change", "back"), [
    ("tag=round", {"tags": ["red"]}, {"tags": ["red", "round"]}), ("q=apple", {"name": "pear"}, {"name": "apple"})])
def test_a_row_leaves_a_filtered_list_when_somebody_changes_what_the_filter_asks_for(
        server: RunningServer, open_page: Any, fruit: dict[str, str], query: str, change: dict[str, Any],
        back: dict[str, Any]) -> None:
    page = open_page(server, f"/?{query}")
    expect(page.locator("#live")).to_have_text("● live")
    expect(row(page, "apple")).to_have_count(1)
    for _ in range(2):  # the first look at the others takes the list anew as well
        server.patch(f"experiments/{fruit['apple']}/", change)
        expect(page.locator("#experiments tr[data-id]")).to_have_count(0)
        server.patch(f"experiments/{fruit['apple']}/", back)
        expect(row(page, "apple")).to_have_count(1)


@pytest.mark.slow
def test_a_refused_tag_says_why_and_is_not_there(server: RunningServer, open_page: Any, fruit: dict[str, str]) -> None:
    page = open_page(server, "/?q=apple")
    page.allow("status of 400")
    apple = row(page, "apple")
    apple.get_by_label("Actions of apple").click()
    apple.get_by_role("button", name="Add a tag").click()
    field = apple.get_by_label("New tag of apple")
    field.evaluate("field => field.removeAttribute('maxlength')")
    field.fill("x" * 65)
    field.press("Enter")
    expect(apple.get_by_role("alert")).to_contain_text("64")
    expect(apple.locator(".tag")).to_have_count(2)


@pytest.mark.slow
def test_archive_bring_back_and_delete(server: RunningServer, open_page: Any, tmp_path: Path,
                                       fruit: dict[str, str]) -> None:
    trials = LedTrials(server, tmp_path, experimentName="plum", maxTrialNumber=1)
    page, onlooker = open_page(server, "/?q=plum"), open_page(server, "/?q=plum&archived=all")
    plum = row(page, "plum")
    expect(plum).to_have_count(1)
    plum.get_by_label("Actions of plum").click()
    expect(plum.get_by_role("button", name="Add a tag")).to_be_visible()
    expect(plum.get_by_role("button", name="Delete plum…")).to_be_hidden()
    expect(plum.get_by_role("button", name="Archive")).to_be_hidden()
    expect(onlooker.locator("#live")).to_have_text("● live")
    onlooker.evaluate(MARK)
    trials.tell(0, "final 0.5", "end")
    plum.get_by_role("button", name="Archive").click()  # appears with the end
    expect(page.get_by_text("No experiment matches this filter.")).to_be_visible()
    expect(page.locator("#archived-note")).to_contain_text("plum is archived.")
    page.get_by_role("button", name="Undo").click()
    expect(plum).to_have_count(1)
    expect(page.locator("#archived-note")).to_contain_text("plum is no longer archived.")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("No experiment matches this filter.")).to_be_visible()
    theirs = row(onlooker, "plum")
    expect(theirs.locator("[data-cell=archived]")).to_be_visible()
    theirs.get_by_label("Actions of plum").click()
    theirs.get_by_role("button", name="Bring back").click()
    expect(plum).to_have_count(1)
    plum.get_by_label("Actions of plum").click()
    plum.get_by_role("button", name="Delete plum…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Its trial is removed for good, with results, output and kept files")
    dialog.get_by_role("button", name="Cancel").click()
    expect(plum).to_have_count(1)
    plum.get_by_label("Actions of plum").click()
    plum.get_by_role("button", name="Delete plum…").click()
    dialog.get_by_role("button", name="Delete experiment").click()
    expect(plum).to_have_count(0)
    expect(theirs).to_have_count(0)
    assert server.request("GET", f"experiments/{trials.experiment}/").status_code == 404
    assert onlooker.evaluate("window.markOfTheTest === true")


@pytest.mark.slow
def test_what_is_refused_is_said_beside_its_button(server: RunningServer, open_page: Any,
                                                   fruit: dict[str, str]) -> None:
    page = open_page(server, "/?q=banana")
    page.allow("status of 409")
    page.route("**/api/v1/experiments/*/", lambda route: route.fulfill(
        status=409, json={"errors": [{"field": "", "message": "It is busy."}]}))
    row(page, "banana").get_by_label("Actions of banana").click()
    row(page, "banana").get_by_role("button", name="Archive").click()
    expect(row(page, "banana").locator(".actions .error")).to_have_text("It is busy.")


@pytest.mark.slow
def test_the_time_that_is_over_goes_on_while_nothing_is_heard(server: RunningServer, open_page: Any,
                                                              tmp_path: Path) -> None:
    trials = LedTrials(server, tmp_path, experimentName="melon", maxTrialNumber=2, maxExperimentDuration="1h")
    page = open_page(server, "/?q=melon")
    melon = row(page, "melon")
    expect(melon.locator(".status")).to_have_text("RUNNING")
    time = melon.locator("[data-cell=time]")
    expect(time).to_have_text(re.compile(" of 1 h"))
    before = time.inner_text()
    expect(time).not_to_have_text(before)
    server.post(f"experiments/{trials.experiment}/actions/stop/")
    expect(melon.locator(".status")).to_have_text("STOPPED")


def test_further_filters_close_and_lie_over_nothing(server: RunningServer, open_page: Any, fruit: dict[str, str]
                                                    ) -> None:
    page = open_page(server, "/", width=390)
    summary, owner = page.locator("summary", has_text="More filters"), page.get_by_role("combobox", name="Owner")
    summary.click()
    expect(owner).to_be_visible()
    sheet, rows = (page.locator(place).bounding_box() for place in (".list-bar .sheet", "#experiments"))
    assert sheet["y"] + sheet["height"] <= rows["y"]
    owner.focus()
    page.keyboard.press("Escape")
    expect(owner).to_be_hidden()
    expect(summary).to_be_focused()
    summary.click()
    page.get_by_role("heading", name="Experiments", exact=True).click()
    expect(owner).to_be_hidden()


@pytest.mark.slow
@pytest.mark.parametrize("width", [620, 720, 900])
def test_further_filters_lie_within_the_window(server: RunningServer, open_page: Any, fruit: dict[str, str],
                                               width: int) -> None:
    page = open_page(server, "/", width=width, height=450)
    page.locator("summary", has_text="More filters").click()
    page.wait_for_function("""width => {
      const { left, right } = document.querySelector(".list-bar .sheet").getBoundingClientRect();
      return left >= 0 && right <= width && document.documentElement.scrollWidth <= width;
    }""", arg=width)


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 720, 1000, 1440])
def test_how_long_it_still_takes_is_never_cut_off(server: RunningServer, open_page: Any, fruit: dict[str, str],
                                                  width: int) -> None:
    page = open_page(server, "/", width=width)
    line = page.locator("#experiments td.progress .line").first
    line.locator("[data-cell=time]").evaluate(
        "cell => { cell.textContent = '13 h 59 min of 23 h 30 min, 10 h 48 min left'; }")
    shown, needed = line.evaluate("line => [line.clientWidth, line.scrollWidth]")
    assert needed <= shown
