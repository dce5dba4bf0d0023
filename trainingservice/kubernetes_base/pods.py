"""What a pod says about itself, in sentences for the trial's page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainingservice.kubernetes_base.api import Object
from trainingservice.reasons import Reason
from trainingservice.rest.told_json import read_json
from trialkeeper import contract
from trialkeeper.whole_number import whole_number

#: Reasons of a waiting container that are no trouble.
_NORMAL = frozenset({"ContainerCreating", "PodInitializing"})
#: Annotations with a replica's index: of an indexed Job, and of AdaptDL.
_INDEX_ANNOTATIONS = ("batch.kubernetes.io/job-completion-index", "adaptdl/rank")
#: Where operators write a replica's index: labels and annotations.
_INDEX = ("training.kubeflow.org/replica-index", "replica-index", "pytorch-replica-index", "FC_TASK_INDEX",
          *_INDEX_ANNOTATIONS)
#: Words of conditions and statuses for a pod that was taken away or never ran -> codes; other words of the former are
#: ``evicted``, of the latter ``platform_failed``.
_TAKEN_AWAY = {"PreemptionByScheduler": "preempted", "PreemptionByKubeScheduler": "preempted",
               "DeletionByPodGC": "node_failed"}
_FAILED = {"NodeLost": "node_failed", "NodeShutdown": "evicted", "Shutdown": "evicted", "Terminated": "evicted",
           "Preempting": "preempted", "DeadlineExceeded": "platform_time_limit", "NodeAffinity": "launch_failed",
           "UnexpectedAdmissionError": "launch_failed", "OutOfcpu": "launch_failed", "OutOfmemory": "launch_failed",
           "OutOfpods": "launch_failed"}
#: What to do about reasons that people meet.
_ADVICE = {
    "ImagePullBackOff": "Check the image's name and privateRegistryAuthPath.",
    "ErrImagePull": "Check the image's name and privateRegistryAuthPath.",
    "InvalidImageName": "Correct dockerImage.",
    "CreateContainerConfigError": "An object that the pod refers to is missing in the namespace.",
    "RunContainerError": "The image may lack the program; it needs Python 3.8 or later.",
}


@dataclass(frozen=True)
class Termination:
    """How a container ended. ``end``: the keeper's EXIT_FILE where it left one, else None."""

    exit_code: int
    reason: str
    message: str
    started_at: float | None
    finished_at: float | None
    end: Mapping[str, Any] | None = None


def of_kubernetes(code: str, said: str, cause: str = "") -> Reason:
    """What a cluster says of a trial, as a reason. ``cause``: its own word."""
    return Reason(code, said=said, platform="Kubernetes", **({"cause": cause} if cause else {}))


