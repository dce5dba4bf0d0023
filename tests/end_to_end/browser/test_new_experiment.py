"""The page that launches, in a browser: four ways to a config, code from where it is, check, errors at their places,
launch; and as a plain form.
"""

import io
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from playwright.sync_api import expect

from tests.end_to_end.browser.conftest import PATIENCE
from tests.end_to_end.running_server import ROOT, RunningServer
from tests.fakes.git_server import GitServer
from trainingservice.code.ignore_rules import IgnoreRules

expect.set_options(timeout=PATIENCE)
CONFIG = """\
experimentName: from the page
trialCommand: python3 trial.py
searchSpaceFile: search_space.json
trialConcurrency: 2
maxTrialNumber: 1
tuner:
  name: Random
trainingService:
  platform: local
"""
TRIAL = "import nni\nnni.report_final_result(nni.get_next_parameter()['x'])\n"


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    with GitServer(tmp_path_factory.mktemp("git")) as git:
        yield git


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, git: GitServer) -> Iterator[RunningServer]:
    """One that fetches from the Git server on this machine."""
    running = RunningServer(tmp_path_factory.mktemp("server") / "data", {
        "NNIWEB_GIT_PRIVATE_ADDRESSES": "1", "GIT_SSL_CAINFO": str(git.certificate)})
    try:
        running.start().post("clusters/", {"name": "local", "platform": "local", "settings": {}})
        yield running
    finally:
        running.close()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "search_space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    (folder / "trial.py").write_text(TRIAL)
    return folder


def editor(page):
    return page.get_by_label("Experiment file")


