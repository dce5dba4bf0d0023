"""No tool can do what the same token cannot do over REST: every tool as everybody, beside the same over REST."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from django.db import connection
from django.test import Client as Http
from mcp.client.client import Client

from nniweb.experiments.models import ApiToken, AuditEntry, Experiment, Trial
from nniweb.experiments.models.account import Scope
from nniweb.mcp_server.tools import BY_NAME
from tests.nniweb.access.roles import ROLES, World
from tests.nniweb.mcp_server.agent import post, request, said, status_of, with_agent

CONFIG = ("searchSpace: {x: {_type: uniform, _value: [0, 1]}}\ntrialCommand: 'true'\ntuner: {name: Random}\n"
          "trialConcurrency: 1\nmaxTrialNumber: 1\ntrainingService: {platform: local}\n")


class Row(NamedTuple):
    """A call of a tool, and what it is over REST."""

    tool: str
    arguments: dict[str, Any]
    method: str
    path: str
    body: Any = None


def rows(world: World) -> list[Row]:
    trial = world.attempt.trial
    experiment = trial.experiment.public_id
    at, of = f"experiments/{experiment}/", {"experiment": experiment}
    point = [{"parameters": {"x": 0.25}, "key": "a"}]
    found = [
        Row("list_experiments", {}, "GET", "experiments/"),
        Row("inspect_experiment", of, "GET", at),
        Row("wait", {**of, "seconds": 0}, "GET", f"{at}results/"),
        Row("results", of, "GET", f"{at}trials/"),
        Row("compare", {"trials": [trial.public_id, trial.public_id]}, "GET", f"trials/{trial.public_id}/"),
        Row("tail_log", {"trial": trial.public_id}, "GET", f"trials/{trial.public_id}/output/"),
        Row("tail_log", of, "GET", f"{at}log/"),
        Row("budget", {}, "GET", "account/"),
    ]
    for dry in (True, False):
        query = "?dry_run=true" if dry else ""
        found += [
            Row("launch", {"config": CONFIG, "dry_run": dry, "base_directory": "/nowhere"}, "POST",
                "experiments/check/" if dry else "experiments/", {"config": CONFIG, "base_directory": "/nowhere"}),
            Row("propose", {**of, "proposals": point, "dry_run": dry}, "POST", f"{at}proposals/{query}",
                {"proposals": point}),
            Row("steer_experiment", {**of, "action": "stop", "dry_run": dry}, "POST", f"{at}actions/stop/{query}"),
            Row("cancel_trials", {**of, "trials": [trial.public_id], "dry_run": dry}, "POST",
                f"{at}trials/actions/stop/{query}", {"trials": [trial.public_id]}),
        ]
    return found


def over_rest(token: str, row: Row) -> int:
    body = "" if row.body is None else json.dumps(row.body)
    return Http().generic(row.method, f"/api/v1/{row.path}", body, "application/json",
                          headers={"Authorization": f"Token {token}"}).status_code


def state() -> list[Any]:
    """What a change of an experiment or trial shows in."""
    return [list(Experiment.objects.order_by("pk").values("status", "target", "revision", "next_ask")),
            list(Trial.objects.order_by("pk").values("status", "target")),
            AuditEntry.objects.count()]


def put_back(before: list[Any]) -> None:
    """As it was, so that the next one finds what this one found."""
    Trial.objects.exclude(parameter_sets__value={"x": 0.5}).delete()
    for row in before[1]:
        Trial.objects.update(**row, ended_at=None, reason="", message="")
    for row in before[0]:
        Experiment.objects.update(**{name: row[name] for name in ("status", "target", "next_ask")}, ended_at=None)


@pytest.fixture
def elsewhere() -> Iterator[Callable[..., Any]]:
    """Calls a function in a thread: Django's database cannot be used where an event loop runs."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()
        pool.submit(lambda: connection.close()).result()  # that of this thread


def test_every_tool_is_answered_as_the_same_token_is_over_rest(world: World, switched_on: None,
                                                               elsewhere: Callable[..., Any]) -> None:
    Experiment.objects.update(tuner={"name": "External"}, trial_concurrency=4)
    wanted = rows(world)
    assert {row.tool for row in wanted} == BY_NAME.keys()
    tokens = {role: ApiToken.make(person, role) for role in ROLES if (person := world.people[role]) is not None}
    tokens |= {f"{role}, {scope}, {leash}": ApiToken.make_with_row(
        world.people[role], "leash", scope, None, **leash)[0]  # type: ignore[arg-type]  # there is one
        for role, scope, leash in (("admin", Scope.READ, {}), ("member", Scope.READ, {"roles": ["read"]}),
                                   ("member", Scope.CHANGE, {"roles": ["propose"], "everything": True}),
                                   ("member", Scope.CHANGE, {"roles": ["read", "steer", "launch"]}))}
    start = state()
    classes: set[int] = set()
    for role, token in tokens.items():
        async def walk(client: Client, role: str = role, token: str = token) -> None:
            for row in wanted:
                before = elsewhere(state)
                result = await client.call_tool(row.tool, row.arguments)
                after = elsewhere(state)
                if result.is_error or row.arguments.get("dry_run", True):
                    assert after == before, (role, row, said(result))
                elsewhere(put_back, start)
                answered = elsewhere(over_rest, token, row)
                elsewhere(put_back, start)
                found = status_of(result)
                assert found == (200 if answered in (200, 201) else answered), (role, row, said(result))
                classes.add(found)

        with_agent(token, walk)
    assert {200, 400, 403, 404} <= classes
    assert post(None, request("tools/call", {"name": "budget"})).status_code == over_rest("", Row(
        "budget", {}, "GET", "account/")) == 401
