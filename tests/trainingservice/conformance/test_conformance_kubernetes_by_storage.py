"""Code and keeper come by shared storage on all platforms of Kubernetes; a folder stands for it on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers
from tests.fakes.kubernetes.under_test import FrameworksUnderTest, JobsUnderTest, KubeflowUnderTest, OnKubernetes
from trainingservice.kubernetes_base.config import StorageSettings
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench
from trainingservice.testing.conformance import TrainingServiceConformance

#: What the pods mount (kind of volume, name) -> the settings.
STORAGES = {
    "nfs": (("nfs", "10.10.10.10:/exports/nni"), {"storageType": "nfs", "server": "10.10.10.10",
                                                  "path": "/exports/nni"}),
    "pvc": (("persistentVolumeClaim", "claim"), {"storageType": "pvc", "claimName": "claim"}),
    "azure": (("azureFile", "share"), {"storageType": "azureStorage", "azureAccount": "account",
                                       "azureShare": "share", "azureAccountKey": "c2VjcmV0"}),
}
PLATFORMS = {"kubernetes": (JobsUnderTest, [], {}), "kubeflow": (KubeflowUnderTest, kubeflow_controllers(),
                                                                 KUBEFLOW_KINDS),
             "frameworkcontroller": (FrameworksUnderTest, [FrameworkController()], FRAMEWORK_KINDS)}
#: Each platform and each storage once; the others are like these.
QUICK = {("kubernetes", "nfs"), ("kubeflow", "pvc"), ("frameworkcontroller", "azure")}


@contextmanager
def with_storage(platform: str, storage: str, folder: Path) -> Iterator[OnKubernetes]:
    under_test, controllers, kinds = PLATFORMS[platform]
    mounted, settings = STORAGES[storage]
    with KubernetesApiDouble(folder / "cluster", controllers=controllers, kinds=kinds) as cluster:
        cluster.node.storages[mounted] = folder / "storage"
        (folder / "storage").mkdir()
        place = under_test(folder / "platform", cluster)
        place.more = {"storage": StorageSettings(**settings, localMountPoint=str(folder / "storage"))}
        yield place


@pytest.mark.slow
class TestByStorage(TrainingServiceConformance):
    @pytest.fixture(params=STORAGES)
    def storage(self, request):
        return request.param

    @pytest.fixture(params=PLATFORMS)
    def platform(self, request, storage, tmp_path):
        with with_storage(request.param, storage, tmp_path) as place:
            yield place


@pytest.mark.parametrize(("platform", "storage"), [
    pytest.param(platform, storage, marks=() if (platform, storage) in QUICK else pytest.mark.slow)
    for platform in PLATFORMS for storage in STORAGES])
def test_code_and_keeper_come_by_the_storage_and_the_code_goes_with_the_experiment(platform, storage,
                                                                                  tmp_path) -> None:
    with with_storage(platform, storage, tmp_path) as place, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(place, receiver, tmp_path)
        service = bench.open_service()
        assert [finding.message for finding in service.rehearse(quick=True) if not finding.ok] == []
        form = bench.form("cat data.txt", code=bench.code({"data.txt": "by the storage"}))
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == "by the storage"
        assert [item for item in place.cluster.store.all("configmaps")
                if item["metadata"]["name"].startswith("nniweb-")] == []
        folder = tmp_path / "storage"
        assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".pyz", ".gz"}
        service.clean_up_experiment(bench.experiment)
        assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".pyz"}
        bench.close()
