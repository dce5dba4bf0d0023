"""The chart in docs/deploy/helm: its values, its rights, and what the real helm makes of it."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from nniweb.observability import probes
from tests.deploy.helm_program import helm_program, said_against
from trainingservice.adl.job import ADAPTDL_JOBS
from trainingservice.frameworkcontroller.framework import FRAMEWORKS
from trainingservice.kubeflow.replicated_job import MPIJobKind, PyTorchJobKind, TFJobKind
from trainingservice.kubeflow.train_job import TRAIN_JOBS
from trainingservice.kubernetes.job import JOBS
from trainingservice.kubernetes_base.api import CLAIMS
from trainingservice.kubernetes_base.rehearsal import rights_used

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "docs" / "deploy"
CHART = DEPLOY / "helm"
ADDRESS = {"publicUrl": "https://nni.example.org"}
#: As an installation that uses everything gives them.
EVERYTHING: dict[str, Any] = {
    "publicUrl": "https://nni.example.org:8443", "image": {"repository": "registry.example.org/nniweb", "tag": "1.2.3"},
    "imagePullSecrets": ["registry"], "trustedProxies": ["10.1.2.0/28", "10.1.3.4"], "allowedHosts": ["inside"],
    "settings": {"NNIWEB_LOG_FORMAT": "text", "NNIWEB_LOW_SPACE_MB": "2000"}, "settingsFrom": ["single-sign-on"],
    "web": {"replicas": 5, "minAvailable": 3, "podAnnotations": {"a": "b"}, "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "web", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}},
    "worker": {"replicas": 1, "minAvailable": 0, "terminationGracePeriodSeconds": 90},
    "persistence": {"storageClass": "nfs", "size": "1Ti"}, "service": {"type": "NodePort", "annotations": {"c": "d"}},
    "ingress": {"className": "", "annotations": {}, "tlsSecret": "nni-example-org-tls"},
    "serviceAccount": {"name": "searches", "annotations": {"e": "f"}},
    "trials": {"namespace": "gpus", "platforms": ["kubernetes", "kubeflow", "frameworkcontroller", "adl"],
               "kueue": True}}
#: As one that uses little.
LITTLE: dict[str, Any] = {**ADDRESS, "redis": False, "ingress": {"enabled": False}, "trials": {"platforms": []},
                          "persistence": {"existingClaim": "mine"}, "serviceAccount": {"create": False},
                          "web": {"replicas": 1, "minAvailable": 0}, "worker": {"replicas": 1, "minAvailable": 0}}
RESOURCES = {"kubernetes": [JOBS],
             "kubeflow": [TFJobKind("v1").resource, PyTorchJobKind("v1").resource, MPIJobKind("v1").resource,
                          TRAIN_JOBS],
             "frameworkcontroller": [FRAMEWORKS], "adl": [ADAPTDL_JOBS]}


def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


@cache
def rights() -> dict[str, list[dict[str, list[str]]]]:
    found: dict[str, list[dict[str, list[str]]]] = yaml.safe_load((CHART / "files" / "rights.yaml").read_text())
    return found


def granted(rules: list[dict[str, list[str]]]) -> set[tuple[str, str, str]]:
    return {(group, name, verb) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]
            for verb in rule["verbs"]}


# --- what needs no helm ------------------------------------------------------------------------


def test_the_values_are_right_by_their_own_schema_once_the_address_is_given() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert [list(error.path) for error in validator.iter_errors(values())] == [["publicUrl"]]
    for given in (ADDRESS, EVERYTHING, LITTLE):
        assert not list(validator.iter_errors({**values(), **given}))


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def compare(value: Any, its: dict[str, Any], path: str) -> None:
        its = schema["$defs"][its["$ref"].rpartition("/")[2]] if "$ref" in its else its
        if "properties" in its:
            assert its.get("additionalProperties") is False, path
            known = its["properties"].keys() - {"global"}
            if value is not None and path.rpartition(".")[2] != "resources":
                assert known == value.keys(), path
            for name in known & value.keys():
                compare(value[name], its["properties"][name], f"{path}.{name}")
    compare(values(), schema, "")


def test_every_setting_that_the_chart_writes_exists() -> None:
    known = set(re.findall(r'(?:text|number|boolean|names)\("(NNIWEB_\w+)"', (ROOT / "nniweb/settings.py").read_text()))
    used = {name.removesuffix("_FILE") for path in (CHART / "templates").glob("*.yaml")
            for name in re.findall(r"NNIWEB_\w+", path.read_text())}
    assert used
    assert used <= known


def test_its_version_is_the_one_of_the_other_deployment_files() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    compose = yaml.safe_load((DEPLOY / "containers" / "compose.yml").read_text())
    assert f"nniweb:{chart['appVersion']}" == compose["x-nniweb"]["image"]


def test_all_rights_together_are_those_of_the_role_for_kubectl() -> None:
    role = next(yaml.safe_load_all((DEPLOY / "kubernetes" / "role.yaml").read_text()))
    assert granted(role["rules"]) == granted([rule for rules in rights().values() for rule in rules])


@pytest.mark.parametrize("platform", RESOURCES)
def test_a_platform_has_the_rights_that_it_uses_and_none_of_another_platform(platform: str) -> None:
    its = granted([*rights()["all"], *rights()[platform]])
    for resource in RESOURCES[platform]:
        volumes = [CLAIMS] if resource is ADAPTDL_JOBS else []
        for used, sub, verbs in rights_used(resource, reads_logs=True, dependants=volumes):
            assert {(used.group, f"{used.plural}/{sub}" if sub else used.plural, verb) for verb in verbs} <= its
    others = {resource.plural for name, theirs in RESOURCES.items() if name != platform for resource in theirs}
    assert not {name for _, name, _ in its} & others
    assert (("", "persistentvolumeclaims", "create") in its) == (platform == "adl")


# --- by the real helm --------------------------------------------------------------------------


def helm(*arguments: str, given: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm_program(), *arguments, *(["--values", "-"] if given is not None else [])],
                          input=None if given is None else yaml.safe_dump(given), text=True, capture_output=True,
                          timeout=120, check=False)


def rendered(given: dict[str, Any], release: str = "nniweb") -> list[dict[str, Any]]:
    """The objects as they would be applied, in a namespace of the release's name."""
    done = helm("template", release, str(CHART), "--namespace", release, given=given)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Pod specs by the component."""
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]:
            each["spec"] if each["kind"] == "Pod" else each["spec"]["template"]["spec"]
            for each in objects if each["kind"] in ("Deployment", "Job", "Pod")}


@pytest.mark.slow
@pytest.mark.parametrize("given", [ADDRESS, EVERYTHING, LITTLE], ids=["address", "everything", "little"])
def test_helm_finds_no_fault_and_kubernetes_accepts_each_object(given: dict[str, Any]) -> None:
    linted = helm("lint", str(CHART), "--strict", given=given)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    objects = rendered(given)
    assert len(by_name(objects)) == len(objects)
    assert said_against(objects) == []


@pytest.mark.slow
def test_the_schemas_would_have_noticed_a_misspelt_field() -> None:
    objects = rendered(ADDRESS)
    [web] = [each for each in objects if each["metadata"]["name"] == "nniweb-web" and each["kind"] == "Deployment"]
    web["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    found = said_against([web])
    assert len(found) == 11
    assert all("readynessProbe" in each for each in found)


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "said"), [
    ({}, "/publicUrl"),
    ({"publicUrl": "http://nni.example.org"}, "/publicUrl"),
    ({**ADDRESS, "web": {"replica": 3}}, "'replica' not allowed"),
    ({**ADDRESS, "web": {"replicas": 0}}, "/web/replicas"),
    ({**ADDRESS, "web": {"replicas": 1}}, "web.minAvailable (1) must be less than web.replicas (1)"),
    ({**ADDRESS, "worker": {"terminationGracePeriodSeconds": 10}}, "/worker/terminationGracePeriodSeconds"),
    ({**ADDRESS, "settings": {"NNIWEB_LOW_SPACE_MB": 2000}}, "/settings/NNIWEB_LOW_SPACE_MB"),
    ({**ADDRESS, "trustedProxies": ["everybody"]}, "/trustedProxies/0"),
    ({**ADDRESS, "trials": {"platforms": ["openpai"]}}, "/trials/platforms/0"),
    ({**ADDRESS, "trials": {"namespace": "nniweb"}}, "trials.namespace is the release's own namespace"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_values_are_refused_and_the_field_is_named(wrong: dict[str, Any], said: str) -> None:
    done = helm("template", "nniweb", str(CHART), "--namespace", "nniweb", given=wrong)
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("given", [ADDRESS, EVERYTHING, LITTLE], ids=["address", "everything", "little"])
def test_what_the_objects_refer_to_is_there(given: dict[str, Any]) -> None:
    whole = {**values(), **given}
    objects = rendered(given, release="searches")
    there = by_name(objects)
    for component, spec in pods(objects).items():
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        if claim := volumes.get("data"):
            name = claim["persistentVolumeClaim"]["claimName"]
            assert ("PersistentVolumeClaim", name) in there or name == whole["persistence"]["existingClaim"]
            assert volumes["secrets"]["secret"]["secretName"] == whole["secretName"]
        if component in ("web", "worker") and whole["serviceAccount"].get("create", True):
            assert ("ServiceAccount", spec["serviceAccountName"]) in there
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes.keys()
            for source in container.get("envFrom", []):
                assert (("ConfigMap", source["configMapRef"]["name"]) in there if "configMapRef" in source
                        else source["secretRef"]["name"] in whole["settingsFrom"])
    [service] = [each["spec"] for (kind, _), each in there.items() if kind == "Service"]
    selected = [each for each in objects if each["kind"] == "Deployment"
                and service["selector"].items() <= each["spec"]["template"]["metadata"]["labels"].items()]
    assert [each["metadata"]["name"] for each in selected] == ["searches-nniweb-web"]
    for (kind, name), each in there.items():
        if kind == "PodDisruptionBudget":
            assert each["spec"]["selector"] == there["Deployment", name]["spec"]["selector"]
        if kind == "RoleBinding":
            assert each["roleRef"]["name"] == there["Role", name]["metadata"]["name"]
            assert each["metadata"]["namespace"] == whole["trials"]["namespace"] != "searches"


@pytest.mark.slow
def test_the_pods_do_what_those_for_kubectl_do_and_may_less() -> None:
    objects = pods(rendered(ADDRESS))
    for component, name in (("web", "web"), ("worker", "worker"), ("migrate", "migrate")):
        [ours] = objects[component]["containers"]
        [theirs] = [container for document in yaml.safe_load_all(
            (DEPLOY / "kubernetes" / "several" / f"{name}.yaml").read_text()) if document["kind"] != "Service"
            for container in document["spec"]["template"]["spec"]["containers"]]
        assert ours["command"] == theirs["command"]
        assert ours.get("env") == theirs.get("env")
        assert ours.get("ports") == theirs.get("ports")
        for container in [*objects[component].get("initContainers", []), ours]:
            assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                    "capabilities": {"drop": ["ALL"]}}
        assert objects[component]["securityContext"]["runAsNonRoot"] is True
    for component in ("web", "worker"):
        [container] = objects[component]["containers"]
        assert [container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")] \
            == list(probes.PATHS)
        assert [each["command"][-2:] for each in objects[component]["initContainers"]] == [["migrate", "--check"]]


@pytest.mark.slow
def test_settings_are_those_of_kubectl_and_a_given_one_wins() -> None:
    lines = (DEPLOY / "kubernetes" / "several" / "settings.env").read_text().splitlines()
    theirs = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    [ours] = [each["data"] for each in rendered(ADDRESS) if each["kind"] == "ConfigMap"]
    assert ours == {**theirs, "NNIWEB_DEMO": "0", "NNIWEB_ALLOWED_HOSTS": "nniweb,nniweb.nniweb"}
    [given] = [each["data"] for each in rendered(EVERYTHING) if each["kind"] == "ConfigMap"]
    assert (given["NNIWEB_LOG_FORMAT"], given["NNIWEB_LOW_SPACE_MB"]) == ("text", "2000")
    assert given["NNIWEB_TRUSTED_PROXIES"] == "10.1.2.0/28,10.1.3.4"
    assert "NNIWEB_REDIS_URL_FILE" not in [each["data"] for each in rendered(LITTLE) if each["kind"] == "ConfigMap"][0]


@pytest.mark.slow
def test_the_job_has_another_name_for_another_version_and_only_then() -> None:
    def job(given: dict[str, Any]) -> str:
        [name] = [each["metadata"]["name"] for each in rendered({**ADDRESS, **given}) if each["kind"] == "Job"]
        return str(name)
    assert job({}) == job({"web": {"replicas": 4}, "ingress": {"className": "traefik"}})
    assert job({}) != job({"image": {"tag": "0.9.0"}})


@pytest.mark.slow
@pytest.mark.parametrize("platform", RESOURCES)
def test_the_servers_account_gets_the_rights_of_the_platforms_that_are_named(platform: str) -> None:
    objects = rendered({**ADDRESS, "trials": {"platforms": [platform]}})
    [role] = [each for each in objects if each["kind"] == "Role"]
    assert role["metadata"]["namespace"] == "trials"
    assert granted(role["rules"]) == granted([*rights()["all"], *rights()[platform]])


@pytest.mark.slow
def test_without_platforms_there_is_no_role_and_pods_have_no_token() -> None:
    objects = rendered(LITTLE)
    assert not [each for each in objects if each["kind"] in ("Role", "RoleBinding")]
    assert {spec["automountServiceAccountToken"] for spec in pods(objects).values()} == {False}
