"""Frameworks: how a trial is written as one, and what a Framework's status means."""

from __future__ import annotations

import base64
import copy
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from trainingservice.frameworkcontroller.config import FrameworkControllerTrialOptions
from trainingservice.frameworkcontroller.task_roles import TaskRoleSettings
from trainingservice.frameworkcontroller.template import says_gpus
from trainingservice.kubernetes_base.api import Object, Resource
from trainingservice.kubernetes_base.config import KubernetesTrialOptions
from trainingservice.kubernetes_base.kind import Phase, Role, Seen, TrialKind
from trainingservice.kubernetes_base.pods import (
    end_in,
    of_kubernetes,
    ran_out_of_memory,
    seconds,
    why_disrupted,
    why_ended,
)
from trainingservice.rest.told_json import read_json

FRAMEWORKS = Resource("frameworkcontroller.microsoft.com", "v1", "frameworks", "Framework")
#: Where the barrier leaves its script, and the variable that tells the command where.
BARRIER_FOLDER, BARRIER_VARIABLE = "/mnt/frameworkbarrier", "NNI_BARRIER"
#: Port of the first role; each further role has the next.
FIRST_PORT = 4000
#: Completion codes that are stops somebody asked for.
STOPPED_CODES = frozenset({-210})
#: Those of a pod that the API refused for good; see ClassifyPodCreationError of FrameworkController.
REFUSED_POD_CODES = frozenset({-200, -310})
#: How large packed statuses may be, unpacked.
MOST_OF_STATUSES = 16 * 1024 * 1024
_WAITING = frozenset({"AttemptCreationPending", "AttemptCreationRequested", "AttemptPreparing"})


class FrameworkKind(TrialKind):
    resource = FRAMEWORKS
    container: ClassVar[str] = "framework"
    removes_pods: ClassVar[bool] = True
    tells_of_quotas: ClassVar[bool] = False
    is_queued_by_pod: ClassVar[bool] = True

    def check(self, options: KubernetesTrialOptions) -> str:
        try:
            roles = options.roles()
        except ValueError as error:
            return f"{error}."
        return "" if roles else ("A trial needs at least one role: give taskRoles, or configPath with a Framework as "
                                 "template.")

    def manifest(self, name: str, labels: Mapping[str, str], pods: Sequence[tuple[Role, Object]],
                 options: KubernetesTrialOptions) -> Object:
        assert isinstance(options, FrameworkControllerTrialOptions)
        document = options.template()
        framework: Object = copy.deepcopy(document) if document is not None and not options.task_roles else {}
        templates = {role["name"]: role for role in (framework.get("spec") or {}).get("taskRoles") or []}
        task_roles = []
        order = _in_order(options)
        tasks = sum(role.settings.replicas for role, _ in pods)
        for number, (role, template) in enumerate(sorted(pods, key=lambda pair: order[pair[0].name])):
            if options.kueue_queue_name and tasks > 1:
                _add_to_group(template, name, tasks)
            if _has_barrier(options, tasks):
                _add_barrier(template, options.barrier_image, FIRST_PORT + number)
            task_roles.append(_task_role(role, template, templates.get(role.name)))
        spec: Object = {
            "executionType": "Start",
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": options.run_policy.backoff_limit or 0},
            **(framework.get("spec") or {}), "taskRoles": task_roles}
        metadata = framework.get("metadata") or {}
        return {"apiVersion": FRAMEWORKS.api_version, "kind": FRAMEWORKS.kind, "metadata": {
            **{key: metadata[key] for key in ("annotations",) if key in metadata},
            "name": name, "labels": {**(metadata.get("labels") or {}), **labels}}, "spec": spec}

    def see(self, trial: Object, reporting: str) -> Seen:
        status = trial.get("status")
        if not status:
            return Seen(Phase.WAITING, "FrameworkController has not processed the Framework yet. If this continues, "
                                       "check that FrameworkController runs.")
        attempt = status.get("attemptStatus") or {}
        started = seconds(attempt.get("runTime") or status.get("runTime"))
        task = _task(attempt, reporting, 0)
        end = _end_of(task)
        node = str((task.get("attemptStatus") or {}).get("podNodeName") or "")
        state = status.get("state")
        if state in _WAITING:
            return Seen(Phase.WAITING, _waiting_text(str(state)), node=node)
        if state != "Completed":
            return Seen(Phase.RUNNING, "", started, end=end, node=node)
        completion = attempt.get("completionStatus") or {}
        ended = seconds(status.get("completionTime"))
        if completion.get("code") in STOPPED_CODES:
            return Seen(Phase.CANCELED, of_kubernetes(
                "stopped_on_platform", "The Framework was stopped on the cluster by somebody else. Rerun the trial if "
                                       "you still need it."), started, ended, end, node)
        succeeded = (completion.get("type") or {}).get("name") == "Succeeded"
        message = "" if succeeded else _text(completion, attempt)
        return Seen(Phase.SUCCEEDED if succeeded else Phase.FAILED, message, started, ended, end, node,
                    _exit_code(task), why_disrupted(_pod_of(task)), _out_of_memory(task))


