"""Files and folders that are dropped on the page "New experiment" with the mouse, as the browser gives them to it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.clicks import clicks, count_clicks
from tests.end_to_end.running_server import RunningServer

CONFIG = """\
experimentName: dropped
trialCommand: python3 trial.py
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialConcurrency: 1
maxTrialNumber: 1
tuner: {name: Random}
trainingService: {platform: local}
"""


def drop(page: Any, selector: str, path: Path) -> None:
    """Drag a file or a folder of this machine over an element and let it go there."""
    page.locator(selector).scroll_into_view_if_needed()
    box = page.locator(selector).bounding_box()
    session = page.context.new_cdp_session(page.page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {
            "type": kind, "x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2,
            "data": {"items": [], "files": [str(path)], "dragOperationsMask": 1}})
    session.detach()


@pytest.mark.slow
def test_a_config_a_folder_and_a_zip_are_dropped_where_they_belong(server: RunningServer, open_page: Any,
                                                                   tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text(CONFIG)
    folder = tmp_path / "project"
    (folder / "deep").mkdir(parents=True)
    (folder / "trial.py").write_text("import nni\nnni.report_final_result(nni.get_next_parameter()['x'])\n")
    (folder / "deep" / "table.csv").write_text("1")
    (folder / "big.log").write_text("x")
    (folder / ".nniignore").write_text("*.log\n")
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.write(folder / "trial.py", "trial.py")
    page = open_page(server, "/new/?way=file")
    editor, chosen = page.get_by_label("Experiment file"), page.locator("#chosen")
    drop(page, "#config", tmp_path / "mine.yml")
    expect(editor).to_have_value(CONFIG)
    drop(page, "h1", tmp_path / "mine.yml")  # beside: the page stays
    expect(page.locator("#doing")).to_contain_text("Drop an experiment file on the text")
    page.get_by_label("from this computer").check()
    drop(page, "#drop", folder)
    expect(chosen).to_contain_text("project: 3 files")
    expect(chosen).to_contain_text("1 file left out by .nniignore")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.get_by_role("heading", name="Ready to launch")).to_be_visible()
    expect(page.locator("#outcome")).to_contain_text("3 files")
    drop(page, "#drop", tmp_path / "code.zip")
    expect(chosen).to_contain_text("code.zip")
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url("**/experiments/*/")
    experiment = server.wait_for_experiment(page.url.rstrip("/").rpartition("/")[2])
    assert experiment["progress"]["trials"]["SUCCEEDED"] == 1


@pytest.mark.slow
def test_a_dropped_folder_with_a_config_of_its_own_is_launched_with_three_clicks(server: RunningServer, open_page: Any,
                                                                                tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "config.yml").write_text(CONFIG)
    (folder / "trial.py").write_text("import nni\nnni.report_final_result(nni.get_next_parameter()['x'])\n")
    page = open_page(server, "/")
    count_clicks(page)
    page.get_by_role("link", name="New experiment", exact=True).first.click()
    page.wait_for_url("**/new/**")  # and for its scripts: a browser itself opens what is dropped before
    expect(page.get_by_label("a folder on the server")).to_be_checked()
    drop(page, "h1", folder)  # anywhere on the page: a folder can only be the code
    page.get_by_role("button", name="Use it: config.yml").click()
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url("**/experiments/*/")
    assert clicks(page) == 3
    experiment = server.wait_for_experiment(page.url.rstrip("/").rpartition("/")[2])
    assert (experiment["name"], experiment["progress"]["trials"]["SUCCEEDED"]) == ("dropped", 1)
