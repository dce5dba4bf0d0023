"""Where the server runs in a pod, it uses the pod's own account, and the token that is there now."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes.config import incluster_config

from tests.fakes.kubernetes.api import TOKEN, KubernetesApiDouble
from tests.fakes.tls_certificate import make_certificate
from trainingservice.kubernetes_base.api import PODS, AccessUnreadable, ApiAccess, KubernetesApi


@pytest.fixture
def in_a_pod(tmp_path, monkeypatch) -> tuple[KubernetesApiDouble, Path]:
    """The cluster around, and the account's folder as the kubelet leaves it in a pod."""
    context, authority = make_certificate(tmp_path / "tls")
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(TOKEN)
    (account / "ca.crt").write_text(authority.read_text())
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(account / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(account / "ca.crt"))
    with KubernetesApiDouble(tmp_path / "cluster", tls=context) as cluster:
        host, port = cluster.url.removeprefix("https://").split(":")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
        yield cluster, account


def test_the_pods_account_is_used_and_its_new_token_too(in_a_pod) -> None:
    cluster, account = in_a_pod
    api = KubernetesApi(ApiAccess())
    assert api.address == cluster.url
    assert api.call("GET", PODS.path("default"))["items"] == []
    cluster.tokens = {"the next token"}
    (account / "token").write_text("the next token")  # the kubelet does that once an hour
    assert api.call("GET", PODS.path("default"))["items"] == []
    assert [status for _, _, status in cluster.requests] == [200, 401, 200]
    api.close()


def test_a_pod_without_an_account_is_told_what_to_set(in_a_pod) -> None:
    _, account = in_a_pod
    (account / "token").unlink()
    with pytest.raises(AccessUnreadable, match="Service token file does not exist. Set kubeconfig and context"):
        KubernetesApi(ApiAccess()).call("GET", "/version")


def test_a_kubeconfig_that_is_given_wins_over_the_pods_account(in_a_pod, tmp_path) -> None:
    with KubernetesApiDouble(tmp_path / "another") as another:
        api = KubernetesApi(ApiAccess(another.kubeconfig))
        assert api.address == another.url
        assert api.call("GET", PODS.path("default"))["items"] == []
        api.close()
