"""What the tuner's history says of results and ends: the events that ``teach_tuner`` records and tells."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from nniweb.experiments.lifecycle.tuner_events import append_events
from nniweb.experiments.models import Experiment, Metric, Trial, TrialParameters
from nniweb.experiments.models.trial import RESULTS
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.results.feasibility import feasible_first, with_main_number
from nniweb.experiments.results.other_metrics import main_metric
from nniweb.experiments.sql.changed_rows import update
from nniweb.experiments.sql.selected_rows import places, select
from nniweb.observability.log_ids import ExperimentLogger
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.failed_trials import INCLUDES_INTERMEDIATES
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = ExperimentLogger(__name__)

#: Results of parameter sets that are told in one transaction.
CHUNK = 200
_SETS = ("id", "trial", "index", "parameter_id", "value", "final_value", "final_number", "taught")
_TRIALS = ("id", "public_id", "sequence_id", "ask_number")
# written out: with parameters SQLite would not use the index of what is not told
_NOT_TOLD = (f"WHERE NOT taught AND final_value IS NOT NULL AND trial_id IN (SELECT id FROM {Trial._meta.db_table}"
             f" WHERE experiment_id = %s) ORDER BY id LIMIT {CHUNK}")


def end_of_trial(experiment: Experiment, trial: Trial, parameters: dict[str, Any], values: Sequence[float | None],
                 reported: str | None, violation: float = 0.0, variant: str | None = None) -> dict[str, Any]:
    """The event of one end. An algorithm of the user's own is told more, and of trials that people submitted, too.

    ``reported``: the text of its result, None where there is none. ``violation``: how far that is from satisfying the
    constraints on outcomes. An algorithm of the user's own knows no constraints: it is told a worse number instead.
    ``variant``: hash of the trial's variant of the code.
    """
    if violation and experiment.has_own_tuner and values[0] is not None:
        stand_in = feasible_first(experiment, values[0])
        if stand_in != values[0]:
            reported = with_main_number(reported, main_metric(experiment.objectives), stand_in)
            values = [stand_in, *values[1:]]
    event: dict[str, Any] = {"event": "tell", "number": trial.ask_number, "parameters": parameters, "value": values[0],
             "status": trial.status}
    if experiment.has_several_objectives:
        event["values"] = None if None in values else list(values)
    if violation and values[0] is not None:
        event["violation"] = violation
    if experiment.has_own_tuner:
        event["result"] = _storable(reported) if trial.status in RESULTS else None
    if experiment.tells_all_ends:
        event["trial"] = trial.public_id
        if trial.ask_number is None:
            event["customized"] = True
    if variant is not None:
        event["variant"] = variant
    return event


def tell_results_of_sets(work: ClusterWork, experiment: Experiment) -> None:
    """Of a multi-phase experiment: each result of a parameter set becomes an event of the tuner's history, once, before
    its trial ends; only then is the tuner told.
    """
    while sets := select(TrialParameters, _SETS, _NOT_TOLD, [experiment.pk]):
        keys = list({row.trial_id for row in sets})
        trials = {trial.pk: trial for trial in select(Trial, _TRIALS, f"WHERE id IN {places(keys)}", keys)}
        events = [_result_of_set(experiment, trials[row.trial_id], row) for row in sets if _has_number(row)]
        pks = [row.pk for row in sets]
        with work.lease.transaction():
            next_revision(experiment.pk, needs_round=False)
            if update(TrialParameters, f"NOT taught AND id IN {places(pks)}", pks, taught=True) != len(pks):
                raise RuntimeError("another worker has told the tuner results of this experiment")
            if events:
                append_events(experiment, events, work.now())
        for row in sets:
            trial = trials[row.trial_id]
            logger.info("trial %d reported the result of parameter set %d%s", trial.sequence_id, row.index,
                        "" if row.final_number is None else f": the tuner is told {row.final_number:g}",
                        extra={"trial": trial.public_id})
        work.tuners.tell(experiment, events, {row.parameter_id: trials[row.trial_id].public_id for row in sets})


def ends_of_sets(experiment: Experiment, trials: Sequence[Trial], results: Mapping[int, Sequence[float | None]]
                 ) -> list[dict[str, Any]]:
    """The events of ends of multi-phase trials: first of those sets that gave no result, then of the trial itself by
    its first set. ``results``: what a failed trial is worth.
    """
    keys = [trial.pk for trial in trials]
    sets: dict[int, list[TrialParameters]] = defaultdict(list)
    for row in select(TrialParameters, _SETS, f'WHERE value IS NOT NULL AND trial_id IN {places(keys)} '
                      'ORDER BY trial_id, "index"', keys):
        sets[row.trial_id].append(row)
    told = {row.pk for rows in sets.values() for row in rows if row.final_value is not None}
    events = []
    for trial in trials:
        worth = results[trial.pk][0] if trial.status == TrialJobStatus.FAILED else None
        last = _last_intermediate(experiment, trial)
        for row in sets[trial.pk]:
            if row.final_value is None and last is not None and last[0] == row.parameter_id:
                _, row.final_number, row.final_value = last
            elif row.final_value is None:
                row.final_number = worth
        for row in sets[trial.pk][1:]:
            if row.pk not in told and _has_number(row):
                events.append({**_result_of_set(experiment, trial, row), "status": trial.status})
        if trial.ask_number is not None or experiment.has_own_tuner:
            first = sets[trial.pk][0] if sets[trial.pk] else TrialParameters(trial=trial)
            events.append(end_of_trial(experiment, trial, first.value or {}, [first.final_number], first.final_value))
    return events


def _last_intermediate(experiment: Experiment, trial: Trial) -> tuple[Any, float | None, str] | None:
    """What stands for the result of the last set of a trial that was stopped early, where the tuner is told that:
    parameter id, number, text.
    """
    if trial.status != TrialJobStatus.EARLY_STOPPED or not experiment.tuner.get(INCLUDES_INTERMEDIATES):
        return None
    row = Metric.objects.filter(attempt__trial=trial.pk, kind=contract.PERIODICAL).order_by(
        "-attempt__number", "-n").values_list("parameter_id", "number", "value").first()
    return None if row is None else (json.loads(row[0]), row[1], str(row[2]))


def _has_number(row: TrialParameters) -> bool:
    """Whether the tuner proposed the set: not of one that a person chose."""
    return isinstance(row.parameter_id, int)


def _result_of_set(experiment: Experiment, trial: Trial, row: TrialParameters) -> dict[str, Any]:
    event: dict[str, Any] = {"event": "tell", "number": row.parameter_id, "parameters": row.value or {},
                             "value": row.final_number, "status": TrialJobStatus.SUCCEEDED.value, "phase": row.index}
    if experiment.has_own_tuner:
        event |= {"trial": trial.public_id, "result": _storable(row.final_value)}
    return event


def _storable(value: str | None) -> str | None:
    """The text, where every database can keep it in JSON: not with NUL or half a character in it."""
    if value is None or "\0" in value:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value
