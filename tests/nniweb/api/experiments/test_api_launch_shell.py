"""A launch over REST from a shell on the server's own machine."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from nniweb.experiments.models import Experiment
from tests.nniweb.api.experiments.test_api_launch import SPACE, refused, tar_of
from trainingservice.local import shell

PATH = "/env/bin:/usr/bin:/bin"


@pytest.fixture
def launch(config):
    """Uploads the code together with the document of a shell."""
    def launch(client, document: object, command: str = "sh run.sh"):
        archive = tar_of(search_space_dot_json=SPACE, train_dot_py="import absent_one\n")
        return client.post("/api/v1/experiments/", {
            "config": config.replace("python3 trial.py", command), "shell": document,
            "code": SimpleUploadedFile("code.tar.gz", archive)}, format="multipart")
    return launch


@pytest.fixture
def document(monkeypatch) -> str:
    for name in shell.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", PATH)
    return shell.shell_document()


def test_of_a_shell_on_this_machine_it_is_recorded_and_its_machine_id_is_not_told(api, launch, document) -> None:
    assert launch(api, document).status_code == 201
    recorded = Experiment.objects.get().trial_options["shellEnvironment"]
    assert recorded == {"path": PATH, "virtualEnv": "", "condaPrefix": ""}
    assert shell.machine.machine_id() not in document


def test_of_a_shell_on_another_machine_it_has_no_effect(api, launch, document) -> None:
    assert launch(api, json.dumps({**json.loads(document), "machine": "0" * 32})).status_code == 201
    assert "shellEnvironment" not in Experiment.objects.get().trial_options


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"PATH": 1}', '{"HOME": "/root"}', "[" * 100_000])
def test_what_is_no_document_of_a_shell_is_refused_at_its_field(api, launch, text) -> None:
    [error] = refused(launch(api, text))
    assert (error["field"], error["message"].startswith("cannot be read: ")) == ("shell", True)


def test_a_path_with_a_line_end_is_refused(api, launch, document) -> None:
    [error] = refused(launch(api, json.dumps({**json.loads(document), "PATH": "/a\nb"})))
    assert "The environment of the shell cannot be recorded: path" in error["message"]


def test_a_person_without_the_right_to_local_commands_chooses_no_interpreter(as_user, alice, launch, document) -> None:
    for field, value in (("venv", "/env"), ("condaEnv", "torch"), ("pythonPath", "/env/bin"), ("serverPython", True),
                         ("shellEnvironment", {"path": "/env/bin"})):
        answer = as_user(alice).post("/api/v1/experiments/check/", {"config": {
            "searchSpace": json.loads(SPACE), "trialCommand": "sh run.sh", "trialConcurrency": 1,
            "tuner": {"name": "Random"}, "trainingService": {"platform": "local", field: value}}})
        assert [error["field"] for error in answer.json()["errors"]] == ["trainingService.platform"]
    assert [error["field"] for error in refused(launch(as_user(alice), document))] == ["trainingService.platform"]


def test_the_check_names_what_uploaded_code_imports_and_the_interpreter_does_not_have(api, launch, monkeypatch) -> None:
    answer = launch(api, "", "python3 train.py")
    assert answer.status_code == 201, answer.content
    [note] = [note for note in Experiment.objects.get().notes if "absent_one" in note]
    assert "absent_one (train.py, line 1)" in note


def test_a_copy_of_the_own_text_says_that_it_does_not_have_the_environment_of_the_shell(
        api, config, code_folder, document) -> None:
    answer = api.post("/api/v1/experiments/", {"config": config, "base_directory": str(code_folder), "shell": document},
                      format="multipart")
    assert answer.status_code == 201, answer.content
    clone = api.get(f"/api/v1/experiments/{answer.json()['id']}/clone/").json()
    assert clone["config"] == config
    [note] = clone["notes"]
    assert "A clone uses that environment only if trainingService names it" in note


def test_a_copy_of_what_was_resolved_keeps_the_environment_of_the_shell(api, launch, document) -> None:
    launched = launch(api, document).json()
    clone = api.get(f"/api/v1/experiments/{launched['id']}/clone/").json()
    assert (PATH in clone["config"], clone["notes"]) == (True, [])