def press(page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def experiments(server) -> int:
    return server.get("experiments/")["count"]


def test_a_pasted_file_is_checked_and_launched_without_leaving_the_page(server, open_page, code) -> None:
    page = open_page(server, "/new/?way=file")
    before = experiments(server)
    editor(page).fill(CONFIG)
    page.get_by_label("Code folder on the server").fill(str(code))
    press(page, "Check")
    expect(page.get_by_role("heading", name="Ready to launch")).to_be_visible()
    expect(page.locator("#outcome")).to_contain_text("Commands are run by /bin/bash.")
    assert editor(page).input_value() == CONFIG, "what was typed is kept"
    assert experiments(server) == before, "checking launches nothing"
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("from the page")
    experiment = page.url.rstrip("/").rpartition("/")[2]
    server.wait_for_experiment(experiment)
    assert server.get(f"experiments/{experiment}/")["config_text"] == CONFIG, "no line end was changed on the way"


@pytest.mark.slow
def test_a_check_looks_whether_the_script_is_there(server, open_page, code) -> None:
    page = open_page(server, "/new/?way=file")
    script = re.search(r"[\w.]+\.py", CONFIG)
    assert script
    editor(page).fill(CONFIG.replace(script[0], f"my{script[0]}"))
    page.get_by_label("Code folder on the server").fill(str(code))
    press(page, "Check")
    expect(page.get_by_role("heading", name="It can be launched, but 1 check found something")).to_be_visible()
    expect(page.locator("#outcome")).to_contain_text(
        f"my{script[0]}, which is not in the code; did you mean {script[0]}?")
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    server.post(f"experiments/{page.url.rstrip('/').rpartition('/')[2]}/actions/stop/")


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
    expect(page.get_by_role("heading", name="Ready to launch")).to_be_visible()
    expect(page.locator("#gutter .wrong")).to_have_count(0)


@pytest.mark.slow
def test_a_wrong_folder_is_said_at_its_field(server, open_page) -> None:
    page = open_page(server, "/new/")
    editor(page).fill(CONFIG)
    folder = page.get_by_label("Code folder on the server")
    folder.fill("/nowhere/at/all")
    press(page, "Check")
    expect(page.locator(".errors")).to_contain_text("There is no folder /nowhere/at/all")
    expect(folder).to_be_focused()
    expect(folder).to_have_attribute("aria-invalid", "true")


@pytest.mark.slow
def test_a_bundled_example_is_launched_as_it_is(server, open_page) -> None:
    page = open_page(server, "/new/")
    page.get_by_role("link", name="Quadratic an experiment").click()
    page.wait_for_url("**/new/?template=quadratic")
    assert editor(page).input_value() == (ROOT / "examples" / "quadratic" / "config.yml").read_text()
    assert page.locator("#gutter span").count() == editor(page).input_value().count("\n") + 1
    editor(page).fill(editor(page).input_value().replace("maxTrialNumber: 200", "maxTrialNumber: 1"))
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    server.wait_for_experiment(page.url.rstrip("/").rpartition("/")[2])


@pytest.mark.slow
def test_what_was_typed_is_not_replaced_without_asking(server, open_page) -> None:
    page = open_page(server, "/new/")
    editor(page).fill("mine: 1")
    page.get_by_role("link", name="Quadratic an experiment").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(editor(page)).to_have_value("mine: 1")
    page.get_by_role("link", name="Quadratic an experiment").click()
    page.get_by_role("dialog").get_by_role("button", name="Replace").click()
    page.wait_for_url("**/new/?template=quadratic")


@pytest.mark.slow
def test_a_chosen_file_takes_the_place_of_the_text(server, open_page, tmp_path) -> None:
    page = open_page(server, "/new/")
    page.get_by_role("link", name="A config file").click()
    (tmp_path / "mine.yml").write_text(CONFIG)
    page.get_by_label("choose a file").set_input_files(tmp_path / "mine.yml")
    expect(editor(page)).to_have_value(CONFIG)
    assert page.url.endswith("?way=file"), "a link shows a colleague the same way"


def test_code_is_uploaded_and_a_cluster_is_chosen(server, open_page, code, tmp_path) -> None:
    archive = tmp_path / "code.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(code, arcname=".")
    page = open_page(server, "/new/")
    editor(page).fill(CONFIG.partition("trainingService")[0])
    page.get_by_label("from this computer").check()
    page.get_by_label("an archive", exact=True).set_input_files(archive)
    expect(page.locator("#chosen")).to_contain_text("code.tar.gz")
    page.get_by_label("Cluster").select_option("local")
    expect(editor(page)).to_have_value(re.compile("cluster: local"))
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    experiment = server.wait_for_experiment(page.url.rstrip("/").rpartition("/")[2])
    assert (experiment["cluster"], experiment["code_folder"]) == ("local", "")
    assert experiment["code_sha256"]


@pytest.mark.slow
def test_an_archive_that_is_none_keeps_the_page_as_it_was(server, open_page, tmp_path) -> None:
    page = open_page(server, "/new/")
    editor(page).fill(CONFIG)
    (tmp_path / "code.zip").write_bytes(b"no zip at all")
    page.get_by_label("from this computer").check()
    page.get_by_label("an archive", exact=True).set_input_files(tmp_path / "code.zip")
    press(page, "Check")
    expect(page.locator(".errors")).to_contain_text("neither a tar.gz nor a zip")
    expect(page.locator(".field-error")).to_contain_text("neither a tar.gz nor a zip")
    assert editor(page).input_value() == CONFIG
    assert page.evaluate("document.getElementById('code').files.length") == 1, "the chosen file stays"


@pytest.mark.slow
def test_a_folder_of_500_files_is_packed_and_sent_with_progress_less_what_is_ignored(server, open_page, tmp_path
                                                                                      ) -> None:
    folder = tmp_path / "project"
    (folder / "deep" / "data").mkdir(parents=True)
    for number in range(500):
        (folder / "deep" / f"file_{number}.bin").write_bytes(os.urandom(1000))
    long = "x" * 90
    (folder / long).mkdir()
    (folder / long / f"{long}-ä.py").write_text("1")
    (folder / "run.sh").write_text("#!/bin/sh\nexec python3 trial.py\n")
    (folder / "trial.py").write_text(TRIAL)
    (folder / "search_space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    (folder / "big.log").write_bytes(b"x" * 1000)
    (folder / "deep" / "data" / "table.csv").write_text("1")
    (folder / ".nniignore").write_text("*.log\n/deep/data/\n")
    page = open_page(server, "/new/")
    said: list[str] = []
    page.expose_function("heard", lambda words: said.append(words))  # Playwright marks what it is given
    page.evaluate("""() => {
        const place = document.getElementById("doing");
        new MutationObserver(() => window.heard(place.textContent)).observe(place, {childList: true});
    }""")
    session = page.context.new_cdp_session(page.page)
    session.send("Network.enable")
    # so slow that the sending is seen
    session.send("Network.emulateNetworkConditions", {"offline": False, "latency": 0, "downloadThroughput": -1,
                                                      "uploadThroughput": 400_000})
    editor(page).fill(CONFIG.replace("python3 trial.py", "./run.sh"))
    page.get_by_label("from this computer").check()
    page.get_by_label("a folder", exact=True).set_input_files(folder)
    expect(page.locator("#chosen")).to_contain_text("project: 505 files")
    expect(page.locator("#chosen")).to_contain_text("2 files left out by .nniignore")
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    assert "Packed 250 of 505 files" in said
    assert any(re.fullmatch(r"Sent \d\.\d of \d\.\d MB", words) for words in said), said[-5:]
    experiment = server.wait_for_experiment(page.url.rstrip("/").rpartition("/")[2])
    assert experiment["progress"]["trials"]["SUCCEEDED"] == 1, "what names its interpreter can be run"
    with tarfile.open(server.data_folder / "files" / "code" / f"{experiment['code_sha256']}.tar.gz") as archive:
        names = {member.name for member in archive if member.isfile()}
    assert len(names) == 505
    assert f"{long}/{long}-ä.py" in names
    assert not {"big.log", "deep/data/table.csv"} & names


@pytest.mark.slow
def test_a_folder_that_is_too_much_is_refused_before_it_is_sent(server, open_page, tmp_path) -> None:
    folder = tmp_path / "project"
    (folder / "many").mkdir(parents=True)
    for number in range(2001):
        (folder / "many" / str(number)).touch()
    page = open_page(server, "/new/")
    editor(page).fill(CONFIG)
    page.get_by_label("from this computer").check()
    page.get_by_label("a folder", exact=True).set_input_files(folder)
    expect(page.locator("#chosen")).to_contain_text("2001 files")
    press(page, "Check")
    expect(page.locator(".errors")).to_contain_text("many/ (2001 files")
    expect(page.locator(".errors")).to_contain_text("Name in .nniignore")


@pytest.mark.slow
def test_the_browser_and_the_server_ignore_the_same(server, open_page, tmp_path) -> None:
    texts = {"": "# words\n*.log\n!keep.log\n/top\nbuild/\na/**/z\n**/deep/x\nend/**\n[ab]?.txt\n[!c]q\n\\#hash\n"
                 "\\!bang\ntrail \nspace\\ \nmid/dle\n*.tmp\n",
             "sub": "!*.tmp\nown\n/only\n"}
    paths = ["a.log", "keep.log", "sub/keep.log", "top", "sub/top", "build/x", "sub/build/y", "build", "a/z", "a/b/c/z",
             "q/a/z", "deep/x", "1/deep/x", "end/1/2", "end", "a1.txt", "c1.txt", "aq", "cq", "#hash", "!bang", "trail",
             "space ", "space", "mid/dle", "x/mid/dle", "t.tmp", "sub/t.tmp", "sub/own", "own", "sub/only",
             "sub/x/only", "# words", "sub/x/own/f"]
    for folder, text in texts.items():
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / ".nniignore").write_text(text)

    def rules_in(folder: tuple[str, ...]) -> IgnoreRules:
        return IgnoreRules(tmp_path.joinpath(*folder), rules_in(folder[:-1]) if folder else None)

    def ignored(path: str) -> bool:
        parts = tuple(path.split("/"))
        return any(rules_in(parts[:depth - 1]).ignores(parts[:depth], depth < len(parts))
                   for depth in range(1, len(parts) + 1))

    page = open_page(server, "/new/")
    found = page.evaluate("""async ([texts, paths]) => {
        const { IgnoreRules } = await import("/static/js/new_experiment/ignore_rules.js");
        const rules = new IgnoreRules(new Map(Object.entries(texts)));
        return paths.map((path) => rules.ignores(path));
    }""", [texts, paths])
    assert dict(zip(paths, found, strict=True)) == {path: ignored(path) for path in paths}


@pytest.mark.slow
def test_code_comes_from_a_git_repository(server, open_page, git) -> None:
    commit = git.commit("project", {"src/trial.py": TRIAL})
    page = open_page(server, "/new/")
    editor(page).fill(CONFIG.replace("searchSpaceFile: search_space.json",
                                     "searchSpace: {x: {_type: uniform, _value: [0, 1]}}"))
    page.get_by_label("a Git repository").check()
    page.locator("#git_url").fill("http://example.org/code")
    press(page, "Check")
    expect(page.locator(".field-error")).to_contain_text("must begin with https://")
    expect(page.locator("#git_url")).to_be_focused()
    page.locator("#git_url").fill(git.url("project"))
    page.get_by_label("Folder of it").fill("src")
    press(page, "Check")
    expect(page.locator("#outcome")).to_contain_text(f"fetched from {git.url('project')}, folder src")
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    experiment = server.wait_for_experiment(page.url.rstrip("/").rpartition("/")[2])
    assert experiment["code_git"] == {"url": git.url("project"), "ref": "", "folder": "src", "commit": commit}
    assert experiment["progress"]["trials"]["SUCCEEDED"] == 1


@pytest.mark.slow
def test_an_earlier_experiment_is_where_the_next_one_starts(server, open_page, code) -> None:
    earlier = server.launch(CONFIG, code)
    page = open_page(server, "/new/?way=clone")
    page.locator(f".earlier a[href='?clone={earlier}']").click()
    page.wait_for_url(f"**/new/?clone={earlier}")
    assert editor(page).input_value() == CONFIG
    assert page.get_by_label("Code folder on the server").input_value() == str(code)


@pytest.mark.slow
def test_the_code_of_an_earlier_experiment_is_used_again(server, open_page, code) -> None:
    earlier = server.launch(CONFIG + "  snapshotCode: true\n", code)
    page = open_page(server, f"/new/?clone={earlier}")
    expect(page.get_by_label("as from the page had it")).to_be_checked()
    expect(page.locator("[data-code=earlier]")).to_contain_text("2 files")
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    again = server.wait_for_experiment(page.url.rstrip("/").rpartition("/")[2])
    assert again["id"] != earlier
    assert again["code_sha256"] == server.get(f"experiments/{earlier}/")["code_sha256"]


@pytest.mark.slow
def test_an_experiment_is_written_field_by_field(server, open_page, code) -> None:
    page = open_page(server, "/new/")
    page.get_by_role("link", name="Field by field").click()
    name = page.get_by_label("Name", exact=True)
    expect(name).to_have_value("my experiment")
    name.fill("by fields")
    page.get_by_label("Command of one trial").fill("python3 trial.py")
    page.get_by_label("Concurrency").fill("1")
    page.get_by_label("Trial limit").fill("1")
    page.get_by_label("Tuner", exact=True).select_option("Random")
    arguments = page.get_by_label("Its further arguments")
    arguments.fill('{"seed": 7}')
    arguments.blur()  # choosing below does not leave it, and clicking into the text would only then
    page.get_by_label("The result shall be").select_option("minimize")
    expect(editor(page)).to_have_value(re.compile("seed: 7, optimize_mode: minimize"))
    # and back: what is written into the text stands in the field
    expect(editor(page)).to_have_value(re.compile("name: Random"))
    editor(page).fill(editor(page).input_value().replace("maxTrialNumber: 1", "maxTrialNumber: 2"))
    expect(page.get_by_label("Trial limit")).to_have_value("2")
    page.get_by_label("Cluster").select_option("local")
    expect(editor(page)).to_have_value(re.compile("cluster: local"))
    row = page.get_by_role("group", name="Parameter batch_size")
    row.get_by_role("button", name="Remove").click()
    page.get_by_role("group", name="Parameter learning_rate").get_by_label("name").fill("x")
    page.get_by_label("Code folder on the server").fill(str(code))
    expect(editor(page)).to_have_value(re.compile("  x: {_type: loguniform"))
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    experiment = server.wait_for_experiment(page.url.rstrip("/").rpartition("/")[2])
    assert (experiment["name"], experiment["seed"], experiment["optimize_mode"], experiment["max_trial_number"],
            experiment["trial_concurrency"], experiment["cluster"], list(experiment["search_space"])) == (
        "by fields", 7, "minimize", 2, 1, "local", ["x"])


@pytest.mark.slow
def test_the_search_space_is_edited_as_rows_and_as_json_and_sampled(server, open_page) -> None:
    page = open_page(server, "/new/?template=sketch")
    page.allow("status of 400")
    row = page.get_by_role("group", name="Parameter learning_rate")
    low = row.get_by_label("low")
    expect(low).to_have_value("0.0001")
    points = page.locator("#space-points")
    expect(points.locator("tbody tr")).to_have_count(6)
    before = points.inner_text()
    page.get_by_role("button", name="Resample").click()
    expect(points).not_to_have_text(before, use_inner_text=True)
    low.fill("0.5")
    low.press("Tab")
    expect(row.get_by_label("high")).to_be_focused()
    expect(row.locator(".error")).to_contain_text("must be at least the low bound 0.5")
    row.get_by_label("type").select_option("randint")
    expect(row.get_by_label("below")).to_have_value("10")
    expect(editor(page)).to_have_value(re.compile(re.escape("learning_rate: {_type: randint, _value: [1, 10]}")))
    expect(row.locator(".strip line").first).to_be_attached()
    page.get_by_role("button", name="Add a parameter").click()
    expect(page.get_by_role("group", name="Parameter parameter_3").get_by_label("name")).to_be_focused()
    nested = '{"opt": {"_type": "choice", "_value": [{"_name": "sgd", "m": {"_type": "uniform", "_value": [0, 1]}}]}}'
    expect(page.get_by_label("The same as JSON")).to_be_hidden()
    page.get_by_text("Show as JSON").click()
    page.get_by_label("The same as JSON").fill(nested)
    page.get_by_label("The same as JSON").blur()
    options = page.get_by_role("group", name="Parameter opt").get_by_label("parameters of their own")
    expect(options).to_have_value(re.compile('"_name":"sgd"'))
    expect(points).to_contain_text('"_name":"sgd","m":')
    expect(editor(page)).to_have_value(re.compile("opt: {_type: choice"))


@pytest.mark.slow
def test_a_search_space_of_a_file_is_taken_into_the_text(server, open_page) -> None:
    page = open_page(server, "/new/?template=quadratic")
    expect(page.locator("#space-note")).to_contain_text("search_space.json")
    page.get_by_role("button", name="Write it into the experiment file").click()
    expect(page.get_by_role("group", name="Parameter learning_rate")).to_be_visible()
    assert "searchSpaceFile" not in editor(page).input_value()


@pytest.mark.slow
def test_a_search_space_of_a_file_is_taken_to_the_last_digit(server, open_page, code) -> None:
    (code / "search_space.json").write_text('{"x": {"_type": "choice", "_value": [9007199254740993, 1.0]}}')
    page = open_page(server, "/new/?way=file")
    editor(page).fill(CONFIG)
    page.get_by_label("Code folder on the server").fill(str(code))
    page.get_by_role("button", name="Write it into the experiment file").click()
    expect(editor(page)).to_have_value(re.compile(re.escape("_value: [9007199254740993, 1.0]")))


@pytest.mark.slow
def test_a_search_space_of_annotations_is_made_by_the_check(server, open_page, code) -> None:
    (code / "trial.py").write_text('"""@nni.variable(nni.uniform(0, 1), name=x)"""\nx = 0\n'
                                   '"""@nni.report_final_result(x)"""\n')
    page = open_page(server, "/new/")
    editor(page).fill(CONFIG.replace("searchSpaceFile: search_space.json", "useAnnotation: true"))
    expect(page.locator("#space-note")).to_contain_text("It is made from the annotations in the code")
    expect(page.locator("#space-editor")).to_be_hidden()
    page.get_by_label("Code folder on the server").fill(str(code))
    press(page, "Check")
    expect(page.locator("#outcome")).to_contain_text("the annotations give 1 parameter: trial/x/uniform.")
    press(page, "Launch")
    page.wait_for_url("**/experiments/*/")
    experiment = page.url.rstrip("/").rpartition("/")[2]
    server.wait_for_experiment(experiment)
    page.goto(f"{server.url}/experiments/{experiment}/config/")
    expect(page.locator("main")).to_contain_text("trial/x/uniform")


@pytest.mark.slow
def test_the_v1_form_is_converted_for_the_fields(server, open_page) -> None:
    page = open_page(server, "/new/?template=quadratic-v1")
    page.allow("status of 400")
    page.get_by_role("link", name="Field by field").click()
    page.get_by_role("button", name="Convert it to v2").click()
    expect(page.get_by_label("Command of one trial")).to_be_enabled()
    expect(page.get_by_label("Command of one trial")).to_have_value(re.compile("trial.py"))


@pytest.mark.slow
def test_it_is_a_plain_form_where_there_are_no_scripts(server, open_page, code) -> None:
    session = requests.Session()
    for cookie in open_page(server, "/new/").context.cookies():
        session.cookies.set(cookie["name"], cookie["value"], domain=cookie["domain"], path=cookie["path"])
    address = f"{server.url}/new/"
    before = experiments(server)

    def send(config: str, act: str, **files: object) -> requests.Response:
        form = {"csrfmiddlewaretoken": session.cookies["csrftoken"], "config": config.replace("\n", "\r\n"),
                "base_directory": "" if files else str(code), "cluster": "", "act": act}
        return session.post(address, data=form, files=files or {"nothing": b""})

    wrong = send(CONFIG.replace("maxTrialNumber: 1", "maxTrialNumber: many"), "launch")
    assert "Line 5" in wrong.text
    assert '<span class="wrong">5</span>' in wrong.text
    assert "maxTrialNumber: many" in wrong.text, "what was typed is kept"
    assert "Ready to launch" in send(CONFIG, "check").text
    assert experiments(server) == before
    launched = send(CONFIG, "launch")
    assert launched.history[0].status_code == 302
    assert "/experiments/" in launched.url
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(code, arcname=".")
    assert "/experiments/" in send(CONFIG, "launch", code=("code.tar.gz", packed.getvalue())).url
    assert experiments(server) == before + 2


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("way", ["template=digits", "way=fields", "way=file"])
def test_nothing_is_wider_than_the_page(server, open_page, width, way) -> None:
    page = open_page(server, f"/new/?{way}", width=width)
    expect(page.locator("#space")).to_be_visible()
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)