def seconds(text: object) -> float | None:
    """An API time stamp as seconds since 1970; None where there is none."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def slim(pod: Object) -> Object:
    """What of a pod is kept in memory."""
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    kept_status = {key: status[key] for key in ("phase", "reason", "message", "containerStatuses",
                                                "initContainerStatuses", "startTime") if status.get(key)}
    conditions = [condition for condition in status.get("conditions") or []
                  if condition.get("type") == "PodScheduled" or condition.get("type") == "DisruptionTarget"]
    if conditions:
        kept_status["conditions"] = conditions
    kept = {key: metadata[key] for key in ("name", "labels", "deletionTimestamp", "uid") if key in metadata}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items()
                   if key in _INDEX_ANNOTATIONS}
    if annotations:
        kept["annotations"] = annotations
    return {"metadata": kept,
            "spec": {"nodeName": (pod.get("spec") or {}).get("nodeName", "")}, "status": kept_status}


def is_over(pod: Object) -> bool:
    """Whether no process of it runs any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_running(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"


def is_pending(pod: Object) -> bool:
    """Whether it has not begun."""
    return bool((pod.get("status") or {}).get("phase", "Pending") == "Pending")


def replica_index(pod: Object) -> int:
    """Its number among the pods of its role."""
    metadata = pod["metadata"]
    known = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    for key in _INDEX:
        number = whole_number(str(known.get(key, "")))
        if number is not None:
            return number
    return 0


def node_of(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def termination_of(pod: Object, container: str) -> Termination | None:
    """How the trial's container ended (the last time, where it was started again); None while it has not."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if status.get("name") != container:
            continue
        state = (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get("terminated")
        if state:
            return Termination(int(state.get("exitCode") or 0), str(state.get("reason") or ""),
                               str(state.get("message") or ""), seconds(state.get("startedAt")),
                               seconds(state.get("finishedAt")), end_in(state.get("message")))
    return None


def end_in(left: object) -> Mapping[str, Any] | None:
    """The keeper's EXIT_FILE that it left as termination message; None where the text is another."""
    try:
        document = read_json(left) if isinstance(left, str) and left.startswith("{") else None
    except ValueError:
        return None
    return document if isinstance(document, dict) and document.get("reason") in contract.END_REASONS else None


def found_attempt_taken(pod: Object) -> bool:
    """Whether it ended because another keeper runs the attempt: then nothing of the trial ever ran in it."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        end = end_in(((status.get("state") or {}).get("terminated") or {}).get("message"))
        if end is not None and end.get("claimed"):
            return True
    return False


def why_disrupted(pod: Object) -> str:
    """Why the cluster took a pod away, a sentence: evicted, preempted, its node drained; "" where it did not."""
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    if status.get("reason") == "Evicted":
        return of_kubernetes("evicted", f"Pod {name} was evicted from node {node_of(pod)}: "
                                        f"{_sentence(status.get('message'))}", "Evicted")
    for condition in status.get("conditions") or []:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            said = f": {_sentence(condition['message'])}" if condition.get("message") else "."
            cause = str(condition.get("reason"))
            return of_kubernetes(_TAKEN_AWAY.get(cause, "evicted"),
                                 f"The cluster took pod {name} from node {node_of(pod)} ({cause}){said}", cause)
    return ""


def ran_out_of_memory(pod: Object, container: str) -> str:
    """A sentence where the kernel killed something in the trial's container; "" otherwise."""
    ended = termination_of(pod, container)
    if ended is None or ended.reason != "OOMKilled":
        return ""
    return of_kubernetes("out_of_memory", f"OOMKilled: pod {pod['metadata']['name']} was killed because it used more "
                         "memory than its limit; raise memorySize, or use less.", "OOMKilled")


def why_ended(pod: Object, container: str) -> str:
    """Why a pod ended whose keeper did not say it: out of memory, evicted, no Python in the image."""
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    if disrupted := why_disrupted(pod):
        return disrupted
    ended = termination_of(pod, container)
    if ended is None:
        for init in status.get("initContainerStatuses") or []:
            state = (init.get("state") or {}).get("terminated") or {}
            if state.get("exitCode"):
                said = f": {_sentence(str(state['message'])[-500:])}" if state.get("message") else "."
                return of_kubernetes(
                    "launch_failed", f"The init container {init.get('name')} of pod {name}, image {init.get('image')}, "
                    f"ended with exit code {state['exitCode']}{said}", str(state.get("reason") or ""))
        cause = str(status.get("reason") or "")
        return of_kubernetes(_FAILED.get(cause, "platform_failed"), f"Pod {name} failed: "
                             f"{_sentence(status.get('message') or cause or 'no reason given')}", cause)
    if out_of_memory := ran_out_of_memory(pod, container):
        return out_of_memory
    said = f" Its message: {_sentence(ended.message[-500:])}" if ended.message and ended.end is None else ""
    if ended.reason in ("StartError", "ContainerCannotRun") or ended.exit_code in (126, 127):
        return of_kubernetes("launch_failed", f"Pod {name} could not start the keeper; the image must contain Python "
                                              f"3.8 or later under the name in the field python.{said}", ended.reason)
    return of_kubernetes("platform_failed", f"Pod {name} ended with exit code {ended.exit_code} "
                         f"({ended.reason or 'no reason given'}).{said}", ended.reason)


def silent_container(pod: Object, container: str) -> str:
    """The container that ended a pod without leaving a word, so that only its log can tell why; "" where none did."""
    if not is_over(pod):
        return ""
    ended = termination_of(pod, container)
    if ended is not None:
        return "" if ended.message or not ended.exit_code else container
    for init in (pod.get("status") or {}).get("initContainerStatuses") or []:
        state = (init.get("state") or {}).get("terminated") or {}
        if state.get("exitCode"):
            return "" if state.get("message") else str(init.get("name"))
    return ""


#: Reasons of waiting containers that are about their image.
_OF_THE_IMAGE = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
                 "RegistryUnavailable", "SignatureValidationFailed")


def why_waiting(of_trial: Sequence[Object]) -> str:
    """Why pods have not started, the gravest first; "" where nothing is wrong."""
    return next(filter(None, [*map(trouble_of, of_trial), *map(_progress_of, of_trial)]), "")


def trouble_of(pod: Object) -> str:
    """What keeps a pod from starting, as far as it says so itself; "" for nothing."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return Reason("pod_unschedulable", pod=pod["metadata"]["name"], cause=str(condition.get("reason")),
                          said=_sentence(condition.get("message")))
    for container, reason, message in _waiting_containers(pod):
        if reason not in _NORMAL:
            code = "image_pull" if reason in _OF_THE_IMAGE else "container_waits"
            return Reason(code, pod=pod["metadata"]["name"], image=str(container.get("image")), cause=reason,
                          said=_sentence(message), advice=_ADVICE.get(reason, ""))
    return ""


def why_not_admitted(of_trial: Sequence[Object]) -> str:
    """Why a node has not taken a pod, where the trial waits nevertheless; "" for nothing."""
    for pod in of_trial:
        status = pod.get("status") or {}
        cause = str(status.get("reason") or "")
        if status.get("phase") == "Failed" and (cause.startswith("OutOf") or cause == "UnexpectedAdmissionError"):
            return of_kubernetes("platform_waits", f"Node {node_of(pod)} has not admitted pod {pod['metadata']['name']}"
                                                   f" ({cause}): {_sentence(status.get('message'))}", cause)
    return ""


def _progress_of(pod: Object) -> str:
    """How far a pod has come that goes its ordinary way; "" where it runs."""
    for container in (pod.get("status") or {}).get("initContainerStatuses") or []:
        if "running" in (container.get("state") or {}):
            return of_kubernetes("platform_prepares", f"Pod {pod['metadata']['name']} waits for its init container "
                                 f"{container.get('name')} on node {node_of(pod)}.")
    if any(True for _ in _waiting_containers(pod)):
        return of_kubernetes("platform_prepares",
                             f"Pod {pod['metadata']['name']} is being created on node {node_of(pod)}.")
    return ""


def _waiting_containers(pod: Object) -> Iterator[tuple[Object, str, str]]:
    """Containers that say why they wait: (status, reason, message)."""
    status = pod.get("status") or {}
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            yield container, str(waiting["reason"]), str(waiting.get("message") or "")


def _sentence(text: object) -> str:
    said = " ".join(str(text or "").split())
    return said if said.endswith(".") else f"{said}." if said else ""
