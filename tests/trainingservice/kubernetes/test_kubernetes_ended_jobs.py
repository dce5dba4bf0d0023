"""Ended trials whose objects are removed: with pods and Secrets, unless something still runs or was told to nobody."""

from __future__ import annotations

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers
from tests.fakes.kubernetes.under_test import FrameworksUnderTest, JobsUnderTest, KubeflowUnderTest
from trainingservice.base import RemovedJobs
from trainingservice.errors import TemporaryError
from trainingservice.kubernetes_base import service as service_module
from trainingservice.kubernetes_base.config import RoleSettings
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench


def pods_are_over(cluster: KubernetesApiDouble) -> bool:
    return all(pod["status"].get("phase") in ("Succeeded", "Failed") for pod in cluster.store.all("pods"))


@pytest.mark.parametrize(("under_test", "plural"), [
    (JobsUnderTest, "jobs"), (KubeflowUnderTest, "tfjobs"), (FrameworksUnderTest, "frameworks")])
def test_another_object_removes_what_an_earlier_one_left(tmp_path, under_test, plural: str) -> None:
    with KubernetesApiDouble(tmp_path / "cluster", kinds={**KUBEFLOW_KINDS, **FRAMEWORK_KINDS},
                             controllers=[*kubeflow_controllers(), FrameworkController()]) as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(under_test(tmp_path / "platform", cluster), receiver, tmp_path)
        service = bench.open_service()
        ended, other = bench.form("true"), bench.form("true")
        for form in (ended, other):
            service.submit_trial_job(form)
            bench.wait_for_end(service, form)
        bench.close_service(service)
        service = bench.open_service()
        bench.wait("its pods are over", lambda: pods_are_over(cluster))
        names = [ended.job_name]

        def removed() -> RemovedJobs | None:
            try:
                return service.remove_ended_jobs(names, keep_unsaved=True)
            except TemporaryError:  # the watch has not told the end of the pod
                return None

        assert bench.wait("its pod's end is known", removed) == RemovedJobs(removed=1)
        bench.wait("pods and Secret go with it", lambda: not any(
            ended.job_name in what for what in bench.platform.left_behind(bench.experiment)))
        assert [item["metadata"]["name"] for item in cluster.store.all(plural)] == [f"nni{other.job_name}"]
        bench.wait("it is known to be gone", lambda: service.remove_ended_jobs(names, keep_unsaved=True).removed == 0)
        bench.close()


def test_of_a_job_with_several_pods_the_logs_stay_unless_they_are_not_wanted(bench, cluster, platform) -> None:
    platform.roles = {"worker": RoleSettings(docker_image=platform.image, replicas=2)}
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    bench.wait("its pods are over", lambda: pods_are_over(cluster))

    def done(*, keep_unsaved: bool) -> RemovedJobs | None:
        try:
            return service.remove_ended_jobs([form.job_name], keep_unsaved=keep_unsaved)
        except TemporaryError:
            return None

    assert bench.wait("its pods' ends are known", lambda: done(keep_unsaved=True)) == RemovedJobs(left=1)
    assert len(cluster.store.all("pods")) == 2
    assert done(keep_unsaved=False) == RemovedJobs(removed=1)
    bench.wait("its pods are gone", lambda: not cluster.store.all("pods"))


def test_a_removal_that_takes_long_pauses_and_goes_on(bench, cluster, monkeypatch) -> None:
    monkeypatch.setattr(service_module, "REMOVE_FOR", -1.0)
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    bench.wait("its pods are over", lambda: pods_are_over(cluster))

    def is_paused() -> bool:
        try:
            return service.remove_ended_jobs([form.job_name], keep_unsaved=True) == RemovedJobs(is_through=False)
        except TemporaryError:
            return False

    bench.wait("it pauses", is_paused)
    monkeypatch.setattr(service_module, "REMOVE_FOR", 20.0)
    assert service.remove_ended_jobs([form.job_name], keep_unsaved=True) == RemovedJobs(removed=1)
