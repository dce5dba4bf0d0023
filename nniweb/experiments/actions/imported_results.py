"""Results from elsewhere, brought into an experiment: its tuner learns from them, of an ended one after a resume."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from django.db import transaction
from django.utils import timezone

from nniweb.experiments.access import audit
from nniweb.experiments.actions.locked_experiment import locked
from nniweb.experiments.errors import Refused
from nniweb.experiments.lifecycle.tuner_events import append_events
from nniweb.experiments.models import Experiment, ExperimentEvent, TunerEvent, User
from nniweb.experiments.results.feasibility import feasible_first, judged, violation_of, with_main_number
from nniweb.experiments.results.metric_number import numbers_in
from nniweb.experiments.results.objectives import names_of_objectives
from nniweb.experiments.results.other_metrics import main_metric
from nniweb.experiments.retention.policy import why_it_cannot_go_on
from nniweb.tuning import algorithms
from nniweb.tuning.constraints.constraint import first_broken, read_constraints
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus

#: Results in one call. NNI has no limit; a tuner that was told more has forgotten how to choose.
MOST_RESULTS = 10_000
#: Key of a result in the tuner's history that belongs to a trial which NNI ran: its id there.
FOREIGN_TRIAL = "foreign_trial"
#: Key of a result in the tuner's history that somebody brought while the experiment went on.
IMPORTED = "imported"
#: How trials end whose final result counts.
_WITH_RESULT = frozenset({TrialJobStatus.SUCCEEDED.value, TrialJobStatus.EARLY_STOPPED.value})
# Key of such a result's JSON text as it was brought, where the tuner is told another number.
_GIVEN = "given"


def import_results(experiment: Experiment, data: Any, actor: User | None = None) -> int:
    """Write results into the tuner's history, from which the worker tells it; returns how many. The tuner of an
    experiment that has ended gets them when the experiment is resumed.

    ``data`` as NNI's ``nnictl experiment import`` has it, and its export: a list of ``{"parameter": {...}, "value":
    ...}``, the value a number, an object with ``default``, or the JSON text of either. Further members are ignored.
    Or as our own export in JSON (``export.json_pieces``), of which the trials that have a result are taken. Raises
    Refused; then nothing was written.
    """
    results = _results(data, names_of_objectives(experiment))
    violations = _violations(experiment, results)
    several = {"values"} if experiment.has_several_objectives else set()
    events = as_one_import([
        {"event": "tell", "number": None, "parameters": parameters, IMPORTED: True,
         "status": TrialJobStatus.SUCCEEDED.value, **_told(experiment, values, text, violation),
         **dict.fromkeys(several, values)}
        for (parameters, values, text), violation in zip(results, violations, strict=True)])
    with transaction.atomic():
        experiment, _ = locked(experiment)
        if experiment.is_finished and (reason := why_it_cannot_go_on(experiment)):
            raise Refused(reason)
        name = experiment.tuner.get("name")
        if name and not algorithms.find_tuner(name).takes_results:
            raise Refused(Reason("takes_no_results", tuner=name))
        now = timezone.now()
        append_events(experiment, events, now)
        ExperimentEvent.objects.create(experiment=experiment, at=now, kind="imported", actor=actor,
                                       message=f"{results_were(len(events))} imported for the tuner.")
        audit.record("experiment.import-data", experiment, actor, count=len(events))
    return len(events)


def results_were(count: int) -> str:
    return "1 result was" if count == 1 else f"{count} results were"


def as_one_import(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events of results that an algorithm of the user's own is told in one call, as by NNI: all but the last say that
    ``more`` follow.
    """
    return [*({**event, "more": True} for event in events[:-1]), *events[-1:]]


