"""Roles with code of their own: each role's pods work in their part of the code archive, however code reaches them."""

from __future__ import annotations

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers
from tests.fakes.kubernetes.under_test import FrameworksUnderTest, KubeflowUnderTest
from trainingservice.code.code_archive import CodeTooLarge, code_tree, pack_entries
from trainingservice.frameworkcontroller.task_roles import TaskRoleSettings
from trainingservice.kubernetes_base.config import RoleSettings, StorageSettings
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench
from trainingservice.trial_job import TrialCode

#: Waits until the other role has said where it works, and says it with what it sees itself.
SHOW = 'until [ -s "{said}" ]; do sleep 0.05; done; cat "{said}"; ls; cat of-me'
SAY = 'ls > "{said}.draft"; cat of-me >> "{said}.draft"; mv "{said}.draft" "{said}"; sleep 600'


def kubeflow(worker: dict, ps: dict) -> tuple:
    return KubeflowUnderTest, kubeflow_controllers(), KUBEFLOW_KINDS, {
        "worker": RoleSettings(docker_image="example/trial:1", **worker),
        "ps": RoleSettings(docker_image="example/trial:1", **ps)}


def frameworks(worker: dict, ps: dict) -> tuple:
    return FrameworksUnderTest, [FrameworkController()], FRAMEWORK_KINDS, {"task_roles": (
        TaskRoleSettings(name="ps", docker_image="example/trial:1", **ps),
        TaskRoleSettings(name="worker", docker_image="example/trial:1", **worker))}


@pytest.fixture
def code(tmp_path):
    """The folders of two roles, as the host packs them."""
    folders = {}
    for name in ("worker", "ps"):
        folders[name] = tmp_path / "sources" / f"code of {name}"
        folders[name].mkdir(parents=True)
        (folders[name] / "of-me").write_text(f"I am {name}\n")
    packed = pack_entries(code_tree(folders["worker"], folders), tmp_path / "archives")
    return folders, TrialCode(folder=folders["worker"], archive=packed.path, sha256=packed.sha256)


@pytest.mark.parametrize("way", ["server", "storage"])
@pytest.mark.parametrize("platform", [kubeflow, frameworks])
def test_each_role_works_in_its_own_folder(tmp_path, code, platform, way) -> None:
    folders, packed = code
    said = tmp_path / "said"
    under_test, controllers, kinds, roles = platform(
        {"command": SHOW.format(said=said), "code_directory": str(folders["worker"])},
        {"command": SAY.format(said=said), "code_directory": str(folders["ps"])})
    with KubernetesApiDouble(tmp_path / "cluster", controllers=controllers, kinds=kinds) as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        place = under_test(tmp_path / "platform", cluster)
        place.roles = roles
        if way == "storage":
            cluster.node.storages["nfs", "10.10.10.10:/exports/nni"] = tmp_path / "storage"
            (tmp_path / "storage").mkdir()
            place.more = {"storage": StorageSettings(storageType="nfs", server="10.10.10.10", path="/exports/nni",
                                                     localMountPoint=str(tmp_path / "storage"))}
        bench = Bench(place, receiver, tmp_path)
        service = bench.open_service()
        form = bench.form("not used", code=packed)
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == "of-me\nI am ps\nof-me\nI am worker\n"
        bench.close()


def test_roles_of_one_folder_get_the_archive_as_it_is(tmp_path, code) -> None:
    under_test, controllers, kinds, roles = kubeflow({"command": "ls"}, {"command": "sleep 600"})
    with KubernetesApiDouble(tmp_path / "cluster", controllers=controllers, kinds=kinds) as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        place = under_test(tmp_path / "platform", cluster)
        place.roles = roles
        bench = Bench(place, receiver, tmp_path)
        service = bench.open_service()
        form = bench.form("not used", code=code[1])
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == "ps\nworker\n"
        bench.close()


def test_the_limits_hold_for_all_folders_together(tmp_path, code, monkeypatch) -> None:
    monkeypatch.setattr("trainingservice.code.code_archive.MAX_FILES", 1)
    with pytest.raises(CodeTooLarge, match="together"):
        code_tree(tmp_path, code[0])
