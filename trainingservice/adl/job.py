"""AdaptDLJobs: how a trial is written as one, and what its status means.

Facts are those of AdaptDL's own scheduler (github.com/petuum/adaptdl, sched/adaptdl_sched): its controller makes a
*group* of pods for each allocation of nodes, with a number each (rank), and deletes all of them before the next group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trainingservice.adl.config import AdlTrialOptions
from trainingservice.kubernetes_base.api import CLAIMS, Object, Resource
from trainingservice.kubernetes_base.config import KubernetesTrialOptions
from trainingservice.kubernetes_base.kind import Phase, Role, Seen, TrialKind, queued
from trainingservice.kubernetes_base.pods import of_kubernetes, seconds
from trainingservice.rest.told_json import read_json
from trialkeeper import contract

ADAPTDL_JOBS = Resource("adaptdl.petuum.com", "v1", "adaptdljobs", "AdaptDLJob")
#: Name of the volume of a trial, and what containers find of it where: AdaptDL's own names, and the journal's place.
VOLUME, NFS_VOLUME = "adaptdl-pvc", "nni-nfs"
CHECKPOINT_FOLDER, SHARE_FOLDER, TENSORBOARD_FOLDER = "/adaptdl/checkpoint", "/adaptdl/share", "/adaptdl/tensorboard"
LASTING_FOLDER = "/nniweb/lasting"
_FOLDERS = {CHECKPOINT_FOLDER: "adaptdl/checkpoint", SHARE_FOLDER: "adaptdl/share",
            TENSORBOARD_FOLDER: "adaptdl/tensorboard", LASTING_FOLDER: "nniweb"}
_VARIABLES = {"ADAPTDL_CHECKPOINT_PATH": CHECKPOINT_FOLDER, "ADAPTDL_SHARE_PATH": SHARE_FOLDER,
              "ADAPTDL_TENSORBOARD_LOGDIR": TENSORBOARD_FOLDER, contract.ENV_LASTING: LASTING_FOLDER}
#: What stands before the API's answer in the message of a job whose pods were refused.
_ANSWER = "HTTP response body: "


class AdaptDlKind(TrialKind):
    resource = ADAPTDL_JOBS
    container: ClassVar[str] = "main"
    removes_pods: ClassVar[bool] = True
    runs_again: ClassVar[bool] = True
    has_volume: ClassVar[bool] = True
    is_queued_by_pod: ClassVar[bool] = True

    def manifest(self, name: str, labels: Mapping[str, str], pods: Sequence[tuple[Role, Object]],
                 options: KubernetesTrialOptions) -> Object:
        assert isinstance(options, AdlTrialOptions)
        [(_, template)] = pods
        spec, [container] = template["spec"], template["spec"]["containers"]
        spec["volumes"].append({"name": VOLUME, "persistentVolumeClaim": {"claimName": name}})
        container["volumeMounts"] += [{"name": VOLUME, "mountPath": path, "subPath": below}
                                      for path, below in _FOLDERS.items()]
        container["env"] += [{"name": variable, "value": value} for variable, value in _VARIABLES.items()]
        if options.nfs is not None:
            spec["volumes"].append({"name": NFS_VOLUME, "nfs": {"server": options.nfs.server,
                                                                "path": options.nfs.path}})
            container["volumeMounts"].append({"name": NFS_VOLUME, "mountPath": options.nfs.container_mount_path})
        if "resources" in container:
            container["resources"] = _as_requested(container["resources"]["requests"])
        replicas = {"minReplicas": options.min_replicas, "maxReplicas": options.max_replicas}
        return {"apiVersion": ADAPTDL_JOBS.api_version, "kind": ADAPTDL_JOBS.kind,
                "metadata": {"name": name, "labels": dict(labels)},
                "spec": {"preemptible": options.adaptive, "template": template,
                         **{field: number for field, number in replicas.items() if number is not None}}}

    def least_grace(self, options: KubernetesTrialOptions) -> float:
        assert isinstance(options, AdlTrialOptions)
        return options.stop_grace_period

    def dependants(self, name: str, labels: Mapping[str, str], options: KubernetesTrialOptions
                   ) -> Sequence[tuple[Resource, Object]]:
        assert isinstance(options, AdlTrialOptions)
        storage_class = options.checkpoint.storage_class
        return [(CLAIMS, {
            "apiVersion": "v1", "kind": CLAIMS.kind, "metadata": {"name": name, "labels": dict(labels)}, "spec": {
                # replicas on several nodes write there, and the next group may be on others
                "accessModes": ["ReadWriteMany"], "volumeMode": "Filesystem",
                "resources": {"requests": {"storage": options.checkpoint.storage_size}},
                **({"storageClassName": storage_class} if storage_class else {})}})]

    def see(self, trial: Object, reporting: str) -> Seen:
        status = trial.get("status") or {}
        phase, group = str(status.get("phase") or ""), status.get("group")
        ended = seconds(status.get("completionTimestamp"))
        if phase == "Succeeded":
            return Seen(Phase.SUCCEEDED, end_time=ended)
        if phase == "Failed":
            return Seen(Phase.FAILED, _why_failed(status), end_time=ended)
        if phase == "Running":
            return Seen(Phase.RUNNING)
        if phase == "Stopping":
            return Seen(Phase.WAITING, of_kubernetes(
                "platform_requeued", "AdaptDL stops the trial's replicas, to start it again on other nodes.", phase),
                interrupted=True)
        if phase == "Starting":
            waits = queued("AdaptDL starts the trial's replicas. The trial runs when all of them do.")
            return Seen(waits.phase, waits.message, interrupted=isinstance(group, int) and group > 0)
        if phase == "Pending" and group is not None:
            return Seen(Phase.WAITING, of_kubernetes(
                "platform_requeued", "AdaptDL has stopped the trial's replicas and starts it again when there are "
                "nodes for it. It then goes on from its checkpoint.", phase), interrupted=True)
        if phase == "Pending" or status:
            return queued("AdaptDL has not given the job any nodes: no node has room for a replica now, or AdaptDL "
                          "has not looked yet. It looks every minute.")
        return queued("AdaptDL has not processed the AdaptDLJob yet. If this continues, check that AdaptDL's "
                      "scheduler runs.")


def _as_requested(wanted: Mapping[str, str]) -> dict[str, Any]:
    """CPUs and memory as requests alone, as NNI has them here; what cannot be requested without a limit has both."""
    limits = {name: amount for name, amount in wanted.items() if name not in ("cpu", "memory")}
    return {"requests": dict(wanted), **({"limits": limits} if limits else {})}


def _why_failed(status: Mapping[str, Any]) -> str:
    """What AdaptDL says of a failure; "" where the pod that failed, which it keeps, tells more."""
    cause, said = str(status.get("reason") or ""), " ".join(str(status.get("message") or "").split())
    if cause == "PodFailure":
        return ""
    if cause == "PodCreationError":
        refused = _words_of_api(str(status.get("message") or "")) or said
        code = "platform_quota" if "exceeded quota" in refused else "launch_failed"
        return of_kubernetes(code, f"The API server refused a pod of the trial: {refused.rstrip('.')}.", cause)
    return of_kubernetes("platform_failed", f"AdaptDL gave the job up ({cause or 'no reason given'})"
                                            f"{': ' + said.rstrip('.') if said else ''}.", cause)


def _words_of_api(error: str) -> str:
    """The message of the API's answer in an error of AdaptDL's client; "" where there is none."""
    try:
        answer = read_json(error.partition(_ANSWER)[2].strip())
    except ValueError:
        return ""
    return str(answer.get("message") or "") if isinstance(answer, dict) else ""
