"""Tokens with a leash over REST: how they are made, what they reach, how they end, and that none widens itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import Group
from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.experiments.access import accounts, leashes
from nniweb.experiments.access.request_actor import asked_by, known_as
from nniweb.experiments.actions import intents, token_end
from nniweb.experiments.actions.imported_results import import_results
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import ApiToken, AuditEntry, Cluster, Experiment, Quota, Trial, User
from nniweb.experiments.models.account import LeashRole, Role, Scope
from tests.nniweb.api.experiments.docile_platforms import registered

EVERY_ROLE = [role.value for role in LeashRole]
Clients = Callable[..., APIClient]


@pytest.fixture(autouse=True)
def docile_platforms() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture
def lab(admin: User) -> Cluster:
    return Cluster.objects.create(name="lab", platform="docile_a")


@pytest.fixture
def cloud(admin: User) -> Cluster:
    return Cluster.objects.create(name="cloud", platform="docile_b")


@pytest.fixture
def agent(alice: User) -> Clients:
    """A client with a new token with a leash, Alice's unless another person is given."""

    def agent(roles: list[str] = EVERY_ROLE, person: User = alice, **fields: Any) -> APIClient:
        secret, token = ApiToken.make_with_row(person, "agent", Scope.CHANGE, fields.pop("expires_at", None),
                                               roles=roles, **fields)
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Token {secret}")
        client.token = token  # type: ignore[attr-defined]  # for the tests
        return client

    return agent


def config(**changed: Any) -> dict[str, str]:
    return {"config": yaml.safe_dump({
        "experimentName": "night", "trialCommand": "true", "trialConcurrency": 2,
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "External"},
        **changed})}


def launched(client: APIClient, **changed: Any) -> str:
    answer = client.post("/api/v1/experiments/", config(**changed), "json")
    assert answer.status_code == 201, answer.json()
    return str(answer.json()["id"])


def fields_of(answer: Any) -> list[str]:
    assert answer.status_code == 400, answer.content
    return [error["field"] for error in answer.json()["errors"]]


# --- making ----------------------------------------------------------------------------------


def test_a_leash_is_made_told_and_kept(as_user: Clients, alice: User, lab: Cluster) -> None:
    client, until = as_user(alice), timezone.now() + timedelta(hours=8)
    made = client.post("/api/v1/tokens/", {
        "name": "night", "roles": ["launch", "read"], "clusters": ["lab"], "max_trials": 4,
        "expires_at": until.isoformat()}, "json")
    assert made.status_code == 201, made.json()
    told = {"name": "night", "scope": "change", "roles": ["read", "launch"], "everything": False, "clusters": ["lab"],
            "is_limited_to_clusters": True, "max_trials": 4}
    assert told.items() <= made.json().items()
    assert (made.json()["running"], made.json()["ended_at"]) == ({"experiments": 0, "trials": 0}, None)
    by_it = APIClient(headers={"Authorization": f"Token {made.json()['token']}"})
    assert told.items() <= by_it.get("/api/v1/account/").json()["leash"].items()
    row = AuditEntry.objects.get(action="token.create")
    assert {"roles": ["read", "launch"], "clusters": ["lab"], "max_trials": 4}.items() <= row.details.items()
    only_reading = client.post("/api/v1/tokens/", {"name": "r", "roles": ["read"]}, "json").json()
    assert only_reading["scope"] == "read"


def test_a_leash_may_have_a_budget_whose_standing_is_told(as_user: Clients, alice: User, lab: Cluster,
                                                          make_attempt: Any, make_experiment: Any) -> None:
    made = as_user(alice).post("/api/v1/tokens/", {
        "name": "night", "roles": ["read", "launch"], "budget": {"trials": 5, "gpu_hours": "2.5"}}, "json")
    assert made.status_code == 201, made.json()
    token = ApiToken.objects.get(name="night")
    make_attempt(make_experiment(owner=alice, cluster=lab, token=token))
    by_it = APIClient(headers={"Authorization": f"Token {made.json()['token']}"})
    assert by_it.get("/api/v1/account/").json()["leash"]["budgets"] == [
        {"period": "total", "unit": "gpu_hours", "limit": 2.5, "used": 0.0, "left": 2.5},
        {"period": "total", "unit": "trials", "limit": 5.0, "used": 1.0, "left": 4.0}]
    assert by_it.get("/api/v1/account/").json()["leash"].keys() >= {"roles", "expires_at"}
    row = as_user(alice).get(f"/api/v1/tokens/{token.pk}/").json()
    assert (row["running"], len(row["budgets"])) == ({"experiments": 1, "trials": 1}, 2)


