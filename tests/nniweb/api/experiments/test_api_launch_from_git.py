"""Launching with code from a Git repository: checked at once, fetched later by the worker."""

import pytest

from nniweb.experiments.models import Experiment
from nniweb.experiments.secrets.sealing import unseal
from tests.nniweb.api.experiments.test_api_clone import again, clone
from tests.nniweb.api.experiments.test_api_launch import SPACE, refused

URL = "https://git.example/me/code.git"


@pytest.fixture
def inline(config: str) -> str:
    return config.replace("searchSpaceFile: search_space.json", f"searchSpace: {SPACE}")


def launch(client, config: str, way: str = "", **more):
    return client.post(f"/api/v1/experiments/{way}", {"config": config, "git_url": URL, **more})


def test_the_repository_is_noted_and_its_token_sealed(api, inline) -> None:
    answer = launch(api, inline + "trialCodeDirectory: src\n", git_ref="main", git_folder="deep", git_token="sesame")
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert body["code_git"] == {"url": URL, "ref": "main", "folder": "deep/src", "commit": None}
    assert (body["code_folder"], body["code_sha256"]) == ("", None)
    assert "trialCodeDirectory" not in body["config"]
    assert "sesame" not in answer.content.decode()
    assert unseal(Experiment.objects.get().code_git_token) == "sesame"
    second = again(api, clone(api, body)).json()
    assert second["code_git"] == body["code_git"]


def test_the_v1_form_names_a_folder_of_the_repository(api) -> None:
    old = ("trainingServicePlatform: local\ntrialConcurrency: 1\nsearchSpacePath: s.json\nuseAnnotation: false\n"
           "tuner: {builtinTunerName: TPE}\ntrial: {command: python3 a.py, codeDir: ., gpuNum: 0}\n")
    [error] = refused(launch(api, old))
    assert (error["field"], error["line"]) == ("searchSpacePath", 3)
    assert "fetched only after the launch" in error["message"]


def test_checking_says_where_the_code_comes_from(api, inline) -> None:
    checked = launch(api, inline, "check/", git_ref="v1").json()
    assert (checked["code_from"], checked["code_size"], checked["code_folder"]) == (f"{URL}, v1", None, None)
    assert not Experiment.objects.exists()


@pytest.mark.parametrize(("more", "field"), [
    ({"git_url": "http://git.example/x"}, "git_url"), ({"git_url": "https://me:pw@git.example/x"}, "git_url"),
    ({"git_ref": "--x"}, "git_ref"), ({"git_folder": "../x"}, "git_folder"),
    ({"base_directory": "/tmp"}, "base_directory"),
    ({"git_url": "", "git_ref": "main"}, "git_ref"), ({"git_token": "a\nb"}, "git_token"),
    ({"git_url": "ssh://git.example/x", "git_token": "t"}, "git_token")])
def test_what_is_wrong_is_said_at_its_field(api, inline, more, field) -> None:
    assert [error["field"] for error in refused(launch(api, inline, **more))] == [field]


def test_a_folder_on_the_server_cannot_stand_beside_it(api, inline, code_folder) -> None:
    [error] = refused(launch(api, inline + f"trialCodeDirectory: {code_folder}\n"))
    assert (error["field"], error["line"]) == ("trialCodeDirectory", inline.count("\n") + 1)


def test_members_may_not_use_the_servers_own_ssh_keys(as_user, alice, inline, vault) -> None:
    text = inline.replace("platform: local", "platform: vault\n  address: there\n  token: sesame")
    [error] = refused(launch(as_user(alice), text, git_url="git@git.example:me/code.git"))
    assert error["field"] == "git_url"
    assert "only administrators" in error["message"]
    assert launch(as_user(alice), text).status_code == 201
