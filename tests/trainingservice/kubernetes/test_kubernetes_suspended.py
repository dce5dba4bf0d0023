"""A job that somebody suspends while it runs waits with the reason, and runs anew when it is resumed."""

from __future__ import annotations

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers
from tests.fakes.kubernetes.under_test import JobsUnderTest, KubeflowUnderTest
from trainingservice.kubeflow.replicated_job import TFJobKind
from trainingservice.kubeflow.train_job import TrainJobKind
from trainingservice.kubernetes.job import JobKind
from trainingservice.kubernetes_base.kind import Phase
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench
from trainingservice.trial_job_status import TrialJobStatus


def suspend(cluster: KubernetesApiDouble, plural: str, value: bool) -> None:
    def change(item: dict) -> None:
        (item["spec"] if plural == "jobs" else item["spec"]["runPolicy"])["suspend"] = value

    [item] = cluster.store.all(plural)
    cluster.store.change(plural, "default", item["metadata"]["name"], change)


@pytest.mark.parametrize(("under_test", "plural"), [(JobsUnderTest, "jobs"), (KubeflowUnderTest, "tfjobs")])
def test_a_running_trial_that_is_suspended_waits_and_runs_anew_when_it_is_resumed(tmp_path, under_test, plural) -> None:
    with KubernetesApiDouble(tmp_path / "cluster", kinds=KUBEFLOW_KINDS,
                             controllers=kubeflow_controllers()) as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(under_test(tmp_path / "platform", cluster), receiver, tmp_path)
        service = bench.open_service()
        form = bench.form("echo here; sleep 600")
        service.submit_trial_job(form)
        bench.wait("it runs", lambda: bench.output(form))
        bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
        suspend(cluster, plural, True)
        bench.wait("it is seen as suspended", lambda: service.get_trial_job(form.job_name).suspended)
        detail = service.get_trial_job(form.job_name)
        assert (detail.status, detail.start_time) == (TrialJobStatus.WAITING, None)
        assert "is suspended. It starts when somebody resumes it" in detail.message
        bench.wait("its pods are gone", lambda: cluster.store.all("pods") == [])
        suspend(cluster, plural, False)
        bench.wait("a pod is made again", lambda: cluster.store.all("pods"))
        bench.wait("it is not suspended any more", lambda: not service.get_trial_job(form.job_name).suspended)
        service.cancel_trial_job(form.job_name)
        bench.wait("its pods are gone", lambda: cluster.store.all("pods") == [])
        bench.close()


@pytest.mark.parametrize(("kind", "spec"), [
    (JobKind(), {"suspend": True}), (TFJobKind("v1"), {"runPolicy": {"suspend": True}}),
    (TrainJobKind(), {"suspend": True})], ids=["Job", "TFJob", "TrainJob"])
def test_a_job_is_suspended_from_the_moment_in_which_its_spec_says_so(kind, spec) -> None:
    running = {"conditions": [{"type": "Running", "status": "True"}], "jobsStatus": [{"ready": 1}], "active": 1}
    seen = kind.see({"spec": spec, "status": running}, "worker")
    assert (seen.phase, seen.suspended) == (Phase.WAITING, True)
    assert not kind.see({"spec": {}, "status": running}, "worker").suspended