@pytest.mark.parametrize(("wish", "field"), [
    ({"roles": ["rule"]}, "roles.0"), ({"max_trials": 3}, "roles"), ({"clusters": ["lab"]}, "roles"),
    ({"everything": True}, "roles"), ({"roles": ["steer"]}, "everything"),
    ({"roles": ["read", "propose"]}, "everything"),
    ({"roles": ["read"], "clusters": ["nowhere"]}, "clusters"), ({"roles": ["read"], "max_trials": 0}, "max_trials"),
    ({"roles": ["read"], "scope": "read"}, "scope"), ({"roles": ["read"], "budget": "all"}, "budget"),
    ({"roles": ["read"], "budget": {}}, "budget"), ({"budget": {"trials": 3}}, "roles"),
    ({"roles": ["read"], "budget": {"gpu_hours": -1}}, "budget.gpu_hours"),
    ({"roles": ["read"], "budget": {"hours": 1}}, "budget.hours")])
def test_a_wrong_leash_names_its_field_and_makes_nothing(as_user: Clients, alice: User, lab: Cluster,
                                                         wish: dict[str, Any], field: str) -> None:
    client = as_user(alice)
    assert fields_of(client.post("/api/v1/tokens/", {"name": "x", **wish}, "json")) == [field]
    assert ApiToken.objects.count() == 1


def test_a_viewer_gives_no_role_but_read_and_nobody_a_cluster_that_they_do_not_see(
        as_user: Clients, vera: User, alice: User, bob: User, lab: Cluster) -> None:
    assert fields_of(as_user(vera).post("/api/v1/tokens/", {"name": "x", "roles": ["launch"]}, "json")) == ["roles"]
    Cluster.objects.filter(pk=lab.pk).update(is_private=True, owner=bob)
    wish = {"name": "x", "roles": ["launch"], "clusters": ["lab"]}
    assert fields_of(as_user(alice).post("/api/v1/tokens/", wish, "json")) == ["clusters"]


# --- what it reaches -------------------------------------------------------------------------


def test_it_acts_on_what_it_launched_and_counts_for_it(agent: Clients, alice: User, lab: Cluster,
                                                       make_experiment: Any) -> None:
    client = agent()
    mine = launched(client, cluster="lab")
    others = make_experiment(owner=alice, cluster=lab)
    path = "/api/v1/experiments/{}/"
    assert client.patch(path.format(mine), {"tags": ["a"]}, "json").status_code == 200
    trial = client.post(path.format(mine) + "trials/", {"parameters": {"x": 0.5}}, "json").json()["id"]
    assert client.post(f"/api/v1/trials/{trial}/actions/cancel/").status_code == 200
    assert client.get(path.format(others.public_id)).status_code == 200
    for answer in (client.patch(path.format(others.public_id), {"tags": ["a"]}, "json"),
                   client.post(path.format(others.public_id) + "trials/", {"parameters": {"x": 0.5}}, "json"),
                   client.post(path.format("nowhere") + "actions/stop/"),
                   client.post(f"/nni/{others.public_id}/api/v1/nni/trial-jobs", {"x": 0.5}, "json")):
        assert (answer.status_code, "launched itself" in str(answer.json())) == (403, True)
    assert Trial.objects.filter(experiment=others).count() == 0
    everywhere = agent(everything=True)
    assert everywhere.post(path.format(others.public_id) + "trials/", {"parameters": {"x": 0.5}}, "json"
                           ).status_code == 201
    assert Trial.objects.get(experiment=others).token == everywhere.token  # type: ignore[attr-defined]


def test_it_resumes_nothing_of_people_to_whom_its_person_has_no_right(agent: Clients, charlie: User, lab: Cluster,
                                                                      make_experiment: Any) -> None:
    stopped = make_experiment(owner=charlie, cluster=lab, status="STOPPED", target="STOP")
    answer = agent(everything=True).post(f"/api/v1/experiments/{stopped.public_id}/actions/resume/")
    assert answer.status_code == 404


