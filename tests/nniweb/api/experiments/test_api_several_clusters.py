"""Experiments on several clusters over REST and on the command line: launch, change, undo, figures."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.client.cluster_edits import CannotEdit, edited_clusters
from nniweb.experiments.models import Attempt, Cluster, Experiment, ExperimentCluster, Trial, User
from nniweb.management.commands import experiments as command
from tests.nniweb.api.experiments.docile_platforms import registered


@pytest.fixture
def lab(admin: User) -> Cluster:
    return Cluster.objects.create(name="lab", platform="docile_a")


@pytest.fixture
def cloud(admin: User) -> Cluster:
    return Cluster.objects.create(name="cloud", platform="docile_b")


@pytest.fixture(autouse=True)
def docile_platforms() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture
def experiment(make_experiment: Callable[..., Experiment], lab: Cluster, admin: User) -> Experiment:
    return make_experiment(cluster=lab, owner=admin, callback_url="127.0.0.1:1")


def config(**changed: Any) -> str:
    return yaml.safe_dump({
        "experimentName": "both", "trialCommand": "true", "trialConcurrency": 2,
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"}, **changed})


def test_a_launch_on_two_clusters_keeps_a_row_for_each(as_user: Callable[[User], APIClient], ada: User, lab: Cluster,
                                                       cloud: Cluster) -> None:
    answer = as_user(ada).post("/api/v1/experiments/", {"config": config(clusters=[
        {"name": "lab", "upTo": 3}, {"name": "cloud", "after": "lab", "cost": 0.5, "trialGpuNumber": 2}])}, "json")
    assert answer.status_code == 201, answer.json()
    assert answer.json()["cluster"] == "lab"
    assert answer.json()["clusters"] == [
        {"name": "lab", "upTo": 3}, {"name": "cloud", "after": ["lab"], "cost": 0.5, "trialGpuNumber": 2}]
    found = Experiment.objects.get()
    assert (found.several_clusters, found.gpus_of_a_trial) == (True, 2)
    rows = ExperimentCluster.objects.filter(experiment=found)
    assert [(row.cluster.name, row.up_to, row.after) for row in rows] == [("lab", 3, []), ("cloud", None, [lab.pk])]


def test_a_list_of_one_cluster_is_the_simple_case(as_user: Callable[[User], APIClient], ada: User, lab: Cluster
                                                  ) -> None:
    answer = as_user(ada).post("/api/v1/experiments/", {"config": config(clusters=[{"name": "lab"}])}, "json")
    assert answer.status_code == 201, answer.json()
    assert answer.json()["clusters"] == []
    assert not Experiment.objects.get().several_clusters
    assert not ExperimentCluster.objects.exists()


def test_a_cluster_that_the_person_may_not_use_is_refused_at_its_entry(
        as_user: Callable[[User], APIClient], alice: User, bob: User, lab: Cluster, cloud: Cluster
        ) -> None:
    Cluster.objects.filter(pk=cloud.pk).update(is_private=True, owner=bob)
    answer = as_user(alice).post("/api/v1/experiments/", {"config": config(clusters=[
        {"name": "lab"}, {"name": "cloud"}])}, "json")
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == ["clusters[1].name"]
    assert not Experiment.objects.exists()


def test_a_cluster_is_added_drained_and_the_change_undone(as_user: Callable[[User], APIClient], ada: User,
                                                          experiment: Experiment, cloud: Cluster) -> None:
    client, path = as_user(ada), f"/api/v1/experiments/{experiment.public_id}/"
    Attempt.objects.create(trial=Trial.objects.create(experiment=experiment, sequence_id=0, created_at=timezone.now()),
                           job_name="old", stage="ended", created_at=timezone.now())
    answer = client.patch(path, {"clusters": [{"name": "lab"}, {"name": "cloud", "upTo": 2, "weight": 3}]}, "json")
    assert answer.status_code == 200, answer.json()
    assert answer.json()["clusters"] == [{"name": "lab"}, {"name": "cloud", "upTo": 2, "weight": 3.0}]
    assert Attempt.objects.get().cluster == experiment.cluster, "from now on it would not be known"
    answer = client.patch(path, {"clusters": [{"name": "lab", "drained": True}, {"name": "cloud"}]}, "json")
    assert answer.json()["clusters"] == [{"name": "lab", "drained": True}, {"name": "cloud"}]
    values = client.get(f"{path}changes/").json()["results"][0]["values"]
    assert {line["what"]: (line["before"], line["after"]) for line in values} == {
        "clusters.lab.drained": ("none", "true"), "clusters.cloud.upTo": ("2", "none"),
        "clusters.cloud.weight": ("3.0", "none")}
    assert client.post(f"{path}changes/2/actions/undo/").json()["clusters"] \
        == [{"name": "lab"}, {"name": "cloud", "upTo": 2, "weight": 3.0}]
    assert client.post(f"{path}changes/2/actions/undo/").status_code == 409, "undone already"
    assert client.post(f"{path}changes/1/actions/undo/").json()["clusters"] == []
    row = ExperimentCluster.objects.get(cluster=cloud)
    assert not row.is_listed, "trials may have run there"
    assert not row.takes_trials


@pytest.mark.parametrize(("clusters", "field"), [
    ([{"name": "lab"}, {"name": "nowhere"}], "clusters.1.name"),
    ([{"name": "lab"}, {"name": "cloud", "after": "x"}], "clusters.1.after"),
    ([{"name": "lab"}, {"name": "cloud", "wieght": 1}], "clusters.1.wieght"),
    ([{"name": "lab", "drained": True}], "clusters"),
    ([{"name": "lab", "upTo": 0}], "clusters.0.upTo")])
def test_a_wrong_list_names_its_field_and_changes_nothing(
        as_user: Callable[[User], APIClient], ada: User, experiment: Experiment, cloud: Cluster,
        clusters: list[dict[str, Any]], field: str) -> None:
    answer = as_user(ada).patch(f"/api/v1/experiments/{experiment.public_id}/", {"clusters": clusters}, "json")
    assert answer.status_code in (400, 409), answer.json()
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    experiment.refresh_from_db()
    assert not experiment.several_clusters
    assert not experiment.changes.exists()


def test_figures_of_each_cluster_have_hours_and_cost(as_user: Callable[[User], APIClient], ada: User,
                                                     experiment: Experiment, cloud: Cluster) -> None:
    client, path = as_user(ada), f"/api/v1/experiments/{experiment.public_id}/"
    client.patch(path, {"clusters": [{"name": "lab"}, {"name": "cloud", "cost": 3}]}, "json")
    now = timezone.now()
    for number, cluster, stage, status in ((0, cloud, "ended", "SUCCEEDED"), (1, cloud, "submitted", "RUNNING"),
                                           (2, experiment.cluster, "submitted", "WAITING")):
        trial = Trial.objects.create(experiment=experiment, sequence_id=number, created_at=now, status=status)
        Attempt.objects.create(trial=trial, job_name=f"job{number}", cluster=cluster, created_at=now, stage=stage,
                               started_at=now - timedelta(hours=1) if status != "WAITING" else None,
                               duration=7200.0 if stage == "ended" else None)
    lab, other = client.get(f"{path}clusters/").json()
    assert (lab["is_home"], lab["running"], lab["waiting"], lab["spent"]) == (True, 0, 1, None)
    assert lab["reason"] == {"code": "no_worker_there"}
    assert (other["running"], other["ended"], round(other["hours"], 1), round(other["spent"], 1)) == (1, 1, 3.0, 9.0)
    found = client.get(f"{path}trials/", {"filter": "cluster = cloud"}).json()["results"]
    assert sorted((row["sequence_id"], row["cluster"]) for row in found) == [(0, "cloud"), (1, "cloud")]
    for words, numbers in (("cluster != cloud", [2]), ("cluster in (lab, cloud)", [0, 1, 2]), ("cluster ~ lou", [0, 1]),
                           ("cluster = none", [])):
        rows = client.get(f"{path}trials/", {"filter": words}).json()["results"]
        assert sorted(row["sequence_id"] for row in rows) == numbers, words


def test_old_trials_without_a_cluster_are_the_experiments_own(as_user: Callable[[User], APIClient], ada: User,
                                                              experiment: Experiment) -> None:
    trial = Trial.objects.create(experiment=experiment, sequence_id=0, created_at=timezone.now())
    Attempt.objects.create(trial=trial, job_name="old", stage="ended", created_at=timezone.now())
    rows = as_user(ada).get(f"/api/v1/experiments/{experiment.public_id}/trials/", {"filter": "cluster = lab"}).json()
    assert [row["cluster"] for row in rows["results"]] == ["lab"]


def test_the_command_line_lists_and_changes_clusters(experiment: Experiment, cloud: Cluster,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("require_own_database", "require_served_before"):
        monkeypatch.setattr(command, name, lambda *_: None)
    out = StringIO()
    call_command("experiments", "clusters", experiment.public_id, stdout=out)
    assert "runs on lab alone" in out.getvalue()
    out = StringIO()
    call_command("experiments", "clusters", experiment.public_id, "--add", "cloud", "--up-to", "cloud=2", "--after",
                 "cloud=lab", "--drain", "lab", stdout=out)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("CLUSTER")
    assert "home; drained, so it gets no new trials" in lines[1]
    assert "after lab" in lines[2]


def test_edits_of_a_list_are_plain_and_name_an_unknown_cluster() -> None:
    assert edited_clusters([], "lab", {"add": ["cloud"], "weight": [("cloud", 2)], "cost": [("lab", 0)]}) \
        == [{"name": "lab", "cost": 0}, {"name": "cloud", "weight": 2}]
    assert edited_clusters([{"name": "lab"}, {"name": "cloud"}], "lab", {"remove": ["cloud"]}) == [{"name": "lab"}]
    assert edited_clusters([{"name": "a", "drained": True}], "a", {"fill": ["a"], "after": [("a", "b,c")]}) \
        == [{"name": "a", "drained": False, "after": ["b", "c"]}]
    with pytest.raises(CannotEdit, match="It has lab"):
        edited_clusters([], "lab", {"drain": ["cloud"]})
    with pytest.raises(CannotEdit, match="already"):
        edited_clusters([], "lab", {"add": ["lab"]})


@pytest.fixture
def here(admin: User) -> Cluster:
    return Cluster.objects.create(name="here", platform="local")


@pytest.fixture
def on_both(make_experiment: Callable[..., Experiment], lab: Cluster, here: Cluster, alice: User) -> Experiment:
    """Of a person who may run trials as ml-alice alone on the server's own machine."""
    alice.local_users = "ml-alice"
    alice.save()
    experiment = make_experiment(cluster=lab, owner=alice, callback_url="127.0.0.1:1", several_clusters=True)
    for position, (cluster, options) in enumerate(((lab, {}), (here, {"runAs": "ml-alice"}))):
        ExperimentCluster.objects.create(experiment=experiment, cluster=cluster, position=position,
                                         trial_options=options, is_drained=bool(options))
    return experiment


