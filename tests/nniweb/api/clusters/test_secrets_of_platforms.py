"""A log-in that each platform refuses: its secret is in no row, no answer, no page, no log and no repr.

The services here answer as badly as can be: with everything that they were sent.
"""

from __future__ import annotations

import io
import json
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from nniweb.experiments.clusters.service_factory import build_service
from nniweb.experiments.models import Cluster
from tests.fakes.http_double import Answer, HttpDouble, Request
from tests.fakes.ssh_machine import SshMachine
from tests.fakes.tls_certificate import make_certificate
from tests.nniweb.configured_logs import configured_logs


class Parrot(HttpDouble):
    """Refuses everybody, with what it was sent as its reason."""

    def answer(self, request: Request) -> Answer:
        said = f"refused: {dict(request.headers)} {request.query} {request.body.decode('utf-8', 'replace')}"
        return Answer(401, {"code": "UnauthorizedError", "message": said, "error": {"code": "x", "message": said},
                            "kind": "Status", "status": "Failure", "reason": said})


@pytest.fixture
def secret() -> str:
    return f"{uuid.uuid4().hex}"


@pytest.fixture
def parrot() -> Iterator[Parrot]:
    parrot = Parrot().start()
    yield parrot
    parrot.close()


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that is logged, by anybody and at any level, as the console would show it."""
    config = configured_logs()
    handler = logging.StreamHandler(stream := io.StringIO())
    handler.setFormatter(config.configure_formatter(config.config["formatters"]["text"]))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.setLevel(level)
    root.removeHandler(handler)


def kubeconfig(folder: Path, address: str, secret: str) -> str:
    """A file that holds the secret: it stays where it is, and only its path is ours."""
    path = folder / "kubeconfig"
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": secret}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}))
    return str(path)


def cluster_of(api: Any, platform: str, settings: dict[str, Any]) -> Cluster:
    made = api.post("/api/v1/clusters/", {"name": "farm", "platform": platform, "settings": settings})
    assert made.status_code == 201, made.content
    return Cluster.objects.prefetch_related("metadata").get(name="farm")


def all_rows() -> str:
    """The content of the database, every column of every table as it is stored."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            found += [value if isinstance(value, str) else bytes(value).decode("latin-1")
                      for row in cursor.fetchall() for value in row if isinstance(value, str | bytes | memoryview)]
    return "\n".join(found)


def check_that_it_stays_secret(api: Any, ada: Any, cluster: Cluster, secret: str, log: io.StringIO) -> None:
    answers = [api.post(f"/api/v1/clusters/{cluster.public_id}/actions/rehearse/"),
               api.get(f"/api/v1/clusters/{cluster.public_id}/"), api.get("/api/v1/clusters/"),
               api.get(f"/api/v1/clusters/{cluster.public_id}/metadata/"), api.get("/api/v1/audit/")]
    assert any(not finding["ok"] for finding in answers[0].json()), "the log-in was to be refused"
    browser = Client()
    browser.force_login(ada)
    answers += [browser.get(f"/clusters/{cluster.public_id}/"), browser.get("/clusters/"),
                browser.get(f"/admin/experiments/cluster/{cluster.pk}/change/")]
    for answer in answers:
        assert answer.status_code == 200, answer.content
        assert secret not in answer.content.decode(), answer.request["PATH_INFO"]
    assert secret not in all_rows()
    assert secret not in log.getvalue()
    service = build_service(Cluster.objects.prefetch_related("metadata").get(pk=cluster.pk))
    assert secret not in repr(service.settings) + repr(service.context) + repr(vars(service))
    service.clean_up()


@pytest.mark.parametrize("platform", ["openpai", "dlts", "ray"])
def test_of_a_platform_that_is_spoken_to_by_http(platform, api, ada, parrot, secret, log, tmp_path) -> None:
    mount = {"localStorageMountPoint": str(tmp_path), "containerStorageMountPoint": "/mnt"}
    cluster = cluster_of(api, platform, {
        "openpai": {"host": parrot.address, "username": "ada", "password": secret, "storageConfigName": "s", **mount},
        "dlts": {"dashboard": parrot.address, "team": "t", "email": "ada@lab.example", "password": secret, **mount},
        "ray": {"address": parrot.address, "headers": f"X-Proxy: {secret}", "token": secret},
    }[platform])
    check_that_it_stays_secret(api, ada, cluster, secret, log)
    assert parrot.requests


@pytest.mark.parametrize("platform", ["kubernetes", pytest.param("kubeflow", marks=pytest.mark.slow),
                                      pytest.param("frameworkcontroller", marks=pytest.mark.slow)])
def test_of_kubernetes_whose_token_lies_in_a_file_of_the_administrator(
        platform, api, ada, parrot, secret, log, tmp_path) -> None:
    cluster = cluster_of(api, platform, {"kubeconfig": kubeconfig(tmp_path, parrot.address, secret), **(
        {"operator": "pytorch-operator"} if platform == "kubeflow" else {})})
    check_that_it_stays_secret(api, ada, cluster, secret, log)
    assert parrot.requests


@pytest.mark.slow  # the vendor's SDK takes seconds to load
def test_of_azure_machine_learning(api, ada, secret, log, tmp_path, monkeypatch) -> None:
    context, authority = make_certificate(tmp_path / "tls")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    monkeypatch.setenv("AZUREML_CURRENT_CLOUD", "AzureCloud")  # the SDK changes it: put back after the test
    parrot = Parrot(context).start()
    try:
        cluster = cluster_of(api, "azureml", {
            "subscriptionId": str(uuid.UUID(int=1)), "resourceGroup": "g", "workspaceName": "w", "computeTarget": "c",
            "tenantId": str(uuid.UUID(int=2)), "clientId": str(uuid.UUID(int=3)), "clientSecret": secret,
            "authorityHost": parrot.address, "resourceManager": parrot.address})
        check_that_it_stays_secret(api, ada, cluster, secret, log)
        assert parrot.requests
    finally:
        parrot.close()


@pytest.mark.parametrize("platform", ["remote", pytest.param("slurm", marks=pytest.mark.slow)])
def test_of_machines_behind_ssh(platform, api, ada, secret, log, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with SshMachine(tmp_path / "machine") as machine:
        login = {"host": "127.0.0.1", "port": machine.port, "user": machine.user, "password": secret}
        cluster = cluster_of(api, platform, {"machineList": [login]} if platform == "remote" else
                             {"loginNode": login, "workingFolder": str(tmp_path / "machine")})
        check_that_it_stays_secret(api, ada, cluster, secret, log)
