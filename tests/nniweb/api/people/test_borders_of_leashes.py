"""What a token with a leash does not reach by a detour: others' experiments, limits that are not its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from rest_framework.test import APIClient

from nniweb.experiments.actions import intents
from nniweb.experiments.models import ApiToken, Cluster, Experiment, Trial, User
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
