"""AdaptDL's scheduler in the API double: the phases of its controller, and an allocator that tests may overrule.

Written after AdaptDL's sources (sched/adaptdl_sched: controller.py, allocator.py, policy/pollux.py): the same phases in
the same order, the same pods, labels, annotations and variables, the same rules for what ends a job.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

from tests.fakes.kubernetes.controllers import Controllers, phase_of
from tests.fakes.kubernetes.store import Object

ADAPTDL_KINDS = {"adaptdljobs": ("adaptdl.petuum.com", "v1", "AdaptDLJob")}


class AdaptDlScheduler:
    """Controller and allocator. One node has room for everything unless ``allocations`` says otherwise."""

    plural = "adaptdljobs"

    def __init__(self) -> None:
        #: Name of a job, or "" for all others -> how many replicas it is given. Without: as many as it needs.
        self.allocations: dict[str, int] = {}

    def reconcile(self, trial: Object, pods: list[Object], cluster: Controllers) -> None:
        status: dict[str, Any] = copy.deepcopy(trial.get("status") or {})
        phase = status.setdefault("phase", "Pending")
        if phase in ("Succeeded", "Failed"):
            self._delete(pods, cluster, keep_failed=True)
            return
        self._allocate(trial, status, cluster)
        if self._invalid(pods):
            status |= {"phase": "Failed", "reason": "Invalid", "message": "inconsistent pods in group"}
        else:
            self._sync(trial, pods, status, cluster)
        allocation = status.get("allocation") or []
        if allocation:
            status |= {"replicas": len(allocation), "readyReplicas": sum(map(_is_ready, pods))}
        else:  # the patch has nulls, which remove the fields
            for field in ("allocation", "replicas", "readyReplicas"):
                status.pop(field, None)
        cluster.set_status(trial, status, self.plural)

    def _allocate(self, trial: Object, status: dict[str, Any], cluster: Controllers) -> None:
        """A preemptible job gets what the policy says now; another one keeps what it has."""
        spec = trial["spec"]
        if not spec.get("preemptible", True) and status.get("allocation"):
            return
        least = max(1, spec.get("minReplicas", 0))
        wanted = self.allocations.get(trial["metadata"]["name"], self.allocations.get("", least))
        wanted = min(wanted, spec.get("maxReplicas", wanted))
        status["allocation"] = [cluster.node.name] * wanted

    def _sync(self, trial: Object, pods: list[Object], status: dict[str, Any], cluster: Controllers) -> None:
        allocation, phase = status["allocation"], status["phase"]
        ended = self._completion(pods, trial["spec"].get("preemptible", True))
        if ended:
            # isoformat with microseconds and an offset, as Python's client writes it
            status |= {**ended, "completionTimestamp": datetime.now(UTC).isoformat(), "allocation": []}
            self._delete(pods, cluster, keep_failed=True)
        elif phase == "Pending":
            if allocation and not pods:
                status["phase"] = "Starting"
        elif phase == "Starting":
            if not allocation or (sum(map(_is_scheduled, pods)) != status.get("replicas", 0)
                                  and self._is_moved(pods, allocation)):
                status["phase"] = "Stopping"
            elif not pods:
                self._start_group(trial, status, cluster)
            elif len(pods) != status.get("replicas"):
                status["phase"] = "Stopping"
            elif sum(map(_is_ready, pods)) == status["replicas"]:
                status["phase"] = "Running"
        elif phase == "Running":
            if self._is_moved(pods, allocation) or not pods:
                status["phase"] = "Stopping"
        elif phase == "Stopping":
            if pods:
                self._delete(pods, cluster)
            else:
                status["phase"] = "Pending"

    def _start_group(self, trial: Object, status: dict[str, Any], cluster: Controllers) -> None:
        status["group"] = status.get("group", -1) + 1
        if cluster.no_pods_because:
            body = f'{{"kind":"Status","status":"Failure","message":"{cluster.no_pods_because}","code":403}}'
            status |= {"phase": "Failed", "reason": "PodCreationError", "message": (
                f"(403)\nReason: Forbidden\nHTTP response headers: <...>\nHTTP response body: {body}\n")}
            return
        metadata, group, allocation = trial["metadata"], status["group"], status["allocation"]
        for rank, node in enumerate(allocation):
            template = copy.deepcopy(trial["spec"]["template"])
            spec, labels = template["spec"], (template.get("metadata") or {}).get("labels") or {}
            spec["restartPolicy"] = "Never"
            spec.setdefault("volumes", []).append({"name": "adaptdl-shm", "emptyDir": {}})
            for container in spec["containers"]:
                container.setdefault("volumeMounts", []).append({"name": "adaptdl-shm", "mountPath": "/dev/shm-of-job"})
                container.setdefault("env", []).extend({"name": name, "value": value} for name, value in {
                    "ADAPTDL_JOB_ID": f"{metadata['namespace']}/{metadata['name']}",
                    "ADAPTDL_MASTER_PORT": str(47000 + group), "ADAPTDL_NUM_NODES": str(len(set(allocation))),
                    "ADAPTDL_NUM_RESTARTS": str(group), "ADAPTDL_NUM_REPLICAS": str(len(allocation)),
                    "ADAPTDL_REPLICA_RANK": str(rank), "ADAPTDL_SUPERVISOR_URL": "http://127.0.0.1:9",
                    "ADAPTDL_SCHED_VERSION": "0.2.11"}.items())
            cluster.make_pod(
                trial, f"{metadata['name']}-{metadata['uid']}-{group}-{rank}", template,
                labels={**labels, "adaptdl": "true", "adaptdl/job": metadata["name"], "petuum.com/nodegroup": "all"},
                annotations={"adaptdl/replicas": str(len(allocation)), "adaptdl/group": str(group),
                             "adaptdl/rank": str(rank), "adaptdl/node": node})

    @staticmethod
    def _completion(pods: list[Object], preemptible: bool) -> Object:
        if pods and len(pods) == _number(pods[0], "replicas") and all(phase_of(pod) == "Succeeded" for pod in pods):
            return {"phase": "Succeeded"}
        for pod in pods:
            reason = str((pod.get("status") or {}).get("reason"))
            if phase_of(pod) != "Failed" or reason == "UnexpectedAdmissionError" or reason.startswith("Outof"):
                continue
            codes = [((container.get("state") or {}).get("terminated") or {}).get("exitCode")
                     for container in pod["status"].get("containerStatuses") or []]
            if not (preemptible and (pod["metadata"].get("deletionTimestamp") or 143 in codes)):
                return {"phase": "Failed", "reason": "PodFailure", "message": f"{pod['metadata']['name']} Failed"}
        return {}

    @staticmethod
    def _is_moved(pods: list[Object], allocation: list[str]) -> bool:
        return any(_number(pod, "replicas") != len(allocation)
                   or pod["metadata"]["annotations"]["adaptdl/node"] != allocation[_number(pod, "rank")]
                   for pod in pods)

    @staticmethod
    def _invalid(pods: list[Object]) -> bool:
        return len({(_number(pod, "group"), _number(pod, "replicas")) for pod in pods}) > 1

    @staticmethod
    def _delete(pods: list[Object], cluster: Controllers, keep_failed: bool = False) -> None:
        for pod in pods:
            if not pod["metadata"].get("deletionTimestamp") and not (keep_failed and phase_of(pod) == "Failed"):
                cluster.delete_pod(pod)


def _number(pod: Object, name: str) -> int:
    return int(pod["metadata"]["annotations"][f"adaptdl/{name}"])


def _is_ready(pod: Object) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses")
    return bool(statuses) and all(status["ready"] for status in statuses)


def _is_scheduled(pod: Object) -> bool:
    return any(condition["type"] == "PodScheduled" and condition["status"] == "True"
               for condition in (pod.get("status") or {}).get("conditions") or [])
