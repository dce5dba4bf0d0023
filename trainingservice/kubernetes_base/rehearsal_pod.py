"""A pod that tries what trials will have: the image, its Python, the registry's login, the way home."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import urlsplit

from trainingservice.base import RehearsalFinding
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.keeper.reach_probe import UNREACHABLE, probe_arguments
from trainingservice.kubernetes_base import names, pods
from trainingservice.kubernetes_base.api import MERGE_PATCH, PODS, SECRETS, ApiRefusal, Object, error_of
from trainingservice.kubernetes_base.belongings import login_of, remove
from trainingservice.kubernetes_base.cluster_access import ClusterAccess
from trainingservice.kubernetes_base.config import KubernetesTrialOptions, RoleSettings
from trainingservice.kubernetes_base.kind import Role
from trainingservice.kubernetes_base.pod_template import resources_of
from trainingservice.kubernetes_scheduling.objects import pod_fields, pod_metadata
from trainingservice.secrets_in_use import with_secrets_of_now

#: How long the test pod may take, image included, in seconds.
POD_DEADLINE = 60.0
#: Seconds after which a test pod belongs to a check that nobody finished.
LEFT_OVER = 600.0
#: Test pods that run at the same time.
MOST_AT_ONCE = 4


def try_pods(service: ClusterAccess, options: KubernetesTrialOptions | None) -> list[RehearsalFinding]:
    """Run the probe as a pod of each role that has an image (or login, or Python) of its own, side by side, and remove
    them. The reporting role's pod also tries the way home. Never raises.

    Without options it has the image that a file gets that names none; what it finds then need not hold for trials.
    """
    roles = options.roles() if options is not None else {}
    if not roles:
        return [replace(finding, temporary=True, message=(
            f"{finding.message} (You have no experiment on this cluster, so the test used the default image.)"))
                if not finding.ok and finding.check != "way_home" else finding
                for finding in _try(service, RoleSettings(), options, _urls(service))]
    distinct = {(role.docker_image, role.private_registry_auth_path, role.python, service.kind.runs_keeper(name)):
                (name, role) for name, role in reversed(roles.items())}
    first = next(iter(roles))

    def try_role(named: tuple[str, RoleSettings]) -> list[RehearsalFinding]:
        name, role = named
        return _try(service, role, options, _urls(service) if name == first else (), service.kind.runs_keeper(name))

    with ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="test pod") as threads:
        found = threads.map(with_secrets_of_now(try_role), reversed(distinct.values()))
        return [finding for of_role in found for finding in of_role]


def _urls(service: ClusterAccess) -> Sequence[str]:
    return service.context.public_urls() if service.settings.keepers_call_home() else ()


def _try(service: ClusterAccess, role: RoleSettings, options: KubernetesTrialOptions | None,
         urls: Sequence[str], runs_keeper: bool = True) -> list[RehearsalFinding]:
    try:
        return list(_findings(service, role, options, urls, runs_keeper))
    except ApiRefusal as refusal:
        return [RehearsalFinding("trial", False, str(error_of(refusal, "run a test pod")), temporary=True)]
    except TrainingServiceError as error:
        return [RehearsalFinding("trial", False, str(error), temporary=isinstance(error, TemporaryError))]


def _findings(service: ClusterAccess, role: RoleSettings, options: KubernetesTrialOptions | None,
              urls: Sequence[str], runs_keeper: bool) -> Iterator[RehearsalFinding]:
    _remove_left_over(service)
    name = f"nniweb-rehearsal-{uuid.uuid4().hex[:8]}"
    made: list[str] = []
    try:
        try:
            if role.private_registry_auth_path is not None:  # a name of its own: a fixed one would keep an old login
                _make_pull_secret(service, name, role)
                made.append(name)
            spec = _spec(role, options, probe_arguments(urls, service.context.ca_file) if runs_keeper else None,
                         next(iter(made), ""))
            metadata = _metadata(service, name)
            if options is not None:
                metadata |= pod_metadata(options, metadata["labels"])
            pod = service.api.call("POST", PODS.path(service.namespace), body={
                "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        except ApiRefusal as refusal:
            yield _refused(refusal)
            return
        try:
            if made:  # who removes the pod removes the Secret, also where we do not come to it
                owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
                service.api.call("PATCH", SECRETS.path(service.namespace, name), content_type=MERGE_PATCH,
                                 body={"metadata": {"ownerReferences": [owner]}})
            yield from _outcome(service, name, role, urls, runs_keeper)
        finally:
            remove(service.api, PODS, service.namespace, name)
    finally:
        for secret in made:
            remove(service.api, SECRETS, service.namespace, secret)


def _metadata(service: ClusterAccess, name: str) -> Object:
    return {"name": name, "labels": {names.REHEARSAL: service.cluster}}


def _spec(role: RoleSettings, options: KubernetesTrialOptions | None, probe: list[str] | None,
          own_secret: str) -> Object:
    """``probe``: what the Python of the image is given; None: it need not have one. ``own_secret``: made of the role's
    login.
    """
    container: Object = {"name": "probe", "image": role.docker_image,
                         "command": ["true"] if probe is None else [role.python, *probe],
                         "terminationMessagePolicy": "FallbackToLogsOnError"}
    # what trials ask for, because rules of the namespace look at it; but no GPU, which might be busy for long
    resources = resources_of(Role("probe", role, "", None, 0))
    if resources:
        container["resources"] = {"requests": resources, "limits": resources}
    spec: Object = {"restartPolicy": "Never", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1,
                    "activeDeadlineSeconds": int(POD_DEADLINE) + 30, "containers": [container]}
    return spec if options is None else {**spec, **pod_fields(options, own_secret)}


def _make_pull_secret(service: ClusterAccess, name: str, role: RoleSettings) -> None:
    service.api.call("POST", SECRETS.path(service.namespace), body={
        "apiVersion": "v1", "kind": "Secret", "metadata": _metadata(service, name), **login_of("probe", role)})


def _remove_left_over(service: ClusterAccess) -> None:
    """What a check left that was killed: a pod ends by its deadline, but stays."""
    selector = f"{names.REHEARSAL}={service.cluster}"
    for resource in (PODS, SECRETS):
        found = service.api.call("GET", resource.path(service.namespace), query={"labelSelector": selector})
        for item in found.get("items") or []:
            made = pods.seconds(item["metadata"].get("creationTimestamp"))
            if made is not None and service.context.clock() - made > LEFT_OVER:
                remove(service.api, resource, service.namespace, item["metadata"]["name"])


def _refused(refusal: ApiRefusal) -> RehearsalFinding:
    if refusal.is_lack_of_rights:
        return RehearsalFinding("trial", True, "The server's account may not create a pod to test the image. It needs "
                                               "this permission only for this test.")
    if refusal.code == 403:  # rules that hold for the pods of trials as well
        return RehearsalFinding(
            "trial", False, "The namespace's rules do not admit a pod like those of trials: "
            f"{str(refusal).rstrip('.')}. Change the file (cpuNumber and memorySize of the role, serviceAccountName, "
            "priorityClassName), or the namespace's rules.",
            temporary="exceeded quota" in str(refusal))
    return RehearsalFinding("trial", False, str(error_of(refusal, "create a test pod")), temporary=refusal.code >= 429)


def _outcome(service: ClusterAccess, name: str, role: RoleSettings, urls: Sequence[str],
             runs_keeper: bool) -> Iterator[RehearsalFinding]:
    deadline = time.monotonic() + POD_DEADLINE
    pause = 0.1
    while True:
        pod = service.api.call("GET", PODS.path(service.namespace, name))
        if pods.is_over(pod):
            break
        if time.monotonic() > deadline:
            why = pods.why_waiting([pod]) or "It has not ended."
            yield RehearsalFinding("trial", False, f"A test pod with image {role.docker_image} did not run within "
                                   f"{POD_DEADLINE:.0f} s. {why}", pods.node_of(pod), temporary=True)
            return
        time.sleep(pause)
        pause = min(2.0, pause * 1.5)
    ended = pods.termination_of(pod, "probe")
    if (pod.get("status") or {}).get("phase") == "Succeeded":
        way = " and reaches this server" if urls else ""
        what = f"has a suitable Python{way}" if runs_keeper else "starts"
        yield RehearsalFinding("trial", True, f"A test pod with image {role.docker_image} {what}.", pods.node_of(pod))
    elif ended is not None and ended.exit_code == UNREACHABLE:
        only_loopback = all(urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1") for url in urls)
        yield RehearsalFinding("way_home", False, f"A pod cannot reach this server ({ended.message.strip()}). Set "
                               "NNIWEB_PUBLIC_URL or nniManagerIp to an address that pods can reach, or wayHome: log.",
                               pods.node_of(pod), temporary=only_loopback)
    else:
        yield RehearsalFinding("trial", False, f"A test pod with image {role.docker_image} failed: "
                               f"{pods.why_ended(pod, 'probe')}", pods.node_of(pod))
