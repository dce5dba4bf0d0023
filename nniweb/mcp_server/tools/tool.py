"""What a tool is: a name, its arguments, its answer, and what it asks of REST."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nniweb.mcp_server.rest import Rest

#: Characters of a sentence in an answer.
LONGEST_SENTENCE = 500


class Arguments(BaseModel):
    """What a tool is called with. Unknown arguments are refused; descriptions are for the agent."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Answer(BaseModel):
    """What a tool answers: of a document of REST the fields that are named here, and nothing else."""

    model_config = ConfigDict(extra="ignore")


def _clipped(value: Any) -> Any:
    return value if not isinstance(value, str) or len(value) <= LONGEST_SENTENCE else f"{value[:LONGEST_SENTENCE]} ..."


#: A sentence of the server, cut where it is long.
Sentence = Annotated[str, BeforeValidator(_clipped)]
ExperimentId = Annotated[str, Field(min_length=1, max_length=64, description="Id of an experiment.")]
TrialId = Annotated[str, Field(min_length=1, max_length=64, description="Id of a trial.")]
Cursor = Annotated[str | None, Field(max_length=500, description=(
    "`cursor` of the last answer, to go on from there. Leave it out to begin."))]
DryRun = Annotated[bool, Field(description=(
    "true (the default): change nothing, and tell what would happen and what it would cost. false: do it."))]


class Reason(Answer):
    """Why something is as it is, for programs."""

    code: str
    arguments: dict[str, Any] = {}


@dataclass(frozen=True)
class Tool:
    """A row of the table of tools. ``run``'s docstring is what agents read."""

    name: str
    arguments: type[Arguments]
    answer: type[Answer]
    run: Callable[[Rest, Any], Awaitable[Answer]]
    #: What it asks of REST, for people.
    asks: str
    changes: bool = False
    #: Whether it may end or remove something.
    is_destructive: bool = False
    #: Whether calling it twice is as calling it once.
    is_idempotent: bool = False

    @property
    def description(self) -> str:
        return " ".join((self.run.__doc__ or "").split())