@pytest.mark.parametrize("options", [{}, {"runAs": "ml-bob"}, {"runAs": "ml-alice", "pythonPath": "/tmp/evil"}])
def test_other_options_on_a_cluster_are_checked_like_those_of_a_launch(
        as_user: Callable[[User], APIClient], alice: User, on_both: Experiment, options: dict[str, Any]) -> None:
    answer = as_user(alice).patch(f"/api/v1/experiments/{on_both.public_id}/", {"clusters": [
        {"name": "lab"}, {"name": "here", "trialOptions": options}]}, "json")
    if "pythonPath" in options:  # she may run anything as this user
        assert answer.status_code == 200, answer.json()
        return
    assert answer.status_code == 400, answer.json()
    assert "may not run trials as" in answer.json()["errors"][0]["message"]
    assert answer.json()["errors"][0]["field"].startswith("clusters.1.")
    assert ExperimentCluster.objects.get(cluster__name="here").trial_options == {"runAs": "ml-alice"}


def test_who_may_not_use_a_cluster_changes_what_it_gets_and_nothing_of_its_options(
        as_user: Callable[[User], APIClient], alice: User, on_both: Experiment) -> None:
    alice.local_users = ""
    alice.save()
    client, path = as_user(alice), f"/api/v1/experiments/{on_both.public_id}/"
    answer = client.patch(path, {"clusters": [{"name": "lab", "upTo": 3}, {"name": "here", "drained": True}]}, "json")
    assert answer.status_code == 200, answer.json()
    evil = {"runAs": "ml-alice", "pythonPath": "/tmp/evil"}
    assert client.patch(path, {"clusters": [{"name": "lab"}, {"name": "here", "trialOptions": evil}]},
                        "json").status_code == 400
    assert client.patch(path, {"clusters": [{"name": "lab"}]}, "json").status_code == 200
    for back in ({}, {"trialOptions": evil}):
        answer = client.patch(path, {"clusters": [{"name": "lab"}, {"name": "here", **back}]}, "json")
        assert answer.status_code == 400, "it was taken out, and would be brought back"
    number = client.get(f"{path}changes/").json()["results"][0]["number"]
    Experiment.objects.filter(pk=on_both.pk).update(cluster=Cluster.objects.get(name="here"))  # it was the home
    assert client.patch(path, {"clusters": []}, "json").status_code == 400
    Experiment.objects.filter(pk=on_both.pk).update(cluster=Cluster.objects.get(name="lab"))
    undone = client.post(f"{path}changes/{number}/actions/undo/")
    assert undone.status_code in (400, 409)
    assert "you do not have the permission" in str(undone.json()), undone.json()
    assert not ExperimentCluster.objects.get(cluster__name="here").is_listed


def test_the_options_of_the_only_cluster_are_checked_when_it_becomes_one_of_several(
        as_user: Callable[[User], APIClient], alice: User, make_experiment: Callable[..., Experiment], here: Cluster,
        lab: Cluster) -> None:
    experiment = make_experiment(cluster=here, owner=alice, callback_url="127.0.0.1:1",
                                 trial_options={"runAs": "ml-alice"})
    alice.local_users = "ml-alice"
    alice.save()
    client, path = as_user(alice), f"/api/v1/experiments/{experiment.public_id}/"
    answer = client.patch(path, {"clusters": [{"name": "here", "trialOptions": {}}, {"name": "lab"}]}, "json")
    assert answer.status_code == 400, answer.json()
    assert client.patch(path, {"clusters": [{"name": "here"}, {"name": "lab"}]}, "json").status_code == 200
