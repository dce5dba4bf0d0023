"""Results from elsewhere, brought into an experiment while it goes on: its tuner learns from them."""

from __future__ import annotations

import json
from typing import Any

from django.db import transaction
from django.utils import timezone

from nniweb.experiments import audit
from nniweb.experiments.intents import Refused
from nniweb.experiments.metric_number import number_in
from nniweb.experiments.models import Experiment, ExperimentEvent, User
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.revisions import next_revision
from nniweb.experiments.tuner_events import append_events
from nniweb.tuning import algorithms
from trainingservice.trial_job_status import TrialJobStatus

#: Results in one call. NNI has no limit; a tuner that was told more has forgotten how to choose.
MOST_RESULTS = 10_000


def import_results(experiment: Experiment, data: Any, actor: User | None = None) -> int:
    """Write results into the tuner's history, from which the worker tells it; returns how many.

    ``data`` as NNI's ``nnictl experiment import`` has it, and its export: a list of ``{"parameter": {...}, "value":
    ...}``, the value a number, an object with ``default``, or the JSON text of either. Further members are ignored.
    Raises Refused; then nothing was written.
    """
    events = [{"event": "tell", "number": None, "parameters": parameters, "value": value,
               "status": TrialJobStatus.SUCCEEDED.value} for parameters, value in _results(data)]
    with transaction.atomic():
        next_revision(experiment.pk)
        experiment = Experiment.objects.get(pk=experiment.pk)
        if experiment.is_finished or experiment.status == ExperimentStatus.STOPPING:
            raise Refused(f"The experiment is {experiment.status}: its tuner proposes nothing more. Resume it first.")
        name = experiment.tuner.get("name")
        if name and not algorithms.find_tuner(name).takes_results:
            raise Refused(f"{name} cannot use results from elsewhere: it compares only trials that it proposed.")
        now = timezone.now()
        append_events(experiment, events, now)
        ExperimentEvent.objects.create(experiment=experiment, at=now, kind="imported", actor=actor,
                                       message=f"{len(events)} results from elsewhere, for the tuner.")
        audit.record("experiment.import-data", experiment, actor, count=len(events))
    return len(events)


def _results(data: Any) -> list[tuple[dict[str, Any], float]]:
    """Parameters and number of each. Raises Refused with all that is wrong."""
    if not isinstance(data, list) or not data:
        raise Refused('Give a list of results, each {"parameter": {...}, "value": number}.', "results")
    if len(data) > MOST_RESULTS:
        raise Refused(f"{len(data)} results are too many: at most {MOST_RESULTS} in one call.", "results")
    found, wrong = [], []
    for index, entry in enumerate(data):
        given = entry if isinstance(entry, dict) else {}
        parameters, value = given.get("parameter"), given.get("value")
        if not isinstance(parameters, dict):
            wrong.append((f"results[{index}].parameter", "Must be an object: the parameters by their names."))
        elif (number := number_in(value if isinstance(value, str) else json.dumps(value))) is None:
            wrong.append((f"results[{index}].value", "Must be a finite number, or an object whose default is one, "
                                                  f"not {json.dumps(value):.60}."))
        else:
            found.append((parameters, number))
    if wrong:
        raise Refused.for_fields(wrong)
    return found
