"""What members may ask of a shared Kubernetes cluster: what its settings permit, and what it gives by itself."""

import json
from typing import Any

import pytest
import yaml

from nniweb.experiments.models import Cluster, Experiment
from nniweb.experiments.models.account import Scope
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS
from tests.fakes.kubernetes.kueue import KUEUE_KINDS, Kueue

PERMITTED = {"serviceAccounts": ["trainer"], "priorityClasses": ["low", "normal"], "labels": ["team"],
             "annotations": ["lab.example/*"], "tolerations": ["gpu"], "imagePullSecrets": ["lab"],
             "queues": ["team-*"]}


@pytest.fixture
def double(tmp_path):
    with KubernetesApiDouble(tmp_path / "cluster", kinds={**FRAMEWORK_KINDS, **KUEUE_KINDS}) as double:
        Kueue(double, "team-a")
        double.controllers.admission.service_accounts |= {"trainer", "admin"}
        double.controllers.admission.priority_classes |= {"low", "normal", "golden"}
        for name in ("lab", "others"):
            double.store.create("secrets", "default", {"apiVersion": "v1", "kind": "Secret",
                                                       "metadata": {"name": name}})
        yield double


@pytest.fixture
def farm(api, double):
    """Makes the shared cluster."""
    def make(platform: str = "kubernetes", **settings: Any) -> Cluster:
        made = api.post("/api/v1/clusters/", {"name": "farm", "platform": platform, "settings": {
            "kubeconfig": str(double.kubeconfig), "wayHome": "log", **settings}}, format="json")
        assert made.status_code == 201, made.content
        return Cluster.objects.get(name="farm")

    return make


def launch(client, **options: Any):
    return client.post("/api/v1/experiments/", {"config": yaml.safe_dump({
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "true", "trialConcurrency": 1,
        "tuner": {"name": "Random"}, "cluster": "farm", "trialOptions": options})}, format="json")


def refused(answer) -> dict[str, str]:
    assert answer.status_code == 400, answer.content
    assert not Experiment.objects.exists()
    return {error["field"]: error["message"] for error in answer.json()["errors"]}


ASKED = [("serviceAccountName", "admin"), ("priorityClassName", "golden"), ("kueueQueueName", "elsewhere"),
         ("imagePullSecrets", [{"name": "others"}]), ("tolerations", [{"operator": "Exists"}]),
         ("labels", {"app": "database"}), ("annotations", {"container.apparmor.security.beta.kubernetes.io/a": "b"})]


@pytest.mark.parametrize(("field", "value"), ASKED)
@pytest.mark.parametrize("permitted", [None, PERMITTED])
def test_members_may_not_ask_for_what_the_cluster_does_not_permit(as_user, alice, farm, field, value, permitted
                                                                 ) -> None:
    farm(**({"membersMayUse": permitted} if permitted else {}))
    found = refused(launch(as_user(alice), **{field: value}))
    assert list(found) == [f"trialOptions.{field}"]
    assert "The cluster does not permit" in found[f"trialOptions.{field}"]
    assert "ask an administrator to add it to membersMayUse." in found[f"trialOptions.{field}"]


@pytest.mark.parametrize(("field", "value"), [
    ("serviceAccountName", "trainer"), ("priorityClassName", "normal"), ("imagePullSecrets", [{"name": "lab"}]),
    ("tolerations", [{"key": "gpu", "operator": "Exists"}]), ("labels", {"team": "vision"}),
    ("annotations", {"lab.example/cost": "1"}), ("nodeSelector", {"pool": "small"})])
def test_members_may_ask_for_what_it_permits_and_narrow_the_nodes(as_user, alice, farm, field, value) -> None:
    farm(membersMayUse=PERMITTED)
    answer = launch(as_user(alice), **{field: value})
    assert answer.status_code == 201, answer.content
    assert field in Experiment.objects.get().trial_options


def test_administrators_may_ask_for_anything_but_with_a_members_token_for_no_more_than_members(
        as_user, with_token, ada, farm) -> None:
    farm()
    found = refused(launch(with_token(ada, Scope.CHANGE), priorityClassName="golden"))
    assert "Make a token with the scope" in found["trialOptions.priorityClassName"]
    assert launch(as_user(ada), priorityClassName="golden").status_code == 201


def test_what_the_cluster_itself_gives_to_experiments_is_permitted(api, as_user, alice, farm) -> None:
    cluster = farm()
    set_to = api.put(f"/api/v1/clusters/{cluster.public_id}/metadata/trial_config/", {
        "value": json.dumps({"serviceAccountName": "trainer", "priorityClassName": "low"})}, format="json")
    assert set_to.status_code in (200, 204), set_to.content
    assert launch(as_user(alice)).status_code == 201
    options = Experiment.objects.get().trial_options
    assert (options["serviceAccountName"], options["priorityClassName"]) == ("trainer", "low")
    answer = launch(as_user(alice), priorityClassName="normal")
    assert [error["field"] for error in answer.json()["errors"]] == ["trialOptions.priorityClassName"]


