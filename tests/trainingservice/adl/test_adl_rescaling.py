"""AdaptDL stops a trial and starts it again with another number of replicas: its reports are those of one trial."""

from __future__ import annotations

import pytest

from trainingservice.kubernetes_base import pod_logs
from trainingservice.kubernetes_base import service as kubernetes_service
from trainingservice.kubernetes_base.config import StorageSettings
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Goes on from its checkpoint, as AdaptDL's own library has trials do: saved when it is told to end, by rank 0.
SCRIPT = """
import os, signal, sys, time
import nni
nni.get_next_parameter()
rank, checkpoint = os.environ["ADAPTDL_REPLICA_RANK"], os.environ["ADAPTDL_CHECKPOINT_PATH"] + "/epoch"
def save(*_):
    if rank == "0":
        open(checkpoint, "w").write(str(epoch))
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
epoch = int(open(checkpoint).read()) if os.path.exists(checkpoint) else 0
replicas = os.environ["ADAPTDL_NUM_REPLICAS"]
print("from epoch", epoch, "with", replicas, flush=True)
for epoch in range(epoch + 1, epoch + 3):
    nni.report_intermediate_result(epoch)
while not os.path.exists("GO"):
    time.sleep(0.02)
nni.report_final_result(epoch)
"""


@pytest.fixture
def trial(bench, tmp_path):
    """A running trial that AdaptDL may rescale: (service, form, the file that lets it end)."""
    bench.platform.roles = {"adaptive": True}
    service, go = bench.open_service(), tmp_path / "go"
    form = bench.form(script=SCRIPT.replace("GO", str(go)))
    service.submit_trial_job(form)
    bench.wait("it has reported", lambda: len(bench.entries(form, contract.METRIC)) == 2)
    return service, form, go


@pytest.fixture
def settles_soon(monkeypatch):
    """How a trial ended is not waited for as long as elsewhere."""
    monkeypatch.setattr(kubernetes_service, "SETTLE", 0.5)


def results(bench, form):
    return [(entry["kind"], entry["sequence"], entry["value"]) for entry in bench.entries(form, contract.METRIC)]


def groups(cluster) -> set[tuple[str, str]]:
    return {(pod["metadata"]["annotations"]["adaptdl/group"], pod["metadata"]["annotations"]["adaptdl/rank"])
            for pod in cluster.store.all("pods")}


def test_a_rescaled_trial_goes_on_with_its_numbers_and_no_other_replica_reports(bench, cluster, scheduler, trial):
    service, form, go = trial
    scheduler.allocations[""] = 3
    bench.wait("three replicas run", lambda: groups(cluster) == {("1", "0"), ("1", "1"), ("1", "2")})
    bench.wait("the second run has reported", lambda: len(bench.entries(form, contract.METRIC)) == 4)
    scheduler.allocations[""] = 2
    bench.wait("the third run has reported", lambda: len(bench.entries(form, contract.METRIC)) == 6)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    go.touch()
    detail = bench.wait_for_status(service, form, TrialJobStatus.SUCCEEDED)
    bench.wait("it has reported all", lambda: bench.entries(form)[-1]["type"] == contract.ENDED)
    assert detail.exit_code == 0
    assert results(bench, form) == [("PERIODICAL", number, str(number + 1)) for number in range(6)] \
        + [("FINAL", 0, "6")]
    assert bench.output(form) == "from epoch 0 with 1\nfrom epoch 2 with 3\nfrom epoch 4 with 2\n"
    ends = [(entry["reason"], entry["exit_code"]) for entry in bench.entries(form, contract.ENDED)]
    assert ends == [("stopped", 143), ("stopped", 143), ("exited", 0)]


def test_a_trial_without_nodes_waits_and_says_that_it_goes_on(bench, cluster, scheduler, trial):
    service, form, go = trial
    scheduler.allocations[""] = 0
    bench.wait("it waits", lambda: service.get_trial_job(form.job_name).interrupted
               and not cluster.store.all("pods"))
    bench.wait("AdaptDL has stopped it", lambda: "goes on from its checkpoint" in service.get_trial_job(
        form.job_name).message)
    detail = service.get_trial_job(form.job_name)
    assert (detail.status, detail.message.code) == (TrialJobStatus.WAITING, "platform_requeued")
    scheduler.allocations[""] = 1
    bench.wait("it goes on", lambda: len(bench.entries(form, contract.METRIC)) == 4)
    bench.wait("it is shown", lambda: service.get_trial_job(form.job_name).status is TrialJobStatus.RUNNING)
    go.touch()
    bench.wait_for_status(service, form, TrialJobStatus.SUCCEEDED)