def test_clusters_outside_its_leash_are_refused_by_name_wherever_they_are_named(
        agent: Clients, lab: Cluster, cloud: Cluster) -> None:
    client = agent(clusters=[lab.public_id])
    both = [{"name": "lab"}, {"name": "cloud"}]
    for path in ("/api/v1/experiments/", "/api/v1/experiments/check/"):
        assert fields_of(client.post(path, config(cluster="cloud"), "json")) == ["cluster"]
        answer = client.post(path, config(clusters=both), "json")
        assert fields_of(answer) == ["clusters[1].name"]
        assert answer.json()["errors"][0]["reason"]["code"] == "leash_cluster"
    assert not Experiment.objects.exists()
    path = f"/api/v1/experiments/{launched(client, cluster='lab')}/"
    assert fields_of(client.patch(path, {"clusters": both}, "json")) == ["clusters.1.name"]
    assert not Experiment.objects.get().several_clusters
    assert "cloud" in [row["name"] for row in client.get("/api/v1/clusters/").json()["results"]]


def test_its_clusters_bound_what_it_does_elsewhere_also_when_they_are_gone(
        agent: Clients, alice: User, lab: Cluster, cloud: Cluster, make_experiment: Any) -> None:
    on_cloud = make_experiment(owner=alice, cluster=cloud)
    client = agent(clusters=[lab.public_id], everything=True)
    path = f"/api/v1/experiments/{on_cloud.public_id}/"
    answer = client.post(f"{path}trials/", {"parameters": {"x": 0.5}}, "json")
    assert (answer.status_code, "only the clusters lab" in str(answer.json())) == (403, True)
    lab.delete()
    assert client.post(f"{path}actions/pause/").status_code == 403
    assert fields_of(client.post("/api/v1/experiments/", config(cluster="cloud"), "json")) == ["cluster"]


def test_a_launch_makes_no_cluster(agent: Clients, lab: Cluster) -> None:
    section = {"platform": "docile_a"}
    answer = agent().post("/api/v1/experiments/", config(trainingService=section), "json")
    assert fields_of(answer) == ["trainingService"]
    assert Cluster.objects.count() == 1


# --- it does not widen itself ----------------------------------------------------------------


def test_an_administrators_leash_is_no_administrator(agent: Clients, ada: User, lab: Cluster, alice: User,
                                                     make_experiment: Any, make_attempt: Any) -> None:
    client = agent(person=ada, everything=True)
    of_alice = make_experiment(owner=alice, cluster=lab)
    assert client.get(f"/api/v1/experiments/{of_alice.public_id}/").status_code == 404
    for path in ("users", "audit", "quotas"):
        assert client.get(f"/api/v1/{path}/").status_code == 403
    assert fields_of(client.post("/api/v1/experiments/", config(cluster="lab", priority=1), "json")) == ["priority"]
    path = f"/api/v1/experiments/{launched(client, cluster='lab')}/"
    refused = client.patch(path, {"priority": 1}, "json")
    assert "priority" in str(refused.json()["errors"]), refused.json()
    Quota.objects.create(user=ada, max_priority=3)
    assert client.patch(path, {"priority": 3}, "json").status_code == 200
    assert client.get("/admin/").status_code == 302


def test_it_neither_shares_nor_hands_over_nor_names_another_group_or_owner(
        agent: Clients, alice: User, bob: User, lab: Cluster, group: Group) -> None:
    further = Group.objects.create(name="further")
    alice.groups.add(further)
    client = agent()
    request = {**config(cluster="lab"), "group": "further"}
    assert fields_of(client.post("/api/v1/experiments/", request, "json")) == ["group"]
    path = f"/api/v1/experiments/{launched(client, cluster='lab')}/"
    for wish in ({"group": "further"}, {"owner": "bob"}, {"owner": "bob", "tags": ["x"]}):
        answer = client.patch(path, wish, "json")
        assert answer.status_code in (400, 409), answer.content
        assert "leash" in str(answer.json())
    found = Experiment.objects.get()
    assert (found.owner, found.group, found.tags) == (alice, None, [])
    assert client.delete(path).status_code == 403


def test_it_makes_changes_and_ends_no_token_its_own_neither(agent: Clients, alice: User) -> None:
    client = agent(everything=True)
    own = client.token.pk  # type: ignore[attr-defined]
    for answer in (client.post("/api/v1/tokens/", {"name": "x", "roles": ["read"]}, "json"),
                   client.post(f"/api/v1/tokens/{own}/end/"), client.delete(f"/api/v1/tokens/{own}/"),
                   client.patch(f"/api/v1/tokens/{own}/", {"max_trials": None}, "json")):
        assert answer.status_code in (403, 405)
    with asked_by("some other way in"):  # what is not REST asks the same functions
        known_as(alice, "token agent", client.token)  # type: ignore[attr-defined]
        for wish in (lambda: accounts.make_token(alice, alice, name="x", scope=Scope.READ, expires_at=None),
                     lambda: accounts.end_token(client.token)):  # type: ignore[attr-defined]
            with pytest.raises(Refused, match="has a leash, with which it cannot"):
                wish()
    assert ApiToken.objects.count() == 1


