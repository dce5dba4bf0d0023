"""Trials as plain Jobs of Kubernetes pass the suite that every platform passes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.kubernetes_api import KubernetesApiDouble
from tests.fakes.kubernetes_under_test import JobsUnderTest
from trainingservice.keeper_receiver import KeeperReceiver
from trainingservice.kubernetes.config import JobClusterSettings, JobTrialOptions
from trainingservice.kubernetes.job import JOBS
from trainingservice.kubernetes.service import KubernetesTrainingService
from trainingservice.kubernetes_base.api import PODS, SECRETS, ApiAccess, KubernetesApi
from trainingservice.kubernetes_base.config import RoleSettings, StorageSettings
from trainingservice.testing.bench import Bench
from trainingservice.testing.conformance import PlatformUnderTest, TrainingServiceConformance


class TestKubernetes(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        with KubernetesApiDouble(tmp_path / "cluster") as cluster:
            yield JobsUnderTest(tmp_path / "platform", cluster)


class RealCluster(PlatformUnderTest):
    """A cluster of yours: NNIWEB_TEST_KUBECONFIG, and if need be NNIWEB_TEST_NAMESPACE and NNIWEB_TEST_IMAGE."""

    runs_here = False
    namespace = os.environ.get("NNIWEB_TEST_NAMESPACE", "default")

    def new_service(self, context):
        self.api = KubernetesApi(ApiAccess(Path(os.environ["NNIWEB_TEST_KUBECONFIG"])))
        return KubernetesTrainingService(JobClusterSettings(
            kubeconfig=Path(os.environ["NNIWEB_TEST_KUBECONFIG"]), namespace=self.namespace), context)

    def options(self):
        image = os.environ.get("NNIWEB_TEST_IMAGE", "python:3.11-slim")
        return JobTrialOptions(worker=RoleSettings(docker_image=image))

    def left_behind(self, experiment_id):
        return [f"{resource.plural}/{item['metadata']['name']}" for resource in (JOBS, SECRETS, PODS)
                for item in self.api.call("GET", resource.path(self.namespace), query={
                    "labelSelector": f"nniweb/experiment={experiment_id}"}).get("items") or []]


if os.environ.get("NNIWEB_TEST_KUBECONFIG"):
    class TestRealKubernetes(TrainingServiceConformance):
        """Pods must reach this machine at NNIWEB_TEST_HOST."""

        @pytest.fixture
        def platform(self, tmp_path):
            return RealCluster(tmp_path / "platform")

        @pytest.fixture
        def keeper_server(self, tmp_path):
            with KeeperReceiver(installation="conformance", folder=tmp_path / "receiver",
                                host=os.environ["NNIWEB_TEST_HOST"]) as receiver:
                yield receiver


@pytest.fixture(params=["nfs", "persistentVolumeClaim", "azureFile"])
def storage(request, tmp_path) -> tuple[tuple[str, str], StorageSettings]:
    """What the pods mount, and the settings; a folder stands for the storage on both sides."""
    folder = tmp_path / "storage"
    folder.mkdir()
    here = {"local_mount_point": str(folder)}
    settings = {
        "nfs": StorageSettings(storage_type="nfs", server="10.10.10.10", path="/exports/nni", **here),
        "persistentVolumeClaim": StorageSettings(storage_type="pvc", claim_name="claim", **here),
        "azureFile": StorageSettings(storage_type="azureStorage", azure_account="account", azure_share="share",
                                     azure_account_key="c2VjcmV0", **here)}
    names = {"nfs": "10.10.10.10:/exports/nni", "persistentVolumeClaim": "claim", "azureFile": "share"}
    return (request.param, names[request.param]), settings[request.param]


def with_storage(cluster, platform, storage):
    mounted, settings = storage
    cluster.node.storages[mounted] = settings.folder_here
    platform.more = {"storage": settings}
    return platform


@pytest.mark.slow
class TestKubernetesByStorage(TrainingServiceConformance):
    """Code and keeper come by NFS, by a claim, by Azure Files."""

    @pytest.fixture
    def platform(self, tmp_path, storage):
        with KubernetesApiDouble(tmp_path / "cluster") as cluster:
            yield with_storage(cluster, JobsUnderTest(tmp_path / "platform", cluster), storage)


def test_code_and_keeper_come_by_the_storage_and_the_code_goes_with_the_experiment(tmp_path, storage):
    with KubernetesApiDouble(tmp_path / "cluster") as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(with_storage(cluster, JobsUnderTest(tmp_path / "platform", cluster), storage), receiver,
                      tmp_path)
        service = bench.open_service()
        assert [finding.message for finding in service.rehearse(quick=True) if not finding.ok] == []
        form = bench.form("cat data.txt", code=bench.code({"data.txt": "by the storage"}))
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == "by the storage"
        assert cluster.store.all("configmaps") == []
        folder = storage[1].folder_here
        assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".pyz", ".gz"}
        service.clean_up_experiment(bench.experiment)
        assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".pyz"}
        bench.close()
