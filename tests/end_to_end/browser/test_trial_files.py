"""Files of trials and TensorBoard in a browser: listed and downloaded, shown in a sandbox, stopped."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import expect

from tests.end_to_end.running_server import RunningServer

#: Writes what TensorBoard reads, by its own package.
WRITES = """
import os, pathlib, time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

output = pathlib.Path(os.environ["NNI_OUTPUT_DIR"])
writer = EventFileWriter(str(output / "tensorboard"))
for step, value in enumerate([0.9, 0.5, 0.25]):
    writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(
        value=[Summary.Value(tag="the loss", simple_value=value)])))
writer.close()
"""
#: The browser's own cookies, past what stands in for them.
COOKIE = """() => {
  try {
    return Object.getOwnPropertyDescriptor(Document.prototype, "cookie").get.call(document);
  } catch (error) {
    return error.name;
  }
}"""


@pytest.fixture
def launch(server: RunningServer, tmp_path: Path) -> Callable[[str, int], tuple[str, list[dict[str, Any]]]]:
    """Runs trials of a program to their end; the experiment's id, and its trials."""
    def launch(program: str, trials: int) -> tuple[str, list[dict[str, Any]]]:
        (tmp_path / "trial.py").write_text(program)
        experiment = server.launch({
            "experimentName": "files", "trialCommand": "python3 trial.py", "trialCodeDirectory": str(tmp_path),
            "trialConcurrency": 2, "maxTrialNumber": trials, "tuner": {"name": "Random"},
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "trainingService": {"platform": "local"}, "keepFiles": ["$NNI_OUTPUT_DIR/deep/*"]}, tmp_path)
        server.wait_until(lambda: server.get(f"experiments/{experiment}/")["status"] == "DONE", 120,
                          what="the experiment is done")
        rows = server.get(f"experiments/{experiment}/trials/", order="sequence_id")["results"]
        assert {row["status"] for row in rows} == {"SUCCEEDED"}, rows
        return experiment, rows
    return launch


PLAIN = """
import os, pathlib
output = pathlib.Path(os.environ["NNI_OUTPUT_DIR"])
(output / "deep").mkdir()
(output / "deep" / "model.html").write_text("<script>alert(1)</script>")
(output / "link").symlink_to("/etc/passwd")
"""


@pytest.mark.slow
def test_files_on_the_machine_are_listed_and_downloaded_beside_those_that_were_kept(
        server: RunningServer, open_page: Any, launch: Any) -> None:
    _, [trial] = launch(PLAIN, 1)
    page = open_page(server, f"/trials/{trial['id']}/")
    there = page.locator("#output-files")
    there.get_by_role("button", name="List").click()
    expect(there.get_by_role("status")).to_contain_text("1 link or the like is not shown")
    with page.expect_download() as download:
        there.get_by_role("link", name="deep/model.html").click()
    assert download.value.suggested_filename == "model.html"
    assert Path(download.value.path()).read_text() == "<script>alert(1)</script>"
    with page.expect_download() as download:
        there.get_by_role("link", name="Download all").click()
    assert download.value.suggested_filename == f"{trial['id']}.tar"
    expect(page.locator("#files").get_by_role("link", name="NNI_OUTPUT_DIR/deep/model.html")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("() => document.documentElement.scrollWidth <= 390")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_tensorboard_of_chosen_trials_is_shown_without_an_origin_and_stopped(
        server: RunningServer, open_page: Any, launch: Any) -> None:
    experiment, rows = launch(WRITES, 2)
    page = open_page(server, f"/experiments/{experiment}/trials/")
    page.get_by_label("Select all of this page").check()
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="TensorBoard", exact=True).click()
    tab = opened.value
    console: list[str] = []
    tab.on("console", lambda message: console.append(message.text))
    tab.wait_for_url(re.compile(r"/tensorboard/\w+/[\w-]{20,}/"), timeout=120_000)
    expect(tab.get_by_text("the loss").first).to_be_visible(timeout=120_000)
    expect(tab.get_by_text("trial-0").first).to_be_visible()
    expect(tab.get_by_text("trial-1").first).to_be_visible()
    assert tab.evaluate("origin") == "null"
    expect(tab.locator("line-chart path, line-chart canvas").first).to_be_attached()
    assert not [text for text in console if text.startswith("ERROR")], console
    # what a script of a trial could do there: neither read our pages nor use the visitor's session
    assert tab.evaluate(COOKIE) == "SecurityError"
    assert tab.evaluate("fetch('/api/v1/account/').then(() => 'read', (error) => error.name)") == "TypeError"
    processes = [process for process in psutil.process_iter(["cmdline"])
                 if "nniweb/tensorboard/launcher.py" in " ".join(process.info["cmdline"] or [])
                 and process.ppid() == server.pid]
    assert len(processes) == 1
    page.reload()
    page.locator("#tensorboards").get_by_role("button", name="Stop").click()
    expect(page.locator("#tensorboards")).to_be_hidden()
    server.wait_until(lambda: not processes[0].is_running(), what="its process ends")
    assert tab.reload().status == 404
