"""The tool that tells what the caller's token may do and use."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from nniweb.client.errors import Refused
from nniweb.mcp_server.rest import Rest
from nniweb.mcp_server.tools.forecasts import BudgetLine, budget_line
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
    usage: Annotated[list[Usage] | None, Field(description=(
        "What runs and waits now, as far as you may see; null: the token may not read."))]
    quotas: Annotated[list[dict[str, Any]] | None, Field(description=(
        "Quotas of this server; null: only administrators see them. Trials that a quota holds back say so."))]
    budgets: Annotated[list[BudgetLine] | None, Field(description=(
        "Budgets that you may see; null: this server knows none."))]
    leash: Annotated[dict[str, Any] | None, Field(description=(
        "What the leash of this token limits it to: roles, clusters, trials at a time; null: it has none."))]


async def budget(rest: Rest, _given: BudgetArguments) -> Budget:
    """What this token may do, what limits apply to it, and what is used of them."""
    account = await rest.ask("GET", "account/")
    usage = await _listed(rest, "usage/")
    quotas = await _listed(rest, "quotas/") if account["is_admin"] else None
    budgets = await _listed(rest, "budgets/")
    return Budget.model_validate({
        **account, "user": account["username"], "usage": usage, "quotas": quotas,
        "budgets": None if budgets is None else [budget_line(document) for document in budgets]})


async def _listed(rest: Rest, path: str) -> list[dict[str, Any]] | None:
    """The first rows of a list; None where the token may not see it: what else there is to tell is told."""
    try:
        rows: list[dict[str, Any]] = (await rest.ask("GET", path, query={"page_size": MOST}))["results"]
    except Refused as refused:
        if refused.status not in (403, 404):
            raise
        return None
    return rows
