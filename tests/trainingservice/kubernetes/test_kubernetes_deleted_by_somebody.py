"""An object that somebody else deletes takes all of its trial along, and the trial says what happened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers
from tests.fakes.kubernetes.under_test import FrameworksUnderTest, JobsUnderTest, KubeflowUnderTest
from trainingservice.kubernetes_base import belongings
from trainingservice.kubernetes_base.config import StorageSettings
from trainingservice.receiver.keeper_receiver import KeeperReceiver
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


def test_a_keeper_that_somebody_deletes_is_made_again_and_the_pods_that_wait_for_it_go_on(bench, cluster,
                                                                                        monkeypatch) -> None:
    monkeypatch.setattr(belongings, "BELIEVED", 0.2)
    service = bench.open_service()
    cluster.controllers.paused.add("jobs")
    form = bench.form("echo worked")
    service.submit_trial_job(form)
    bench.wait("it is submitted", lambda: cluster.store.all("jobs"))
    [config_map] = cluster.store.all("configmaps")
    cluster.store.remove("configmaps", "default", config_map["metadata"]["name"])
    cluster.controllers.paused.clear()
    bench.wait_for_end(service, form)
    assert bench.output(form) == "worked\n"
    assert [item["metadata"]["name"] for item in cluster.store.all("configmaps")] == [config_map["metadata"]["name"]]


def test_the_key_of_an_azure_account_goes_with_the_last_experiment(bench, cluster, tmp_path) -> None:
    (tmp_path / "share").mkdir()
    cluster.node.storages["azureFile", "share"] = tmp_path / "share"
    bench.platform.more = {"storage": StorageSettings.model_validate({
        "storageType": "azureStorage", "azureAccount": "account", "azureShare": "share", "azureAccountKey": "key"})}
    service = bench.open_service()
    go = bench.witness / "go"
    form, other = bench.form("true"), replace(bench.form(f'until [ -e "{go}" ]; do sleep 0.05; done'),
                                              experiment_id="another1", code=None)

    def keys() -> list[str]:
        return [name for item in cluster.store.all("secrets")
                if (name := item["metadata"]["name"]).startswith(belongings.AZURE_SECRET_PREFIX)]

    for job in (form, other):
        service.submit_trial_job(job)
    bench.wait_for_end(service, form)
    service.clean_up_experiment(form.experiment_id)
    assert keys(), "the other experiment still needs it"
    go.touch()
    bench.wait_for_end(service, other)
    service.clean_up_experiment(other.experiment_id)
    assert keys() == []
