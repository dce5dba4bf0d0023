"""Tools that look at trials: a table with chosen columns, and a comparison of a few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from nniweb.client.errors import FieldError, Refused
from nniweb.mcp_server import cursors
from nniweb.mcp_server.rest import Rest, path_part
from nniweb.mcp_server.tools.tool import (
    LONGEST_SENTENCE,
    Answer,
    Arguments,
    Cursor,
    ExperimentId,
    Reason,
    Sentence,
    TrialId,
)

#: Parameters and further metrics that a table has unless columns are chosen, and columns of one.
MOST_NAMED, MOST_COLUMNS = 20, 40

#: Name of a column -> where it stands in a trial's document.
COLUMNS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "number": lambda trial: trial["sequence_id"],
    "trial": lambda trial: trial["id"],
    "status": lambda trial: trial["status"],
    "value": lambda trial: trial["final_number"],
    "latest": lambda trial: trial["latest_number"],
    "mean": lambda trial: (trial["proposal"] or {}).get("mean"),
    "standard_error": lambda trial: (trial["proposal"] or {}).get("standard_error"),
    "feasible": lambda trial: trial["feasible"],
    "on_front": lambda trial: trial["on_front"],
    "duration": lambda trial: trial["duration"],
    "reason": lambda trial: (trial["reason"] or {}).get("code"),
    "message": lambda trial: trial["message"][:LONGEST_SENTENCE],
    "exit_code": lambda trial: trial["exit_code"],
    "attempt": lambda trial: trial["attempt"],
    "machine": lambda trial: trial["machine"],
    "cluster": lambda trial: trial["cluster"],
    "tags": lambda trial: trial["tags"],
    "variant": lambda trial: (trial.get("variant") or {}).get("sha256"),
    "continues": lambda trial: (trial["continues"] or {}).get("sequence_id"),
    "parameters": lambda trial: trial["parameters"],
}
ALWAYS = ["number", "trial", "status", "value"]
_PREFIXES = ("parameters.", "metrics.")


class ResultsArguments(Arguments):
    experiment: ExperimentId
    columns: Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]] | None, Field(
        min_length=1, max_length=MOST_COLUMNS, description=(
            f"Some of {', '.join(COLUMNS)}, parameters.NAME, metrics.NAME. Default: {', '.join(ALWAYS)}, each "
            "parameter, each further metric."))] = None
    filter: Annotated[str | None, Field(max_length=2000, description=(
        "Such as `status = FAILED and lr < 0.01`, `front = yes`, `failure = KEY`."))] = None
    order: Annotated[str | None, Field(max_length=200, description=(
        "Such as -final_value, ended, duration, parameters.NAME. Default: the best first."))] = None
    group: Annotated[Literal["none", "proposals"], Field(description=(
        "proposals: with replicates, one row for each proposal, whose result is the column mean."))] = "none"
    limit: Annotated[int, Field(ge=1, le=100, description="Rows.")] = 20
    cursor: Cursor = None


class Table(Answer):
    columns: list[str]
    rows: list[list[Any]]
    count: Annotated[int, Field(description="Rows on all pages together.")]
    left_out: Annotated[int, Field(description="Columns that had no room. Choose columns to see them.")]
    cursor: Annotated[str | None, Field(description="null: there are no more.")]


async def results(rest: Rest, given: ResultsArguments) -> Table:
    """Trials of an experiment as a table, the best first, with filter, order and chosen columns."""
    for name in given.columns or []:
        if name not in COLUMNS and not any(name.startswith(prefix) and name != prefix for prefix in _PREFIXES):
            raise Refused(400, [FieldError("columns", f"There is no column {name[:50]}. Columns: {', '.join(COLUMNS)}, "
                                                      "parameters.NAME, metrics.NAME.")])
    path = f"experiments/{path_part(given.experiment)}/"
    of = cursors.question(tool="results", **given.model_dump(exclude={"cursor", "columns"}))
    place = cursors.read(given.cursor, of, {"page": int, "order": str}) if given.cursor is not None else None
    if place is None:
        order = given.order if given.order is not None else await _best_first(rest, path, given.group)
        place = {"page": 1, "order": order}
    found = await rest.ask("GET", f"{path}trials/", query={
        "filter": given.filter, "group": given.group, "page_size": given.limit, **place})
    trials = found["results"]
    columns, left_out = (given.columns, 0) if given.columns is not None else _usual_columns(trials, given.group)
    more = cursors.written(of, {**place, "page": place["page"] + 1}) if found["next"] is not None else None
    return Table(columns=columns, rows=[[cell(trial, name) for name in columns] for trial in trials],
                 count=found["count"], left_out=left_out, cursor=more)


async def _best_first(rest: Rest, path: str, group: str) -> str:
    document = await rest.ask("GET", path)
    if document["progress"]["front"] is not None:
        return "-front"
    falling = "-" if document["optimize_mode"] == "maximize" else ""
    return falling + ("mean" if group == "proposals" and document["replicates"] > 1 else "final_value")


def _usual_columns(trials: list[dict[str, Any]], group: str) -> tuple[list[str], int]:
    names = dict.fromkeys(f"parameters.{name}" for trial in trials for name in trial["parameters"] or {})
    metrics = dict.fromkeys(f"metrics.{name}" for trial in trials for name in trial["metrics"])
    found = [*names, *metrics]
    means = ["mean", "standard_error"] if group == "proposals" else []
    return [*ALWAYS, *means, *found[:MOST_NAMED]], max(0, len(found) - MOST_NAMED)


def cell(trial: dict[str, Any], name: str) -> Any:
    """What stands in a column of a trial's row."""
    if name in COLUMNS:
        return COLUMNS[name](trial)
    kind, _, inner = name.partition(".")
    if kind == "metrics":
        return trial["metrics"].get(inner, {}).get("final")
    value: Any = trial["parameters"] or {}
    if inner in value:
        return value[inner]
    for part in inner.split("."):  # a choice within a choice
        value = value.get(part) if isinstance(value, dict) else None
    return value


