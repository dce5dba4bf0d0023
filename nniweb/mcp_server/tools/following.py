"""Tools that follow what goes on: waiting for results, and the end of a log."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from nniweb.client.experiment import ENDED
from nniweb.mcp_server import cursors
from nniweb.mcp_server.rest import Rest, path_part
from nniweb.mcp_server.tools.tool import Answer, Arguments, Cursor, ExperimentId, TrialId

#: Results of one answer; seconds of one wait.
MOST_RESULTS, LONGEST_WAIT = 50, 30.0
#: Bytes and lines of one answer of a log.
MOST_BYTES, MOST_LINES = 16_000, 100


class WaitArguments(Arguments):
    experiment: ExperimentId
    cursor: Cursor = None
    seconds: Annotated[float, Field(ge=0, le=LONGEST_WAIT, description=(
        "How long to wait where nothing has changed. Call it again with the cursor to wait longer."))] = 20.0


class Result(Answer):
    """The end of a trial (with replicates: of a proposal), or an imported result."""

    trial: Annotated[str | None, Field(description="Id.")]
    sequence_id: Annotated[int | None, Field(description="The trial's number in the experiment.")]
    key: Annotated[str | None, Field(description="Of the proposal.")]
    source: str
    parameters: Any
    variant: Annotated[str | None, Field(description="SHA-256 of the trial's changes to the code.")] = None
    status: str
    value: Annotated[float | None, Field(description="null: it gave none.")]
    values: list[float] | None
    violation: float


class Changes(Answer):
    status: str
    has_ended: bool
    results: Annotated[list[Result], Field(description="Since the cursor, in their order. None comes twice.")]
    trials: Annotated[dict[str, int], Field(description="Trials by status, without zeros.")]
    best_value: float | None
    best_trial_id: str | None
    has_more: Annotated[bool, Field(description="Call again with the cursor: there is more already.")]
    cursor: str


async def wait(rest: Rest, given: WaitArguments) -> Changes:
    """Wait until an experiment has new results, changes its status or has ended; returns what is new and a cursor for
    the next call. Without a cursor it returns all results from the beginning, 50 at a time.
    """
    path = f"experiments/{path_part(given.experiment)}/"
    of = cursors.question(tool="wait", experiment=given.experiment)
    place = cursors.read(given.cursor, of, {"after": int, "status": str}) if given.cursor is not None \
        else {"after": -1, "status": ""}
    deadline = time.monotonic() + given.seconds
    after = place["after"]
    found = await rest.ask("GET", f"{path}results/", query={"after": after})
    if _is_quiet(found, place):
        async with rest.watching(given.experiment) as changed:
            while True:
                if not found["has_more"]:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        break
                    await changed(left)
                after = found["next"]  # a part of the history without results
                found = await rest.ask("GET", f"{path}results/", query={"after": after})
                if not _is_quiet(found, place):
                    break
    told = found["results"][:MOST_RESULTS]
    is_cut = len(found["results"]) > len(told)
    after = told[-1]["number"] if is_cut else found["next"]
    progress = (await rest.ask("GET", path))["progress"]
    return Changes.model_validate({
        "status": found["status"], "has_ended": found["status"] in ENDED, "results": told,
        "trials": {status: count for status, count in progress["trials"].items() if count},
        "best_value": progress["best_value"], "best_trial_id": progress["best_trial_id"],
        "has_more": is_cut or found["has_more"],
        "cursor": cursors.written(of, {"after": after, "status": found["status"]})})


def _is_quiet(found: dict[str, Any], place: dict[str, Any]) -> bool:
    """Whether there is nothing to tell yet."""
    return not found["results"] and found["status"] not in ENDED \
        and (not place["status"] or found["status"] == place["status"])


class LogArguments(Arguments):
    trial: Annotated[TrialId | None, Field(description="Id of a trial, for its output.")] = None
    experiment: Annotated[ExperimentId | None, Field(description="Id of an experiment, for its log.")] = None
    stream: Annotated[Literal["stdout", "stderr"], Field(description="Of a trial.")] = "stdout"
    level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], Field(description="Of an experiment.")] = "INFO"
    bytes: Annotated[int, Field(ge=100, le=MOST_BYTES, description="Of a trial's output.")] = 4000
    lines: Annotated[int, Field(ge=1, le=MOST_LINES, description="Of an experiment's log.")] = 30
    cursor: Cursor = None

    @model_validator(mode="after")
    def _one_of_both(self) -> LogArguments:
        if (self.trial is None) == (self.experiment is None):
            raise ValueError("Give either trial or experiment.")
        return self


class LogTail(Answer):
    text: str
    skipped: Annotated[int, Field(description="Bytes before this text that were left out.")]
    cursor: Annotated[str, Field(description="For what is written after this.")]


async def tail_log(rest: Rest, given: LogArguments) -> LogTail:
    """The end of a trial's output, or of an experiment's log; with a cursor, what was written since."""
    if given.trial is not None:
        return await _output(rest, given, f"trials/{path_part(given.trial)}/output/")
    return await _log(rest, given, f"experiments/{path_part(str(given.experiment))}/log/")


async def _output(rest: Rest, given: LogArguments, path: str) -> LogTail:
    of = cursors.question(tool="tail_log", trial=given.trial, stream=given.stream)
    if given.cursor is not None:
        place = cursors.read(given.cursor, of, {"offset": int, "attempt": int})
        start, attempt = max(0, place["offset"]), max(1, place["attempt"])
    else:
        first = await rest.ask("GET", path, query={"stream": given.stream, "limit": 4})
        start, attempt = max(0, first["size"] - given.bytes), first["attempt"]
        if attempt == 0:  # it has not begun
            return LogTail(text="", skipped=0, cursor=cursors.written(of, {"offset": 0, "attempt": 1}))
    part = await rest.ask("GET", path, query={
        "stream": given.stream, "offset": start, "limit": given.bytes, "attempt": attempt})
    return LogTail(text=part["text"], skipped=start if given.cursor is None else 0,
                   cursor=cursors.written(of, {"offset": part["next_offset"], "attempt": attempt}))


async def _log(rest: Rest, given: LogArguments, path: str) -> LogTail:
    of = cursors.question(tool="tail_log", experiment=given.experiment, level=given.level)
    after = None if given.cursor is None else max(0, cursors.read(given.cursor, of, {"after": int})["after"])
    part = await rest.ask("GET", path, query={"level": given.level, "limit": given.lines, "after": after})
    lines = part["lines"]
    text = "\n".join(f"{line['at']} {line['level']} {line['source']}"
                     f"{' ' + line['trial'] if line['trial'] else ''}: {line['message'][:2000]}" for line in lines)
    last = lines[-1]["number"] if lines else part["last"] if after is None else after
    return LogTail(text=text[-MOST_BYTES:], skipped=max(0, len(text) - MOST_BYTES),
                   cursor=cursors.written(of, {"after": last}))