def whole_result(text: str) -> dict[str, str]:
    """What an event says of a result that is more than a number, for algorithms of the user's own. ``text``: JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {} if found is None or isinstance(found, int | float) else {"result": json.dumps(found)}


def imports_of(experiment: Experiment) -> list[list[dict[str, Any]]]:
    """The results of each import into it, oldest first, as ``{"parameter": {...}, "value": as it was given}``."""
    told = TunerEvent.objects.filter(
        experiment=experiment, data__event="tell", data__number=None, data__customized__isnull=True,
        **{f"data__{FOREIGN_TRIAL}__isnull": True}).order_by("number")
    # all of one import have its time
    return [[{"parameter": event.data["parameters"], "value": _value(event.data)} for event in events]
            for _, events in groupby(told, key=lambda event: event.at)]


def imported_events(experiment: Experiment, first: int, end: int) -> list[dict[str, Any]]:
    """Results that were brought into its history at these numbers (without ``end``)."""
    return list(TunerEvent.objects.filter(
        experiment=experiment, number__gte=first, number__lt=end, **{f"data__{IMPORTED}": True}
    ).order_by("number").values_list("data", flat=True))


def _value(event: dict[str, Any]) -> Any:
    text = event.get(_GIVEN) or event.get("result")
    return json.loads(text) if text else event["value"]


def _results(data: Any, names: Sequence[str]) -> list[tuple[dict[str, Any], list[float], str]]:
    """Parameters, a number for each objective, and the JSON text. Raises Refused with all that is wrong."""
    if isinstance(data, dict) and isinstance(data.get("trials"), list):
        data = _results_of_export(data["trials"])
    if not isinstance(data, list) or not data:
        raise Refused('Give a list of results, each {"parameter": {...}, "value": number}, or the export of an '
                      "experiment in JSON that has results.", "results")
    if len(data) > MOST_RESULTS:
        raise Refused(f"{len(data)} results are too many. One request can import at most {MOST_RESULTS}.", "results")
    found, wrong = [], []
    for index, entry in enumerate(data):
        given = entry if isinstance(entry, dict) else {}
        parameters, value = given.get("parameter"), given.get("value")
        text = value if isinstance(value, str) else json.dumps(value)
        if not isinstance(parameters, dict):
            wrong.append((f"results[{index}].parameter", "Must be an object with the parameters by name."))
        elif (numbers := _numbers(text, names)) is None:
            what = f"a finite number, or an object whose {names[0]} is one" if len(names) == 1 else \
                f"an object with a finite number for each of {', '.join(names)}"
            wrong.append((f"results[{index}].value", f"Must be {what}, not {json.dumps(value):.60}."))
        else:
            found.append((parameters, numbers, text))
    if wrong:
        raise Refused.for_fields(wrong)
    return found


def _results_of_export(trials: Sequence[Any]) -> list[dict[str, Any]]:
    """The results that are in an export; of a multi-phase trial those of its parameter sets."""
    found: list[Any] = []
    for trial in trials:
        if isinstance(trial, dict) and str(trial.get("status")) in _WITH_RESULT:
            sets = trial.get("parameter_sets")
            found += sets if isinstance(sets, list) else [trial]
    return [{"parameter": each.get("parameters"), "value": each["final_value"]} for each in found
            if isinstance(each, dict) and each.get("final_value") is not None]


def _violations(experiment: Experiment, results: Sequence[tuple[dict[str, Any], list[float], str]]) -> list[float]:
    """How far each result is from satisfying the constraints on outcomes.

    Raises Refused with all results that lack a metric, and all whose parameters a constraint forbids.
    """
    constraints = read_constraints(experiment.constraints)
    judgements = judged(experiment, {index: text for index, (_, _, text) in enumerate(results)})
    wrong: list[tuple[str, str]] = []
    for index, (parameters, _, _) in enumerate(results):
        broken = first_broken(constraints, parameters)
        if broken is not None:
            wrong.append((f"results[{index}].parameter",
                          Reason("constraint_broken", constraint=broken.text, by="person")))
        missing = [name for one in judgements.get(index, ()) for name in one.missing]
        if missing:
            wrong.append((f"results[{index}].value", f"Must be an object with a finite number for each of "
                          f"{', '.join(dict.fromkeys(missing))}, which constraints on outcomes name."))
    if wrong:
        raise Refused.for_fields(wrong)
    return [violation_of(judgements.get(index, ())) for index in range(len(results))]


def _told(experiment: Experiment, values: Sequence[float], text: str, violation: float) -> dict[str, Any]:
    """What the tuner is told as the result. An algorithm of the user's own knows no constraints: where the result
    violates one, it is told a worse number instead.
    """
    if violation and experiment.has_own_tuner:
        stand_in = feasible_first(experiment, values[0])
        if stand_in != values[0]:
            worse = with_main_number(text, main_metric(experiment.objectives), stand_in)
            return {"value": stand_in, **whole_result(worse), _GIVEN: text}
        return {"value": values[0], **whole_result(text)}
    return {"value": values[0], **whole_result(text), **({"violation": violation} if violation else {})}


def _numbers(text: str, names: Sequence[str]) -> list[float] | None:
    number, named = numbers_in(text)
    if named is None:
        return [number] if number is not None and len(names) == 1 else None
    return [named[name] for name in names] if all(name in named for name in names) else None
