"""An experiment's trials as a file: JSON or CSV. Written as they are read, so memory does not grow with them: there are
at most some hundred trials in it, and the intermediate results of one, or of several that have few.
"""

import csv
import json
import math
import re
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import chain
from typing import Any, TextIO

from django.db.models import Prefetch, Q, QuerySet

from nniweb.experiments.checkpoints.joined_attempts import Chain, chain_of, reported_by
from nniweb.experiments.launch.current_config import current_config
from nniweb.experiments.models import Attempt, Experiment, MetricName, MetricNumber, Trial, TrialParameters
from nniweb.tuning.search_space.parser import LONGEST_NAME

#: Trials that are read together, and the intermediate results that are.
_CHUNK, _MOST_VALUES = 500, 20_000
#: What a formula begins with, in Excel, LibreOffice or Google's: also white space before one, and the wide forms.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: A text that is one may begin with its sign: results are kept as the text that was reported.
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?:Infinity|inf)")


#: Further members of a trial that is a replicate: first trial, index, seed; mean, its standard error, values in it.
OF_PROPOSALS = ("proposal", "replicate", "seed", "mean", "standard_error", "replicates")


def write_json(experiment: Experiment, out: TextIO, *, intermediate: bool = False) -> None:
    """All trials; see ``json_pieces``."""
    for piece in json_pieces(experiment, Trial.objects.filter(experiment=experiment), intermediate=intermediate):
        out.write(piece)


def write_csv(experiment: Experiment, out: TextIO, *, intermediate: bool = False, raw: bool = False) -> None:
    """All trials; see ``csv_pieces``."""
    for piece in csv_pieces(Trial.objects.filter(experiment=experiment), intermediate=intermediate, raw=raw):
        out.write(piece)


def json_pieces(experiment: Experiment, trials: QuerySet[Trial], *, intermediate: bool = False) -> Iterator[str]:
    """``{"experiment": {...}, "trials": [...]}``, one trial a line. ASCII, so that any text in it survives."""
    head = {"id": experiment.public_id, "name": experiment.name, "status": experiment.status,
            "optimize_mode": experiment.optimize_mode, "seed": experiment.seed,
            "search_space": experiment.search_space, "config": current_config(experiment)}
    yield f'{{"experiment": {json.dumps(head)},\n "trials": ['
    separator = "\n  "
    for documents in _documents(trials, intermediate=intermediate):
        lines = [json.dumps(document) for document in documents]
        yield separator + ",\n  ".join(lines)
        separator = ",\n  "
    yield "\n]}\n"


def csv_pieces(trials: QuerySet[Trial], *, intermediate: bool = False, raw: bool = False) -> Iterator[str]:
    """One row per trial, a column per further metric and per parameter (nested ones as ``outer.inner``), intermediate
    results as one text. Unless ``raw``, no cell is a formula to a spreadsheet. Of multi-phase experiments one row per
    parameter set, with a column for its index.
    """
    cell = _cell if raw else harmless_cell
    names: dict[str, None] = {}
    given = TrialParameters.objects.filter(trial__in=trials.order_by(), value__isnull=False).order_by(
        "trial__sequence_id", "index")
    for value in given.values_list("value", flat=True).iterator():
        names.update(dict.fromkeys(flat(value)))
    metrics = list(MetricName.objects.filter(pk__in=MetricNumber.objects.filter(trial__in=trials.order_by()).values(
        "metric")).values_list("name", flat=True))
    fixed = ["id", "sequence_id", "status", "final_value", "final_number", "started_at", "ended_at", "duration"]
    if trials.filter(feasible__isnull=False).exists():
        fixed.insert(5, "feasible")
    if trials.filter(variant__isnull=False).exists():
        fixed.insert(3, "variant")
    if trials.filter(experiment__multi_phase=True).exists():
        fixed.insert(3, "parameter_set")
    if trials.filter(proposal__isnull=False).exists():
        fixed[3:3] = OF_PROPOSALS
    named = [*(f"metrics.{name}" for name in metrics), *(f"parameters.{name}" for name in names)]
    yield csv_text([[cell(name) for name in (*fixed, *named, *(["intermediate"] if intermediate else []))]])
    for documents in _documents(trials, intermediate=intermediate):
        rows = []
        for document in chain.from_iterable(map(_row_of_each_set, documents)):
            parameters = flat(document["parameters"])
            row = [document.get(name) for name in fixed] + [document["metrics"].get(name) for name in metrics]
            row += [parameters.get(name) for name in names]
            if intermediate:
                row.append(json.dumps(document["intermediate"]))
            rows.append([cell(value) for value in row])
        yield csv_text(rows)