@pytest.mark.slow
def test_each_platform_has_a_form_made_of_its_config_models(server, open_page) -> None:
    page = open_page(server, "/new/?way=fields")
    text = page.locator("#config")
    choice = page.get_by_label("Platform of its own")
    expect(choice).to_be_enabled()
    choice.select_option("slurm")
    expect(text).to_have_value(re.compile(r"trainingService:\n  platform: slurm\n"))
    page.get_by_label("Working folder", exact=True).fill("/home/ada/nniweb")
    page.get_by_label("Working folder", exact=True).press("Tab")
    expect(text).to_have_value(re.compile(r"\n  workingFolder: /home/ada/nniweb\n"))
    page.get_by_label("Requeue", exact=True).select_option("true")
    expect(text).to_have_value(re.compile(r"\n  requeue: true\n"))
    page.get_by_label("Trial CPU number", exact=True).fill("8")
    page.get_by_label("Trial CPU number", exact=True).press("Tab")
    expect(text).to_have_value(re.compile(r"\n  trialCpuNumber: 8\n"))
    text.fill((text.input_value()).replace("requeue: true", "requeue: false"))
    expect(page.get_by_label("Requeue", exact=True)).to_have_value("false")
    page.get_by_role("button", name="Add login node").click()
    expect(page.get_by_label("Host", exact=True)).to_be_focused()
    page.get_by_label("Host", exact=True).fill("login")
    page.get_by_label("Host", exact=True).press("Tab")
    expect(text).to_have_value(re.compile(r"\n  loginNode:.*host: login", re.DOTALL))
    choice.select_option("local")
    expect(page.get_by_label("Working folder", exact=True)).to_have_count(0)
    expect(text).not_to_have_value(re.compile("workingFolder"))


