"""What something would cost, and what is left for it: the server's own forecasts and budgets, in few words."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from nniweb.client.errors import Refused
from nniweb.mcp_server.rest import Rest
from nniweb.mcp_server.tools.tool import Answer


class BudgetLine(Answer):
    """A budget, in hours, trials and money."""

    of: Annotated[str, Field(description="Whose budget it is, such as: token agent.")]
    period: str
    begins_anew: str | None
    limits: dict[str, float]
    used: Annotated[dict[str, float], Field(description="By what has ended and what runs.")]
    left: dict[str, float]
    used_up: Annotated[list[str], Field(description="Limits of which nothing is left: no trial starts.")]
    exceeds: Annotated[list[str], Field(description=(
        "In forecasts: limits of which less is left than is expected."))] = []


class ExperimentForecast(Answer):
    """What an experiment is expected to take from its beginning to its end."""

    trials: Annotated[int | None, Field(description="At most so many; null: no limit.")]
    trial_concurrency: Annotated[int, Field(description="At most so many at a time.")]
    seconds_per_trial: Annotated[float | None, Field(description="null: not known.")]
    basis: Annotated[str | None, Field(description=(
        "From what that is known: trials, earlier_experiments, or max_trial_duration (the most it may take)."))]
    expected: Annotated[dict[str, float] | None, Field(description="Hours, trials and money; null: not known.")]
    budgets: Annotated[list[BudgetLine], Field(description="Towards which its trials count.")]


class TrialsForecast(Answer):
    """What further trials of an experiment are expected to take."""

    new_trials: int
    seconds_per_trial: Annotated[float | None, Field(description="null: not known.")]
    basis: Annotated[str | None, Field(description=(
        "From what that is known: trials, earlier_experiments, or max_trial_duration (the most it may take)."))]
    trial_hours: Annotated[float | None, Field(description="Of all of them.")]
    gpu_hours: float | None
    money: Annotated[float | None, Field(description="null: not known, or this server has no prices.")]
    budgets: Annotated[list[BudgetLine], Field(description="Towards which they count, and what is left.")]


def of_launch(document: dict[str, Any]) -> ExperimentForecast:
    """The forecast in a checked launch."""
    found = document["forecast"]
    return ExperimentForecast.model_validate({
        **found, "trial_concurrency": document["trial_concurrency"],
        "budgets": [budget_line(budget) for budget in found["budgets"]]})


async def of_trials(rest: Rest, path: str, new_trials: int) -> TrialsForecast | None:
    """What so many trials more of an experiment would take. ``path``: the experiment's, below ``/api/v1/``. None where
    the caller may not read that: what was asked for besides is done.
    """
    try:
        document = await rest.ask("GET", path)
        found = await rest.ask("GET", f"{path}forecast/")
    except Refused:
        return None
    seconds, basis, most = found["seconds_per_trial"], found["basis"], document["max_trial_duration"]
    if seconds is None and most is not None:
        seconds, basis = most, "max_trial_duration"
    hours = None if seconds is None else new_trials * seconds / 3600
    expected = found["expected"] or {}
    per_hour = expected["money"] / expected["wall_hours"] if expected.get("wall_hours") else None
    return TrialsForecast(
        new_trials=new_trials, seconds_per_trial=seconds, basis=basis, trial_hours=hours,
        gpu_hours=None if hours is None else hours * (document["trial_gpu_number"] or 0),
        money=None if hours is None or per_hour is None else hours * per_hour,
        budgets=[budget_line(budget) for budget in found["budgets"]])


def budget_line(document: dict[str, Any]) -> BudgetLine:
    """A budget of REST in few words."""
    of = next((f"{kind} {document[name]}" for kind, name in (
        ("user", "user"), ("group", "group"), ("token", "token_name"), ("experiment", "experiment"))
        if document[name] is not None), "each person")
    units = document["left"].keys()
    return BudgetLine.model_validate({
        **document, "of": of, "limits": {unit: document[unit] for unit in units},
        "used": {unit: document["used"][unit] + document["running"][unit] for unit in units}})
