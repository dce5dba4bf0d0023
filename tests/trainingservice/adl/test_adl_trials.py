"""A trial's AdaptDLJob: what is made for it and goes with it, and what it says while it waits and when it fails."""

from __future__ import annotations

import pytest

from trainingservice.adl.config import Checkpoint, NfsVolume
from trainingservice.adl.job import AdaptDlKind
from trainingservice.base import RemovedJobs
from trainingservice.errors import TemporaryError
from trainingservice.kubernetes_base import api as kubernetes_api
from trainingservice.kubernetes_base.kind import Phase
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


def submit(bench, command: str = "sleep 600", **fields):
    service = bench.open_service()
    form = bench.form(command, **fields)
    service.submit_trial_job(form)
    return service, form


def only(cluster, plural: str):
    [item] = cluster.store.all(plural)
    return item


def test_each_trial_has_a_volume_that_goes_with_its_job(bench, cluster) -> None:
    bench.platform.roles = {"checkpoint": Checkpoint(storage_class="dfs", storage_size="5Gi")}
    service, form = submit(bench)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    job, claim = only(cluster, "adaptdljobs"), only(cluster, "persistentvolumeclaims")
    assert claim["spec"] == {"accessModes": ["ReadWriteMany"], "volumeMode": "Filesystem", "storageClassName": "dfs",
                             "resources": {"requests": {"storage": "5Gi"}}}
    assert [reference["uid"] for reference in claim["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)
    bench.wait("the volume is gone", lambda: not cluster.store.all("persistentvolumeclaims"))


def test_an_ended_trial_with_its_checkpoints_is_removed_only_where_that_is_asked_for(bench, cluster) -> None:
    service, form = submit(bench, "true")
    bench.wait_for_end(service, form)

    def done(*, keep_unsaved: bool) -> RemovedJobs | None:
        try:
            return service.remove_ended_jobs([form.job_name], keep_unsaved=keep_unsaved)
        except TemporaryError:  # the watch has not told the end of its pod
            return None

    assert bench.wait("its pod's end is known", lambda: done(keep_unsaved=True)) == RemovedJobs(left=1)
    assert only(cluster, "persistentvolumeclaims")
    assert done(keep_unsaved=False) == RemovedJobs(removed=1)
    bench.wait("the volume is gone", lambda: not cluster.store.all("persistentvolumeclaims"))


def test_a_volume_that_could_not_be_made_is_made_at_the_next_try(bench, cluster, monkeypatch) -> None:
    monkeypatch.setattr(kubernetes_api, "ROOM_AGAIN", 0.5)
    cluster.faults.append({"verb": "create", "path": "persistentvolumeclaims", "status": 403, "times": 1, "message":
                           "persistentvolumeclaims is forbidden: exceeded quota: small"})
    service, form = submit(bench, "true")
    bench.wait_for_end(service, form)
    assert len(cluster.store.all("adaptdljobs")) == 1


def test_a_trial_without_room_says_that_it_waits_for_nodes(bench, cluster, scheduler) -> None:
    scheduler.allocations[""] = 0
    service, form = submit(bench, "true")
    bench.wait("it says so", lambda: "has not given the job any nodes" in service.get_trial_job(form.job_name).message)
    detail = service.get_trial_job(form.job_name)
    assert (detail.status, detail.interrupted) == (TrialJobStatus.WAITING, False)
    scheduler.allocations[""] = 1
    bench.wait_for_end(service, form)


def test_a_pod_that_waits_for_its_image_says_so(bench, cluster) -> None:
    cluster.node.missing_images["example/trial:1"] = "no such image"
    service, form = submit(bench)
    bench.wait("it says so", lambda: "no such image" in service.get_trial_job(form.job_name).message)
    assert service.get_trial_job(form.job_name).message.code == "image_pull"
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)


def test_a_command_that_fails_fails_the_trial_with_its_exit_code(bench, cluster) -> None:
    bench.platform.roles = {"adaptive": True}
    service, form = submit(bench, "echo so it goes >&2; exit 3")
    detail = bench.wait_for_end(service, form, TrialJobStatus.FAILED)
    assert detail.exit_code == 3
    assert len(bench.entries(form, contract.STARTED)) == 1


def test_a_pod_that_runs_out_of_memory_fails_the_trial_and_says_so(bench, cluster) -> None:
    service, form = submit(bench)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    cluster.node.kill(only(cluster, "pods")["metadata"]["name"])
    detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert detail.message.code == "out_of_memory"


def test_a_job_that_somebody_deletes_is_gone_with_its_volume(bench, cluster) -> None:
    service, form = submit(bench)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    cluster.controllers.delete("adaptdljobs", "default", only(cluster, "adaptdljobs")["metadata"]["name"], "Background")
    detail = bench.wait_for_status(service, form, TrialJobStatus.SYS_CANCELED)
    assert "deleted" in detail.message
    bench.wait("the volume is gone", lambda: not cluster.store.all("persistentvolumeclaims"))


def test_a_command_runs_in_a_folder_of_the_image_and_nothing_is_sent(bench, cluster, tmp_path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "run.sh").write_text("echo from the image in $NNI_CODE_DIR")
    bench.platform.roles = {"code_directory_in_image": str(tmp_path / "image")}
    service, form = submit(bench, "sh run.sh")
    bench.wait_for_end(service, form)
    assert bench.output(form) == f"from the image in {tmp_path / 'image'}\n"


def test_the_object_says_what_the_options_do(bench, cluster) -> None:
    cluster.controllers.paused.add("adaptdljobs")
    bench.platform.roles = {
        "stop_grace_period": 30.0, "adaptive": True, "min_replicas": 2, "max_replicas": 8, "cpu_number": 2,
        "memory_size": 1024, "gpu_number": 1,
        "image_pull_secrets": ({"name": "staging"},),
        "nfs": NfsVolume(server="10.0.0.2", path="/export", container_mount_path="/nfs")}
    service, form = submit(bench)
    bench.wait("it is there", lambda: cluster.store.all("adaptdljobs"))
    spec = only(cluster, "adaptdljobs")["spec"]
    assert {name: spec[name] for name in ("preemptible", "minReplicas", "maxReplicas")} == {
        "preemptible": True, "minReplicas": 2, "maxReplicas": 8}
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert container["resources"] == {"requests": {"memory": "1024Mi", "cpu": "2", "nvidia.com/gpu": "1"},
                                      "limits": {"nvidia.com/gpu": "1"}}
    assert pod["imagePullSecrets"] == [{"name": "staging"}]
    assert {"name": "nni-nfs", "nfs": {"server": "10.0.0.2", "path": "/export"}} in pod["volumes"]
    mounts = {mount["mountPath"]: mount.get("subPath") for mount in container["volumeMounts"]}
    assert mounts["/nfs"] is None
    assert {path: mounts[path] for path in mounts if path.startswith("/adaptdl")} == {
        "/adaptdl/checkpoint": "adaptdl/checkpoint", "/adaptdl/share": "adaptdl/share",
        "/adaptdl/tensorboard": "adaptdl/tensorboard"}
    assert pod["terminationGracePeriodSeconds"] > 30, "a checkpoint takes longer than a process that just ends"
    service.cancel_trial_job(form.job_name)


@pytest.mark.parametrize(("status", "phase", "code", "words"), [
    ({}, Phase.WAITING, "platform_queue", "has not processed"),
    ({"phase": "Pending"}, Phase.WAITING, "platform_queue", "any nodes"),
    ({"phase": "Starting", "group": 0, "allocation": ["a"]}, Phase.WAITING, "platform_queue", "starts the trial's"),
    ({"phase": "Stopping", "group": 0}, Phase.WAITING, "platform_requeued", "stops the trial's"),
    ({"phase": "Pending", "group": 0}, Phase.WAITING, "platform_requeued", "goes on from its checkpoint"),
    ({"phase": "Failed", "reason": "Invalid", "message": "incorrect node for pod p"}, Phase.FAILED, "platform_failed",
     "AdaptDL gave the job up (Invalid): incorrect node for pod p."),
    ({"phase": "Failed", "reason": "PodCreationError", "message": "(422)\nReason: Unprocessable"}, Phase.FAILED,
     "launch_failed", "refused a pod of the trial: (422) Reason: Unprocessable."),
])
def test_each_phase_of_adaptdl_has_a_reason(status, phase, code, words) -> None:
    seen = AdaptDlKind().see({"status": status}, "worker")
    assert (seen.phase, seen.message.code) == (phase, code)
    assert words in seen.message


@pytest.mark.parametrize(("status", "interrupted"), [
    ({"phase": "Pending"}, False), ({"phase": "Starting", "group": 0}, False),
    ({"phase": "Running", "group": 1}, False),
    ({"phase": "Stopping", "group": 0}, True), ({"phase": "Pending", "group": 0}, True),
    ({"phase": "Starting", "group": 1}, True)])
def test_a_trial_is_interrupted_only_after_a_run(status, interrupted) -> None:
    assert AdaptDlKind().see({"status": status}, "worker").interrupted is interrupted


def test_times_are_read_as_adaptdl_writes_them() -> None:
    seen = AdaptDlKind().see({"status": {
        "phase": "Succeeded", "completionTimestamp": "2021-02-03T04:05:06.789000+00:00"}}, "worker")
    assert (seen.phase, seen.end_time) == (Phase.SUCCEEDED, 1612325106.789)
