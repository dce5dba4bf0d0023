"""An experiment's trials as a file: JSON or CSV. Written as they are read, so memory does not grow with them."""

import csv
import json
import math
from collections.abc import Iterator
from typing import Any, TextIO

from django.db.models import Prefetch

from nniweb.experiments.models import Attempt, Experiment, Metric, Trial, TrialParameters
from trialkeeper import contract

_CHUNK = 500


def write_json(experiment: Experiment, out: TextIO, *, intermediate: bool = False) -> None:
    """``{"experiment": {...}, "trials": [...]}``, one trial a line. ASCII, so that any text in it survives."""
    head = {"id": experiment.public_id, "name": experiment.name, "status": experiment.status,
            "optimize_mode": experiment.optimize_mode, "seed": experiment.seed,
            "search_space": experiment.search_space, "config": experiment.config}
    out.write(f'{{"experiment": {json.dumps(head)},\n "trials": [')
    separator = "\n  "
    for document in trial_documents(experiment, intermediate=intermediate):
        out.write(f"{separator}{json.dumps(document)}")
        separator = ",\n  "
    out.write("\n]}\n")


def write_csv(experiment: Experiment, out: TextIO, *, intermediate: bool = False) -> None:
    """One row per trial, a column per parameter (nested ones as ``outer.inner``), intermediate results as one text."""
    names: dict[str, None] = {}
    for value in TrialParameters.objects.filter(trial__experiment=experiment, index=0).values_list(
            "value", flat=True).iterator():
        names.update(dict.fromkeys(flat(value)))
    fixed = ["id", "sequence_id", "status", "final_value", "final_number", "started_at", "ended_at", "duration"]
    writer = csv.writer(out)
    writer.writerow([*fixed, *(f"parameters.{name}" for name in names), *(["intermediate"] if intermediate else [])])
    for document in trial_documents(experiment, intermediate=intermediate):
        parameters = flat(document["parameters"])
        row = [document[name] for name in fixed] + [parameters.get(name) for name in names]
        if intermediate:
            row.append(json.dumps(document["intermediate"]))
        writer.writerow([_cell(value) for value in row])


def trial_documents(experiment: Experiment, *, intermediate: bool) -> Iterator[dict[str, Any]]:
    """All trials in order of sequence; with ``intermediate`` the last value reported for each sequence number."""
    trials = Trial.objects.filter(experiment=experiment).order_by("sequence_id").prefetch_related(
        Prefetch("parameter_sets", TrialParameters.objects.filter(index=0), to_attr="first_parameters"),
        Prefetch("attempts", Attempt.objects.only("trial_id", "number", "duration", "exit_code").order_by("number"),
                 to_attr="attempts_in_order"))
    if intermediate:
        trials = trials.prefetch_related(Prefetch(
            "attempts_in_order__metrics",
            Metric.objects.filter(kind=contract.PERIODICAL).only("attempt_id", "sequence", "value").order_by("n"),
            to_attr="intermediate"))
    for trial in trials.iterator(chunk_size=_CHUNK):
        last: Attempt | None = trial.attempts_in_order[-1] if trial.attempts_in_order else None  # type: ignore[attr-defined]
        first: list[TrialParameters] = trial.first_parameters  # type: ignore[attr-defined]
        document: dict[str, Any] = {
            "id": trial.public_id, "sequence_id": trial.sequence_id, "status": trial.status,
            "parameters": first[0].value if first else None, "final_value": trial.final_value,
            "final_number": trial.final_number, "message": trial.message, "tags": trial.tags,
            "created_at": _time(trial.created_at), "started_at": _time(trial.started_at),
            "ended_at": _time(trial.ended_at), "duration": last.duration if last else None,
            "exit_code": last.exit_code if last else None,
        }
        if intermediate:
            metrics: list[Metric] = last.intermediate if last else []  # type: ignore[attr-defined]
            by_sequence = {metric.sequence: metric.value for metric in metrics}
            document["intermediate"] = [by_sequence[sequence] for sequence in sorted(by_sequence)]
        yield document


def _cell(value: Any) -> Any:
    """A cell that fits into UTF-8, which the lone surrogates a trial may report do not."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return "" if value is None else value


def _time(at: Any) -> str | None:
    return at.isoformat() if at is not None else None


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """``{"a": {"b": 1}}`` as ``{"a.b": 1}``; lists and texts stay as JSON."""
    if not isinstance(value, dict):
        scalar = value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
        return {prefix: value if scalar or isinstance(value, str) else json.dumps(value)} if prefix else {}
    result: dict[str, Any] = {}
    for key, item in value.items():
        result |= flat(item, f"{prefix}.{key}" if prefix else str(key))
    return result