def _has_barrier(options: FrameworkControllerTrialOptions, tasks: int) -> bool:
    """The barrier asks the API, so it needs an account that may; a single task has nobody to wait for."""
    return tasks > 1 and bool(options.service_account_name) and options.config_path is None


def _in_order(options: FrameworkControllerTrialOptions) -> dict[str, int]:
    """The roles' places in the file; the first one has FIRST_PORT."""
    return {role.name: number for number, role in enumerate(options.task_roles_in_use())}


def barrier_command(role: Role, roles: Sequence[Role], options: FrameworkControllerTrialOptions) -> str:
    """The command of a role behind the barrier: the addresses of all roles in its environment."""
    if not _has_barrier(options, sum(other.settings.replicas for other in roles)):
        return role.command
    order = _in_order(options)
    ports = " ".join(f"FB_{other.name.upper()}_PORT={FIRST_PORT + number}"
                     for number, other in enumerate(sorted(roles, key=lambda other: order[other.name])))
    return f'export {ports} && . "${BARRIER_VARIABLE}/injector.sh" && {role.command}'


def with_barrier(roles: Sequence[Role], options: FrameworkControllerTrialOptions) -> list[Role]:
    return [replace(role, command=barrier_command(role, roles, options)) for role in roles]


def _add_to_group(template: Object, name: str, tasks: int) -> None:
    """Have Kueue admit all pods of a trial together or none of them."""
    metadata = template["metadata"]
    metadata["labels"]["kueue.x-k8s.io/pod-group-name"] = name
    metadata["annotations"] = {**(metadata.get("annotations") or {}),
                               "kueue.x-k8s.io/pod-group-total-count": str(tasks)}


def _add_barrier(template: Object, image: str, port: int) -> None:
    spec = template["spec"]
    spec.pop("automountServiceAccountToken", None)  # the barrier reads its Framework
    mount = {"name": "frameworkbarrier-volume", "mountPath": BARRIER_FOLDER}
    spec["initContainers"] = [*(spec.get("initContainers") or []),
                              {"name": "frameworkbarrier", "image": image, "volumeMounts": [mount]}]
    spec["volumes"].append({"name": "frameworkbarrier-volume", "emptyDir": {}})
    [main] = spec["containers"]
    main["volumeMounts"].append(mount)
    main["env"].append({"name": BARRIER_VARIABLE, "value": BARRIER_FOLDER})
    main["ports"] = [{"containerPort": port}]


def _task_role(role: Role, template: Object, given: Object | None) -> Object:
    settings = role.settings
    assert isinstance(settings, TaskRoleSettings)
    policy = settings.completion_policy
    completion = ({"minFailedTaskCount": policy.min_failed_task_count,
                   "minSucceededTaskCount": policy.min_succeed_task_count} if policy is not None
                  else {"minFailedTaskCount": 1, "minSucceededTaskCount": 1 if role.reports else -1})
    pod = template if given is None else _merged(copy.deepcopy(given["task"]["pod"]), template)
    task = {} if given is None else {key: value for key, value in given["task"].items() if key not in (
        "pod", "gpuNum", "cpuNum", "memoryMB", "frameworkAttemptCompletionPolicy")}
    return {"name": role.name, "taskNumber": settings.replicas, "frameworkAttemptCompletionPolicy": completion,
            "task": {"retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
                     "podGracefulDeletionTimeoutSec": 600, **task, "pod": pod}}


def _merged(given: Object, ours: Object) -> Object:
    """The user's own pod with our keeper in its container."""
    spec, [container] = given["spec"], given["spec"]["containers"]
    our_spec, [our_container] = ours["spec"], ours["spec"]["containers"]
    container |= {key: our_container[key] for key in ("name", "command", "terminationMessagePath",
                                                      "terminationMessagePolicy")}
    container.pop("args", None)
    if not says_gpus(container):  # else the pod's own word counts
        for kind, amounts in (our_container.get("resources") or {}).items():
            gpus = {name: amount for name, amount in amounts.items() if "gpu" in name}
            if gpus:
                container["resources"] = {**(container.get("resources") or {}), kind: {
                    **((container.get("resources") or {}).get(kind) or {}), **gpus}}
    for key in ("env", "volumeMounts"):
        container[key] = [*(container.get(key) or []), *our_container[key]]
    for key in ("volumes", "initContainers", "imagePullSecrets"):
        if our_spec.get(key):
            named = {item["name"] for item in our_spec[key]}
            spec[key] = [*(item for item in spec.get(key) or [] if item["name"] not in named), *our_spec[key]]
    spec["restartPolicy"] = "Never"
    spec.setdefault("terminationGracePeriodSeconds", our_spec["terminationGracePeriodSeconds"])
    for key in ("serviceAccountName", "priorityClassName"):
        if key in our_spec:
            spec[key] = our_spec[key]
    if our_spec.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **our_spec["nodeSelector"]}
    if our_spec.get("tolerations"):
        own = spec.get("tolerations") or []
        spec["tolerations"] = [*own, *(one for one in our_spec["tolerations"] if one not in own)]
    metadata = given.get("metadata") or {}
    our_metadata = {key: {**(metadata.get(key) or {}), **of_trial} for key, of_trial in ours["metadata"].items()}
    return {"metadata": {**metadata, **our_metadata}, "spec": spec}


