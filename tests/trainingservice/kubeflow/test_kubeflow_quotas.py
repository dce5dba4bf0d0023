"""A trial on Kubeflow whose pods a quota does not allow says so, whoever makes them."""

from __future__ import annotations

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.kubeflow import (
    KUBEFLOW_KINDS,
    TRAINER_KINDS,
    TrainJobController,
    kubeflow_controllers,
)
from tests.fakes.kubernetes.under_test import KubeflowUnderTest
from trainingservice.kubernetes_base import complaints
from trainingservice.kubernetes_base.config import RoleSettings
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench

REFUSED = "pods is forbidden: exceeded quota: small, requested: pods=1, used: pods=4, limited: pods=4"


@pytest.mark.parametrize(("operator", "role", "kinds", "said"), [
    ("tf-operator", "worker", KUBEFLOW_KINDS, f"cannot continue (FailedCreatePod): Error creating: {REFUSED}."),
    ("pytorch-operator", "master", KUBEFLOW_KINDS, f"cannot continue (FailedCreatePod): Error creating: {REFUSED}."),
    ("pytorch-operator", "master", TRAINER_KINDS, "4 of 4 pods are used, and it asks for 1.")],
    ids=["TFJob", "PyTorchJob", "TrainJob"])
def test_a_trial_whose_pods_a_quota_does_not_allow_says_so(tmp_path, monkeypatch, operator, role, kinds, said) -> None:
    monkeypatch.setattr(complaints, "PATIENCE", 0.0)
    monkeypatch.setattr(complaints, "ASK_EVERY", 0.2)
    controllers = [TrainJobController()] if kinds is TRAINER_KINDS else kubeflow_controllers()
    with KubernetesApiDouble(tmp_path / "cluster", controllers=controllers, kinds=kinds) as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        cluster.controllers.no_pods_because = REFUSED
        cluster.store.create("resourcequotas", "default", {
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {},
            "status": {"hard": {"pods": "4"}, "used": {"pods": "4"}}})
        platform = KubeflowUnderTest(tmp_path / "platform", cluster)
        platform.operator = operator
        platform.roles = {role: RoleSettings(docker_image="example/trial:1")}
        bench = Bench(platform, receiver, tmp_path)
        service = bench.open_service()
        form = bench.form("true")
        service.submit_trial_job(form)
        bench.wait("it says so", lambda: service.get_trial_job(form.job_name).message.endswith(said))
        cluster.controllers.no_pods_because = ""
        bench.wait_for_end(service, form)
        bench.close()
