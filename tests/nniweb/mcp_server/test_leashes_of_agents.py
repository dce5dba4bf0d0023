"""A leash holds the tools of an agent as it holds REST, which they ask."""

from collections.abc import Callable
from typing import Any

from mcp.client.client import Client

from nniweb.experiments.models import ApiToken, AuditEntry, Experiment, User
from nniweb.experiments.models.account import Scope
from tests.nniweb.mcp_server.agent import said, status_of, with_agent


def test_tools_are_held_by_the_leash_of_their_token(switched_on: None, admin: User,
                                                    make_experiment: Callable[..., Experiment]) -> None:
    secret, token = ApiToken.make_with_row(admin, "agent", Scope.CHANGE, None, roles=["read", "launch", "steer"],
                                           max_trials=3)
    own, other = make_experiment(token=token), make_experiment()

    async def ask(client: Client) -> list[Any]:
        return [await client.call_tool("budget", {}), *[
            await client.call_tool("steer_experiment", {"experiment": one.public_id, "action": "pause",
                                                        "dry_run": False}) for one in (other, own)],
            await client.call_tool("propose", {"experiment": own.public_id, "proposals": [{"parameters": {"x": 0.5}}],
                                               "dry_run": False})]

    budget, of_other, of_own, proposed = with_agent(secret, ask)
    assert budget.structured_content["leash"]["max_trials"] == 3, said(budget)
    assert [status_of(one) for one in (of_other, of_own, proposed)] == [403, 200, 403]
    assert "launched itself" in said(of_other)
    assert "needs the role propose" in said(proposed)
    assert Experiment.objects.get(pk=own.pk).target == "PAUSE"
    row = AuditEntry.objects.get(action="experiment.pause")
    assert (row.via, row.token_id, row.target) == ("token agent", token.pk, own.public_id)
