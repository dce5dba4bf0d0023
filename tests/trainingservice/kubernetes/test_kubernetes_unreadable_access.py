"""A kubeconfig that cannot be read: an error at first, patience once it has worked."""

from __future__ import annotations

import pytest

from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.kubernetes_base.api import ApiAccess, KubernetesApi

BROKEN = ["", "{half: [written", "- a\n- list\n", "just text", "clusters: 3\ncurrent-context: x\n"]


@pytest.mark.parametrize("text", BROKEN, ids=["empty", "half written", "a list", "a text", "other types"])
def test_a_file_that_never_worked_is_refused_with_its_name(tmp_path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(PermanentError, match="cannot be read from") as refusal:
        KubernetesApi(ApiAccess(path)).call("GET", "/version")
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize("text", BROKEN, ids=["empty", "half written", "a list", "a text", "other types"])
def test_a_file_that_has_worked_is_waited_for(cluster, text: str) -> None:
    api = KubernetesApi(ApiAccess(cluster.kubeconfig))
    api.call("GET", "/version")
    address, good = api.address, cluster.kubeconfig.read_text()
    cluster.kubeconfig.write_text(text)
    api.reload()
    with pytest.raises(TemporaryError, match="cannot be read from"):
        api.call("GET", "/version")
    assert api.address == address
    cluster.kubeconfig.write_text(good)
    assert api.call("GET", "/version")["major"] == "1"
    api.close()