def test_it_follows_its_person(agent: Clients, alice: User, lab: Cluster, make_experiment: Any, group: Any, bob: User
                               ) -> None:
    client = agent(everything=True)
    of_group = make_experiment(owner=bob, group=group, cluster=lab)
    path = f"/api/v1/experiments/{of_group.public_id}/actions/pause/"
    assert client.post(path).status_code == 200
    alice.groups.clear()
    assert client.post(path).status_code == 404
    User.objects.filter(pk=alice.pk).update(role=Role.VIEWER)
    assert client.post("/api/v1/experiments/", config(cluster="lab"), "json").status_code == 403
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert client.get("/api/v1/account/").status_code == 401


# --- ending ----------------------------------------------------------------------------------


def test_the_owner_and_administrators_end_it_and_others_do_not(as_user: Clients, agent: Clients, alice: User, bob: User,
                                                               ada: User) -> None:
    client = agent()
    path = f"/api/v1/tokens/{client.token.pk}/"  # type: ignore[attr-defined]
    assert as_user(bob).post(f"{path}end/").status_code == 404
    assert client.get("/api/v1/account/").status_code == 200
    ended = as_user(alice).post(f"{path}end/", {"stop": False}, "json")
    assert (ended.status_code, ended.json()["ended_by"], ended.json()["stopped"]) == (
        200, "alice", {"experiments": 0, "trials": 0})
    answer = client.get("/api/v1/account/")
    assert (answer.status_code, "was ended" in str(answer.json())) == (401, True)
    assert as_user(ada).post(f"{path}end/").json()["ended_by"] == "alice", "who was first"
    assert [row["name"] for row in as_user(alice).get("/api/v1/tokens/").json()["results"]].count("agent") == 0
    assert [row["name"] for row in as_user(alice).get("/api/v1/tokens/?ended=true").json()["results"]
            ].count("agent") == 1
    row = AuditEntry.objects.get(action="token.end")
    assert (row.who, row.target) == ("alice", str(client.token.pk))  # type: ignore[attr-defined]


def test_what_it_runs_is_stopped_where_that_is_asked_also_later(as_user: Clients, agent: Clients, alice: User,
                                                                lab: Cluster, make_experiment: Any) -> None:
    client = agent(everything=True)
    own = launched(client, cluster="lab")
    other = make_experiment(owner=alice, cluster=lab, status="RUNNING")
    theirs = client.post(f"/api/v1/experiments/{other.public_id}/trials/", {"parameters": {"x": 0.5}}, "json").json()
    mine = intents.submit_trial(other, {"x": 0.1})
    path = f"/api/v1/tokens/{client.token.pk}/"  # type: ignore[attr-defined]
    of_alice = as_user(alice)
    assert of_alice.get(path).json()["running"] == {"experiments": 1, "trials": 0}
    assert of_alice.post(f"{path}end/").json()["stopped"] == {"experiments": 0, "trials": 0}
    assert Experiment.objects.get(public_id=own).target == "RUN"
    ended = of_alice.post(f"{path}end/", {"stop": True}, "json").json()
    assert ended["stopped"] == {"experiments": 1, "trials": 1}
    stopped = Experiment.objects.get(public_id=own)
    assert (stopped.target, stopped.reason) == ("STOP", "token_ended")
    trial = Trial.objects.get(public_id=theirs["id"])
    assert (trial.status, trial.reason, trial.reason_arguments) == (
        "USER_CANCELED", "token_ended", {"token": "agent", "by": "alice"})
    assert Trial.objects.get(pk=mine.pk).status == "WAITING"
    said = AuditEntry.objects.get(action="experiment.stop")
    assert (said.who, said.details["because"]) == ("alice", 'The token "agent" was ended by alice.')