def test_what_is_reported_while_the_server_is_away_comes_with_the_next_run(bench, cluster, scheduler, trial):
    service, form, go = trial
    bench.server.close()
    try:
        scheduler.allocations[""] = 2
        bench.wait("two replicas run", lambda: groups(cluster) == {("1", "0"), ("1", "1")}, 60.0)
    finally:
        bench.server.start()
    bench.wait("the second run has reported", lambda: len(bench.entries(form, contract.METRIC)) == 4)
    go.touch()
    bench.wait_for_status(service, form, TrialJobStatus.SUCCEEDED)
    bench.wait("it has reported all", lambda: bench.entries(form)[-1]["type"] == contract.ENDED)
    assert [number for _, number, _ in results(bench, form)] == [0, 1, 2, 3, 0]


def test_a_trial_can_be_canceled_between_two_runs(bench, cluster, scheduler, trial):
    service, form, _ = trial
    scheduler.allocations[""] = 0
    bench.wait("it waits", lambda: service.get_trial_job(form.job_name).interrupted
               and not cluster.store.all("pods"))
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)
    bench.wait("nothing is left", lambda: not cluster.store.all("persistentvolumeclaims"))


def test_a_job_that_fails_in_its_second_run_says_why(bench, cluster, scheduler, settles_soon, trial):
    """And not what the keeper of the first run has left."""
    service, form, _ = trial
    cluster.controllers.no_pods_because = "pods is forbidden: exceeded quota: small"
    scheduler.allocations[""] = 2
    detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert detail.message == ("The API server refused a pod of the trial: pods is forbidden: exceeded quota: small.")
    assert detail.message.code == "platform_quota"


def test_a_pod_of_an_earlier_run_that_the_watch_still_shows_does_not_say_how_the_job_ended(
        bench, cluster, scheduler, settles_soon, trial, monkeypatch):
    """The two watches are not in step: the job may have ended before the deletion of its first pods is heard."""
    service, form, _ = trial
    take = service._pod_index.take
    monkeypatch.setattr(service._pod_index, "take", lambda name, pod: "" if pod is None else take(name, pod))
    cluster.controllers.no_pods_because = "pods is forbidden: exceeded quota: small"
    scheduler.allocations[""] = 2
    detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert detail.message.code == "platform_quota"


def test_a_job_that_is_not_adaptive_keeps_its_nodes(bench, cluster, scheduler):
    service = bench.open_service()
    form = bench.form("sleep 600")
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    scheduler.allocations[""] = 3
    cluster.store.compact()
    assert groups(cluster) == {("0", "0")}
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)


@pytest.mark.slow
def test_reports_that_are_read_from_pods_logs_are_one_trials_too(bench, cluster, scheduler, tmp_path, monkeypatch):
    monkeypatch.setattr(pod_logs, "LOOK_EVERY", 0.2)
    monkeypatch.setattr(pod_logs, "LINGER", 3)
    monkeypatch.setattr(pod_logs, "LINGER_STOPPED", 3)
    storage = tmp_path / "storage"
    storage.mkdir()
    cluster.node.storages["persistentVolumeClaim", "claim"] = storage
    bench.platform.more = {"way_home": "log", "storage": StorageSettings(
        storage_type="pvc", claim_name="claim", local_mount_point=str(storage))}
    bench.platform.roles = {"adaptive": True}
    service, go = bench.open_service(), tmp_path / "go"
    form = bench.form(script=SCRIPT.replace("GO", str(go)))
    service.submit_trial_job(form)
    bench.wait("it has reported", lambda: len(bench.entries(form, contract.METRIC)) == 2)
    scheduler.allocations[""] = 2
    bench.wait("the second run has reported", lambda: len(bench.entries(form, contract.METRIC)) == 4)
    scheduler.allocations[""] = 3
    bench.wait("the third run has reported", lambda: len(bench.entries(form, contract.METRIC)) == 6)
    go.touch()
    bench.wait("it has reported all", lambda: results(bench, form)[-1] == ("FINAL", 0, "6"))
    bench.wait_for_status(service, form, TrialJobStatus.SUCCEEDED)
    assert [number for _, number, _ in results(bench, form)] == [0, 1, 2, 3, 4, 5, 0]