def _row_of_each_set(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The trial as it is, or once for each of its parameter sets. Further metrics are those of the trial's result."""
    sets = document.get("parameter_sets")
    if sets is None:
        yield document
    for one in sets or []:
        is_of_result = one["index"] == document["result_index"]
        yield {**document, "parameter_set": one["index"], "parameters": one["parameters"],
               "final_value": one["final_value"], "final_number": one["final_number"],
               "metrics": document["metrics"] if is_of_result else {}}


def csv_text(rows: list[list[Any]]) -> str:
    text = StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _documents(trials: QuerySet[Trial], *, intermediate: bool) -> Iterator[list[dict[str, Any]]]:
    """The trials in order of sequence, some at a time, each time by queries of their own: nothing is held open while
    a slow reader takes them. With ``intermediate`` the last value reported for each sequence number, of
    the attempts of one curve (``joined_attempts``).
    """
    trials = trials.order_by("sequence_id").select_related("experiment", "proposal", "variant").prefetch_related(
        Prefetch("parameter_sets", TrialParameters.objects.filter(
            Q(index=0) | Q(value__isnull=False)).order_by("index"), to_attr="sets"),
        Prefetch("attempts", Attempt.objects.only(
            "trial_id", "number", "duration", "exit_code", "first_sequence", "resumed_from_id").order_by("number"),
                 to_attr="attempts_in_order"),
        Prefetch("metric_numbers", MetricNumber.objects.select_related("metric"), to_attr="other_metrics"))
    last = -1
    while some := list(trials.filter(sequence_id__gt=last)[:_CHUNK]):
        for group in _with_few_values(some) if intermediate else [some]:
            curves = _curves(group) if intermediate else {}
            yield [_document(trial, curves.get(trial.pk)) for trial in group]
        last = some[-1].sequence_id


def _with_few_values(trials: Sequence[Trial]) -> Iterator[list[Trial]]:
    """The trials in their order, in groups that have at most ``_MOST_VALUES`` intermediate results, if they are more
    than one trial.
    """
    group: list[Trial] = []
    count = 0
    for trial in trials:
        if group and count + trial.intermediate_count > _MOST_VALUES:
            yield group
            group, count = [], 0
        group.append(trial)
        count += trial.intermediate_count
    yield group


def _curves(trials: Sequence[Trial]) -> dict[int, list[str]]:
    """By trial, its intermediate results in order: of each sequence number the last one that was reported, of the
    attempts of one curve (``joined_attempts``). One query; some more where an attempt went on from a checkpoint.
    """
    chains: dict[int, Chain] = {}
    alone: dict[int, int] = {}
    for trial in trials:
        own: list[Attempt] = trial.attempts_in_order  # type: ignore[attr-defined]
        joined = chain_of(own[-1]) if own else {}
        if len(joined) == 1:
            alone[own[-1].pk] = trial.pk
        chains[trial.pk] = joined
    values: dict[int, dict[int, str]] = {trial.pk: {} for trial in trials}
    for attempt, sequence, _, value in reported_by(alone):
        values[alone[attempt]][sequence] = value
    for trial in trials:
        joined = chains[trial.pk]
        if len(joined) > 1:
            own_keys = {attempt.pk for attempt in trial.attempts_in_order}  # type: ignore[attr-defined]
            for attempts in (joined.keys() - own_keys, joined.keys() & own_keys):  # what its own say comes last
                values[trial.pk] |= {joined[pk] + sequence: value for pk, sequence, _, value in reported_by(attempts)}
    return {pk: [found[place] for place in sorted(found)] for pk, found in values.items()}


def _document(trial: Trial, curve: list[str] | None) -> dict[str, Any]:
    """``curve``: its intermediate results, where they are wanted."""
    last: Attempt | None = trial.attempts_in_order[-1] if trial.attempts_in_order else None  # type: ignore[attr-defined]
    sets: list[TrialParameters] = trial.sets  # type: ignore[attr-defined]
    of_result = next((one for one in sets if one.index == trial.result_index), None)
    others: list[MetricNumber] = trial.other_metrics  # type: ignore[attr-defined]
    document: dict[str, Any] = {
        "id": trial.public_id, "sequence_id": trial.sequence_id, "status": trial.status,
        "parameters": of_result.value if of_result else None, "final_value": trial.final_value,
        "final_number": trial.final_number, "metrics": {row.metric.name: row.final for row in others},
        "message": trial.message, "tags": trial.tags,
        "created_at": _time(trial.created_at), "started_at": _time(trial.started_at),
        "ended_at": _time(trial.ended_at), "duration": last.duration if last else None,
        "exit_code": last.exit_code if last else None,
    }
    if trial.feasible is not None:
        document["feasible"] = trial.feasible if trial.final_value is not None else None
    if trial.variant is not None:
        document["variant"] = trial.variant.sha256
    if trial.proposal is not None:
        of_proposal = trial.proposal
        document |= dict(zip(OF_PROPOSALS, (
            of_proposal.first_sequence_id, trial.replicate, trial.seed, of_proposal.mean, of_proposal.standard_error,
            of_proposal.value_count), strict=True))
    if trial.experiment.multi_phase:
        document["result_index"] = trial.result_index
        document["parameter_sets"] = [
            {"index": one.index, "parameter_id": one.parameter_id, "parameters": one.value,
             "final_value": one.final_value, "final_number": one.final_number} for one in sets]
    if curve is not None:
        document["intermediate"] = curve
    return document


def _cell(value: Any) -> Any:
    """A cell that fits into UTF-8, which the lone surrogates a trial may report do not."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return "" if value is None else value


def harmless_cell(value: Any) -> Any:
    """A cell that a spreadsheet takes for what it is: an apostrophe before a text that it would run as a formula."""
    cell = _cell(value)
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell) else cell


def _time(at: Any) -> str | None:
    return at.isoformat() if at is not None else None


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """``{"a": {"b": 1}}`` as ``{"a.b": 1}``; lists and texts stay as JSON, and objects whose names would be too long:
    each of their members would repeat them.
    """
    if not isinstance(value, dict) or len(prefix) > LONGEST_NAME:
        scalar = value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
        return {prefix: value if scalar or isinstance(value, str) else json.dumps(value)} if prefix else {}
    result: dict[str, Any] = {}
    for key, item in value.items():
        result |= flat(item, f"{prefix}.{key}" if prefix else str(key))
    return result
