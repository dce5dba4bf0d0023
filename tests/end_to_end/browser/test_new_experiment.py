"""The page that launches, in a browser: check, errors at their lines, launch; and as a plain form."""

import io
import tarfile
from pathlib import Path

import pytest
import requests
from playwright.sync_api import expect

from tests.end_to_end.browser.conftest import PATIENCE, sign_in_link
from tests.end_to_end.running_server import ROOT

expect.set_options(timeout=PATIENCE)
CONFIG = """\
experimentName: from the page
trialCommand: python3 trial.py
searchSpaceFile: search_space.json
trialConcurrency: 2
maxTrialNumber: 2
tuner:
  name: Random
trainingService:
  platform: local
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "search_space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    (folder / "trial.py").write_text("import nni\nnni.report_final_result(nni.get_next_parameter()['x'])\n")
    return folder


def editor(page):
    return page.get_by_label("Experiment file")


def press(page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def experiments(server) -> int:
    return server.get("experiments/")["count"]


def test_a_pasted_file_is_checked_and_launched_without_leaving_the_page(server, open_page, code) -> None:
    page = open_page(server, "/new/")
    before = experiments(server)
    editor(page).fill(CONFIG)
    page.get_by_label("Code folder on the server").fill(str(code))
    press(page, "Check")
    expect(page.get_by_role("heading", name="Nothing is wrong")).to_be_visible()
    expect(page.locator("#outcome")).to_contain_text("The agent of this machine answers.")
    assert editor(page).input_value() == CONFIG, "what was typed is kept"
    assert experiments(server) == before, "checking launches nothing"
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("from the page")
    experiment = page.url.rstrip("/").rpartition("/")[2]
    server.wait_for_experiment(experiment)
    assert server.get(f"experiments/{experiment}/")["config_text"] == CONFIG, "no line end was changed on the way"


def test_errors_stand_at_their_lines_and_focus_goes_to_the_first(server, open_page, code) -> None:
    page = open_page(server, "/new/")
    wrong = CONFIG.replace("trialConcurrency: 2", "trialConcurrency: two").replace("Random", "Randm")
    editor(page).fill(wrong)
    page.get_by_label("Code folder on the server").fill(str(code))
    press(page, "Launch")
    errors = page.locator(".errors li")
    expect(errors).to_have_count(2)
    assert page.locator("#gutter .wrong").all_inner_texts() == ["4", "7"]
    expect(editor(page)).to_be_focused()
    expect(editor(page)).to_have_attribute("aria-invalid", "true")
    selected = "(() => { const t = document.getElementById('config'); " \
               "return t.value.slice(t.selectionStart, t.selectionEnd); })()"
    assert page.evaluate(selected) == "trialConcurrency: two"
    page.get_by_role("link", name="Line 7").click()
    assert page.evaluate(selected) == "  name: Randm"
    assert editor(page).input_value() == wrong, "what was typed is kept"
    editor(page).fill(CONFIG)
    press(page, "Check")
    expect(page.get_by_role("heading", name="Nothing is wrong")).to_be_visible()
    expect(page.locator("#gutter .wrong")).to_have_count(0)


def test_a_wrong_folder_is_said_at_its_field(server, open_page) -> None:
    page = open_page(server, "/new/")
    editor(page).fill(CONFIG)
    folder = page.get_by_label("Code folder on the server")
    folder.fill("/nowhere/at/all")
    press(page, "Check")
    expect(page.locator(".errors")).to_contain_text("There is no folder /nowhere/at/all")
    expect(folder).to_be_focused()
    expect(folder).to_have_attribute("aria-invalid", "true")


def test_a_bundled_example_is_launched_as_it_is(server, open_page) -> None:
    page = open_page(server, "/new/")
    page.get_by_role("link", name="Quadratic: ").click()
    page.wait_for_url("**/new/?template=quadratic")
    assert editor(page).input_value() == (ROOT / "examples" / "quadratic" / "config.yml").read_text()
    assert page.locator("#gutter span").count() == editor(page).input_value().count("\n") + 1
    editor(page).fill(editor(page).input_value().replace("maxTrialNumber: 200", "maxTrialNumber: 2"))
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    server.wait_for_experiment(page.url.rstrip("/").rpartition("/")[2])


def test_what_was_typed_is_not_replaced_without_asking(server, open_page) -> None:
    page = open_page(server, "/new/")
    editor(page).fill("mine: 1")
    page.get_by_role("link", name="Quadratic: ").click()
    page.get_by_role("dialog").get_by_role("button", name="Keep").click()
    expect(editor(page)).to_have_value("mine: 1")
    page.get_by_role("link", name="Quadratic: ").click()
    page.get_by_role("dialog").get_by_role("button", name="Replace").click()
    page.wait_for_url("**/new/?template=quadratic")


def test_code_is_uploaded_and_a_cluster_is_chosen(server, open_page, code, tmp_path) -> None:
    archive = tmp_path / "code.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(code, arcname=".")
    page = open_page(server, "/new/")
    editor(page).fill(CONFIG.partition("trainingService")[0])
    page.get_by_label("Or the code as an archive").set_input_files(archive)
    page.get_by_label("Cluster").select_option("local")
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    experiment = server.wait_for_experiment(page.url.rstrip("/").rpartition("/")[2])
    assert (experiment["cluster"], experiment["code_folder"]) == ("local", "")
    assert experiment["code_sha256"]


def test_an_archive_that_is_none_keeps_the_page_as_it_was(server, open_page, tmp_path) -> None:
    page = open_page(server, "/new/")
    editor(page).fill(CONFIG)
    (tmp_path / "code.zip").write_bytes(b"no zip at all")
    page.get_by_label("Or the code as an archive").set_input_files(tmp_path / "code.zip")
    press(page, "Check")
    expect(page.locator(".errors")).to_contain_text("neither a tar.gz nor a zip")
    assert editor(page).input_value() == CONFIG
    assert page.evaluate("document.getElementById('code').files.length") == 1, "the chosen file stays"


def test_an_earlier_experiment_is_where_the_next_one_starts(server, open_page, code) -> None:
    earlier = server.launch(CONFIG, code)
    page = open_page(server, f"/new/?from={earlier}")
    assert editor(page).input_value() == CONFIG
    assert page.get_by_label("Code folder on the server").input_value() == str(code)


def test_it_is_a_plain_form_where_there_are_no_scripts(make_server, code) -> None:
    server = make_server().start()
    session = requests.Session()
    session.get(sign_in_link(server))
    address = f"{server.url}/new/"
    session.get(address)

    def send(config: str, act: str, **files: object) -> requests.Response:
        form = {"csrfmiddlewaretoken": session.cookies["csrftoken"], "config": config.replace("\n", "\r\n"),
                "base_directory": "" if files else str(code), "cluster": "", "act": act}
        return session.post(address, data=form, files=files or {"nothing": b""})

    wrong = send(CONFIG.replace("maxTrialNumber: 2", "maxTrialNumber: many"), "launch")
    assert "Line 5" in wrong.text
    assert '<span class="wrong">5</span>' in wrong.text
    assert "maxTrialNumber: many" in wrong.text, "what was typed is kept"
    assert "Nothing is wrong" in send(CONFIG, "check").text
    assert server.get("experiments/")["count"] == 0
    launched = send(CONFIG, "launch")
    assert launched.history[0].status_code == 302
    assert "/experiments/" in launched.url
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(code, arcname=".")
    assert "/experiments/" in send(CONFIG, "launch", code=("code.tar.gz", packed.getvalue())).url
    assert server.get("experiments/")["count"] == 2


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_is_wider_than_the_page(server, open_page, width) -> None:
    page = open_page(server, "/new/?template=digits", width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