class CompareArguments(Arguments):
    trials: Annotated[list[TrialId], Field(min_length=2, max_length=10, description="Ids of trials.")]


class ComparedTrial(Answer):
    id: str
    experiment: str
    number: int
    status: str
    value: float | None
    variant: Annotated[str | None, Field(description="SHA-256 of its changes to the code.")]
    metrics: dict[str, float | None]
    duration: float | None
    why: Sentence
    reason: Reason | None


class Comparison(Answer):
    trials: list[ComparedTrial]
    differing: Annotated[dict[str, list[Any]], Field(description=(
        "Parameters that are not the same in all of them: the value in each, null where it has none."))]
    same: Annotated[dict[str, Any], Field(description="Parameters that are the same in all of them.")]


async def compare(rest: Rest, given: CompareArguments) -> Comparison:
    """A few trials side by side: which parameters differ, and what came of each."""
    found = [await rest.ask("GET", f"trials/{path_part(trial)}/") for trial in dict.fromkeys(given.trials)]
    given_each = [trial["parameters"] or {} for trial in found]
    names = list(dict.fromkeys(name for parameters in given_each for name in parameters))
    values = {name: [parameters.get(name) for parameters in given_each] for name in names}
    same = {name: each[0] for name, each in values.items()
            if all(name in parameters for parameters in given_each) and all(value == each[0] for value in each)}
    return Comparison(
        trials=[ComparedTrial.model_validate({
            **trial, "number": trial["sequence_id"], "value": trial["final_number"], "why": trial["message"],
            "variant": COLUMNS["variant"](trial),
            "metrics": {name: number["final"] for name, number in trial["metrics"].items()}}) for trial in found],
        differing={name: each for name, each in values.items() if name not in same}, same=same)