@pytest.mark.slow
def test_a_folder_that_is_chosen_brings_its_own_experiment_file(server, open_page, tmp_path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "config.yml").write_text(
        "experimentName: of the folder\ntrialCommand: python3 fit.py\ntrialConcurrency: 1\n"
        "searchSpace: {x: {_type: uniform, _value: [0, 1]}}\ntuner: {name: Random}\n"
        "trainingService: {platform: local}\n")
    (folder / "fit.py").write_text("import nni\nnni.get_next_parameter()\n")
    page = open_page(server, "/new/")
    page.get_by_label("from this computer").check()
    page.get_by_label("a folder", exact=True).set_input_files(folder)
    offers = page.get_by_role("list", name="Found in the folder").get_by_role("listitem")
    expect(offers).to_have_count(2)
    page.get_by_role("button", name="Use it: config.yml").click()
    expect(editor(page)).to_have_value(re.compile("of the folder"))
    page.mouse.wheel(0, 2000)
    expect(page.get_by_role("button", name="Launch", exact=True)).to_be_in_viewport()
    page.get_by_role("link", name="Field by field").click()
    page.get_by_role("button", name="Use it as the command: fit.py").click()
    expect(editor(page)).to_have_value(re.compile("trialCommand: python3 fit.py"))


@pytest.mark.slow
def test_fields_stand_side_by_side_where_there_is_room(server, open_page) -> None:
    page = open_page(server, "/new/?way=fields")
    concurrency, limit, tuner, mode = (page.locator(f"#{name}").bounding_box()
                                       for name in ("f-concurrency", "f-most", "f-tuner", "f-mode"))
    assert (concurrency["y"], tuner["y"]) == (limit["y"], mode["y"])
    assert concurrency["x"] + concurrency["width"] <= limit["x"]


