"""Pods that cannot call the server: reports are read from their logs, code comes by the storage."""

from __future__ import annotations

import json

import pytest

from tests.fakes.kubernetes_api import KubernetesApiDouble
from tests.fakes.kubernetes_api_framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes_api_kubeflow import KUBEFLOW_KINDS, kubeflow_controllers
from tests.fakes.kubernetes_under_test import FrameworksUnderTest, JobsUnderTest, KubeflowUnderTest
from trainingservice.errors import PermanentError
from trainingservice.keeper_receiver import KeeperReceiver
from trainingservice.kubernetes_base import mirror, pod_logs
from trainingservice.kubernetes_base.config import StorageSettings
from trainingservice.testing.bench import Bench
from trainingservice.trial_job_status import TrialJobStatus

REPORT = """
import nni
nni.get_next_parameter()
for number in range(50):
    nni.report_intermediate_result(number / 10)
nni.report_final_result(7)
print("done, grün")
"""


@pytest.fixture(params=[
    pytest.param((JobsUnderTest, [], {}), id="kubernetes"),
    pytest.param((KubeflowUnderTest, kubeflow_controllers(), KUBEFLOW_KINDS), id="kubeflow", marks=pytest.mark.slow),
    pytest.param((FrameworksUnderTest, [FrameworkController()], FRAMEWORK_KINDS), id="frameworkcontroller")])
def bench(request, tmp_path, monkeypatch):
    monkeypatch.setattr(mirror, "PAUSES", (0.1, 1.0))
    monkeypatch.setattr(pod_logs, "LOOK_EVERY", 0.3)
    monkeypatch.setattr(pod_logs, "LINGER", 3)
    under_test, controllers, kinds = request.param
    storage = tmp_path / "storage"
    storage.mkdir()
    with KubernetesApiDouble(tmp_path / "cluster", controllers=controllers, kinds=kinds) as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        cluster.node.storages["persistentVolumeClaim", "claim"] = storage
        bench = Bench(under_test(tmp_path / "platform", cluster), receiver, tmp_path)
        bench.platform.more = {"way_home": "log", "storage": StorageSettings(
            storage_type="pvc", claim_name="claim", local_mount_point=str(storage))}
        yield bench
        bench.close()


def test_reports_come_home_by_the_pods_log(bench) -> None:
    service = bench.open_service()
    form = bench.form(script=REPORT)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    values = [json.loads(entry["value"]) for entry in bench.entries(form, "metric")]
    assert values == [number / 10 for number in range(50)] + [7]
    assert bench.output(form) == "done, grün\n"
    assert [entry["n"] for entry in bench.entries(form)] == list(range(1, len(bench.entries(form)) + 1))


def test_neither_token_nor_address_of_the_server_reach_the_pod(bench) -> None:
    service = bench.open_service()
    form = bench.form("env; cat $NNI_KEEPER_TOKEN_FILE; true")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    everything = json.dumps([bench.platform.cluster.store.all(plural) for plural in ("secrets", "pods")])
    assert form.keeper.token not in everything
    assert form.keeper.urls[0] not in bench.output(form)


def test_a_running_trial_can_be_canceled(bench) -> None:
    service = bench.open_service()
    form = bench.form("echo here; sleep 120")
    service.submit_trial_job(form)
    bench.wait("its output is read", lambda: bench.output(form))
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)


def test_without_a_storage_the_code_cannot_come(bench) -> None:
    bench.platform.more = {"way_home": "log"}
    service = bench.open_service()
    form = bench.form("true")
    try:
        service.submit_trial_job(form)
        sentence = bench.wait_for_status(service, form, TrialJobStatus.FAILED).message
    except PermanentError as refusal:
        sentence = str(refusal)
    assert "localMountPoint" in sentence
