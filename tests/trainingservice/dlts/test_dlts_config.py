"""Config files for the dlts platform: both forms, what a job's environment adds, and what is refused."""

import pytest

from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.config.errors import ConfigInvalid

V2 = """
trialCommand: python3 t.py
trialConcurrency: 1
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
tuner: {name: Random}
trainingService:
  platform: dlts
"""
V1 = """
authorName: me
experimentName: v1
trialConcurrency: 1
trainingServicePlatform: dlts
searchSpacePath: space.json
useAnnotation: false
tuner: {builtinTunerName: Random}
trial: {command: python3 t.py, codeDir: ., gpuNum: 2, image: "i:1"}
dltsConfig: {dashboard: dlts.lab.example, cluster: lab, team: vision, email: ada@lab.example, password: geheim}
"""
ALL = "  dashboard: https://d/\n  team: vision\n  email: ada@lab.example\n  password: geheim\n"


@pytest.fixture(autouse=True)
def _outside_of_a_job(monkeypatch):
    for name in ("DLWS_VC_NAME", "DLWS_USER_EMAIL", "DLTS_JOB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    return tmp_path


def section(text, folder):
    return parse_experiment_config(text, folder).settings.training_service


def test_a_file_of_the_first_form_means_the_same(folder):
    settings = parse_experiment_config(V1, folder).settings
    found = settings.training_service
    assert (found.settings.dashboard, found.settings.cluster) == ("http://dlts.lab.example/", "lab")
    assert (found.settings.team, found.settings.email) == ("vision", "ada@lab.example")
    assert (found.options.docker_image, settings.trial_gpu_number) == ("i:1", 2)
    assert found.secrets == {"password": "geheim"}
    assert (str(found.settings.home_here), found.settings.home_there) == ("/home/ada", "/home/ada")


@pytest.mark.parametrize(("written", "address"), [("d.example", "http://d.example/"), ("https://d", "https://d/"),
                                                  ("http://d/sub", "http://d/sub/")])
def test_the_address_gets_its_scheme_and_its_slash(folder, written, address):
    found = section(V2 + ALL.replace("https://d/", written), folder)
    assert found.settings.dashboard == address


def test_inside_a_job_team_account_and_key_may_be_left_out(folder, monkeypatch):
    monkeypatch.setenv("DLWS_VC_NAME", "vision")
    monkeypatch.setenv("DLWS_USER_EMAIL", "ada@lab.example")
    monkeypatch.setenv("DLTS_JOB_TOKEN", "geheim")
    found = section(V2 + "  dashboard: d\n", folder)
    assert (found.settings.team, found.settings.email) == ("vision", "ada@lab.example")
    assert (found.settings.access_key(), found.secrets) == ("geheim", {})
    assert "DLTS_JOB_TOKEN" in found.settings.borrowed_from_the_server()
    assert "file system" in section(V2 + ALL, folder).settings.borrowed_from_the_server(), "the home folder"


@pytest.mark.parametrize("email", ["../../etc@lab.example", "..@lab.example", "/root@lab.example", "'@lab.example'"])
def test_an_account_that_would_name_another_folder_than_its_home_is_refused(folder, email):
    with pytest.raises(ConfigInvalid, match=r"trainingService\.email"):
        section(V2 + ALL.replace("ada@lab.example", email), folder)


def test_secrets_show_nowhere(folder):
    found = section(V1, folder)
    for text in (repr(found), str(found.document()), str(found.settings.canonical())):
        assert "geheim" not in text


@pytest.mark.parametrize(("change", "words"), [
    (("  team: vision\n", ""), "DLWS_VC_NAME"), (("  email: ada@lab.example\n", ""), "DLWS_USER_EMAIL"),
    (("  password: geheim\n", ""), "DLTS_JOB_TOKEN"), (("https://d/", "ftp://d"), "address of the dashboard"),
    (("  dashboard: https://d/\n", ""), "dashboard"), (("password: geheim", "pasword: x"), "did you mean"),
])
def test_what_is_wrong_is_named(folder, change, words):
    with pytest.raises(ConfigInvalid) as caught:
        parse_experiment_config(V2 + ALL.replace(*change), folder)
    assert words in str(caught.value.errors)