def _task(attempt: Mapping[str, Any], role_name: object, index: object) -> Mapping[str, Any]:
    """The status of one task; {} where the Framework does not tell."""
    for role in _task_roles(attempt):
        if role.get("name") == role_name:
            tasks: Sequence[Mapping[str, Any]] = role.get("taskStatuses") or []
            return next((task for task in tasks if task.get("index") == index), {})
    return {}


def _task_roles(attempt: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The roles' statuses, which a controller with largeFrameworkCompression packs; () where they cannot be read."""
    packed = attempt.get("taskRoleStatusesCompressed")
    if not packed:
        return attempt.get("taskRoleStatuses") or []
    reader = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        text = reader.decompress(base64.b64decode(packed), MOST_OF_STATUSES)  # a small text can hide gigabytes
        roles: Sequence[Mapping[str, Any]] = read_json(text) if reader.eof else ()
    except (ValueError, TypeError, zlib.error):
        return ()
    return roles


def _container_of(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """How the trial's container of a task ended; {} where that is not known."""
    completion = (task.get("attemptStatus") or {}).get("completionStatus") or {}
    containers: Sequence[Mapping[str, Any]] = (completion.get("pod") or {}).get("containers") or []
    return next((container for container in containers if container.get("name") == FrameworkKind.container), {})


def _end_of(task: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return end_in(_container_of(task).get("message"))


def _exit_code(task: Mapping[str, Any]) -> int | None:
    code = _container_of(task).get("code")
    return code if isinstance(code, int) else None


def _pod_of(task: Mapping[str, Any]) -> Object:
    """The ended pod of a task, as far as its Framework kept it."""
    attempt = task.get("attemptStatus") or {}
    of_pod = (attempt.get("completionStatus") or {}).get("pod") or {}
    container = _container_of(task)
    state = {"exitCode": container.get("code"), "reason": container.get("reason"), "message": container.get("message")}
    return {"metadata": {"name": attempt.get("podName")}, "spec": {"nodeName": attempt.get("podNodeName")}, "status": {
        "reason": of_pod.get("reason"), "message": of_pod.get("message"), "containerStatuses": [
            {"name": FrameworkKind.container, "state": {"terminated": state}}] if container else []}}


def _out_of_memory(task: Mapping[str, Any]) -> str:
    return ran_out_of_memory(_pod_of(task), FrameworkKind.container)


def _text(completion: Mapping[str, Any], attempt: Mapping[str, Any]) -> str:
    """Why a Framework failed. The pod is gone by now, so what the Framework kept of it is read like the pod itself."""
    trigger = completion.get("trigger") or {}
    task = _task(attempt, trigger.get("taskRoleName"), trigger.get("taskIndex"))
    pod = _pod_of(task)
    if disrupted := why_disrupted(pod):
        return disrupted
    if _container_of(task).get("code"):
        return why_ended(pod, FrameworkKind.container)
    if completion.get("code") in REFUSED_POD_CODES and (why := _words_of_api(str(completion.get("diagnostics")))):
        return of_kubernetes("launch_failed", f"The API server refused the pod: {why.rstrip('.')}.",
                             str(completion["code"]))
    said = f"{completion.get('phrase') or 'Failed'}: {completion.get('diagnostics') or ''}".strip().rstrip(":")
    return of_kubernetes("platform_failed", said if said.endswith(".") else said + ".",
                         str(completion.get("code") or ""))


def _words_of_api(diagnostics: str) -> str:
    """The message of the API's answer, which stands there as JSON after some words; "" where it does not."""
    try:
        answer = read_json(diagnostics[diagnostics.index("{"):])
    except ValueError:
        return ""
    status = answer.get("ErrStatus") if isinstance(answer, dict) else None
    return str(status.get("message") or "") if isinstance(status, dict) else ""


def _waiting_text(state: str) -> str:
    texts = {"AttemptCreationPending": "The Framework waits to be started.",
             "AttemptCreationRequested": "The Framework is being started."}
    return of_kubernetes("platform_queue", texts.get(state, "The Framework waits for its pods."), state)
