"""A kubeconfig that cannot be read: a launch is refused, and trials that were launched wait for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainingservice.errors import TemporaryError
from trainingservice.kubernetes_base.api import AccessUnreadable, ApiAccess, KubernetesApi
from trainingservice.limited_yaml import read_yaml
from trainingservice.trial_job_status import TrialJobStatus

BROKEN = ["", "{half: [written", "- a\n- list\n", "just text", "clusters: 3\ncurrent-context: x\n"]


@pytest.mark.parametrize("text", BROKEN, ids=["empty", "half written", "a list", "a text", "other types"])
def test_a_file_that_never_worked_blocks_a_launch_with_its_name(bench, tmp_path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    bench.platform.more = {"kubeconfig": path}
    [finding] = bench.platform.new_service(bench.context()).rehearse(quick=True)
    assert finding.blocks
    assert f"cannot be read from {path}" in finding.message


def test_trials_wait_while_the_server_cannot_read_the_file_and_go_on_once_it_can(bench, cluster, tmp_path) -> None:
    """Whoever launched could: a command of another user, with a file that only they may read."""
    path = tmp_path / "kubeconfig"
    bench.platform.more = {"kubeconfig": path}
    service = bench.open_service()
    form = bench.form("echo worked")
    service.submit_trial_job(form)
    bench.wait("it says why it waits", lambda: f"cannot be read from {path}" in service.get_trial_job(
        form.job_name).message)
    assert service.get_trial_job(form.job_name).status is TrialJobStatus.WAITING
    path.write_text(cluster.kubeconfig.read_text())
    bench.wait_for_end(service, form)


def test_an_unreadable_file_is_trouble_of_the_cluster(bench, tmp_path) -> None:
    bench.platform.more = {"kubeconfig": tmp_path / "missing"}
    service = bench.open_service()
    forms = [bench.form("true") for _ in range(3)]
    for form in forms:
        service.submit_trial_job(form)
    bench.wait("the cluster says so", lambda: "cannot be read from" in service.trouble)
    for form in forms:
        service.cancel_trial_job(form.job_name)


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


def with_user(cluster, **user) -> str:
    """The cluster's kubeconfig as of an account that logs in another way."""
    document = read_yaml(cluster.kubeconfig.read_text())
    document["users"][0]["user"] = user
    return json.dumps(document)


def test_a_token_with_a_line_end_inside_is_said_to_be_wrong_and_not_shown(cluster, tmp_path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(with_user(cluster, token="very\nsecret"))
    api = KubernetesApi(ApiAccess(path))
    for ask in (lambda: api.call("GET", "/version"), lambda: api.watch("/version", {}, 1.0)):
        with pytest.raises(TemporaryError, match="the token in the kubeconfig contains a character") as raised:
            ask()
        assert "secret" not in str(raised.value)
        assert raised.value.__cause__ is None


def test_a_file_of_a_token_may_end_with_a_line_end(cluster, tmp_path) -> None:
    token, path = tmp_path / "token", tmp_path / "kubeconfig"
    token.write_text(read_yaml(cluster.kubeconfig.read_text())["users"][0]["user"]["token"] + "\n")
    path.write_text(with_user(cluster, tokenFile=str(token)))
    assert KubernetesApi(ApiAccess(path)).call("GET", "/version")["major"] == "1"


def test_a_file_that_is_missing_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(AccessUnreadable) as refused:
        KubernetesApi(ApiAccess(kubeconfig=tmp_path / "none")).call("GET", "/version")
    assert f"cannot be read from {tmp_path / 'none'}: No such file or directory. Set kubeconfig" in str(refused.value)
