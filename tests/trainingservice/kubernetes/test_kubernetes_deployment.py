"""The files in docs/deploy/kubernetes are right by the official client's models, and grant what is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.fernet import Fernet
from kubernetes import client

from nniweb.observability import probes
from trainingservice.frameworkcontroller.framework import FRAMEWORKS
from trainingservice.kubeflow.replicated_job import MPIJobKind, PyTorchJobKind, TFJobKind
from trainingservice.kubeflow.train_job import TRAIN_JOBS
from trainingservice.kubernetes.job import JOBS
from trainingservice.kubernetes_base.rehearsal import rights_used

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "deploy" / "kubernetes"
#: Not part of what is applied with ``-k several``.
BESIDE = {"kustomization.yaml", "trials.yaml"}
SEVERAL = sorted(path.name for path in (FOLDER / "several").glob("*.yaml") if path.name not in BESIDE)


@cache
def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text()) if document]


ALL = [pytest.param(document, id=f"{name}-{document['kind']}")
       for name in ("role.yaml", "nniweb.yaml", "several/trials.yaml", *(f"several/{name}" for name in SEVERAL))
       for document in documents(name)]


@pytest.mark.parametrize("document", ALL)
def test_each_object_has_only_fields_that_the_api_knows(document: dict[str, Any]) -> None:
    model = getattr(client, {"Role": "V1Role", "RoleBinding": "V1RoleBinding"}.get(
        document["kind"], f"V1{document['kind']}"))
    api = client.ApiClient()
    assert api.sanitize_for_serialization(model.from_dict(document)) == document


@pytest.mark.parametrize("resource", [JOBS, TFJobKind("v1").resource, PyTorchJobKind("v1").resource,
                                      MPIJobKind("v1").resource, TRAIN_JOBS, FRAMEWORKS],
                         ids=lambda resource: resource.plural)
def test_the_role_has_every_right_that_the_platforms_use(resource) -> None:
    [role] = [document for document in documents("role.yaml") if document["kind"] == "Role"]
    granted = {(group, name, verb) for rule in role["rules"] for group in rule["apiGroups"]
               for name in rule["resources"] for verb in rule["verbs"]}
    for used, sub, verbs in rights_used(resource, reads_logs=True):
        name = f"{used.plural}/{sub}" if sub else used.plural
        assert {(used.group, name, verb) for verb in verbs} <= granted


def test_the_deployment_uses_the_account_and_the_claim_that_are_there() -> None:
    everything = documents("role.yaml") + documents("nniweb.yaml")
    names = {(document["kind"], document["metadata"]["name"]) for document in everything}
    [deployment] = [document for document in everything if document["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    assert ("ServiceAccount", spec["serviceAccountName"]) in names
    for volume in spec["volumes"]:
        assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
    # a key that is written there would be the same wherever somebody forgets to change it
    assert "Secret" not in {kind for kind, _ in names}
    [service] = [document for document in everything if document["kind"] == "Service"]
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= labels


# --- several pods ------------------------------------------------------------------------------


def kustomization() -> dict[str, Any]:
    [document] = documents("several/kustomization.yaml")
    return document


def several() -> list[dict[str, Any]]:
    return [document for name in SEVERAL for document in documents(f"several/{name}")]


def pods_of_several() -> dict[str, dict[str, Any]]:
    """The pod specs by their owners' names."""
    return {document["metadata"]["name"]: document["spec"]["template"]["spec"] for document in several()
            if document["kind"] in ("Deployment", "StatefulSet", "Job")}


