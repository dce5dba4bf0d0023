"""An earlier experiment is launched again: its config without secrets, its code as it was kept."""

from datetime import UTC, datetime

import pytest

from nniweb.experiments.clusters import editing
from nniweb.experiments.models import CodeArchive, Experiment
from tests.nniweb.api.experiments.test_api_launch import SPACE, tar_of, upload


def clone(client, experiment) -> dict:
    answer = client.get(f"/api/v1/experiments/{experiment['id']}/clone/")
    assert answer.status_code == 200, answer.content
    return answer.json()


def again(client, cloned: dict, **more):
    """Launch what the clone says, as the page does."""
    body = {key: cloned[key] for key in ("config", "base_directory", "code_of") if cloned[key]}
    if cloned["git"]:
        body |= {f"git_{key}": cloned["git"][key] for key in ("url", "ref", "folder") if cloned["git"][key]}
    return client.post("/api/v1/experiments/", {**body, **more})


@pytest.fixture
def vault_config(config: str, vault: None) -> str:
    return config.replace("platform: local", "platform: vault\n  address: there\n  token: sesame")


def test_the_own_text_comes_back_where_it_says_what_the_experiment_is(api, config, code_folder) -> None:
    text = "# mine\n" + config
    launched = api.post("/api/v1/experiments/", {"config": text, "base_directory": str(code_folder)}).json()
    cloned = clone(api, launched)
    assert (cloned["config"], cloned["base_directory"], cloned["code_of"]) == (text, str(code_folder), "")
    second = again(api, cloned)
    assert second.status_code == 201, second.content
    assert second.json()["config"] == launched["config"]


def test_what_was_changed_while_it_ran_is_part_of_the_clone(api, config, code_folder) -> None:
    launched = api.post("/api/v1/experiments/", {"config": config, "base_directory": str(code_folder)}).json()
    space = {"y": {"_type": "randint", "_value": [1, 9]}}
    api.patch(f"/api/v1/experiments/{launched['id']}/", {"max_trial_number": 9, "search_space": space, "name": "new"})
    second = again(api, clone(api, launched)).json()
    assert (second["max_trial_number"], second["search_space"], second["name"]) == (9, space, "new")
    assert second["code_folder"] == str(code_folder)


def test_options_that_look_like_numbers_stay_texts(api, config, code_folder) -> None:
    launched = api.post("/api/v1/experiments/", {"config": config, "base_directory": str(code_folder)}).json()
    space = {"commit": {"_type": "choice", "_value": ["1e5", "12e4567", "two\u2028lines"]}}
    api.patch(f"/api/v1/experiments/{launched['id']}/", {"search_space": space, "name": "2e3"})
    second = again(api, clone(api, launched)).json()
    assert (second["search_space"], second["name"]) == (space, "2e3")


def test_uploaded_code_is_used_again_as_it_was(as_user, alice, vault_config) -> None:
    client = as_user(alice)
    data = tar_of(**{"src/trial.py": "print(1)", "search_space.json": SPACE})
    launched = upload(client, vault_config + "trialCodeDirectory: src\n", data).json()
    cloned = clone(client, launched)
    assert (cloned["code_of"], cloned["base_directory"], cloned["file_count"]) == (launched["id"], "", 1)
    assert "sesame" not in str(cloned)
    second = again(client, cloned)
    assert second.status_code == 201, second.content
    body = second.json()
    assert (body["code_sha256"], body["search_space"]) == (launched["code_sha256"], launched["search_space"])
    assert body["cluster"] == launched["cluster"] == "alice-vault", "the cluster keeps its own token"
    assert CodeArchive.objects.count() == 1
    # a folder of the kept code, and a file of it that the config names
    other = client.post("/api/v1/experiments/check/", {"config": cloned["config"] + "trialCodeDirectory: nowhere\n",
                                                       "code_of": launched["id"]})
    assert [error["field"] for error in other.json()["errors"]] == ["trialCodeDirectory"]


def test_code_that_retention_removed_is_not_part_of_the_clone_which_says_so(as_user, alice, vault_config) -> None:
    client = as_user(alice)
    launched = upload(client, vault_config, tar_of(**{"trial.py": "print(1)", "search_space.json": SPACE})).json()
    Experiment.objects.update(code=None, code_removed_at=datetime(2030, 1, 2, tzinfo=UTC), retention={"output": 3})
    cloned = clone(client, launched)
    assert (cloned["code_of"], cloned["base_directory"]) == ("", "")
    assert "trialCodeDirectory" not in cloned["config"]
    assert "retention:" in cloned["config"]
    assert "The copy of its code was removed by retention on 2030-01-02. Provide the code again." in cloned["notes"]


def test_who_may_not_use_the_cluster_is_told_what_is_missing(as_user, alice, bob, vault_config) -> None:
    launched = upload(as_user(alice), vault_config, tar_of(trial_dot_py="1", search_space_dot_json=SPACE)).json()
    cloned = clone(as_user(bob), launched)
    assert "alice-vault, which you may not use" in cloned["notes"][0]
    assert "sesame" not in str(cloned)
    refused = again(as_user(bob), cloned)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "trainingService")
    assert "token" in refused.json()["errors"][0]["message"]


def test_a_viewer_may_not_and_a_stranger_finds_nothing(as_user, alice, charlie, vera, vault_config) -> None:
    launched = upload(as_user(alice), vault_config, tar_of(trial_dot_py="1", search_space_dot_json=SPACE)).json()
    address = f"/api/v1/experiments/{launched['id']}/clone/"
    assert as_user(charlie).get(address).status_code == 404
    assert as_user(vera).get(address).status_code == 403
    body = {"config": "trialConcurrency: 1", "code_of": launched["id"]}
    refused = as_user(charlie).post("/api/v1/experiments/", body)
    assert refused.json()["errors"] == [{
        "field": "code_of", "message": "There is no such experiment, or you may not see it.", "line": None,
        "column": None}]


def test_a_name_of_code_that_is_not_kept_says_why(api, config, code_folder) -> None:
    launched = api.post("/api/v1/experiments/", {"config": config, "base_directory": str(code_folder)}).json()
    refused = api.post("/api/v1/experiments/", {"config": config, "code_of": launched["id"]})
    assert "give as base_directory" in refused.json()["errors"][0]["message"]
    for more, field in (({"base_directory": str(code_folder)}, "base_directory"),
                        ({"git_url": "https://git.example/code"}, "git_url")):
        refused = api.post("/api/v1/experiments/", {"config": config, "code_of": launched["id"], **more})
        assert [error["field"] for error in refused.json()["errors"]] == [field]
    assert Experiment.objects.count() == 1


def test_an_experiment_on_a_cluster_of_the_server_names_it_again(api, as_user, alice, ada, config, vault) -> None:
    editing.create_cluster("ours", "vault", {"address": "there", "token": "sesame"}, owner=ada, is_private=False,
                            host="")
    text = config.partition("trainingService")[0].replace("searchSpaceFile: search_space.json", f"searchSpace: {SPACE}")
    launched = as_user(alice).post("/api/v1/experiments/", {"config": text + "cluster: ours\n"}).json()
    cloned = clone(as_user(alice), launched)
    assert cloned["config"] == text + "cluster: ours\n"
    assert again(as_user(alice), cloned).json()["cluster"] == "ours"
