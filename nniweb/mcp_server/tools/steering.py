"""Tools that steer: pause, resume and stop an experiment, and cancel trials."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from nniweb.mcp_server.rest import Rest, path_part
from nniweb.mcp_server.tools import forecasts
from nniweb.mcp_server.tools.forecasts import TrialsForecast
from nniweb.mcp_server.tools.tool import Answer, Arguments, DryRun, ExperimentId, Sentence, TrialId
from trainingservice.trial_job_status import ENDS


class SteerArguments(Arguments):
    experiment: ExperimentId
    action: Annotated[Literal["pause", "freeze", "resume", "stop"], Field(description=(
        "pause: start nothing new. freeze: pause it, and have running trials save a checkpoint and end until it is "
        "resumed. resume: go on. stop: end it and all its trials."))]
    max_trial_number: Annotated[int | None, Field(ge=1, le=10**9, description=(
        "A new limit, with resume. A DONE experiment goes on with a higher one."))] = None
    dry_run: DryRun = True

    @model_validator(mode="after")
    def _limit_of_resume(self) -> SteerArguments:
        if self.max_trial_number is not None and self.action != "resume":
            raise ValueError("max_trial_number is for the action resume alone.")
        return self


class SteerAnswer(Answer):
    is_dry_run: bool
    status: str
    why: Sentence
    unfinished_trials: Annotated[dict[str, int], Field(description=(
        "Trials that have not ended yet, by status: with stop, those that end by it."))]
    forecast: Annotated[TrialsForecast | None, Field(description=(
        "Of a dry run of resume: what the trials take that may still be run; null without a limit of trials."))]


async def steer_experiment(rest: Rest, given: SteerArguments) -> SteerAnswer:
    """Pause, freeze, resume or stop an experiment. With dry_run (the default) nothing changes, and the answer tells
    which trials would end, or what would be run.
    """
    path = f"experiments/{path_part(given.experiment)}/"
    body = {} if given.max_trial_number is None else {"max_trial_number": given.max_trial_number}
    document = await rest.ask("POST", f"{path}actions/{given.action}/", body=body if given.action == "resume" else None,
                              query={"dry_run": True} if given.dry_run else None)
    most, progress = document["max_trial_number"], document["progress"]
    forecast = None
    if given.dry_run and given.action == "resume" and most is not None:
        forecast = await forecasts.of_trials(rest, path, max(0, most - progress["ended"]))
    return SteerAnswer(
        is_dry_run=given.dry_run, status=document["status"], why=document["message"], forecast=forecast,
        unfinished_trials={status: count for status, count in progress["trials"].items()
                           if count and status not in ENDS})


class CancelArguments(Arguments):
    experiment: ExperimentId
    trials: Annotated[list[TrialId] | None, Field(min_length=1, max_length=100, description="Ids of trials.")] = None
    filter: Annotated[str | None, Field(min_length=1, max_length=2000, description=(
        "Instead of ids: all unfinished trials that fit, such as `lr > 0.1`."))] = None
    dry_run: DryRun = True

    @model_validator(mode="after")
    def _one_of_both(self) -> CancelArguments:
        if (self.trials is None) == (self.filter is None):
            raise ValueError("Give either trials or filter.")
        return self


class NotDone(Answer):
    reason: Sentence
    count: int


class CancelAnswer(Answer):
    is_dry_run: bool
    done: Annotated[int, Field(description="Trials that end by it.")]
    trials: Annotated[list[str], Field(description="The ids of the first 100 of them.")]
    not_done: Annotated[list[NotDone], Field(description="Why others do not.")]


async def cancel_trials(rest: Rest, given: CancelArguments) -> CancelAnswer:
    """End trials of an experiment, by their ids or by a filter. With dry_run (the default) none ends, and the answer
    tells which would.
    """
    path = f"experiments/{path_part(given.experiment)}/trials/actions/stop/"
    body: dict[str, Any] = {"trials": given.trials} if given.trials is not None else {
        "fitting": {"filter": given.filter}}
    document = await rest.ask("POST", path, body=body, query={"dry_run": True} if given.dry_run else None)
    return CancelAnswer.model_validate({
        **document, "is_dry_run": given.dry_run, "trials": document["trials"][:100]})
