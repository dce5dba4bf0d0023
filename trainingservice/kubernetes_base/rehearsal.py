"""Tries on the cluster what a trial will need, and says in sentences what is wrong and what to do."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kubernetes.utils.quantity import parse_quantity

from trainingservice.base import RehearsalFinding
from trainingservice.errors import PermanentError, TemporaryError, TrainingServiceError
from trainingservice.kubernetes_base import pods
from trainingservice.kubernetes_base.api import (
    CONFIG_MAPS,
    PODS,
    SECRETS,
    ApiRefusal,
    Object,
    Resource,
    error_of,
)
from trainingservice.kubernetes_base.belongings import remove
from trainingservice.kubernetes_base.config import KubernetesTrialOptions, RoleSettings
from trainingservice.reach_probe import PROBE, PROBED_PATH

if TYPE_CHECKING:
    from trainingservice.kubernetes_base.service import KubernetesService

#: Seconds that one question may take before a launch, and otherwise.
QUICK, PATIENT = (1.5, 2.0), (5.0, 20.0)
#: How long the test pod may take, image included, in seconds.
POD_DEADLINE = 60.0


def rehearse_cluster(service: KubernetesService, options: KubernetesTrialOptions | None, *,
                     quick: bool) -> list[RehearsalFinding]:
    """All findings, good ones too. ``quick`` leaves the test pod out."""
    timeout = QUICK if quick else PATIENT
    findings: list[RehearsalFinding] = []
    try:
        version = service.api.call("GET", "/version", timeout=timeout)
    except ApiRefusal as refusal:
        refused = refusal.code in (401, 403)
        return [RehearsalFinding("connection", False, str(error_of(refusal, "tell its version")),
                                 temporary=not refused)]
    except TrainingServiceError as error:
        return [RehearsalFinding("connection", False, str(error), temporary=isinstance(error, TemporaryError))]
    findings.append(RehearsalFinding("connection", True,
                                     f"Kubernetes {version.get('gitVersion', '')} answers at {service.api.address}."))
    for step in (_namespace(service, timeout), _kind(service, options, timeout), _rights(service, timeout),
                 _quota(service, timeout), _gpus(service, options, timeout), _registries(options), _storage(service)):
        try:
            findings += step
        except ApiRefusal as refusal:
            findings.append(RehearsalFinding("connection", False, str(error_of(refusal, "answer a question")),
                                             temporary=True))
        except TrainingServiceError as error:
            findings.append(RehearsalFinding("connection", False, str(error), temporary=True))
            return findings
        if any(finding.blocks for finding in findings):
            return findings  # the rest would fail for the same reason
    if not quick and options is not None:
        findings += _test_pod(service, next(iter(options.roles().values())), options)
    return findings


def _namespace(service: KubernetesService, timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    try:
        service.api.call("GET", f"/api/v1/namespaces/{service.namespace}", timeout=timeout)
    except ApiRefusal as refusal:
        if refusal.code == 404:
            yield RehearsalFinding("namespace", False, f"There is no namespace {service.namespace}; make it with "
                                   f"kubectl create namespace {service.namespace}, or correct the field namespace.")
            return
        if refusal.code != 403:
            raise
    yield RehearsalFinding("namespace", True, f"Trials run in namespace {service.namespace}.")


def _kind(service: KubernetesService, options: KubernetesTrialOptions | None,
          timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    try:
        resource = service.kind.resource
    except PermanentError as error:
        yield RehearsalFinding("operator", False, str(error))
        return
    known = api_resources(service, resource.group, resource.version, timeout)
    missing = service.kind.missing(known)
    if missing:
        yield RehearsalFinding("operator", False, missing)
    elif options is not None and (problem := service.kind.check(options)):
        yield RehearsalFinding("roles", False, problem)
    else:
        yield RehearsalFinding("operator", True, f"The cluster knows {resource.plural} of {resource.api_version}.")


def api_resources(service: KubernetesService, group: str, version: str,
                  timeout: tuple[float, float] = PATIENT) -> list[str]:
    """The plurals that a group has at this version; [] where the cluster does not have it at all."""
    try:
        found = service.api.call("GET", f"/apis/{group}/{version}", timeout=timeout)
    except ApiRefusal as refusal:
        if refusal.code == 404:
            return []
        raise
    return [str(resource.get("name")) for resource in found.get("resources") or []]


def rights_used(trial: Resource, reads_logs: bool) -> list[tuple[Resource, str, tuple[str, ...]]]:
    """What our account must be allowed: (resource, subresource, verbs)."""
    return [(trial, "", ("get", "list", "watch", "create", "delete", "deletecollection")),
            (PODS, "", ("list", "watch")),
            *([(PODS, "log", ("get",))] if reads_logs else []),
            (SECRETS, "", ("get", "list", "create", "update", "patch", "delete", "deletecollection")),
            (CONFIG_MAPS, "", ("create",))]


def _rights(service: KubernetesService, timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    lacking = []
    for resource, sub, verbs in rights_used(service.kind.resource, not service.settings.keepers_call_home()):
        for verb in verbs:
            asked = {"namespace": service.namespace, "verb": verb, "group": resource.group,
                     "resource": resource.plural, **({"subresource": sub} if sub else {})}
            answer = service.api.call(
                "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", timeout=timeout,
                body={"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                      "spec": {"resourceAttributes": asked}})
            if not (answer.get("status") or {}).get("allowed"):
                lacking.append(f"{verb} {resource.plural}{'/' + sub if sub else ''}")
    if lacking:
        yield RehearsalFinding("rights", False, f"Our account may not do this in namespace {service.namespace}: "
                               f"{', '.join(lacking)}. Give it the role in docs/deploy/kubernetes/role.yaml.")
    else:
        yield RehearsalFinding("rights", True, "Our account has all the rights it needs.")


def _quota(service: KubernetesService, timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    try:
        found = service.api.call("GET", f"/api/v1/namespaces/{service.namespace}/resourcequotas", timeout=timeout)
    except ApiRefusal as refusal:
        if refusal.code in (403, 404):
            return  # it shows when a trial is submitted
        raise
    for quota in found.get("items") or []:
        status, name = quota.get("status") or {}, quota["metadata"]["name"]
        is_full, told = False, []
        for resource, hard in (status.get("hard") or {}).items():
            used = (status.get("used") or {}).get(resource, "0")
            told.append(f"{used} of {hard} {resource}")
            if 0 < _amount(hard) <= _amount(used):
                is_full = True
                yield RehearsalFinding("quota", False, f"The namespace's quota {name} is used up: {used} of {hard} "
                                       f"{resource}. Trials wait until something ends.", temporary=True)
        if told and not is_full:
            yield RehearsalFinding("quota", True, f"The namespace's quota {name} has room; used are {', '.join(told)}.")


def _amount(text: object) -> Decimal:
    """A quantity ("2500m", "16Gi") as a number; 0 for one that the official client does not know."""
    try:
        amount: Decimal = parse_quantity(text)  # type: ignore[no-untyped-call]
    except ValueError:
        return Decimal(0)
    return amount


def _gpus(service: KubernetesService, options: KubernetesTrialOptions | None,
          timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    wanted = {name: role for name, role in (options.roles() if options else {}).items() if role.gpu_number}
    if not wanted:
        return
    try:
        nodes = service.api.call("GET", "/api/v1/nodes", timeout=timeout).get("items") or []
    except ApiRefusal as refusal:
        if refusal.code != 403:
            raise
        yield RehearsalFinding("gpus", True, "Our account may not look at nodes, so their GPUs are not known.")
        return
    for name, role in wanted.items():
        most = max((_count(node, role.gpu_resource) for node in nodes), default=0)
        if most < (role.gpu_number or 0):
            yield RehearsalFinding("gpus", False, f"Role {name} asks for {role.gpu_number} {role.gpu_resource} in a "
                                   f"pod, and no node has more than {most}. Trials wait until there is one; correct "
                                   "gpuNumber or gpuResource if there never will be.", temporary=True)
        else:
            yield RehearsalFinding("gpus", True, f"Nodes have up to {most} {role.gpu_resource}.")


def _count(node: Object, resource: str) -> int:
    text = str(((node.get("status") or {}).get("allocatable") or {}).get(resource, "0"))
    return int(text) if text.isdigit() else 0


def _registries(options: KubernetesTrialOptions | None) -> Iterator[RehearsalFinding]:
    for name, role in (options.roles() if options else {}).items():
        path = role.private_registry_auth_path
        if path is None:
            continue
        try:
            logins = json.loads(path.read_text()).get("auths")
        except (OSError, ValueError, AttributeError) as error:
            yield RehearsalFinding("registry", False, f"privateRegistryAuthPath of role {name}: {path} cannot be read "
                                   f"as a docker config.json ({error}).")
            continue
        registry = role.docker_image.partition("/")[0] if "." in role.docker_image.partition("/")[0] else "docker.io"
        known = [urlsplit(key).hostname or key.partition("/")[0] for key in logins or {}]
        if not any(registry in (host, host.removeprefix("index.")) for host in known):
            yield RehearsalFinding("registry", False, f"privateRegistryAuthPath of role {name}: {path} has no login "
                                   f"for {registry}, where the image {role.docker_image} comes from; it has "
                                   f"{', '.join(known) or 'none'}. Run docker login {registry}.")
        else:
            yield RehearsalFinding("registry", True, f"{path} has a login for {registry}.")


def _storage(service: KubernetesService) -> Iterator[RehearsalFinding]:
    if service.storage is None:
        return
    try:
        service.storage.keeper()
    except TrainingServiceError as error:
        yield RehearsalFinding("storage", False, str(error))
    else:
        yield RehearsalFinding("storage", True, f"Code and keeper go to {service.storage.folder}.")


def _test_pod(service: KubernetesService, role: RoleSettings,
              options: KubernetesTrialOptions) -> Iterator[RehearsalFinding]:
    """Run the probe in the trial's own image."""
    name = f"nniweb-rehearsal-{uuid.uuid4().hex[:8]}"
    urls: Sequence[str] = service.context.public_urls() if service.settings.keepers_call_home() else ()
    spec: Object = {"restartPolicy": "Never", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "probe", "image": role.docker_image,
                                    "command": [role.python, "-c", PROBE, PROBED_PATH, *urls],
                                    "terminationMessagePolicy": "FallbackToLogsOnError"}]}
    if options.service_account_name:
        spec["serviceAccountName"] = options.service_account_name
    if options.node_selector:
        spec["nodeSelector"] = dict(options.node_selector)
    try:
        if role.private_registry_auth_path is not None:
            spec["imagePullSecrets"] = [{"name": service.belongings.pull_secret("rehearsal", "probe", role)}]
        service.api.call("POST", PODS.path(service.namespace), body={
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    except ApiRefusal as refusal:
        if refusal.code == 403:
            yield RehearsalFinding("trial", True, "Our account may not create a pod to try the image with; that is no "
                                                  "right it needs otherwise.")
        else:
            yield RehearsalFinding("trial", False, str(error_of(refusal, "create a test pod")),
                                   temporary=refusal.code >= 429)
        return
    try:
        yield from _outcome(service, name, role, urls)
    finally:
        remove(service.api, PODS, service.namespace, name)


def _outcome(service: KubernetesService, name: str, role: RoleSettings,
             urls: Sequence[str]) -> Iterator[RehearsalFinding]:
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
        yield RehearsalFinding("trial", True, f"A test pod with image {role.docker_image} has a Python that fits{way}.",
                               pods.node_of(pod))
    elif ended is not None and ended.message.startswith("unreachable"):
        only_loopback = all(urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1") for url in urls)
        yield RehearsalFinding("way_home", False, f"A pod cannot reach this server ({ended.message.strip()}). Set "
                               "NNIWEB_PUBLIC_URL or nniManagerIp to an address that pods can reach, or wayHome: log.",
                               pods.node_of(pod), temporary=only_loopback)
    else:
        yield RehearsalFinding("trial", False, f"A test pod with image {role.docker_image} failed: "
                               f"{pods.why_ended(pod, 'probe')}", pods.node_of(pod))