def settings_of_several() -> dict[str, str]:
    lines = (FOLDER / "several" / "settings.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_there_is_everything_that_an_installation_of_several_pods_needs() -> None:
    assert kustomization()["resources"] == sorted(SEVERAL, key=kustomization()["resources"].index)
    assert {(document["kind"], document["metadata"]["name"]) for document in several()} == {
        ("Deployment", "nniweb-web"), ("Deployment", "nniweb-worker"), ("Deployment", "nniweb-redis"),
        ("StatefulSet", "nniweb-postgresql"), ("Job", "nniweb-migrate"), ("Service", "nniweb"),
        ("Service", "nniweb-postgresql"), ("Service", "nniweb-redis"), ("Ingress", "nniweb"),
        ("PersistentVolumeClaim", "nniweb-data"), ("ServiceAccount", "nniweb")}
    [web] = [document for document in several() if document["metadata"]["name"] == "nniweb-web"]
    assert web["spec"]["replicas"] == 2


def test_what_the_pods_refer_to_is_there() -> None:
    names = {(document["kind"], document["metadata"]["name"]) for document in several()}
    [secret], [settings] = kustomization()["secretGenerator"], kustomization()["configMapGenerator"]
    keys = {Path(file).name for file in secret["files"]}
    for name, spec in pods_of_several().items():
        assert spec.get("automountServiceAccountToken") is False or ("ServiceAccount",
                                                                     spec["serviceAccountName"]) in names
        mounted = {volume["name"] for volume in spec["volumes"]} | {
            claim["metadata"]["name"] for document in several() if document["metadata"]["name"] == name
            for claim in document["spec"].get("volumeClaimTemplates", [])}
        for volume in spec["volumes"]:
            if "secret" in volume:
                assert volume["secret"]["secretName"] == secret["name"]
                assert {item["key"] for item in volume["secret"].get("items", [])} <= keys
            else:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= mounted
            assert [source["configMapRef"]["name"] for source in container.get("envFrom", [])] in (
                [], [settings["name"]])


def test_services_and_ingress_lead_to_pods_and_ports_that_are_there() -> None:
    labels = {document["metadata"]["name"]: document["spec"]["template"]["metadata"]["labels"] for document in several()
              if document["kind"] in ("Deployment", "StatefulSet")}
    services = {}
    for document in several():
        if document["kind"] == "Service":
            services[document["metadata"]["name"]] = document["spec"]
            [owner] = [name for name, its in labels.items() if document["spec"]["selector"].items() <= its.items()]
            ports = {port["name"] for container in pods_of_several()[owner]["containers"]
                     for port in container.get("ports", [])}
            assert {port["targetPort"] for port in document["spec"]["ports"]} <= ports
    [ingress] = [document for document in several() if document["kind"] == "Ingress"]
    [rule] = ingress["spec"]["rules"]
    [path] = rule["http"]["paths"]
    backend = path["backend"]["service"]
    assert backend["port"]["name"] in {port["name"] for port in services[backend["name"]]["ports"]}
    assert settings_of_several()["NNIWEB_PUBLIC_URL"] == f"https://{rule['host']}"


@pytest.mark.parametrize("name", ["nniweb.yaml", "several/web.yaml"])
def test_probes_ask_for_what_the_server_answers(name: str) -> None:
    [deployment] = [document for document in documents(name) if document["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    asked = [container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")]
    assert asked == list(probes.PATHS)


def test_the_image_is_the_users_to_set_and_all_our_pods_use_it() -> None:
    [image] = kustomization()["images"]
    ours = [container["image"] for name, spec in pods_of_several().items()
            if name not in ("nniweb-postgresql", "nniweb-redis")
            for container in [*spec.get("initContainers", []), *spec["containers"]]]
    assert set(ours) == {image["name"]}


def test_only_the_servers_account_gets_the_role_where_trials_run() -> None:
    [binding] = documents("several/trials.yaml")
    [role] = [document for document in documents("role.yaml") if document["kind"] == "Role"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "nniweb",
                                    "namespace": kustomization()["namespace"]}]


def test_the_secrets_are_made_once_and_the_server_reads_its_settings_from_them(tmp_path: Path) -> None:
    script = tmp_path / "make_secrets.py"
    script.write_text((FOLDER / "several" / "make_secrets.py").read_text())
    made = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    folder = tmp_path / "secrets"
    assert {f"secrets/{path.name}" for path in folder.iterdir()} == set(kustomization()["secretGenerator"][0]["files"])
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    values = {path.name: path.read_text() for path in folder.iterdir()}
    assert not any(value in made.stdout + made.stderr for value in values.values())
    assert values["redis-url"] == f"redis://:{values['redis-password']}@nniweb-redis:6379/0"
    Fernet(values["seal-keys"])
    again = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "exists already" in again.stderr

    settings = {name: value.replace("/run/secrets/nniweb", str(folder))
                for name, value in settings_of_several().items()}
    settings["NNIWEB_DATA"] = str(tmp_path / "data")
    others = {name: value for name, value in os.environ.items() if not name.startswith("NNIWEB_")}
    code = ("import json; from nniweb import settings as s; d = s.DATABASES['default']; print(json.dumps(["
            "d['ENGINE'], d['HOST'], d['NAME'], d['PASSWORD'], s.SECRET_KEY, s.SEAL_KEYS, s.INSTALLATION_ID, "
            "s.CSRF_TRUSTED_ORIGINS, s.ALLOWED_HOSTS, s.text('NNIWEB_REDIS_URL'), s.METRICS_TOKEN]))")
    read = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
                          env={**others, **settings}, check=False)
    assert read.returncode == 0, read.stderr
    assert json.loads(read.stdout) == [
        "django.db.backends.postgresql", "nniweb-postgresql", "nniweb", values["database-password"],
        values["secret-key"], [values["seal-keys"]], values["installation"], ["https://nni.example.org"],
        ["nniweb.nniweb", "nni.example.org"], values["redis-url"], values["metrics-token"]]
    assert not (tmp_path / "data" / "keys").exists()
