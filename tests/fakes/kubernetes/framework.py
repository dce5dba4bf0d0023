"""FrameworkController in the API double: one state after the other, as recorded, and pods that go when it completes."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.kubernetes.controllers import Controllers, phase_of
from tests.fakes.kubernetes.store import Object, now_text

FRAMEWORK_KINDS = {"frameworks": ("frameworkcontroller.microsoft.com", "v1", "Framework")}


def _refused_pod(why: str) -> Object:
    """How a task ends whose pod the API refuses for good (403): all but a used-up quota, which is tried again."""
    error = {"ErrStatus": {"metadata": {}, "status": "Failure", "message": why, "reason": "Forbidden",
                           "details": {"kind": "pods"}, "code": 403}}
    return {"code": -310, "phrase": "PodCreationUnknownError",
            "diagnostics": f"Failed to create Pod: {json.dumps(error, separators=(',', ':'))}",
            "type": {"name": "Failed", "attributes": []}, "pod": None}


class FrameworkController:
    plural = "frameworks"

    def reconcile(self, trial: Object, pods: list[Object], cluster: Controllers) -> None:
        name, namespace = trial["metadata"]["name"], trial["metadata"]["namespace"]
        if trial["spec"].get("executionType") == "Create":
            return
        status: dict[str, Any] = json.loads(json.dumps(trial.get("status") or {}))
        attempt = status.setdefault("attemptStatus", {"id": 0, "configMapName": f"{name}-attempt",
                                                      "completionStatus": None, "taskRoleStatuses": []})
        state = status.get("state")
        mine = [pod for pod in cluster.store.all("pods", namespace)
                if (pod["metadata"].get("labels") or {}).get("FC_FRAMEWORK_NAME") == name]
        config_map = cluster.store.get("configmaps", namespace, f"{name}-attempt")
        following = state
        if state is None:
            status["startTime"] = now_text()
            following = "AttemptCreationPending"
        elif state == "AttemptCreationPending":
            following = "AttemptCreationRequested"
        elif state == "AttemptCreationRequested":
            cluster.store.create("configmaps", namespace, {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                    "name": f"{name}-attempt", "ownerReferences": [{
                        "apiVersion": trial["apiVersion"], "kind": "Framework", "name": name,
                        "uid": trial["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}]}})
            attempt["startTime"] = now_text()
            following = "AttemptPreparing"
        elif state in ("AttemptPreparing", "AttemptRunning"):
            if config_map is not None:
                self._make_pods(trial, mine, config_map, cluster)
            attempt["taskRoleStatuses"] = self._task_roles(trial, mine, cluster.no_pods_because)
            if any(phase_of(pod) != "Pending" for pod in mine):
                following = "AttemptRunning"
                attempt.setdefault("runTime", now_text())
                status.setdefault("runTime", now_text())
            completion = self._completion(trial, attempt["taskRoleStatuses"])
            # attempts of tasks whose pod was refused for good end without ever having run
            if completion is not None and (state == "AttemptRunning" or cluster.no_pods_because):
                attempt["completionStatus"] = completion
                following = "AttemptDeletionPending"
        elif state == "AttemptDeletionPending":
            following = "AttemptDeletionRequested"
        elif state == "AttemptDeletionRequested":
            cluster.store.remove("configmaps", namespace, f"{name}-attempt")
            for pod in mine:
                cluster.delete_pod(pod)
            following = "AttemptDeleting"
        elif state == "AttemptDeleting" and not mine:
            attempt["completionTime"] = now_text()
            following = "AttemptCompleted"
        elif state == "AttemptCompleted":
            status["completionTime"] = now_text()
            following = "Completed"
        if following != state:
            status |= {"state": following, "transitionTime": now_text()}
        cluster.set_status(trial, status, self.plural)

    def _make_pods(self, trial: Object, mine: list[Object], config_map: Object, cluster: Controllers) -> None:
        name, namespace = trial["metadata"]["name"], trial["metadata"]["namespace"]
        there = {pod["metadata"]["name"] for pod in mine}
        for role in trial["spec"]["taskRoles"]:
            for index in range(role["taskNumber"]):
                pod_name = f"{name}-{role['name']}-{index}"
                if pod_name in there:
                    continue
                template = json.loads(json.dumps(role["task"]["pod"]))
                for container in template["spec"]["containers"]:
                    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
                # where a quota does not allow it, it tries again for ever and tells nobody but its own log
                cluster.make_pod(trial, pod_name, template, owner=config_map, complaint="", labels={
                    "FC_FRAMEWORK_NAME": name, "FC_TASKROLE_NAME": role["name"], "FC_TASK_INDEX": str(index)}, env={
                    "FC_FRAMEWORK_NAMESPACE": namespace, "FC_FRAMEWORK_NAME": name, "FC_TASKROLE_NAME": role["name"],
                    "FC_TASK_INDEX": str(index), "FC_CONFIGMAP_NAME": f"{name}-attempt", "FC_POD_NAME": pod_name,
                    "FC_FRAMEWORK_UID": trial["metadata"]["uid"], "FC_FRAMEWORK_ATTEMPT_ID": "0"})

    def _task_roles(self, trial: Object, mine: list[Object], refused: str) -> list[Object]:
        """``refused``: why the API takes no pods; "" where it does."""
        by_name = {pod["metadata"]["name"]: pod for pod in mine}
        roles = []
        for role in trial["spec"]["taskRoles"]:
            tasks = []
            for index in range(role["taskNumber"]):
                pod = by_name.get(f"{trial['metadata']['name']}-{role['name']}-{index}")
                state = "AttemptCreationPending" if pod is None else self._task_state(pod)
                tried = self._task_attempt(pod)
                if pod is None and refused and "exceeded quota" not in refused:
                    state, tried = "Completed", {"id": 0, "completionStatus": _refused_pod(refused)}
                tasks.append({"index": index, "state": state, "deletionPending": False, "attemptStatus": tried})
            roles.append({"name": role["name"], "podGracefulDeletionTimeoutSec": None, "taskStatuses": tasks})
        return roles

    @staticmethod
    def _task_state(pod: Object) -> str:
        return {"Running": "AttemptRunning", "Succeeded": "Completed",
                "Failed": "Completed"}.get(phase_of(pod), "AttemptPreparing")

    @staticmethod
    def _task_attempt(pod: Object | None) -> Object:
        if pod is None:
            return {"id": 0, "completionStatus": None}
        completion = None
        if phase_of(pod) in ("Succeeded", "Failed"):
            containers = []
            code = 0
            for container in (pod["status"].get("containerStatuses") or []):
                ended = (container.get("state") or {}).get("terminated") or {}
                code = int(ended.get("exitCode") or 0)
                containers.append({key: value for key, value in {
                    "name": container["name"], "reason": ended.get("reason"), "code": code,
                    "message": ended.get("message")}.items() if value is not None})
            succeeded = phase_of(pod) == "Succeeded"
            shown = json.dumps({"containers": containers}, separators=(",", ":"))
            completion = {"code": code, "phrase": "Succeeded" if succeeded else "ContainerUnrecognizedFailed",
                          "diagnostics": "Pod succeeded" if succeeded else
                          f"Pod failed: PodPattern unmatched: {shown}",
                          "type": {"name": "Succeeded" if succeeded else "Failed", "attributes": []},
                          "pod": {"containers": containers}}
            if pod["status"].get("reason") == "Evicted":
                of_pod = {key: pod["status"][key] for key in ("reason", "message")}
                shown = json.dumps(of_pod, separators=(",", ":"))
                completion = {"code": -1000, "phrase": "PodEvicted",
                              "diagnostics": f"Pod failed: PodPattern matched: {shown}",
                              "type": {"name": "Failed", "attributes": ["Transient"]},
                              "pod": {**of_pod, "containers": containers}}
            elif code == 137:
                completion |= {"phrase": "ContainerSigKillReceived",
                               "type": {"name": "Failed", "attributes": ["Transient"]}}
        return {"id": 0, "podName": pod["metadata"]["name"], "podUID": pod["metadata"]["uid"],
                "podNodeName": pod["spec"].get("nodeName", ""), "completionStatus": completion}

    @staticmethod
    def _completion(trial: Object, roles: list[Object]) -> Object | None:
        if trial["spec"].get("executionType") == "Stop":
            return {"code": -210, "diagnostics": "User has requested to stop the Framework",
                    "phrase": "StopFrameworkRequested", "type": {"attributes": ["Permanent"], "name": "Failed"}}
        total = ended = 0
        for wanted, role in zip(trial["spec"]["taskRoles"], roles, strict=True):
            policy = wanted.get("frameworkAttemptCompletionPolicy") or {}
            done = [task["attemptStatus"]["completionStatus"] for task in role["taskStatuses"]
                    if task["attemptStatus"]["completionStatus"]]
            failed = [completion for completion in done if completion["type"]["name"] == "Failed"]
            succeeded = [completion for completion in done if completion["type"]["name"] == "Succeeded"]
            total, ended = total + len(role["taskStatuses"]), ended + len(done)
            for found, key, word in ((failed, "minFailedTaskCount", "Failed"),
                                     (succeeded, "minSucceededTaskCount", "Succeeded")):
                limit = policy.get(key) or -1
                if limit > 0 and len(found) >= limit:
                    trigger = {"message": f"{word}TaskCount {len(found)} has reached M{key[1:]} {limit} in the "
                                          "TaskRole", "taskIndex": 0, "taskRoleName": role["name"]}
                    return {**{key: found[0][key] for key in ("code", "diagnostics", "phrase", "type")},
                            "trigger": trigger}
        if ended == total:
            text = (f"CompletedTaskCount {ended} has reached TotalTaskCount {total} and no user specified conditions "
                    "in FrameworkAttemptCompletionPolicy have ever been triggered")
            return {"code": 0, "diagnostics": text, "phrase": "Succeeded", "trigger": {"message": text},
                    "type": {"attributes": [], "name": "Succeeded"}}
        return None
