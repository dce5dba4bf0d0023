"""What is wrong with a cluster is said before anything is started there."""

from __future__ import annotations

import base64
import json

import pytest

from trainingservice.kubernetes.config import JobTrialOptions
from trainingservice.kubernetes_base import rehearsal, rehearsal_pod
from trainingservice.kubernetes_base.config import RoleSettings


def findings(bench, quick: bool = True, **role):
    service = bench.platform.new_service(bench.context())
    options = JobTrialOptions(worker=RoleSettings(**{"docker_image": "example/trial:1", **role}))
    try:
        return service.rehearse(quick=quick, options=options)
    finally:
        service.clean_up()


def only(found, check: str):
    [finding] = [finding for finding in found if finding.check == check]
    return finding


def test_a_cluster_that_is_well_is_told_in_sentences(bench, cluster) -> None:
    found = findings(bench)
    assert [finding for finding in found if not finding.ok] == []
    assert "v1.21.2+k3s1" in only(found, "connection").message
    assert "jobs of batch/v1" in only(found, "operator").message
    assert cluster.store.all("pods") == []


def test_an_api_server_that_is_away_may_come_back(bench, cluster) -> None:
    cluster.go_away()
    finding = only(findings(bench), "connection")
    assert (finding.ok, finding.temporary) == (False, True)
    assert "cannot be reached" in finding.message


def test_refused_credentials_block(bench, cluster) -> None:
    cluster.tokens = {"another"}
    finding = only(findings(bench), "connection")
    assert finding.blocks
    assert "Renew the token" in finding.message


def test_a_kubeconfig_that_is_missing_blocks_and_is_named(bench, tmp_path) -> None:
    bench.platform.more = {"kubeconfig": tmp_path / "nowhere"}
    finding = only(findings(bench), "connection")
    assert finding.blocks
    assert str(tmp_path / "nowhere") in finding.message


def test_a_context_that_is_missing_blocks(bench) -> None:
    bench.platform.more = {"context": "no-such-context"}
    finding = only(findings(bench), "connection")
    assert finding.blocks
    assert "no-such-context" in finding.message


def test_a_namespace_that_is_missing_blocks(bench) -> None:
    bench.platform.more = {"namespace": "nowhere"}
    finding = only(findings(bench), "namespace")
    assert finding.blocks
    assert "kubectl create namespace nowhere" in finding.message


def test_each_right_that_is_missing_is_named(bench, cluster) -> None:
    cluster.forbidden |= {("deletecollection", "jobs"), ("patch", "secrets"), ("watch", "pods")}
    finding = only(findings(bench), "rights")
    assert finding.blocks
    for right in ("deletecollection jobs", "patch secrets", "watch pods"):
        assert right in finding.message
    assert "role.yaml" in finding.message


def test_a_quota_that_is_used_up_is_told_and_may_pass(bench, cluster) -> None:
    cluster.store.create("resourcequotas", "default", {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {},
        "status": {"hard": {"pods": "4", "requests.cpu": "8"}, "used": {"pods": "4", "requests.cpu": "2"}}})
    finding = only(findings(bench), "quota")
    assert (finding.ok, finding.temporary) == (False, True)
    assert "4 of 4 pods" in finding.message


def test_what_is_left_of_a_quota_is_told_whatever_its_units(bench, cluster) -> None:
    cluster.store.create("resourcequotas", "default", {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "large"}, "spec": {},
        "status": {"hard": {"pods": "4", "requests.cpu": "8"}, "used": {"pods": "1", "requests.cpu": "2500m"}}})
    finding = only(findings(bench), "quota")
    assert finding.ok
    assert finding.message == "The namespace's quota large has room. Used: 1 of 4 pods, 2500m of 8 requests.cpu."


def test_a_quota_is_used_up_also_where_its_units_differ(bench, cluster) -> None:
    cluster.store.create("resourcequotas", "default", {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {},
        "status": {"hard": {"requests.cpu": "2", "pods": "0"}, "used": {"requests.cpu": "2000m", "pods": "0"}}})
    finding = only(findings(bench), "quota")
    assert (finding.ok, finding.temporary) == (False, True)
    assert "2000m of 2 requests.cpu" in finding.message


