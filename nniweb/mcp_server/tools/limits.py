"""The tool that tells what the caller's token may do and use."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from nniweb.client.errors import NotFound
from nniweb.mcp_server.rest import Rest
from nniweb.mcp_server.tools.tool import Answer, Arguments

#: Rows of one answer.
MOST = 50


class BudgetArguments(Arguments):
    pass


class Usage(Answer):
    """The trials of one person's experiments that are shared with one group, or with none."""

    user: str | None
    group: str | None
    running: int
    waiting: int
    gpus: int
    gpu_hours: float


class BudgetLine(Answer):
    """A budget, in hours, trials and money."""

    of: Annotated[str, Field(description="Whose budget it is, such as: token agent.")]
    period: str
    begins_anew: str | None
    limits: dict[str, float]
    used: Annotated[dict[str, float], Field(description="By what has ended and what runs.")]
    left: dict[str, float]
    used_up: Annotated[list[str], Field(description="Limits of which nothing is left: no trial starts.")]


class Budget(Answer):
    user: Annotated[str, Field(description="Whose token this is.")]
    role: str
    scope: Annotated[str | None, Field(description="What the token may do at most.")]
    may_change: Annotated[bool, Field(description="Whether it may launch and change experiments.")]
    groups: list[str]
    usage: Annotated[list[Usage], Field(description="What runs and waits now, as far as you may see.")]
    quotas: Annotated[list[dict[str, Any]] | None, Field(description=(
        "Quotas of this server; null: only administrators see them. Trials that a quota holds back say so."))]
    budgets: Annotated[list[BudgetLine] | None, Field(description=(
        "Budgets that you may see; null: this server knows none."))]
    token: Annotated[dict[str, Any] | None, Field(description=(
        "What this token is held to besides its scope; null: nothing."))]


async def budget(rest: Rest, _given: BudgetArguments) -> Budget:
    """What this token may do, what limits apply to it, and what is used of them."""
    account = await rest.ask("GET", "account/")
    usage = (await rest.ask("GET", "usage/", query={"page_size": MOST}))["results"]
    quotas = (await rest.ask("GET", "quotas/", query={"page_size": MOST}))["results"] if account["is_admin"] else None
    try:
        found = (await rest.ask("GET", "budgets/", query={"page_size": MOST}))["results"]
        budgets = [line_of(document) for document in found]
    except NotFound:
        budgets = None
    return Budget.model_validate({
        **account, "user": account["username"], "usage": usage, "quotas": quotas, "budgets": budgets,
        "token": account.get("leash")})


def line_of(document: dict[str, Any]) -> BudgetLine:
    """A budget of REST in few words."""
    of = next((f"{kind} {document[name]}" for kind, name in (
        ("user", "user"), ("group", "group"), ("token", "token_name"), ("experiment", "experiment"))
        if document[name] is not None), "each person")
    units = document["left"].keys()
    return BudgetLine.model_validate({
        **document, "of": of, "limits": {unit: document[unit] for unit in units},
        "used": {unit: document["used"][unit] + document["running"][unit] for unit in units}})