def test_a_member_cannot_leave_the_queue_that_the_cluster_gives(api, as_user, alice, farm) -> None:
    cluster = farm()
    address = f"/api/v1/clusters/{cluster.public_id}/metadata/trial_config/"
    bad = api.put(address, {"value": json.dumps({"labels": {"a b": "c"}})}, format="json")
    assert bad.status_code == 400
    assert "trial_config.labels" in bad.content.decode()
    good = api.put(address, {"value": json.dumps({"kueueQueueName": "team-a"})}, format="json")
    assert good.status_code in (200, 204)
    for value in ("team-b", "", ["team-a"], 7):
        assert [error["field"].partition("[")[0] for error in launch(
            as_user(alice), kueueQueueName=value).json()["errors"]] == ["trialOptions.kueueQueueName"]
    answer = launch(as_user(alice), kueueQueueName=None, runPolicy={"suspend": False})
    assert answer.status_code == 201, answer.content
    assert Experiment.objects.get().trial_options["kueueQueueName"] == "team-a"


def test_members_change_neither_the_permissions_nor_the_defaults(as_user, alice, farm) -> None:
    cluster = farm()
    Cluster.objects.update(owner=alice)
    member = as_user(alice)
    settings = {**cluster.settings, "membersMayUse": {"labels": ["*"]}}
    assert member.patch(f"/api/v1/clusters/{cluster.public_id}/", {"settings": settings}, format="json"
                        ).status_code == 403
    for key in ("trial_config", "kubernetes_config"):
        assert member.put(f"/api/v1/clusters/{cluster.public_id}/metadata/{key}/", {"value": "{}"},
                          format="json").status_code == 403
    cluster.refresh_from_db()
    assert "membersMayUse" not in cluster.settings


def test_nobody_changes_what_all_trials_of_a_cluster_have(as_user, ada, alice, farm) -> None:
    farm(forAllTrials={"labels": {"cost-center": "42"}, "nodeSelector": {"pool": "small"}},
         membersMayUse={"labels": ["*"]})
    for person in (ada, alice):
        found = refused(launch(as_user(person), labels={"cost-center": "0"}, nodeSelector={"pool": "large"}))
        assert "Leave \"cost-center\" out" in found["trialOptions.labels"]
        assert "\"pool\" the value \"small\" for all trials" in found["trialOptions.nodeSelector"]
    assert launch(as_user(alice), labels={"cost-center": "42", "a": "b"}).status_code == 201


def test_secrets_of_the_clusters_storage_do_not_open_it(api, as_user, alice, farm) -> None:
    farm(storage={"storageType": "azureStorage", "azureAccount": "a", "azureShare": "s", "azureAccountKey": "a2V5"})
    assert list(refused(launch(as_user(alice), priorityClassName="golden"))) == ["trialOptions.priorityClassName"]


def test_a_member_who_clones_asks_for_no_more_than_with_a_file_of_their_own(api, as_user, alice, farm) -> None:
    farm()
    made = launch(api, priorityClassName="golden")
    assert made.status_code == 201
    Experiment.objects.update(group=alice.groups.get())
    member = as_user(alice)
    cloned = member.get(f"/api/v1/experiments/{made.json()['id']}/clone/").json()
    assert "golden" in cloned["config"]
    answer = member.post("/api/v1/experiments/", {"config": cloned["config"]}, format="json")
    assert [error["field"] for error in answer.json()["errors"]] == ["trialOptions.priorityClassName"]
    assert Experiment.objects.count() == 1


def test_a_framework_of_ones_own_is_for_members_where_the_cluster_permits_it(
        as_user, alice, farm, tmp_path, settings) -> None:
    template = tmp_path / "framework.yml"
    template.write_text(yaml.safe_dump({"spec": {"taskRoles": [{"name": "worker", "taskNumber": 1, "task": {"pod": {
        "spec": {"containers": [{"name": "a", "image": "i", "command": ["true"]}]}}}}]}}))
    settings.CODE_ROOTS = (tmp_path,)
    alice.names_folders = True
    alice.save()
    cluster = farm("frameworkcontroller")
    found = refused(launch(as_user(alice), configPath=str(template)))
    assert "membersMayUse.templates" in found["trialOptions.configPath"]
    cluster.settings = {**cluster.settings, "membersMayUse": {"templates": True}}
    cluster.save()
    assert launch(as_user(alice), configPath=str(template)).status_code == 201
