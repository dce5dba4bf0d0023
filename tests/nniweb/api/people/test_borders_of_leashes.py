"""What a token with a leash does not reach by a detour: others' experiments, limits that are not its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from rest_framework.test import APIClient

from nniweb.experiments.actions import intents
from nniweb.experiments.models import ApiToken, Budget, Cluster, Experiment, Trial, User
from nniweb.experiments.models.account import LeashRole, Role, Scope
from tests.nniweb.api.experiments.docile_platforms import registered


@pytest.fixture(autouse=True)
def lab(admin: User) -> Iterator[Cluster]:
    with registered():
        yield Cluster.objects.create(name="lab", platform="docile_a")


@pytest.fixture
def mel() -> User:
    return User.objects.create_user("mel", role=Role.MEMBER)


def leashed(person: User, roles: Any = LeashRole.values, **fields: Any) -> tuple[APIClient, ApiToken]:
    secret, token = ApiToken.make_with_row(person, "agent", Scope.CHANGE, None, roles=list(roles), **fields)
    return APIClient(headers={"Authorization": f"Token {secret}"}), token


def launch(client: APIClient, key: str = "") -> Any:
    text = yaml.safe_dump({"trialCommand": "true", "trialConcurrency": 2, "tuner": {"name": "External"},
                           "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}})
    return client.post("/api/v1/experiments/", {"config": text, "cluster": "lab"}, "json",
                       headers={"Idempotency-Key": key} if key else {})


def test_ending_a_token_stops_only_what_its_ender_may_change(as_user: Callable[..., APIClient], alice: User, mel: User,
                                                             ada: User, lab: Cluster, make_experiment: Any,
                                                             make_attempt: Any) -> None:
    alice.groups.clear()
    client, token = leashed(alice, everything=True)
    given, kept = (Experiment.objects.get(public_id=launch(client).json()["id"]) for _ in range(2))
    other = make_experiment(owner=alice, cluster=lab, status="RUNNING")
    asked = client.post(f"/api/v1/experiments/{other.public_id}/trials/", {"parameters": {"x": 0.5}}, "json").json()
    make_attempt(given)
    for experiment in (given, other):
        intents.hand_over(experiment, mel)
    path = f"/api/v1/tokens/{token.pk}/"
    assert as_user(alice).get(path).json()["running"] == {"experiments": 1, "trials": 0}
    assert as_user(ada).get(path).json()["running"] == {"experiments": 2, "trials": 1}
    ended = as_user(alice).post(f"{path}end/", {"stop": True}, "json").json()
    assert ended["stopped"] == {"experiments": 1, "trials": 0}
    assert [Experiment.objects.get(pk=one.pk).target for one in (kept, given)] == ["STOP", "RUN"]
    assert Trial.objects.get(public_id=asked["id"]).status == "WAITING"
    assert as_user(ada).post(f"{path}end/", {"stop": True}, "json").json()["stopped"] == {"experiments": 2, "trials": 1}
    assert Experiment.objects.get(pk=given.pk).target == "STOP"


@pytest.mark.parametrize("limit", ["max_trials", "budget", "none"])
def test_a_limited_leash_raises_no_limits_of_experiments_that_it_has_not_launched(alice: User, lab: Cluster,
                                                                                  make_experiment: Any, limit: str
                                                                                  ) -> None:
    client, token = leashed(alice, everything=True, max_trials=1 if limit == "max_trials" else None)
    if limit == "budget":
        Budget.objects.create(token=token, period="total", trials=1)
    low = {"trial_concurrency": 2, "max_trial_number": 5, "max_duration": 60, "max_trial_duration": 30, "priority": 0}
    other = make_experiment(owner=alice, cluster=lab, status="RUNNING", **low)
    path = f"/api/v1/experiments/{other.public_id}/"
    lowered = client.patch(path, {"max_trial_number": 3, "trial_concurrency": 1, "max_duration": "50s"}, "json")
    assert lowered.status_code == 200, lowered.json()
    higher = {"trial_concurrency": 3, "max_trial_number": None, "max_duration": "2h", "max_trial_duration": "1h",
              "priority": 1}
    if limit == "none":
        del higher["priority"]  # needs a quota
        assert client.patch(path, higher, "json").status_code == 200
        return
    for field, value in higher.items():
        [error] = client.patch(path, {field: value}, "json").json()["errors"]
        assert error["field"] == field
        assert f"it cannot raise {field} of an experiment that it has not launched" in error["message"]
    trial = intents.submit_trial(other, {"x": 0.5})
    Trial.objects.filter(pk=trial.pk).update(status="FAILED")
    number = other.changes.latest("number").number
    for address, body in (("actions/resume/", {"max_trial_number": 50}), ("changes/1/actions/undo/", None),
                          ("actions/rerun-failed/", None)):
        answer = client.post(f"{path}{address}", body, "json")
        assert answer.status_code == 400, (address, answer.json())
        assert "max_trial_number" in [error["field"] for error in answer.json()["errors"]], address
    other.refresh_from_db()
    assert (other.max_trial_number, other.trial_concurrency, other.changes.latest("number").number) == (3, 1, number)
    own = launch(client).json()["id"]
    assert client.patch(f"/api/v1/experiments/{own}/", {"trial_concurrency": 4}, "json").status_code == 200


def test_a_limited_leash_lets_no_cluster_run_more_of_what_it_has_not_launched(as_user: Callable[..., APIClient],
                                                                              alice: User, lab: Cluster,
                                                                              make_experiment: Any) -> None:
    Cluster.objects.create(name="cloud", platform="docile_b")
    client, _ = leashed(alice, everything=True, max_trials=1)
    other = make_experiment(owner=alice, cluster=lab, status="RUNNING", callback_url="127.0.0.1:1")
    path = f"/api/v1/experiments/{other.public_id}/"
    for entries in ([{"name": "lab", "upTo": 3}, {"name": "cloud", "upTo": 2}],
                    [{"name": "lab", "upTo": 2}, {"name": "cloud", "drained": True}]):
        assert as_user(alice).patch(path, {"clusters": entries}, "json").status_code == 200
    drained = {"name": "cloud", "drained": True}
    for entries in ([{"name": "lab", "upTo": 3}, drained], [{"name": "lab"}, drained], [],
                    [{"name": "lab", "upTo": 2}, {"name": "cloud", "upTo": 1}]):
        [error] = client.patch(path, {"clusters": entries}, "json").json()["errors"]
        assert error["field"] == "clusters"
        assert "it cannot raise clusters of an experiment that it has not launched" in error["message"]
    assert client.post(f"{path}changes/2/actions/undo/").status_code == 400
    lowered = client.patch(path, {"clusters": [{"name": "lab", "upTo": 1}, drained]}, "json")
    assert lowered.status_code == 200, lowered.json()


def test_a_leash_finds_by_a_key_only_what_it_launched_itself(as_user: Callable[..., APIClient], alice: User) -> None:
    of_alice, (client, _) = launch(as_user(alice), "K1").json()["id"], leashed(alice, ["launch"])
    answer = launch(client, "K1")
    assert answer.status_code == 409
    [error] = answer.json()["errors"]
    assert (error["field"], error["message"]) == (
        "", "alice has launched something else with this Idempotency-Key, not with this token. Choose another key.")
    assert of_alice not in answer.content.decode()
    own, again = launch(client, "K2"), launch(client, "K2")
    assert (own.status_code, again.status_code) == (201, 200)
    assert own.json()["id"] == again.json()["id"]
    assert Experiment.objects.count() == 2
    assert launch(as_user(alice), "K2").status_code == 200
