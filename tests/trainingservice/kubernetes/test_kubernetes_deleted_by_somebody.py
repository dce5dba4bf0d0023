"""An object that somebody else deletes takes all of its trial along, and the trial says what happened."""

from __future__ import annotations

import pytest

from tests.fakes.kubernetes_api import KubernetesApiDouble
from tests.fakes.kubernetes_api_framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes_api_kubeflow import KUBEFLOW_KINDS, kubeflow_controllers
from tests.fakes.kubernetes_under_test import FrameworksUnderTest, JobsUnderTest, KubeflowUnderTest
from trainingservice.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench
from trainingservice.trial_job_status import TrialJobStatus


@pytest.mark.parametrize(("under_test", "plural"), [
    (JobsUnderTest, "jobs"), (KubeflowUnderTest, "tfjobs"), (FrameworksUnderTest, "frameworks")])
def test_a_trial_whose_object_somebody_else_deletes_is_canceled_by_the_system(tmp_path, under_test,
                                                                             plural: str) -> None:
    with KubernetesApiDouble(tmp_path / "cluster", kinds={**KUBEFLOW_KINDS, **FRAMEWORK_KINDS},
                             controllers=[*kubeflow_controllers(), FrameworkController()]) as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(under_test(tmp_path / "platform", cluster), receiver, tmp_path)
        service = bench.open_service()
        form = bench.form("echo here; sleep 600")
        service.submit_trial_job(form)
        bench.wait("it runs", lambda: bench.output(form))
        [item] = cluster.store.all(plural)
        bench.wait("the Secret belongs to it", lambda: [
            owner["uid"] for secret in cluster.store.all("secrets")
            for owner in secret["metadata"].get("ownerReferences", [])] == [item["metadata"]["uid"]])
        cluster.controllers.delete(plural, "default", item["metadata"]["name"], "Background")
        detail = bench.wait_for_status(service, form, TrialJobStatus.SYS_CANCELED)
        assert f"deleted on the {service.platform} platform by somebody else" in detail.message
        bench.wait("its Secret goes with it", lambda: cluster.store.all("secrets") == [])
        bench.wait("its pods are gone", lambda: cluster.store.all("pods") == [])
        bench.close()
