"""Tries on the cluster what a trial will need, and says in sentences what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainingservice.base import RehearsalFinding
from trainingservice.errors import PermanentError, TemporaryError, TrainingServiceError
from trainingservice.files.unlinked_paths import read_file
from trainingservice.kubernetes_base.api import (
    CONFIG_MAPS,
    PODS,
    SECRETS,
    VERSION,
    AccessUnreadable,
    ApiRefusal,
    Object,
    Resource,
    error_of,
)
from trainingservice.kubernetes_base.belongings import MOST_OF_A_LOGIN
from trainingservice.kubernetes_base.cluster_access import ClusterAccess
from trainingservice.kubernetes_base.complaints import EVENTS
from trainingservice.kubernetes_base.config import KubernetesTrialOptions
from trainingservice.kubernetes_base.quotas import limits_of
from trainingservice.kubernetes_base.rehearsal_pod import try_pods
from trainingservice.kubernetes_scheduling.named import named_in
from trainingservice.rest.told_json import read_json
from trialkeeper.whole_number import whole_number
from trialkeeper.wildcards import shell_wildcards

#: Seconds that one question may take before a launch, and otherwise.
QUICK, PATIENT = (1.5, 2.0), (5.0, 20.0)


def rehearse_cluster(service: ClusterAccess, options: KubernetesTrialOptions | None, *,
                     quick: bool) -> list[RehearsalFinding]:
    """All findings, good ones too. ``quick`` leaves the test pod out. Without options, what needs none is looked at."""
    timeout = QUICK if quick else PATIENT
    findings: list[RehearsalFinding] = []
    try:
        version = service.api.call("GET", VERSION, timeout=timeout)
    except ApiRefusal as refusal:
        refused = refusal.code in (401, 403) and not refusal.is_starting
        return [RehearsalFinding("connection", False, str(error_of(refusal, "tell its version")),
                                 temporary=not refused)]
    except TrainingServiceError as error:
        passes = isinstance(error, TemporaryError) and not isinstance(error, AccessUnreadable)
        return [RehearsalFinding("connection", False, str(error), temporary=passes)]
    findings.append(RehearsalFinding("connection", True,
                                     f"Kubernetes {version.get('gitVersion', '')} answers at {service.api.address}."))
    for step in (_namespace(service, timeout), _kind(service, options, timeout), _rights(service, options, timeout),
                 _quota(service, timeout), _gpus(service, options, timeout), _named(service, options, timeout),
                 registries(options), _storage(service)):
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
    if not quick:
        findings += try_pods(service, options)
    return findings


def _namespace(service: ClusterAccess, timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    try:
        service.api.call("GET", f"/api/v1/namespaces/{service.namespace}", timeout=timeout)
    except ApiRefusal as refusal:
        if refusal.code == 404:
            yield RehearsalFinding("namespace", False, f"There is no namespace {service.namespace}; create it with "
                                                       f"kubectl create namespace {service.namespace}, or correct the "
                                                       "field namespace.")
            return
        if refusal.code != 403:
            raise
    yield RehearsalFinding("namespace", True, f"Trials run in namespace {service.namespace}.")


def _kind(service: ClusterAccess, options: KubernetesTrialOptions | None,
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


def api_resources(service: ClusterAccess, group: str, version: str,
                  timeout: tuple[float, float] = PATIENT) -> list[str]:
    """The plurals that a group has at this version; [] where the cluster does not have it at all."""
    try:
        found = service.api.call("GET", f"/apis/{group}/{version}", timeout=timeout)
    except ApiRefusal as refusal:
        if refusal.code == 404:
            return []
        raise
    return [str(resource.get("name")) for resource in found.get("resources") or []]


def rights_used(trial: Resource, reads_logs: bool, makes_config_maps: bool = True, dependants: Sequence[Resource] = ()
                ) -> list[tuple[Resource, str, tuple[str, ...]]]:
    """What our account must be allowed: (resource, subresource, verbs)."""
    return [(trial, "", ("get", "list", "watch", "create", "delete", "deletecollection")),
            (PODS, "", ("list", "watch")),
            *([(PODS, "log", ("get",))] if reads_logs else []),
            (SECRETS, "", ("get", "list", "create", "update", "patch", "delete", "deletecollection")),
            *([(CONFIG_MAPS, "", ("create",))] if makes_config_maps else []),
            *((resource, "", ("create",)) for resource in dependants)]


def _rights(service: ClusterAccess, options: KubernetesTrialOptions | None,
            timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    comes_otherwise = service.storage is not None or options is not None and options.keeper_image is not None
    dependants = [] if options is None else [resource for resource, _ in service.kind.dependants("", {}, options)]
    lacking = [f"{verb} {resource.plural}{'/' + sub if sub else ''}" for resource, sub, verbs in rights_used(
        service.kind.resource, not service.settings.keepers_call_home(), not comes_otherwise, dependants)
        for verb in verbs if not _may(service, verb, resource, sub, timeout)]
    if not _may(service, "list", EVENTS, "", timeout):
        yield RehearsalFinding("events", True, "The server's account may not list events. A trial may then wait "
                                               "without a reason if only events show it (a quota, a storage that "
                                               "cannot be mounted). docs/deploy/kubernetes/role.yaml contains this "
                                               "permission.")
    if lacking and service.api.is_starting(timeout):
        yield RehearsalFinding("rights", False, "The Kubernetes API is starting and has not loaded all permissions "
                                                "yet.",
                               temporary=True)
    elif lacking:
        yield RehearsalFinding("rights", False, "The server's account may not do this in namespace "
                                                f"{service.namespace}: {', '.join(lacking)}. Give it the role in "
                                                "docs/deploy/kubernetes/role.yaml.")
    else:
        yield RehearsalFinding("rights", True, "The server's account has all permissions that it needs.")


def _may(service: ClusterAccess, verb: str, resource: Resource, sub: str, timeout: tuple[float, float]) -> bool:
    asked = {"namespace": service.namespace, "verb": verb, "group": resource.group,
             "resource": resource.plural, **({"subresource": sub} if sub else {})}
    answer = service.api.call(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", timeout=timeout,
        body={"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
              "spec": {"resourceAttributes": asked}})
    return bool((answer.get("status") or {}).get("allowed"))


def _quota(service: ClusterAccess, timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    try:
        limits = limits_of(service.api, service.namespace, timeout)
    except ApiRefusal as refusal:
        if refusal.code in (403, 404):
            return  # it shows when a trial is submitted
        raise
    for name in dict.fromkeys(limit.quota for limit in limits):
        of_quota = [limit for limit in limits if limit.quota == name]
        for limit in (limit for limit in of_quota if limit.is_used_up):
            yield RehearsalFinding("quota", False, f"The namespace's quota {name} is used up: {limit.used} of "
                                                   f"{limit.hard} {limit.resource}. Trials wait until other objects "
                                                   "end.", temporary=True)
        if not any(limit.is_used_up for limit in of_quota):
            told = ", ".join(f"{limit.used} of {limit.hard} {limit.resource}" for limit in of_quota)
            yield RehearsalFinding("quota", True, f"The namespace's quota {name} has room. Used: {told}.")


def _gpus(service: ClusterAccess, options: KubernetesTrialOptions | None,
          timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    wanted = {name: role for name, role in (options.roles() if options else {}).items() if role.gpu_number}
    if not wanted:
        return
    try:
        nodes = service.api.call("GET", "/api/v1/nodes", timeout=timeout).get("items") or []
    except ApiRefusal as refusal:
        if refusal.code != 403:
            raise
        yield RehearsalFinding("gpus", True, "The server's account may not read nodes, so their GPUs are not known.")
        return
    for name, role in wanted.items():
        most = max((_count(node, role.gpu_resource) for node in nodes), default=0)
        if most < (role.gpu_number or 0):
            yield RehearsalFinding("gpus", False, f"Role {name} asks for {role.gpu_number} {role.gpu_resource} in a "
                                                  f"pod, but no node has more than {most}. Trials wait for such a "
                                                  "node. If there is none, correct gpuNumber or "
                                                  "gpuResource.", temporary=True)
        else:
            yield RehearsalFinding("gpus", True, f"Nodes have up to {most} {role.gpu_resource}.")


def _named(service: ClusterAccess, options: KubernetesTrialOptions | None,
           timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    """What the experiment names and the cluster lacks; nothing where our account may not look: trials show it then."""
    for thing in named_in(options) if options is not None else ():
        version = "v1"
        if thing.no_group:
            try:
                group = service.api.call("GET", f"/apis/{thing.group}", timeout=timeout)
            except ApiRefusal as refusal:
                if refusal.code != 404:
                    raise
                yield RehearsalFinding(thing.check, False, thing.no_group)
                continue
            version = str((group.get("preferredVersion") or {}).get("version") or version)
        try:
            service.api.call("GET", thing.path(service.namespace, version), timeout=timeout)
        except ApiRefusal as refusal:
            if refusal.code == 404:
                where = f"Namespace {service.namespace}" if thing.is_in_namespace else "The cluster"
                yield RehearsalFinding(thing.check, False, f"{where} has no {thing.plural}/{thing.name}, so "
                                       f"{thing.missing}. Create it, or correct {thing.field}.")
            elif refusal.code != 403:
                raise
        else:
            yield RehearsalFinding(thing.check, True, f"The cluster has {thing.plural}/{thing.name}.")


def _count(node: Object, resource: str) -> int:
    return whole_number(str(((node.get("status") or {}).get("allocatable") or {}).get(resource, "0"))) or 0


def registries(options: KubernetesTrialOptions | None) -> Iterator[RehearsalFinding]:
    """Whether each role's login is for the registry that its image comes from."""
    for name, role in (options.roles() if options else {}).items():
        path = role.private_registry_auth_path
        if path is None:
            continue
        try:
            logins = read_json(read_file(path, MOST_OF_A_LOGIN)).get("auths")
        except (OSError, ValueError, AttributeError) as error:
            yield RehearsalFinding("registry", False, f"privateRegistryAuthPath of role {name}: {path} cannot be read "
                                   f"as a docker config.json ({error}).")
            continue
        registry = registry_of(role.docker_image)
        known = [_registry_of_login(key) for key in logins or {}]
        if not any(_is_for(login, registry) for login in known):
            yield RehearsalFinding("registry", False, f"privateRegistryAuthPath of role {name}: {path} has no login "
                                   f"for {registry}, where the image {role.docker_image} comes from; it has "
                                   f"{', '.join(known) or 'none'}. Run docker login {registry}.")
        else:
            yield RehearsalFinding("registry", True, f"{path} has a login for {registry}.")


def registry_of(image: str) -> str:
    """Host, and port where there is one, of the registry that an image comes from."""
    first, slash, _ = image.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return _docker_hub(first) if is_host else "docker.io"


def _registry_of_login(key: str) -> str:
    """Host and port of a key of a docker config.json: "registry:5000", or an address with scheme and path."""
    return _docker_hub(key.partition("://")[2].partition("/")[0] if "://" in key else key.partition("/")[0])


def _docker_hub(host: str) -> str:
    return "docker.io" if host in ("index.docker.io", "registry-1.docker.io") else host


def _is_for(login: str, registry: str) -> bool:
    """Whether the kubelet would use it: a key may have stars in the parts of its host name."""
    theirs, ours = login.split("."), registry.split(".")
    return len(theirs) == len(ours) and all(shell_wildcards(part).matches(name)
                                            for part, name in zip(theirs, ours, strict=True))


def _storage(service: ClusterAccess) -> Iterator[RehearsalFinding]:
    if service.storage is None:
        return
    try:
        service.storage.keeper()
    except TrainingServiceError as error:
        yield RehearsalFinding("storage", False, str(error))
    else:
        yield RehearsalFinding("storage", True, f"Code and keeper go to {service.storage.folder}.")
