"""Labels, annotations, tolerations, priority classes, service accounts and queues, on every kind of the family."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.kubernetes.adaptdl import ADAPTDL_KINDS, AdaptDlScheduler
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.kubeflow import (
    KUBEFLOW_KINDS,
    MPI_KINDS,
    TRAINER_KINDS,
    TrainJobController,
    kubeflow_controllers,
    mpi_controllers,
)
from tests.fakes.kubernetes.kueue import KUEUE_KINDS, Kueue
from tests.fakes.kubernetes.under_test import (
    AdlUnderTest,
    FrameworksUnderTest,
    JobsUnderTest,
    KubeflowUnderTest,
    OnKubernetes,
)
from trainingservice.base import ServiceContext
from trainingservice.kubernetes.config import JobClusterSettings, JobTrialOptions
from trainingservice.kubernetes.service import KubernetesTrainingService
from trainingservice.kubernetes_base.config import RoleSettings
from trainingservice.kubernetes_scheduling.fields import OfAllTrials
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench
from trainingservice.trial_job_status import TrialJobStatus

HINTS: dict[str, Any] = {
    "labels": {"team": "vision", "nni": "search"}, "annotations": {"lab.example/cost": "17 €\n\"quoted\" $(id)"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, {"key": "spot", "value": "yes"}],
    "serviceAccountName": "trainer", "imagePullSecrets": [{"name": "lab-registry"}]}
ROLE = {"dockerImage": "example/trial:1"}


class PyTorchUnderTest(KubeflowUnderTest):
    operator = "pytorch-operator"


class MpiUnderTest(KubeflowUnderTest):
    operator = "mpi-operator"


#: Kind -> what is tested, its kinds and controllers, plural of its objects, and what the file says of its roles.
FAMILY: dict[str, tuple[type[OnKubernetes], dict[str, Any], Any, str, dict[str, Any]]] = {
    "Job": (JobsUnderTest, {}, list, "jobs", {"worker": ROLE}),
    "TFJob": (KubeflowUnderTest, KUBEFLOW_KINDS, kubeflow_controllers, "tfjobs", {"worker": ROLE}),
    "PyTorchJob": (PyTorchUnderTest, KUBEFLOW_KINDS, kubeflow_controllers, "pytorchjobs", {"master": ROLE}),
    "MPIJob": (MpiUnderTest, MPI_KINDS, mpi_controllers, "mpijobs", {"launcher": ROLE, "worker": ROLE}),
    "TrainJob": (PyTorchUnderTest, TRAINER_KINDS, lambda: [TrainJobController()], "trainjobs", {"master": ROLE}),
    "Framework": (FrameworksUnderTest, FRAMEWORK_KINDS, lambda: [FrameworkController()], "frameworks",
                  {"taskRoles": [{"name": "worker", **ROLE}]}),
    "AdaptDLJob": (AdlUnderTest, ADAPTDL_KINDS, lambda: [AdaptDlScheduler()], "adaptdljobs", {}),
}


@pytest.fixture
def family(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Bench, KubernetesApiDouble, str]]:
    under_test, kinds, controllers, plural, roles = FAMILY[request.param]
    with KubernetesApiDouble(tmp_path / "cluster", kinds={**kinds, **KUEUE_KINDS},
                             controllers=controllers()) as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        cluster.controllers.admission.service_accounts.add("trainer")
        cluster.controllers.admission.priority_classes.add("low")
        cluster.node.image_commands = {"example/trial:1": ["sleep", "600"]}  # what an MPI worker runs
        bench = Bench(under_test(tmp_path / "platform", cluster), receiver, tmp_path)
        bench.platform.roles = {**roles}
        yield bench, cluster, plural
        bench.close()


all_kinds = pytest.mark.parametrize("family", FAMILY, indirect=True)


@all_kinds
def test_pods_have_what_the_file_and_the_cluster_say_and_the_trial_runs(family) -> None:
    bench, cluster, plural = family
    has_priority = plural != "trainjobs"
    bench.platform.roles |= {**HINTS, **({"priorityClassName": "low"} if has_priority else {})}
    bench.platform.more = {"for_all_trials": OfAllTrials.model_validate({
        "labels": {"cost-center": "42"}, "annotations": {"lab.example/all": "yes"},
        "tolerations": [{"key": "spot", "value": "yes"}, {"key": "lab", "operator": "Exists"}]})}
    service = bench.open_service()
    form = bench.form("echo here; sleep 600")
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    [item] = cluster.store.all(plural)
    pods = cluster.store.all("pods")
    assert pods
    for metadata in (item["metadata"], *(pod["metadata"] for pod in pods)):
        assert {"team": "vision", "nni": "search", "cost-center": "42"}.items() <= metadata["labels"].items()
        assert metadata["labels"]["nniweb/trial"] == form.job_name
        assert {**HINTS["annotations"], "lab.example/all": "yes"}.items() <= metadata["annotations"].items()
    for pod in pods:
        spec = pod["spec"]
        assert spec["serviceAccountName"] == "trainer"
        assert spec["imagePullSecrets"] == [{"name": "lab-registry"}]
        assert spec["tolerations"] == [
            {"key": "spot", "operator": "Equal", "value": "yes"}, {"key": "lab", "operator": "Exists"},
            {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
        assert spec.get("priorityClassName") == ("low" if has_priority else None)
    service.cancel_trial_job(form.job_name)
    bench.wait("it is gone", lambda: not cluster.store.all("pods"))


@all_kinds
def test_a_trial_waits_until_kueue_admits_it(family) -> None:
    bench, cluster, plural = family
    kueue = Kueue(cluster, "team-a")
    held = "pods" if plural in ("frameworks", "adaptdljobs") else plural
    bench.platform.roles |= {"kueueQueueName": "team-a"}
    service = bench.open_service()
    form = bench.form("echo here; sleep 600")
    service.submit_trial_job(form)
    said = r"SchedulingGated" if held == "pods" else r"waits in Kueue's queue team-a\. Kueue starts it"
    bench.wait("it waits and says for what",
               lambda: re.search(said, service.get_trial_job(form.job_name).message or ""))
    assert service.get_trial_job(form.job_name).status is TrialJobStatus.WAITING
    assert not bench.output(form)
    assert kueue.waiting(held)
    kueue.admit(held)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    service.cancel_trial_job(form.job_name)
    bench.wait("it is gone", lambda: not cluster.store.all("pods"))


@pytest.mark.parametrize("family", [kind for kind in FAMILY if kind not in ("Framework", "AdaptDLJob")], indirect=True)
def test_a_trial_of_a_queue_never_starts_by_itself_where_kueue_has_no_webhook(family) -> None:
    bench, cluster, plural = family
    bench.platform.roles |= {"kueueQueueName": "team-a"}
    service = bench.open_service()
    form = bench.form("echo here")
    service.submit_trial_job(form)
    bench.wait("it is there", lambda: cluster.store.all(plural))
    bench.wait("it is seen as suspended", lambda: service.get_trial_job(form.job_name).suspended)
    assert cluster.store.all("pods") == []
    service.cancel_trial_job(form.job_name)
    bench.wait("it is gone", lambda: not cluster.store.all(plural))


@pytest.mark.parametrize("family", ["Job", "TFJob", "PyTorchJob"], indirect=True)
def test_a_priority_class_that_is_not_there_is_the_reason_of_a_trial_that_waits(family, monkeypatch) -> None:
    bench, cluster, _ = family
    monkeypatch.setattr("trainingservice.kubernetes_base.complaints.PATIENCE", 0.0)
    monkeypatch.setattr("trainingservice.kubernetes_base.complaints.ASK_EVERY", 0.2)
    bench.platform.roles |= {"priorityClassName": "golden"}
    service = bench.open_service()
    form = bench.form("echo here")
    service.submit_trial_job(form)
    bench.wait("the reason is told", lambda: "no PriorityClass with name golden was found" in (
        service.get_trial_job(form.job_name).message or ""))
    service.cancel_trial_job(form.job_name)


def test_pods_of_a_framework_are_admitted_together(tmp_path) -> None:
    with KubernetesApiDouble(tmp_path / "cluster", kinds={**FRAMEWORK_KINDS, **KUEUE_KINDS},
                             controllers=[FrameworkController()]) as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        Kueue(cluster, "team-a")
        bench = Bench(FrameworksUnderTest(tmp_path / "platform", cluster), receiver, tmp_path)
        bench.platform.roles = {"kueueQueueName": "team-a", "taskRoles": [{"name": "worker", "taskNumber": 2, **ROLE}]}
        service = bench.open_service()
        form = bench.form("true")
        service.submit_trial_job(form)
        bench.wait("both pods are there", lambda: len(cluster.store.all("pods")) == 2)
        for pod in cluster.store.all("pods"):
            assert pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] == f"nni{form.job_name}"
            assert pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "2"
        service.cancel_trial_job(form.job_name)
        bench.close()


@pytest.mark.parametrize(("asked", "check", "said"), [
    ({"service_account_name": "nobody"}, "service_account", "Namespace default has no serviceaccounts/nobody"),
    ({"priority_class_name": "golden"}, "priority_class", "The cluster has no priorityclasses/golden"),
    ({"image_pull_secrets": [{"name": "none"}]}, "registry", "Namespace default has no secrets/none"),
    ({"kueue_queue_name": "team-b"}, "queue", "Namespace default has no localqueues/team-b"),
    ({"kueue_queue_name": "team-a"}, "queue", ""),
])
def test_the_check_before_a_launch_names_what_is_missing(tmp_path, asked, check, said) -> None:
    with KubernetesApiDouble(tmp_path / "cluster", kinds=KUEUE_KINDS) as cluster:
        Kueue(cluster, "team-a")
        service = _service(tmp_path, cluster)
        findings = service.rehearse(quick=True, options=JobTrialOptions.model_validate(asked))
        found = [finding for finding in findings if finding.check == check]
        assert [finding.ok for finding in found] == [not said]
        assert said in found[0].message


def test_without_kueue_a_queue_is_refused_before_the_launch(tmp_path) -> None:
    with KubernetesApiDouble(tmp_path / "cluster") as cluster:
        findings = _service(tmp_path, cluster).rehearse(quick=True, options=JobTrialOptions(kueue_queue_name="team-a"))
        [found] = [finding for finding in findings if finding.check == "queue"]
        assert found.blocks
        assert "The cluster has no Kueue" in found.message


def test_a_cluster_that_drops_suspend_runs_nothing_beside_the_queue(tmp_path) -> None:
    with KubernetesApiDouble(tmp_path / "cluster") as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        cluster.unknown_of_jobs = {"suspend"}
        bench = Bench(JobsUnderTest(tmp_path / "platform", cluster), receiver, tmp_path)
        bench.platform.roles = {"kueue_queue_name": "team-a", "worker": RoleSettings(docker_image="example/trial:1")}
        service = bench.open_service()
        form = bench.form("echo here")
        service.submit_trial_job(form)
        bench.wait("it is refused", lambda: "kueueQueueName and the field suspend" in (
            service.get_trial_job(form.job_name).message or ""))
        bench.wait("nothing is left", lambda: not cluster.store.all("jobs") and not cluster.store.all("pods"))
        bench.close()


def _service(folder: Path, cluster: KubernetesApiDouble) -> Any:
    return KubernetesTrainingService(JobClusterSettings(kubeconfig=cluster.kubeconfig),
                                     ServiceContext("c1", folder / "state"))
