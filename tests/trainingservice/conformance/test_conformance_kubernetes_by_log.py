"""Pods that cannot call the server (``wayHome: log``) pass the suite, too: reports are read from their logs."""

from __future__ import annotations

import pytest

from tests.fakes.kubernetes.adaptdl import ADAPTDL_KINDS, AdaptDlScheduler
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers
from tests.fakes.kubernetes.under_test import AdlUnderTest, FrameworksUnderTest, JobsUnderTest, KubeflowUnderTest
from tests.trainingservice.conformance.collected_conformance import CollectedConformance
from trainingservice.kubernetes_base import mirror, pod_logs
from trainingservice.kubernetes_base.config import StorageSettings
from trainingservice.testing.cases.returning import as_stored
from trainingservice.trial_job_status import TrialJobStatus

PLATFORMS = {
    "adl": (AdlUnderTest, [AdaptDlScheduler()], ADAPTDL_KINDS),
    "kubernetes": (JobsUnderTest, [], {}),
    "kubeflow": (KubeflowUnderTest, kubeflow_controllers(), KUBEFLOW_KINDS),
    "frameworkcontroller": (FrameworksUnderTest, [FrameworkController()], FRAMEWORK_KINDS)}


class ByLog(CollectedConformance):
    name: str

    @pytest.fixture
    def platform(self, tmp_path, monkeypatch):
        # looks that are rare on purpose, so that an API server is not pestered, would be slow in a test
        monkeypatch.setattr(mirror, "PAUSES", (0.1, 1.0))
        monkeypatch.setattr(pod_logs, "LOOK_EVERY", 0.3)
        monkeypatch.setattr(pod_logs, "LINGER", 3)
        monkeypatch.setattr(pod_logs, "LINGER_STOPPED", 3)
        under_test, controllers, kinds = PLATFORMS[self.name]
        storage = tmp_path / "storage"
        storage.mkdir()
        with KubernetesApiDouble(tmp_path / "cluster", controllers=controllers, kinds=kinds) as cluster:
            cluster.node.storages["persistentVolumeClaim", "claim"] = storage
            platform = under_test(tmp_path / "platform", cluster)
            platform.more = {"way_home": "log", "storage": StorageSettings(
                storage_type="pvc", claim_name="claim", local_mount_point=str(storage))}
            platform.jobs_have_ended = lambda: all(
                (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") for pod in cluster.store.all("pods"))
            yield platform


@pytest.mark.slow
class TestKubernetesByLog(ByLog):
    name = "kubernetes"


@pytest.mark.slow
class TestKubeflowByLog(ByLog):
    name = "kubeflow"


class RemovesPods(ByLog):
    def test_an_end_while_nobody_looked_is_found(self, bench, service):
        """The controller removes ended pods, and with them their logs: then the object alone tells the end."""
        form, starts, go = self.waiting_job(bench)
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
        bench.close_service(service)
        go.touch()
        bench.wait("its pod is gone", lambda: not bench.platform.cluster.store.all("pods"))
        found = bench.wait_for_status(bench.open_service([as_stored(detail)]), form, TrialJobStatus.SUCCEEDED)
        assert found.exit_code == 0


@pytest.mark.slow
class TestFrameworkControllerByLog(RemovesPods):
    name = "frameworkcontroller"


@pytest.mark.slow
class TestAdlByLog(RemovesPods):
    name = "adl"