@pytest.mark.slow
def test_the_box_and_the_name_of_each_of_several_clusters_stand_in_one_line(server, open_page) -> None:
    for name in ("near", "far"):
        server.post("clusters/", {"name": name, "platform": "local", "settings": {}})
    page = open_page(server, "/new/")
    page.get_by_text("Several clusters", exact=True).click()
    for name in ("near", "far"):
        box = page.get_by_role("checkbox", name=name, exact=True)
        place, label = box.bounding_box(), box.locator("..").bounding_box()
        assert place["width"] < 30
        assert label["height"] < 40
        assert label["width"] < 200
        assert place["x"] - label["x"] < 10


@pytest.mark.slow
def test_a_ticked_cluster_joins_those_of_the_file_however_their_name_is_spelt(server, open_page) -> None:
    for name in ("first", "second", "third"):
        server.post("clusters/", {"name": name, "platform": "local", "settings": {}})
    page = open_page(server, "/new/?way=file")
    editor(page).fill("clusters:\n  - {Name: first, upTo: 2}\n  - {NAME: second, weight: 3.0}\n")
    page.get_by_text("Several clusters", exact=True).click()
    for name in ("first", "second"):
        expect(page.get_by_role("checkbox", name=name, exact=True)).to_be_checked()
    page.get_by_role("checkbox", name="third", exact=True).check()
    expect(editor(page)).to_have_value(
        "clusters: [{Name: first, upTo: 2}, {NAME: second, weight: 3.0}, {name: third}]\n")