@pytest.mark.parametrize(("gpus", "ok"), [(0, False), (2, True)])
def test_gpus_are_looked_for_on_the_nodes(bench, cluster, gpus: int, ok: bool) -> None:
    cluster.node.gpus = gpus
    finding = only(findings(bench, gpu_number=2), "gpus")
    assert finding.ok is ok


@pytest.mark.parametrize(("text", "image", "ok"), [
    ('{"auths": {"registry.example.org": {"auth": "x"}}}', "registry.example.org/trial:1", True),
    ('{"auths": {"https://index.docker.io/v1/": {"auth": "x"}}}', "me/trial:1", True),
    ('{"auths": {"other.example.org": {"auth": "x"}}}', "registry.example.org/trial:1", False),
    ("not JSON", "registry.example.org/trial:1", False)], ids=["good", "docker hub", "other", "broken"])
def test_the_login_must_be_for_the_images_registry(bench, tmp_path, text: str, image: str, ok: bool) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    assert only(findings(bench, docker_image=image, private_registry_auth_path=path), "registry").ok is ok


def test_a_storage_that_is_not_mounted_here_blocks(bench, tmp_path) -> None:
    bench.platform.more = {"storage": {"storageType": "nfs", "server": "host", "path": "/nni",
                                       "localMountPoint": str(tmp_path / "unmounted")}}
    finding = only(findings(bench), "storage")
    assert not finding.ok
    assert "localMountPoint" in finding.message


def test_a_test_pod_tries_python_and_the_way_home_and_is_removed(bench, cluster) -> None:
    bench.form()  # the bench then knows where the server is
    found = findings(bench, quick=False)
    assert "reaches this server" in only(found, "trial").message
    bench.wait("the pod is gone", lambda: cluster.store.all("pods") == [])


def test_a_server_that_pods_cannot_reach_is_told(bench, cluster) -> None:
    bench.server_urls = ("http://127.0.0.1:9",)
    finding = only(findings(bench, quick=False), "way_home")
    assert not finding.ok
    assert "NNIWEB_PUBLIC_URL" in finding.message


def test_another_program_at_our_address_is_not_taken_for_the_server(bench, cluster) -> None:
    bench.server_urls = (cluster.url,)
    assert "another program answers there" in only(findings(bench, quick=False), "way_home").message


def test_a_test_pod_that_cannot_start_says_why(bench, cluster, monkeypatch) -> None:
    monkeypatch.setattr(rehearsal_pod, "POD_DEADLINE", 1.0)
    cluster.node.missing_images["example/typo:1"] = "not found"
    finding = only(findings(bench, quick=False, docker_image="example/typo:1"), "trial")
    assert (finding.ok, finding.temporary) == (False, True)
    assert "ImagePullBackOff" in finding.message


def test_an_image_without_python_is_told(bench) -> None:
    finding = only(findings(bench, quick=False, python="no-such-python"), "trial")
    assert finding.blocks


def test_without_options_the_image_of_a_file_that_names_none_is_tried_and_does_not_block(bench, cluster) -> None:
    cluster.faults.append({"status": 403, "verb": "create", "path": "/pods", "message":
                           'pods "nniweb-rehearsal-1" is forbidden: violates PodSecurity "restricted:latest"'})
    service = bench.platform.new_service(bench.context())
    try:
        finding = only(service.rehearse(), "trial")
    finally:
        service.clean_up()
    assert (finding.ok, finding.blocks) == (False, False)
    assert "the default image" in finding.message


@pytest.mark.parametrize(("said", "ok", "words"), [
    ('pods is forbidden: User "nniweb" cannot create resource "pods" in API group ""', True, "may not create a pod"),
    ('pods "p" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot', False, "violates PodSecurity"),
    ('pods "p" is forbidden: minimum cpu usage per Container is 1', False, "minimum cpu usage")],
    ids=["rights", "PodSecurity", "LimitRange"])
def test_a_refused_test_pod_says_whether_trials_would_be_refused(bench, cluster, said: str, ok: bool, words: str
                                                                 ) -> None:
    cluster.faults.append({"status": 403, "verb": "create", "path": "/pods", "message": said})
    finding = only(findings(bench, quick=False), "trial")
    assert finding.ok is ok
    assert finding.blocks is not ok
    assert words in finding.message


