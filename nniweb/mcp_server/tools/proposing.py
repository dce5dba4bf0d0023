"""The tool that proposes parameters, in experiments with the tuner External."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from nniweb.mcp_server.rest import Rest, path_part
from nniweb.mcp_server.tools import forecasts
from nniweb.mcp_server.tools.forecasts import TrialsForecast
from nniweb.mcp_server.tools.tool import Answer, Arguments, DryRun, ExperimentId

#: Proposals of one call.
MOST = 100
#: Characters of a patch or a changed file; REST allows less where the config says so.
MOST_CHARACTERS = 512 * 1024


class Variant(Arguments):
    """Changes to the experiment's code for one trial. The config must permit them (codeVariants)."""

    patch: Annotated[str | None, Field(max_length=MOST_CHARACTERS, description=(
        "A unified diff against the code of the launch, as git diff writes it."))] = None
    files: Annotated[dict[str, Annotated[str, Field(max_length=MOST_CHARACTERS)] | None] | None, Field(
        max_length=200, description="Instead of a patch: path to the whole new text; null removes the file.")] = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Variant:
        if (self.patch is None) == (self.files is None):
            raise ValueError("Give either patch or files.")
        return self

    def document(self) -> dict[str, Any]:
        """As REST takes it."""
        return {"patch": self.patch} if self.patch is not None else {"files": self.files}


class Proposal(Arguments):
    parameters: Annotated[dict[str, Any], Field(description="A point of the search space.")]
    key: Annotated[str | None, Field(min_length=1, max_length=200, description=(
        "A name of your choice, unique in the experiment. Sent again under its key, a proposal finds its trial, and "
        "nothing runs twice."))] = None
    variant: Variant | None = None

    def document(self) -> dict[str, Any]:
        """As REST takes it."""
        return {"parameters": self.parameters, **({} if self.key is None else {"key": self.key}),
                **({} if self.variant is None else {"variant": self.variant.document()})}


class ProposeArguments(Arguments):
    experiment: ExperimentId
    proposals: Annotated[list[Proposal], Field(max_length=MOST)] = []
    complete: Annotated[bool, Field(description=(
        "No more proposals follow: the experiment is DONE when its trials have ended."))] = False
    dry_run: DryRun = True


class Taken(Answer):
    key: str | None
    is_new: Annotated[bool, Field(description="false: the key was known, and the trial was there.")]
    trial: Annotated[str | None, Field(description="Id; null where a dry run would make a new one.")]
    number: int
    status: str
    variant: Annotated[str | None, Field(description=(
        "SHA-256 of the changes to the code; the same changes have the same. null: the code as it is."))]


class ProposeAnswer(Answer):
    is_dry_run: bool
    trials: list[Taken]
    wanted: Annotated[int, Field(description="How many more proposals could run now.")]
    waiting: int
    running: int
    status: str
    forecast: Annotated[TrialsForecast | None, Field(description=(
        "Of a dry run, what the new trials would take; null where the token may not read that."))]


async def propose(rest: Rest, given: ProposeArguments) -> ProposeAnswer:
    """Propose parameters in an experiment whose tuner is External; each becomes a trial. All are taken, or none. With
    dry_run (the default) they are checked, and the answer tells what they would cost.
    """
    path = f"experiments/{path_part(given.experiment)}/"
    body = {"proposals": [proposal.document() for proposal in given.proposals],
            "complete": given.complete}
    document = await rest.ask("POST", f"{path}proposals/", body=body,
                              query={"dry_run": True} if given.dry_run else None)
    taken = [Taken(key=row["key"], is_new=row["is_new"], number=row["trial"]["sequence_id"],
                   status=row["trial"]["status"], variant=(row["trial"].get("variant") or {}).get("sha256"),
                   trial=None if given.dry_run and row["is_new"] else row["trial"]["id"]) for row in document["trials"]]
    forecast = await forecasts.of_trials(rest, path, len({row.number for row in taken if row.is_new})) \
        if given.dry_run else None
    return ProposeAnswer.model_validate({
        **document, "is_dry_run": given.dry_run, "trials": taken, "forecast": forecast})
