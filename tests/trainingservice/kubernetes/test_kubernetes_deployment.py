"""The files in docs/deploy/kubernetes are right by the official client's models, and grant what is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from trainingservice.frameworkcontroller.framework import FRAMEWORKS
from trainingservice.kubeflow.replicated_job import MPIJobKind, PyTorchJobKind, TFJobKind
from trainingservice.kubeflow.train_job import TRAIN_JOBS
from trainingservice.kubernetes.job import JOBS
from trainingservice.kubernetes_base.rehearsal import rights_used

FOLDER = Path(__file__).parents[3] / "docs" / "deploy" / "kubernetes"


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text()) if document]


ALL = [pytest.param(document, id=f"{name}-{document['kind']}") for name in ("role.yaml", "nniweb.yaml")
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


def test_the_deployment_uses_the_account_the_claim_and_the_secret_that_are_there() -> None:
    everything = documents("role.yaml") + documents("nniweb.yaml")
    names = {(document["kind"], document["metadata"]["name"]) for document in everything}
    [deployment] = [document for document in everything if document["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    assert ("ServiceAccount", spec["serviceAccountName"]) in names
    for volume in spec["volumes"]:
        if "persistentVolumeClaim" in volume:
            assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
        else:
            assert ("Secret", volume["secret"]["secretName"]) in names
    [service] = [document for document in everything if document["kind"] == "Service"]
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= labels
