"""A tuner whose trials go on from each other's checkpoints is launched only where they can reach them."""

import pytest

from nniweb.experiments.clusters import editing
from nniweb.experiments.models import Experiment

SHARE = """\
sharedStorage:
  storageType: NFS
  localMountPoint: /mnt/share
  remoteMountPoint: /mnt/there
  localMounted: usermount
  nfsServer: files
  exportedDirectory: /export
"""


@pytest.fixture
def pbt(config) -> str:
    return config.replace("name: Random", "name: PBT")


def test_on_this_machine_the_server_has_a_folder_for_them(api, pbt, code_folder, data_folder) -> None:
    answer = api.post("/api/v1/experiments/", {"config": pbt, "base_directory": str(code_folder)})
    assert answer.status_code == 201, answer.content
    experiment = Experiment.objects.get()
    assert experiment.tuner["class_args"]["all_checkpoint_dir"] == str(
        data_folder / "checkpoints" / experiment.public_id)


def test_a_folder_that_was_named_is_used(api, pbt, code_folder) -> None:
    named = pbt.replace("  name: PBT\n", "  name: PBT\n  classArgs:\n    all_checkpoint_dir: /somewhere\n")
    api.post("/api/v1/experiments/", {"config": named, "base_directory": str(code_folder)})
    assert Experiment.objects.get().tuner["class_args"]["all_checkpoint_dir"] == "/somewhere"


def test_on_several_machines_it_is_refused_without_shared_storage(api, pbt, code_folder, vault, ada) -> None:
    editing.create_cluster("ours", "vault", {"address": "there", "token": "sesame"}, owner=ada, is_private=False,
                            host="")
    body = {"config": pbt, "base_directory": str(code_folder), "cluster": "ours"}
    for address in ("/api/v1/experiments/", "/api/v1/experiments/check/"):
        answer = api.post(address, body)
        assert answer.status_code == 400, answer.content
        [error] = answer.json()["errors"]
        assert error["field"] == "sharedStorage"
        assert "sharedStorage, or use a single machine" in error["message"]
    assert not Experiment.objects.exists()
    assert api.post("/api/v1/experiments/", {**body, "config": pbt + SHARE}).status_code == 201
    experiment = Experiment.objects.get()
    assert experiment.tuner["class_args"]["all_checkpoint_dir"] == f"/mnt/there/nni/{experiment.public_id}/checkpoint"


MACHINES = [{"host": f"192.0.2.{number}", "user": "ann", "password": "sesame"} for number in (1, 2)]


def test_on_several_machines_whose_keepers_call_the_server_they_carry_what_is_in_the_folder(api, pbt, code_folder, ada
                                                                                           ) -> None:
    editing.create_cluster("two", "remote", {"machineList": MACHINES}, owner=ada, is_private=False, host="")
    body = {"config": pbt, "base_directory": str(code_folder), "cluster": "two"}
    named = pbt.replace("  name: PBT\n", "  name: PBT\n  classArgs:\n    all_checkpoint_dir: /scratch/run\n")
    for config in (pbt, named):  # a folder that is not shared helps nobody
        answer = api.post("/api/v1/experiments/", {**body, "config": config})
        assert answer.status_code == 201, answer.content
        experiment = Experiment.objects.get(public_id=answer.json()["id"])
        assert "all_checkpoint_dir" not in experiment.tuner["class_args"]
    assert api.post("/api/v1/experiments/", {**body, "config": pbt + SHARE}).status_code == 201
    experiment = Experiment.objects.latest("pk")
    assert experiment.tuner["class_args"]["all_checkpoint_dir"] == f"/mnt/there/nni/{experiment.public_id}/checkpoint"
    refused = api.post("/api/v1/experiments/", {**body, "config": pbt + "checkpoints: false\n"})
    assert [error["field"] for error in refused.json()["errors"]] == ["sharedStorage"]


def test_on_a_single_machine_elsewhere_the_folder_must_be_named_where_no_keeper_carries_it(api, pbt, code_folder, ada
                                                                                          ) -> None:
    editing.create_cluster("one", "remote", {"machineList": MACHINES[:1]}, owner=ada, is_private=False, host="")
    pbt += "checkpoints: false\n"
    body = {"config": pbt, "base_directory": str(code_folder), "cluster": "one"}
    answer = api.post("/api/v1/experiments/", body)
    assert answer.status_code == 400, answer.content
    [error] = answer.json()["errors"]
    assert error["field"] == "tuner.classArgs"
    assert error["message"] == "PBT needs a folder for checkpoints on the machine. Give it as all_checkpoint_dir."
    named = pbt.replace("  name: PBT\n", "  name: PBT\n  classArgs:\n    all_checkpoint_dir: /scratch/run\n")
    assert api.post("/api/v1/experiments/", {**body, "config": named}).status_code == 201
    assert Experiment.objects.get().tuner["class_args"]["all_checkpoint_dir"] == "/scratch/run"