def test_an_expired_token_opens_nothing_and_what_it_runs_can_still_be_stopped(
        as_user: Clients, agent: Clients, alice: User, lab: Cluster) -> None:
    client = agent(expires_at=timezone.now() + timedelta(hours=1))
    own = launched(client, cluster="lab")
    ApiToken.objects.filter(pk=client.token.pk).update(  # type: ignore[attr-defined]
        expires_at=timezone.now() - timedelta(seconds=1))
    assert client.post(f"/api/v1/experiments/{own}/actions/pause/").status_code == 401
    assert Experiment.objects.get().target == "RUN"
    ended = as_user(alice).post(f"/api/v1/tokens/{client.token.pk}/end/", {"stop": True}, "json")  # type: ignore[attr-defined]
    assert ended.json()["stopped"]["experiments"] == 1


def test_a_request_that_was_let_in_before_the_end_changes_nothing_after_it(agent: Clients, alice: User, lab: Cluster
                                                                           ) -> None:
    client = agent()
    experiment = Experiment.objects.get(public_id=launched(client, cluster="lab"))
    trial = intents.submit_trial(experiment, {"x": 0.5})
    before = list(Trial.objects.values()), AuditEntry.objects.count()
    with asked_by("the request"):
        known_as(alice, "token agent", client.token)  # type: ignore[attr-defined]
        leashes.must_hold()
        ApiToken.objects.filter(pk=client.token.pk).update(  # type: ignore[attr-defined]
            ended_at=timezone.now(), ended_by=alice)
        for wish in (lambda: intents.submit_trial(experiment, {"x": 0.5}), lambda: intents.resume(experiment),
                     lambda: intents.cancel_trial(trial), lambda: intents.tag_trial(trial, ["a"]),
                     lambda: intents.write_note(trial, "text"), lambda: intents.refresh_trial(trial),
                     lambda: import_results(experiment, [{"parameter": {"x": 0.5}, "value": 1}], alice)):
            with pytest.raises(Refused, match='The token "agent" was ended by alice'):
                wish()
    assert (list(Trial.objects.values()), AuditEntry.objects.count()) == before


def test_a_token_with_something_to_its_name_is_ended_when_it_is_removed(
        as_user: Clients, alice: User, lab: Cluster) -> None:
    """A plain one as well: budgets may be its, too."""
    plain, other = as_user(alice), as_user(alice)
    launched(plain, cluster="lab")
    [newer, older] = ApiToken.objects.order_by("-pk")
    assert other.delete(f"/api/v1/tokens/{older.pk}/").status_code == 204
    older.refresh_from_db()
    assert older.has_ended
    assert Experiment.objects.get().token == older
    assert plain.get("/api/v1/account/").status_code == 401
    assert AuditEntry.objects.filter(action="token.end", target=str(older.pk)).exists()
    assert as_user(alice).delete(f"/api/v1/tokens/{newer.pk}/").status_code == 204
    assert not ApiToken.objects.filter(pk=newer.pk).exists()


def test_a_person_is_not_deleted_while_trials_of_their_tokens_go_on_elsewhere(
        agent: Clients, ada: User, alice: User, bob: User, group: Any, lab: Cluster, make_experiment: Any) -> None:
    client = agent(everything=True)
    of_bob = make_experiment(owner=bob, group=group, cluster=lab)
    client.post(f"/api/v1/experiments/{of_bob.public_id}/trials/", {"parameters": {"x": 0.5}}, "json")
    with pytest.raises(Refused, match="1 trial that tokens of alice asked for"):
        accounts.delete_user(alice)
    token_end.end(client.token, ada, stop=True)  # type: ignore[attr-defined]
    accounts.delete_user(alice)


# --- audit log -------------------------------------------------------------------------------


def test_each_row_of_the_audit_log_says_by_which_of_two_tokens_of_one_name(
        as_user: Clients, agent: Clients, ada: User, lab: Cluster) -> None:
    one, other = agent(), agent()
    launched(one, cluster="lab")
    own = launched(other, cluster="lab", experimentName="other")
    other.post(f"/api/v1/experiments/{own}/actions/pause/")
    found = as_user(ada).get("/api/v1/audit/", {"token_id": other.token.pk}).json()["results"]  # type: ignore[attr-defined]
    assert [(row["action"], row["via"], row["token_id"]) for row in found] == [
        ("experiment.pause", "token agent", other.token.pk),  # type: ignore[attr-defined]
        ("experiment.launch", "token agent", other.token.pk)]  # type: ignore[attr-defined]
    assert as_user(ada).get("/api/v1/audit/", {"token_id": "x"}).status_code == 400