def test_a_refused_test_pod_is_no_danger_where_only_the_quota_is_used_up(bench, cluster) -> None:
    cluster.faults.append({"status": 403, "verb": "create", "path": "/pods", "message":
                           'pods "p" is forbidden: exceeded quota: small, requested: pods=1, used: pods=4'})
    finding = only(findings(bench, quick=False), "trial")
    assert (finding.ok, finding.temporary) == (False, True)


def test_the_test_pod_logs_in_as_whoever_checks_and_leaves_nothing(bench, cluster, tmp_path) -> None:
    bench.form()
    seen = []
    for login in ("first", "second"):
        path = tmp_path / f"{login}.json"
        path.write_text(f'{{"auths": {{"registry.example.org": {{"auth": "{login}"}}}}}}')
        cluster.node.when_taken = lambda pod: seen.append(cluster.store.get(
            "secrets", "default", pod["spec"]["imagePullSecrets"][0]["name"])["data"][".dockerconfigjson"])
        found = findings(bench, quick=False, docker_image="registry.example.org/trial:1",
                         private_registry_auth_path=path)
        assert only(found, "trial").ok
    assert [json.loads(base64.b64decode(text))["auths"]["registry.example.org"]["auth"] for text in seen] == [
        "first", "second"]
    assert cluster.store.all("secrets") == []


def test_a_test_pod_that_nobody_removed_ends_and_is_removed_by_a_later_check(bench, cluster) -> None:
    bench.form()
    pods_seen = []
    cluster.node.when_taken = pods_seen.append
    assert only(findings(bench, quick=False, cpu_number=1), "trial").ok
    [pod] = pods_seen
    assert pod["spec"]["activeDeadlineSeconds"] > 0
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
    cluster.store.create("pods", "default", {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "left", "labels": pod["metadata"]["labels"]},
        "spec": pod["spec"]})
    cluster.store.change("pods", "default", "left", lambda left: left["metadata"].__setitem__(
        "creationTimestamp", "2020-01-01T00:00:00Z"))
    findings(bench, quick=False)
    bench.wait("both are gone", lambda: cluster.store.all("pods") == [])


@pytest.mark.parametrize(("image", "key", "ok"), [
    ("registry:5000/x", "registry:5000", True), ("localhost:5000/x", "http://localhost:5000", True),
    ("localhost/x", "localhost", True), ("registry.example.org:443/x", "https://registry.example.org:443/v2/", True),
    ("registry:5000/x", "registry:5001", False), ("me/x", "docker.io", True),
    ("x", "https://index.docker.io/v1/", True), ("docker.io/me/x", "index.docker.io", True),
    ("a.azurecr.io/x", "*.azurecr.io", True), ("a.b.azurecr.io/x", "*.azurecr.io", False)])
def test_a_login_is_recognised_as_the_kubelet_does(tmp_path, image: str, key: str, ok: bool) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": {key: {"auth": "x"}}}))
    options = JobTrialOptions(worker=RoleSettings(docker_image=image, private_registry_auth_path=path))
    [finding] = rehearsal.registries(options)
    assert finding.ok is ok, finding.message


def test_config_maps_are_asked_about_only_where_the_keeper_comes_by_one(bench, cluster) -> None:
    cluster.forbidden |= {("create", "configmaps")}
    assert only(findings(bench), "rights").blocks
    service = bench.platform.new_service(bench.context())
    found = service.rehearse(quick=True, options=JobTrialOptions(keeper_image="example/keeper:1"))
    service.clean_up()
    assert only(found, "rights").ok


def test_events_that_may_not_be_listed_are_told_and_do_not_block(bench, cluster) -> None:
    cluster.forbidden |= {("list", "events")}
    found = findings(bench)
    assert only(found, "rights").ok
    assert "wait without a reason" in only(found, "events").message


def test_gpus_that_only_trial_gpu_number_asks_for_are_looked_for_too(bench, cluster) -> None:
    cluster.node.gpus = 1
    service = bench.platform.new_service(bench.context())
    found = service.rehearse(quick=True, options=JobTrialOptions().with_gpus(2))
    service.clean_up()
    assert "asks for 2 nvidia.com/gpu" in only(found, "gpus").message
    own = JobTrialOptions(worker=RoleSettings(gpu_number=0)).with_gpus(2)
    assert own.worker.gpu_number == 0
