"""Checking a launch over REST: the same answer as launching where something is wrong, and nothing created."""

import json
import socket

import pytest

from nniweb.experiments.clusters import editing
from nniweb.experiments.models import Cluster, CodeArchive, Experiment
from tests.nniweb.api.experiments.test_api_launch import SPACE, refused, tar_of, upload


def check(api, config: str, **more):
    return api.post("/api/v1/experiments/check/", {"config": config, **more})


def test_a_good_config_is_described_and_nothing_is_created(api, config, code_folder, data_folder) -> None:
    answer = check(api, config, base_directory=str(code_folder))
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["name"], body["form"], body["platform"], body["tuner"]) == ("quadratic", "v2", "local", "Random")
    assert (body["cluster"], body["parameters"], body["max_trial_number"]) == (None, ["x"], 5)
    assert (body["code_folder"], body["code_size"]) == (str(code_folder), None), "local trials run in the folder"
    assert any(finding["check"] == "disk" for finding in body["findings"])
    assert not Experiment.objects.exists()
    assert not Cluster.objects.exists()
    assert list(data_folder.glob("clusters/*")) == []


def test_an_existing_cluster_is_named(api, config, code_folder, ada) -> None:
    editing.create_cluster("this machine", "local", {}, owner=ada, is_private=False, host=socket.gethostname())
    assert check(api, config, base_directory=str(code_folder)).json()["cluster"] == "this machine"


@pytest.mark.parametrize("old", ["platform: local", "trialConcurrency: 2", "name: Random"])
def test_checking_and_launching_find_the_same_wrong(api, config, code_folder, old) -> None:
    body = {"config": config.replace(old, old.split(":")[0] + ": wrong"), "base_directory": str(code_folder)}
    launched, checked = (api.post(f"/api/v1/experiments/{end}", body) for end in ("", "check/"))
    assert refused(checked) == refused(launched)
    assert checked.json()["errors"][0]["line"] is not None


def test_what_a_later_check_refuses_has_its_line_too(as_user, alice, config) -> None:
    [error] = refused(upload(as_user(alice), config, tar_of(search_space_dot_json=SPACE)))
    assert (error["field"], error["line"]) == ("trainingService.platform", config.splitlines().index(
        "  platform: local") + 1)


def test_code_that_is_packed_is_measured(api, config, code_folder) -> None:
    answer = check(api, config + "  snapshotCode: true\n", base_directory=str(code_folder))
    sizes = [path.stat().st_size for path in code_folder.iterdir()]
    assert answer.json()["code_size"] == {"file_count": 2, "bytes": sum(sizes)}
    assert not CodeArchive.objects.exists()


def test_a_chosen_cluster_takes_the_place_of_the_files_platform(api, config, code_folder, vault, ada) -> None:
    editing.create_cluster("ours", "vault", {"address": "there", "token": "sesame"}, owner=ada, is_private=False,
                            host="")
    body = {"config": config, "base_directory": str(code_folder), "cluster": "ours"}
    checked = api.post("/api/v1/experiments/check/", body).json()
    assert (checked["platform"], checked["cluster"]) == ("vault", "ours")
    assert checked["notes"] == ["trainingService: not used; the cluster ours was chosen instead."]
    assert checked["code_size"]["file_count"] == 2
    launched = api.post("/api/v1/experiments/", body)
    assert launched.status_code == 201, launched.content
    assert (launched.json()["cluster"], launched.json()["config_text"]) == ("ours", config)


def test_a_cluster_can_be_chosen_for_a_file_that_names_none(api, config, code_folder, ada) -> None:
    editing.create_cluster("box", "local", {}, owner=ada, is_private=False, host=socket.gethostname())
    text = config.partition("trainingService")[0]
    assert check(api, text, base_directory=str(code_folder)).status_code == 400
    assert check(api, text, base_directory=str(code_folder), cluster="box").json()["cluster"] == "box"


def test_options_in_the_file_hold_on_a_chosen_cluster_of_the_same_platform(api, config, code_folder, ada) -> None:
    editing.create_cluster("box", "local", {}, owner=ada, is_private=False, host=socket.gethostname())
    answer = api.post("/api/v1/experiments/", {"config": config + "  snapshotCode: true\n", "cluster": "box",
                                               "base_directory": str(code_folder)})
    assert answer.status_code == 201, answer.content
    assert Experiment.objects.get().trial_options["snapshotCode"] is True


def test_a_chosen_cluster_that_is_not_there_is_an_error_of_that_field(api, config, code_folder) -> None:
    errors = refused(check(api, config, base_directory=str(code_folder), cluster="nowhere"))
    assert [error["field"] for error in errors] == ["cluster"]


def test_secrets_of_a_platform_that_is_not_used_are_masked_all_the_same(api, config, code_folder, vault, ada) -> None:
    editing.create_cluster("box", "local", {}, owner=ada, is_private=False, host=socket.gethostname())
    text = config.replace("platform: local", "platform: vault\n  address: there\n  token: sesame")
    answer = api.post("/api/v1/experiments/", {"config": text, "cluster": "box", "base_directory": str(code_folder)})
    assert answer.status_code == 201, answer.content
    assert "sesame" not in Experiment.objects.get().config_text


def test_what_a_member_writes_is_not_masked_with_the_secrets_of_others(api, as_user, alice, vault) -> None:
    """Else a list of words would come back with the passwords among them struck out."""
    cluster = {"name": "safe", "platform": "vault", "is_private": True, "settings": {
        "address": "there", "token": "open sesame", "doors": [{"host": "a", "password": "WARNING"}]}}
    assert api.post("/api/v1/clusters/", cluster).status_code == 201
    assert api.post(f"/api/v1/clusters/{Cluster.objects.get().public_id}/actions/rehearse/").status_code == 200
    section = {"platform": "vault", "address": "open door, open sesame, WARNING", "token": "of alice"}
    wish = {"searchSpace": json.loads(SPACE), "trialCommand": "true", "trialConcurrency": 1, "trialCodeDirectory": None,
            "tuner": {"name": "Random"}, "trainingService": section}
    [error] = check(as_user(alice), wish).json()["errors"]
    assert "refused at open door, open sesame, WARNING;" in error["message"]


def test_viewers_check_nothing(as_user, vera, config) -> None:
    assert check(as_user(vera), config).status_code == 403
