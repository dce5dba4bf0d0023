"""The clusters' pages, in a browser: what runs there and why not, rehearsals, enabling; kept fresh by themselves."""

import json
import re
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.conftest import PATIENCE
from tests.fakes.nvidia_smi import FakeNvidiaSmi

expect.set_options(timeout=PATIENCE)
WAITING = """\
import pathlib, time, nni
nni.get_next_parameter()
nni.report_intermediate_result(0.5)
while not pathlib.Path("go").exists():
    time.sleep(0.1)
nni.report_final_result(1)
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "trial.py").write_text(WAITING)
    return folder


def launch(server, code: Path, **fields: object) -> str:
    return server.launch({
        "experimentName": "holder", "trialCommand": f"{sys.executable} trial.py", "trialCodeDirectory": str(code),
        "trialConcurrency": 2, "maxTrialNumber": 2, "tuner": {"name": "Random"},
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trainingService": {"platform": "local"},
        **fields}, code)


@pytest.fixture
def gpu_server(make_server, tmp_path, monkeypatch):
    """A server whose machine seems to have one GPU."""
    fake = FakeNvidiaSmi(tmp_path / "gpus", monkeypatch, gpus=1)
    fake.state["gpus"][0].update(name="Fake H0", utilization=73, memory_used=4096)
    fake.write()
    return make_server().start()


def open_cluster(open_page, server, **how: object):
    page = open_page(server, "/clusters/", **how)
    page.get_by_role("link", name="local").click()
    page.wait_for_url("**/clusters/*/")
    return page


@pytest.mark.slow
def test_a_gpu_shows_whose_trial_holds_it_and_the_other_says_why_it_waits(gpu_server, open_page, code) -> None:
    experiment = launch(gpu_server, code, trialGpuNumber=1,
                        trainingService={"platform": "local", "useActiveGpu": True})
    page = open_cluster(open_page, gpu_server)
    gpu = page.locator(".gpus tbody tr")
    expect(gpu).to_contain_text("Fake H0")
    expect(gpu).to_contain_text("73 %")
    # either of the two may have been first
    expect(gpu.get_by_role("link", name=re.compile("^holder · trial [01]$"))).to_be_visible()
    expect(page.get_by_role("heading", name="Waiting, and why")).to_be_visible()
    waiting = page.locator("tr", has_text="WAITING")
    expect(waiting).to_have_count(1)  # the other one has its GPU a moment before it runs
    holder = waiting.get_by_role("link", name=re.compile("^trial [01] of experiment holder$"))
    expect(waiting).to_contain_text(re.compile(r"GPU 0 is held by trial [01] of experiment holder\."))
    its_page = open_page(gpu_server, waiting.get_by_role("link").first.get_attribute("href"))
    expect(its_page.locator("#why").get_by_role("link")).to_have_attribute("href", holder.get_attribute("href"))
    expect(its_page.locator("#no-reading")).to_have_text("It does not run on a machine yet.")
    its_page.locator("#why").get_by_role("link").click()
    expect(its_page.get_by_role("heading", level=1)).to_have_text(holder.inner_text().partition(" of ")[0].capitalize())
    page.evaluate("window.notReloaded = true")
    (code / "go").touch()
    gpu_server.wait_for_experiment(experiment)
    expect(gpu).to_contain_text("free")
    expect(page.get_by_role("heading", name="Waiting, and why")).to_have_count(0)
    assert page.evaluate("window.notReloaded"), "the page was kept fresh without being loaded again"
    gpu.page.goto(f"{gpu_server.url}/clusters/")
    expect(page.locator("article.card")).to_contain_text("0 of 1 held")
    expect(page.get_by_role("img", name="GPU 0: free, 73 % busy")).to_be_visible()


@pytest.mark.slow
def test_trials_come_and_go_in_the_list_without_a_reload(server, open_page, code) -> None:
    launch(server, code, maxTrialNumber=1)
    page = open_page(server, "/clusters/")
    card = page.locator("article.card")
    expect(card.locator("[data-fact=running]")).to_have_text("1")
    (code / "go").touch()
    expect(card.locator("[data-fact=running]")).to_have_text("0")


@pytest.mark.slow
def test_a_rehearsal_tells_what_it_found(server, open_page, code) -> None:
    (code / "go").touch()
    server.wait_for_experiment(launch(server, code, maxTrialNumber=1))
    page, onlooker = open_cluster(open_page, server), open_cluster(open_page, server)
    expect(onlooker.locator("#rehearsed")).to_have_text(re.compile("Not tested yet"))
    expect(onlooker.locator("#live")).to_have_text("● live")
    page.get_by_role("button", name="Test cluster").click()
    expect(page.locator("#doing")).to_contain_text("checks are good")
    expect(onlooker.locator("#findings")).to_contain_text("An empty test trial succeeded.")
    expect(page.locator("#findings li.good")).not_to_have_count(0)
    expect(page.locator("#findings")).to_contain_text("An empty test trial succeeded.")
    expect(page.get_by_role("button", name="Test cluster")).to_be_enabled()


@pytest.mark.slow
def test_a_cluster_is_disabled_after_one_question_and_enabled_again(server, open_page, code) -> None:
    (code / "go").touch()
    server.wait_for_experiment(launch(server, code, maxTrialNumber=1))
    page, onlooker = open_cluster(open_page, server), open_page(server, "/clusters/")
    expect(onlooker.locator("#live")).to_have_text("● live")
    page.get_by_role("button", name="Disable …").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert server.get("clusters/")["results"][0]["enabled"]
    page.get_by_role("button", name="Disable …").click()
    page.get_by_role("dialog").get_by_role("button", name="Disable").click()
    expect(page.locator("#fresh")).to_contain_text("No worker runs this cluster, because it is disabled.")
    expect(onlooker.locator("article.card .health")).to_have_text(re.compile("disabled"))
    page.get_by_role("button", name="Enable").click()
    expect(onlooker.locator("article.card .health")).not_to_have_text(re.compile("disabled"))
    expect(page.locator("#fresh")).not_to_contain_text("it is disabled")
    assert server.get("clusters/")["results"][0]["enabled"]


@pytest.mark.slow
def test_the_page_says_who_drives_the_cluster_and_which_metadata_it_takes(server, open_page, code) -> None:
    (code / "go").touch()
    server.wait_for_experiment(launch(server, code, maxTrialNumber=1))
    [cluster] = server.get("clusters/")["results"]
    answer = server.request("PUT", f"clusters/{cluster['id']}/metadata/local_config/",
                            json={"value": json.dumps({"maxTrialNumPerGpu": 2})})
    assert answer.ok, answer.text
    page = open_cluster(open_page, server)
    expect(page.locator("#fresh")).to_contain_text(f"The worker process {server.pid}")
    expect(page.locator("tr", has_text="local_config")).to_contain_text('"maxTrialNumPerGpu": 2')


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.slow
def test_nothing_is_wider_than_the_page(server, open_page, code, width) -> None:
    (code / "go").touch()
    server.wait_for_experiment(launch(server, code, maxTrialNumber=1))
    page = open_cluster(open_page, server, width=width)
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
