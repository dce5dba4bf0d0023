"""What a terminal shows of experiments, trials and metrics. Takes the documents of REST, wherever they come from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainingservice.words.status_words import status_word

_BAR = 30
#: Characters of a cell with words of people.
_LONGEST_CELL = 40


def progress_line(document: Mapping[str, Any]) -> str:
    """Bar, counts by status, best value so far, on one line."""
    fraction = document["progress"]["fraction"]
    filled = round(_BAR * fraction) if fraction is not None else 0
    bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] " if fraction is not None else ""
    return f"{bar}{experiment_counts(document)}"


def experiment_counts(document: Mapping[str, Any]) -> str:
    """The same without the bar."""
    progress, limit = document["progress"], document["max_trial_number"]
    counts = ", ".join(f"{count} {status_word(status).lower()}" for status, count in progress["trials"].items()
                       if count)
    best = f"  best {_best(progress)}" if progress["best_value"] is not None else ""
    if progress.get("front") is not None:
        best = f"  {progress['front']} on the Pareto front"
    left = f"  about {readable_seconds(progress['eta'])} left" if progress["eta"] else ""
    return (f"{status_word(document['status'])}  {progress['ended']}{f'/{limit}' if limit else ''} ended"
            + (f" ({counts})" if counts else "") + best + left)


def experiment_lines(document: Mapping[str, Any]) -> list[str]:
    """What ``experiments show`` says of an experiment before its best trials. Takes its whole document."""
    lines = [f"{document['name']} ({document['id']}) on {document['cluster']}", progress_line(document)]
    if outcome := outcome_words(document):
        lines.append(f"{outcome}.")
    if document["message"]:
        lines.append(f"Why: {document['message']}")
    if (choice := document["tuner_choice"]) is not None:
        lines.append(f"{document['tuner']['name']} proposes by {choice['tuner']}. {choice['message']}")
    if document["target"] != "RUN":
        lines.append(f"Wanted: {document['target']}")
    runs = "Running" if document["ended_at"] is None else "Ran"
    lines.append(f"{runs} for {readable_seconds(document['progress']['elapsed'])}, "
                 f"at most {document['trial_concurrency']} trials at once")
    return lines


#: Causes of failures that are listed where an experiment has ended.
MOST_CAUSES = 3


def outcome_words(document: Mapping[str, Any]) -> str:
    """What is to be said of an experiment's outcome, such as "2 of 3 trials failed"; "" where it succeeded or goes on.
    """
    progress, outcome = document["progress"], document.get("outcome")  # an older server has none
    if outcome in ("failed", "partly_failed"):
        failed, total = progress["trials"]["FAILED"], progress["total"]
        return f"{failed} of {total} trials failed" if total > 1 else "The only trial failed"
    return "No result" if outcome == "no_result" and progress["total"] else ""


def failure_lines(failures: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why trials failed, the most frequent causes. ``failures``: as REST has them."""
    lines = [f"  trial {each['sequence_id']}: {each['message']}" if each["count"] == 1 else
             f"  {each['count']} trials, the first is {each['sequence_id']}: {each['message']}"
             for each in failures[:MOST_CAUSES]]
    left = len(failures) - len(lines)
    return [*lines, *([f"  and {left} more {'cause' if left == 1 else 'causes'}; the experiment's page shows them."]
                      if left else [])]


def visibility_line(document: Mapping[str, Any]) -> str:
    """Who sees an experiment that this person has launched."""
    group = document["group"]
    return "Visible to you and administrators." if group is None else (
        f"Visible to the group {printable(group)}, whose members may steer it. --private keeps it to you.")


def rerun_line(number: int, again: Mapping[str, Any]) -> str:
    """What became of a wish to run a trial again: its number, and the new trial's document."""
    return f"Trial {number} runs again as trial {again['sequence_id']} ({again['id']})."


def imported_line(count: int, experiment: str, *, has_ended: bool) -> str:
    """What became of an import of results."""
    said = "1 result was" if count == 1 else f"{count} results were"
    later = f" It gets {'it' if count == 1 else 'them'} when the experiment is resumed." if has_ended else ""
    return f"{said} imported for the tuner of {experiment}.{later}"


def best_trial_lines(trial: Mapping[str, Any] | None) -> list[str]:
    """The best trial with its value and parameters; nothing where there is none."""
    if trial is None:
        return []
    parameters, proposal = trial["parameters"], trial.get("proposal")
    if proposal is not None:
        mean = _mean(proposal["mean"], proposal["standard_error"], proposal["value_count"])
        return [f"Best proposal: that of trial {trial['sequence_id']} ({trial['id']}), {mean}",
                *(f"  {name} = {json.dumps(value)}" for name, value in
                  (parameters.items() if isinstance(parameters, dict) else ()))]
    return [f"Best trial: {trial['sequence_id']} ({trial['id']}), final value {printable(trial['final_value'] or '')}",
            *(f"  {name} = {json.dumps(value)}" for name, value in
              (parameters.items() if isinstance(parameters, dict) else ()))]


