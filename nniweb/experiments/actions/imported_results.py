"""Results from elsewhere, brought into an experiment while it goes on: its tuner learns from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from django.db import transaction
from django.utils import timezone

from nniweb.experiments.access import audit
from nniweb.experiments.errors import Refused
from nniweb.experiments.lifecycle.tuner_events import append_events
from nniweb.experiments.models import Experiment, ExperimentEvent, TunerEvent, User
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.results.metric_number import numbers_in
from nniweb.experiments.results.objectives import names_of_objectives
from nniweb.tuning import algorithms
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus

#: Results in one call. NNI has no limit; a tuner that was told more has forgotten how to choose.
MOST_RESULTS = 10_000
#: Key of a result in the tuner's history that belongs to a trial which NNI ran: its id there.
FOREIGN_TRIAL = "foreign_trial"


def import_results(experiment: Experiment, data: Any, actor: User | None = None) -> int:
    """Write results into the tuner's history, from which the worker tells it; returns how many.

    ``data`` as NNI's ``nnictl experiment import`` has it, and its export: a list of ``{"parameter": {...}, "value":
    ...}``, the value a number, an object with ``default``, or the JSON text of either. Further members are ignored.
    Raises Refused; then nothing was written.
    """
    several = {"values"} if experiment.has_several_objectives else set()
    events = [{"event": "tell", "number": None, "parameters": parameters, "value": values[0],
               "status": TrialJobStatus.SUCCEEDED.value, **dict.fromkeys(several, values)}
              for parameters, values in _results(data, names_of_objectives(experiment))]
    with transaction.atomic():
        next_revision(experiment.pk)
        experiment = Experiment.objects.get(pk=experiment.pk)
        if experiment.is_finished or experiment.status == ExperimentStatus.STOPPING:
            raise Refused(Reason("wrong_status", status=str(experiment.status), wish="import"))
        name = experiment.tuner.get("name")
        if name and not algorithms.find_tuner(name).takes_results:
            raise Refused(Reason("takes_no_results", tuner=name))
        now = timezone.now()
        append_events(experiment, events, now)
        ExperimentEvent.objects.create(experiment=experiment, at=now, kind="imported", actor=actor,
                                       message=f"{len(events)} results were imported for the tuner.")
        audit.record("experiment.import-data", experiment, actor, count=len(events))
    return len(events)


def imports_of(experiment: Experiment) -> list[list[dict[str, Any]]]:
    """The results of each import into it, oldest first, as ``{"parameter": {...}, "value": number}``."""
    told = TunerEvent.objects.filter(
        experiment=experiment, data__event="tell", data__number=None, data__customized__isnull=True,
        **{f"data__{FOREIGN_TRIAL}__isnull": True}).order_by("number")
    # all of one import have its time
    return [[{"parameter": event.data["parameters"], "value": event.data["value"]} for event in events]
            for _, events in groupby(told, key=lambda event: event.at)]


def _results(data: Any, names: Sequence[str]) -> list[tuple[dict[str, Any], list[float]]]:
    """Parameters and a number for each objective. Raises Refused with all that is wrong."""
    if not isinstance(data, list) or not data:
        raise Refused('Give a list of results, each {"parameter": {...}, "value": number}.', "results")
    if len(data) > MOST_RESULTS:
        raise Refused(f"{len(data)} results are too many. One request can import at most {MOST_RESULTS}.", "results")
    found, wrong = [], []
    for index, entry in enumerate(data):
        given = entry if isinstance(entry, dict) else {}
        parameters, value = given.get("parameter"), given.get("value")
        if not isinstance(parameters, dict):
            wrong.append((f"results[{index}].parameter", "Must be an object with the parameters by name."))
        elif (numbers := _numbers(value if isinstance(value, str) else json.dumps(value), names)) is None:
            what = f"a finite number, or an object whose {names[0]} is one" if len(names) == 1 else \
                f"an object with a finite number for each of {', '.join(names)}"
            wrong.append((f"results[{index}].value", f"Must be {what}, not {json.dumps(value):.60}."))
        else:
            found.append((parameters, numbers))
    if wrong:
        raise Refused.for_fields(wrong)
    return found


def _numbers(text: str, names: Sequence[str]) -> list[float] | None:
    number, named = numbers_in(text)
    if named is None:
        return [number] if number is not None and len(names) == 1 else None
    return [named[name] for name in names] if all(name in named for name in names) else None
