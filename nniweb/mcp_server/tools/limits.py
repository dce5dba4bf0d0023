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


class Budget(Answer):
    user: Annotated[str, Field(description="Whose token this is.")]
    role: str
    scope: Annotated[str | None, Field(description="What the token may do at most.")]
    may_change: Annotated[bool, Field(description="Whether it may launch and change experiments.")]
    groups: list[str]
    usage: Annotated[list[Usage], Field(description="What runs and waits now, as far as you may see.")]
    quotas: Annotated[list[dict[str, Any]] | None, Field(description=(
        "Quotas of this server; null: only administrators see them. Trials that a quota holds back say so."))]
    budgets: Annotated[list[dict[str, Any]] | None, Field(description=(
        "Budgets that apply to you: limit, used, left; null: this server has none."))]
    token: Annotated[dict[str, Any] | None, Field(description=(
        "What this token is held to besides its scope; null: nothing."))]


async def budget(rest: Rest, _given: BudgetArguments) -> Budget:
    """What this token may do, what limits apply to it, and what is used of them."""
    account = await rest.ask("GET", "account/")
    usage = (await rest.ask("GET", "usage/", query={"page_size": MOST}))["results"]
    quotas = (await rest.ask("GET", "quotas/", query={"page_size": MOST}))["results"] if account["is_admin"] else None
    try:
        budgets = (await rest.ask("GET", "budgets/", query={"page_size": MOST}))["results"]
    except NotFound:
        budgets = None
    return Budget.model_validate({
        **account, "user": account["username"], "usage": usage, "quotas": quotas, "budgets": budgets,
        "token": account.get("leash")})