def front_lines(document: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> list[str]:
    """The Pareto front: what it is of, and these trials on it."""
    objectives, size = document["objectives"], document["progress"]["front"]
    names = ", ".join(f"{one['metric']} ({one['optimize_mode']})" for one in objectives)
    lines = [f"Pareto front of {names}: {size} trial{'' if size == 1 else 's'}"] if size else []
    for trial in trials:
        values = [trial["final_number"], *(trial["metrics"][one["metric"]]["final"] for one in objectives[1:])]
        numbers = ", ".join(f"{one['metric']} = {_number(value)}"
                            for one, value in zip(objectives, values, strict=True))
        lines.append(f"  Trial {trial['sequence_id']} ({trial['id']}): {numbers}; {_parameters(trial['parameters'])}")
    if size > len(trials):
        lines.append(f"  ... and {size - len(trials)} more: experiments trials ID --filter \"front = yes\"")
    return lines


def change_lines(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """What was changed after the launch, the newest first."""
    lines = []
    for document in documents:
        who = ", ".join(filter(None, [document["who"], document["via"]])) or "nobody"
        undoes = f", undoes {document['undoes']}" if document["undoes"] else ""
        lines.append(f"{document['number']}  {document['at'][:19].replace('T', ' ')}  {printable(who)}{undoes}")
        lines += [f"   {printable(line['what'])}: {printable(line['before'])} -> {printable(line['after'])}"
                  for line in document["values"]]
    return lines or ["There are no changes after the launch."]


def clusters_table(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """The clusters of an experiment that runs on several, below a heading."""
    rows = [("CLUSTER", "PLATFORM", "RUNNING", "WAITING", "ENDED", "UP TO", "WEIGHT", "HOURS", "COST", "STATE")]
    for document in documents:
        state = [word for word, is_so in (("home", document["is_home"]), ("taken out", not document["is_listed"]))
                 if is_so]
        state += [f"after {', '.join(document['after'])}"] if document["after"] else []
        state += [document["message"].rstrip(".")] if document["message"] else []
        rows.append((document["name"], document["platform"], str(document["running"]), str(document["waiting"]),
                     str(document["ended"]), str(document["up_to"] or ""), f"{document['weight']:g}",
                     f"{document['hours']:.2f}", "" if document["spent"] is None else f"{document['spent']:.2f}",
                     "; ".join(state)))
    return table(rows)


def experiments_table(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each experiment, below a heading."""
    rows = [("ID", "NAME", "STATUS", "TRIALS", "BEST", "OWNER", "CREATED")]
    for document in documents:
        progress, limit = document["progress"], document["max_trial_number"]
        status = status_word(document["status"]) + (", failed" if document.get("outcome") == "failed" else "")
        rows.append((document["id"], document["name"][:_LONGEST_CELL], status,
                     f"{progress['ended']}{f'/{limit}' if limit else ''}", _best(progress),
                     document["owner"] or "", document["created_at"][:16].replace("T", " ")))
    return table(rows)


def trials_table(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each trial, below a heading."""
    return table(trials_cells(documents))


def trials_cells(documents: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The cells of that table, row by row."""
    rows: list[tuple[str, ...]] = [("NO", "ID", "STATUS", "RESULT", "DURATION", "PARAMETERS", "WHY")]
    for document in documents:
        duration = document["duration"]
        rows.append((str(document["sequence_id"]), document["id"], status_word(document["status"]),
                     _number(document["final_number"]), "" if duration is None else readable_seconds(duration),
                     _parameters(document["parameters"]), document["message"][:2 * _LONGEST_CELL]))
    return rows


def metrics_table(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each value, below a heading; see ``records.metric_records``."""
    return table([("TRIAL", "ID", "STEP", "VALUE"),
                  *((str(record["sequence_id"]), record["trial"], "final" if record["step"] is None
                     else str(record["step"]), json.dumps(record["value"])) for record in records)])


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they must be."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(len(shown[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]


def readable_seconds(seconds: float) -> str:
    """``95`` as ``1 min 35 s``; two units are enough."""
    left, parts = int(seconds), []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"


def printable(text: str) -> str:
    """The text with what would move a terminal's cursor, or is no character, as an escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
                   for char in text)


def printable_lines(text: str) -> str:
    """The same of a text that may have several lines."""
    return "\n".join(map(printable, text.split("\n")))


def _best(progress: Mapping[str, Any]) -> str:
    front = progress.get("front")
    if front is not None:
        return f"front of {front}"
    count = progress.get("best_replicates")
    return _number(progress["best_value"]) if count is None else _mean(
        progress["best_value"], progress["best_standard_error"], count)


def _mean(value: float | None, error: float | None, count: int) -> str:
    return f"{_number(value)}{'' if error is None else f' +- {error:.2g}'} (mean of {count})"


def _number(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:g}"


def _parameters(parameters: Any) -> str:
    if not isinstance(parameters, dict):
        return ""
    return ", ".join(f"{name}={value if isinstance(value, str) else json.dumps(value)}"
                     for name, value in parameters.items())[:2 * _LONGEST_CELL]


def frozen_line(experiment: str, numbers: Sequence[int]) -> str:
    """What freezing an experiment, or its trials of these numbers, means now."""
    if not numbers:
        return f"{experiment} is being paused. Its running trials save a checkpoint and end; resume continues them."
    return f"{_trials(numbers)} of {experiment} {_is(numbers)} being frozen; thaw continues {_them(numbers)}."


def thawed_line(experiment: str, numbers: Sequence[int]) -> str:
    """What thawing its frozen trials, or those of these numbers, means now."""
    if not numbers:
        return f"The frozen trials of {experiment} continue when slots are free."
    return f"{_trials(numbers)} of {experiment} {'continue' if len(numbers) > 1 else 'continues'} when slots are free."


def _trials(numbers: Sequence[int]) -> str:
    return f"{'Trial' if len(numbers) == 1 else 'Trials'} {', '.join(map(str, numbers))}"


def _is(numbers: Sequence[int]) -> str:
    return "is" if len(numbers) == 1 else "are"


def _them(numbers: Sequence[int]) -> str:
    return "it" if len(numbers) == 1 else "them"
