"""Trials of several roles: who reports, who hears a stop, and what does not fit an operator."""

from __future__ import annotations

import copy
import json

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.kubeflow import (
    KUBEFLOW_KINDS,
    MPI_KINDS,
    TRAINER_KINDS,
    TrainJobController,
    kubeflow_controllers,
    mpi_controllers,
)
from tests.fakes.kubernetes.under_test import KubeflowUnderTest
from trainingservice.kubernetes_base.config import RoleSettings
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench
from trainingservice.trial_job_status import TrialJobStatus


def role(command: str | None = None, **more) -> RoleSettings:
    return RoleSettings(docker_image="example/trial:1", command=command, **more)


@pytest.fixture
def make_bench(tmp_path):
    """Makes a bench for an operator on a cluster that has everything but what ``kinds`` leaves out."""
    opened = []

    def make(operator: str, roles: dict, kinds: dict | None = None) -> Bench:
        cluster = KubernetesApiDouble(
            tmp_path / "cluster", kinds=KUBEFLOW_KINDS | MPI_KINDS if kinds is None else kinds,
            controllers=[*kubeflow_controllers(), *mpi_controllers(), TrainJobController()]).__enter__()
        receiver = KeeperReceiver(installation="test", folder=tmp_path / "receiver").start()
        platform = KubeflowUnderTest(tmp_path / "platform", cluster)
        platform.operator, platform.roles = operator, roles
        bench = Bench(platform, receiver, tmp_path)
        opened.append((bench, cluster, receiver))
        return bench

    yield make
    for bench, cluster, receiver in opened:
        bench.close()
        cluster.__exit__()
        receiver.close()


def pods_of(bench) -> dict[str, dict]:
    return {pod["metadata"]["name"].partition("-")[2]: pod for pod in bench.platform.cluster.store.all("pods")}


def test_the_first_worker_reports_and_the_servers_go_when_it_has_ended(make_bench) -> None:
    bench = make_bench("tf-operator", {
        "worker": role('echo "$TF_CONFIG"', replicas=2), "ps": role("sleep 600")})
    service = bench.open_service()
    form = bench.form("not used")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    environment = json.loads(bench.output(form))
    assert environment["task"] == {"type": "worker", "index": 0}
    assert {name: len(addresses) for name, addresses in environment["cluster"].items()} == {"ps": 1, "worker": 2}
    assert len(bench.entries(form, "started")) == 1
    bench.wait("the parameter server is gone", lambda: "ps-0" not in pods_of(bench))


def test_the_chief_reports_where_there_is_one(make_bench) -> None:
    bench = make_bench("tf-operator", {"chief": role("echo chief"), "worker": role("sleep 600")})
    service = bench.open_service()
    form = bench.form("not used")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "chief\n"


def test_the_master_of_pytorch_reports_and_all_replicas_hear_a_stop(make_bench) -> None:
    bench = make_bench("pytorch-operator", {
        "master": role('echo "$RANK of $WORLD_SIZE"; sleep 600'), "worker": role("sleep 600", replicas=2)})
    service = bench.open_service()
    form = bench.form("not used")
    service.submit_trial_job(form)
    bench.wait("the master's output comes", lambda: bench.output(form))
    assert bench.output(form) == "0 of 3\n"
    bench.wait("all run", lambda: len([pod for pod in pods_of(bench).values()
                                       if pod["status"]["phase"] == "Running"]) == 3)
    bench.server.order_stop(form.job_name, "the experiment was stopped")
    bench.wait("the trial has ended", lambda: service.get_trial_job(form.job_name).status.is_end)
    bench.wait("no process of any replica is left", lambda: not bench.trial_processes(form))
    assert [entry["reason"] for entry in bench.entries(form, "ended")] == ["stopped"]


def test_a_replica_that_fails_is_the_trials_failure_and_is_named(make_bench) -> None:
    bench = make_bench("pytorch-operator", {"master": role("sleep 600"), "worker": role("exit 5")})
    service = bench.open_service()
    form = bench.form("not used")
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert "worker-0 ended with exit code 5" in detail.message
    assert "1 Worker replica(s) failed" in detail.message


def test_the_launcher_of_mpi_reports_and_its_workers_run_what_the_operator_wants(make_bench) -> None:
    bench = make_bench("mpi-operator", {"launcher": role("echo launched"), "worker": role(replicas=2)})
    bench.platform.cluster.node.image_commands = {"example/trial:1": ["sleep", "600"]}
    service = bench.open_service()
    form = bench.form("not used")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "launched\n"
    [job] = bench.platform.cluster.store.all("mpijobs")
    [worker] = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert "command" not in worker


def test_master_and_equal_workers_become_the_nodes_of_one_train_job(make_bench) -> None:
    same = role('echo "$PET_NODE_RANK of $PET_NNODES"')
    bench = make_bench("pytorch-operator", {"master": same, "worker": same.model_copy(update={"replicas": 2})},
                       TRAINER_KINDS)
    service = bench.open_service()
    form = bench.form("not used")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "0 of 3\n"


def test_a_train_job_without_its_runtime_waits_and_says_so(make_bench) -> None:
    bench = make_bench("pytorch-operator", {"master": role(), "runtime": "no-such-runtime"}, TRAINER_KINDS)
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("it says so", lambda: "runtime does not exist" in service.get_trial_job(form.job_name).message)
    assert service.get_trial_job(form.job_name).status is TrialJobStatus.WAITING


def test_a_trainer_that_is_too_old_drops_what_a_trial_needs_and_that_is_noticed(make_bench) -> None:
    bench = make_bench("pytorch-operator", {"master": role()}, TRAINER_KINDS)
    cluster = bench.platform.cluster
    old = copy.deepcopy(cluster.schemas["trainjobs"])
    del old["properties"]["spec"]["properties"]["runtimePatches"], old["properties"]["spec"]["strict"]
    cluster.schemas["trainjobs"] = old
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert "older than 2.2" in detail.message
    assert [cluster.store.all(plural) for plural in ("trainjobs", "secrets")] == [[], []]


@pytest.mark.parametrize(("operator", "roles", "kinds", "sentence"), [
    ("tf-operator", {"master": role()}, None, "tf-operator has no role master"),
    ("tf-operator", {"ps": role()}, None, "needs the role worker"),
    ("pytorch-operator", {"worker": role()}, None, "needs the role master"),
    ("pytorch-operator", {"master": role(replicas=2)}, None, "exactly one master, not 2"),
    ("pytorch-operator", {"master": role("a"), "worker": role("b")}, TRAINER_KINDS, "all nodes of its TrainJobs are"),
    ("tf-operator", {"worker": role()}, TRAINER_KINDS, "no runtime for TensorFlow"),
    ("tf-operator", {"worker": role()}, {}, "does not know tfjobs of kubeflow.org/v1"),
], ids=["no master", "no worker", "no master of pytorch", "two masters", "nodes differ", "tensorflow", "nothing"])
def test_what_does_not_fit_the_cluster_is_said_before_the_launch(make_bench, operator, roles, kinds, sentence) -> None:
    bench = make_bench(operator, roles, kinds)
    service = bench.platform.new_service(bench.context())
    findings = service.rehearse(quick=True, options=bench.platform.options())
    service.clean_up()
    [finding] = [finding for finding in findings if finding.blocks]
    assert sentence in finding.message