@pytest.mark.slow
def test_numbers_that_javascript_would_round_are_refused_where_they_are_written(server, open_page) -> None:
    page = open_page(server, "/new/?template=sketch")
    trouble = "The form cannot hold 9007199254740993, because it has too many digits. The text of a config can."
    row = page.get_by_role("group", name="Parameter batch_size")
    options = row.get_by_label("options")
    options.fill("32, 9007199254740993")
    options.blur()
    expect(row.locator(".error")).to_have_text(trouble)
    assert "90071992547409" not in editor(page).input_value()
    options.fill("32, 9007199254740992")
    options.blur()
    expect(editor(page)).to_have_value(re.compile(re.escape("[32, 9007199254740992]")))
    page.get_by_text("Show as JSON").click()
    whole = page.get_by_label("The same as JSON")
    whole.fill('{"x": {"_type": "choice", "_value": [[9007199254740993]]}}')
    whole.blur()
    expect(page.locator("#space-points")).to_contain_text(trouble)
    page = open_page(server, "/new/")
    page.get_by_role("link", name="Field by field").click()
    arguments = page.get_by_label("Its further arguments")
    arguments.fill('{"seed": 9007199254740993}')
    arguments.blur()
    expect(page.get_by_text(trouble)).to_be_visible()
    assert "seed" not in editor(page).input_value()
