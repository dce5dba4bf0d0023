"""Tools that look at experiments: a list, and one of them with what there is to know of it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from nniweb.mcp_server import cursors
from nniweb.mcp_server.rest import Rest, path_part
from nniweb.mcp_server.tools.tool import Answer, Arguments, Cursor, ExperimentId, Reason, Sentence

#: Characters of a search space that is shown whole.
LONGEST_SPACE = 6000
#: Causes of failures that are told.
MOST_CAUSES = 5


class ListArguments(Arguments):
    state: Annotated[Literal["running", "done", "attention"] | None, Field(description=(
        "running: not ended. done: ended. attention: something is wrong."))] = None
    q: Annotated[str | None, Field(max_length=200, description="Text in the name, owner, cluster or tags.")] = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Cursor = None


class ExperimentLine(Answer):
    id: str
    name: str
    status: str
    outcome: str | None
    cluster: str
    owner: str | None
    trials: int
    best_value: float | None
    why: Sentence


class ExperimentList(Answer):
    experiments: list[ExperimentLine]
    count: int
    cursor: Annotated[str | None, Field(description="null: there are no more.")]


async def list_experiments(rest: Rest, given: ListArguments) -> ExperimentList:
    """Experiments that you may see, newest first."""
    of = cursors.question(tool="list_experiments", state=given.state, q=given.q, limit=given.limit)
    page = cursors.read(given.cursor, of, {"page": int})["page"] if given.cursor is not None else 1
    found = await rest.ask("GET", "experiments/", query={
        "state": given.state, "q": given.q, "page": page, "page_size": given.limit})
    more = cursors.written(of, {"page": page + 1}) if found["next"] is not None else None
    return ExperimentList(experiments=[line_of(document) for document in found["results"]], count=found["count"],
                          cursor=more)


def line_of(document: dict[str, Any]) -> ExperimentLine:
    progress = document["progress"]
    return ExperimentLine.model_validate({**document, "trials": progress["total"], "why": document["message"],
                                          "best_value": progress["best_value"]})


class InspectArguments(Arguments):
    experiment: ExperimentId


class Best(Answer):
    value: float | None
    trial: Annotated[str | None, Field(description="Id of the trial.")]
    number: Annotated[int | None, Field(description="Its number in the experiment.")]
    standard_error: Annotated[float | None, Field(description="With replicates, of the mean.")]
    front: Annotated[int | None, Field(description="With several objectives: trials on the Pareto front.")]


class Cause(Answer):
    """Trials that failed for the same reason."""

    count: int
    message: Sentence
    reason: Reason | None
    trial_id: Annotated[str, Field(description="The first of them. Read its stderr with tail_log.")]
    filter: Annotated[str, Field(description="`filter` of the tool results that finds them all.")]


class Limits(Answer):
    max_trial_number: int | None
    max_duration: Annotated[float | None, Field(description="Seconds of the experiment.")]
    max_trial_duration: Annotated[float | None, Field(description="Seconds of one trial.")]
    trial_concurrency: int


class Inspection(Answer):
    id: str
    name: str
    status: str
    outcome: str | None
    why: Annotated[Sentence, Field(description="Why it is as it is, such as what it waits for.")]
    reason: Reason | None
    cluster: str
    platform: str
    group: str | None
    tuner: str
    optimize_mode: str
    objectives: list[Any]
    trials: Annotated[dict[str, int], Field(description="Trials by status, without zeros.")]
    best: Best
    limits: Limits
    elapsed: Annotated[float, Field(description="Seconds.")]
    eta: Annotated[float | None, Field(description="Estimated seconds to the end.")]
    failures: Annotated[list[Cause], Field(description="The most frequent causes of failures.")]
    wanted: Annotated[int | None, Field(description=(
        "With the tuner External: how many proposals could run now. null with other tuners."))]
    search_space: Annotated[Any, Field(description="Of a large one only the names of the parameters.")]
    notes: list[Sentence]


async def inspect_experiment(rest: Rest, given: InspectArguments) -> Inspection:
    """One experiment: status, why it waits, trials by status, the best result, limits, causes of failures, search
    space.
    """
    path = f"experiments/{path_part(given.experiment)}/"
    document = await rest.ask("GET", path)
    progress = document["progress"]
    trials = {status: count for status, count in progress["trials"].items() if count}
    causes = (await rest.ask("GET", f"{path}failures/"))[:MOST_CAUSES] if "FAILED" in trials else []
    tuner = document["tuner"].get("name") or document["tuner"].get("class_name") or "custom"
    wanted = (await rest.ask("GET", f"{path}proposals/"))["wanted"] if tuner == "External" else None
    return Inspection.model_validate({
        **document, "why": document["message"], "tuner": tuner, "trials": trials,
        "best": {"value": progress["best_value"], "trial": progress["best_trial_id"], "front": progress["front"],
                 "number": progress["best_sequence_id"], "standard_error": progress["best_standard_error"]},
        "limits": document, "elapsed": progress["elapsed"], "eta": progress["eta"], "wanted": wanted,
        "failures": [{**cause, "filter": f"failure = {cause['key']}"} for cause in causes],
        "search_space": bounded_space(document["search_space"]), "notes": document["notes"][:10]})


def bounded_space(space: dict[str, Any]) -> Any:
    return space if len(json.dumps(space)) <= LONGEST_SPACE else {"names": list(space)[:200], "count": len(space)}
