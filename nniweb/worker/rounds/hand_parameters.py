"""A step of a round, of multi-phase experiments: running trials that ask for further parameter sets are given them.

A question and its answer are stored in one transaction: the set, the tuner's event, the next number. After that the set
is handed over in two ways, of which each is enough: by the service's ``update_trial_job``, and in the answer to the
keeper's next report. A keeper takes each index once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from django.db.models import F

from nniweb.experiments.launch.given_parameters import given_text
from nniweb.experiments.launch.job_forms import first_parameters, form_without_token
from nniweb.experiments.lifecycle.tuner_events import append_events
from nniweb.experiments.models import Attempt, Experiment, Trial, TrialParameters
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.sql.changed_rows import update
from nniweb.experiments.sql.new_rows import insert
from nniweb.experiments.sql.selected_rows import places, select
from nniweb.observability.log_ids import ExperimentLogger
from nniweb.worker.cluster_host.service_answers import job_detail
from nniweb.worker.rounds.cluster_work import ClusterWork, HandedOver
from nniweb.worker.rounds.observing.observe_trials import write_down
from nniweb.worker.rounds.work_counts import UNFINISHED_TRIALS
from trainingservice.base import TrainingService
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.trial_job import HyperParameters, JobApplicationForm

logger = ExperimentLogger(__name__)

#: Trials that the tuner is asked for at once.
MOST_AT_ONCE = 50
#: Parameter sets of one trial; one that asks for more is told that there are none, and then nothing.
MOST_SETS = 10_000
#: Seconds until a set is handed over again that the platform could not take.
AGAIN_AFTER = 5.0
_ATTEMPT, _TRIAL, _SET = Attempt._meta.db_table, Trial._meta.db_table, TrialParameters._meta.db_table
#: Attempts whose trials wait for a set, of which all results are known to the tuner. Each asks for the next index.
_WAITING = (
    f"WHERE stage IN ('submitting', 'submitted') AND awaited_index BETWEEN 1 AND {MOST_SETS}"
    f" AND trial_id IN (SELECT id FROM {_TRIAL} WHERE experiment_id = %s AND target = '{TrialTarget.RUN}'"
    f" AND status IN ({UNFINISHED_TRIALS}))"
    f' AND awaited_index = 1 + (SELECT MAX("index") FROM {_SET} given WHERE given.trial_id = {_ATTEMPT}.trial_id)'
    f" AND NOT EXISTS (SELECT 1 FROM {_SET} untold WHERE untold.trial_id = {_ATTEMPT}.trial_id AND NOT untold.taught"
    f" AND untold.final_value IS NOT NULL) ORDER BY id LIMIT {MOST_AT_ONCE}")
#: Attempts whose keepers have not said that they hold the set that was asked for, and which there is.
_NOT_HELD = (
    f"WHERE stage = 'submitted' AND cluster_id = %s AND awaited_index > 0 AND parameter_index < awaited_index"
    f" AND trial_id IN (SELECT id FROM {_TRIAL} WHERE experiment_id = %s AND status IN ({UNFINISHED_TRIALS}))"
    f' AND EXISTS (SELECT 1 FROM {_SET} given WHERE given.trial_id = {_ATTEMPT}.trial_id'
    f' AND given."index" = awaited_index)')
_OF_ATTEMPT = ("id", "trial", "number", "job_name", "stage", "awaited_index")
_OF_TRIAL = ("id", "public_id", "experiment", "sequence_id", "ask_number", "variant")


def hand_parameters(work: ClusterWork, experiment: Experiment) -> None:
    """Ask the tuner for those that wait; hand over what is not held yet. Also of a paused experiment: its trials go on
    to their end.
    """
    if experiment.is_finished or experiment.status == ExperimentStatus.STOPPING:
        return
    hand_over_known(work, experiment)
    waiting = _waiting(experiment)
    if greedy := [attempt for attempt in waiting if attempt.awaited_index == MOST_SETS]:
        _give(work, experiment, greedy, [
            {"trial": attempt.trial.public_id, "parameters": None} for attempt in greedy])
        waiting = [attempt for attempt in waiting if attempt not in greedy]
    work.tuners.ask_for_trials(experiment, experiment.next_ask, [attempt.trial.public_id for attempt in waiting],
                               lambda given: _give(work, experiment, waiting, given))


def hand_over_known(work: ClusterWork, experiment: Experiment) -> None:
    """Give the cluster's service the sets that the tuner has given and that keepers do not hold yet."""
    if (service := work.service) is not None:
        _hand_over(work, experiment, service)


def _waiting(experiment: Experiment) -> list[Attempt]:
    return _with_trials(select(Attempt, _OF_ATTEMPT, _WAITING, [experiment.pk]))


def _with_trials(attempts: list[Attempt]) -> list[Attempt]:
    keys = [attempt.trial_id for attempt in attempts]
    if keys:
        trials = {trial.pk: trial for trial in select(Trial, _OF_TRIAL, f"WHERE id IN {places(keys)}", keys)}
        for attempt in attempts:
            attempt.trial = trials[attempt.trial_id]
    return attempts


def _give(work: ClusterWork, experiment: Experiment, asked: Sequence[Attempt], given: Sequence[dict[str, Any]]) -> None:
    """The tuner answered; a trial that is not in its answer is asked for again. ``experiment``: as the round had it."""
    attempts = {attempt.trial.public_id: attempt for attempt in asked}
    answers = [(attempts[one["trial"]], one["parameters"]) for one in given]
    if not answers:
        return
    with work.lease.transaction():
        revision = next_revision(experiment.pk, needs_round=False)
        [now] = select(Experiment, ("id", "status", "next_ask"), "WHERE id = %s", [experiment.pk])
        wait = {(attempt.pk, attempt.awaited_index) for attempt in _waiting(experiment)}
        if now.is_finished or now.status == ExperimentStatus.STOPPING or now.next_ask != experiment.next_ask \
                or any((attempt.pk, attempt.awaited_index) not in wait for attempt, _ in answers):
            work.tuners.forget(experiment.pk)  # it counts these as asked: it is rebuilt from the events
            doorbell.ring_on_commit(experiment.pk)
            return
        rows: list[TrialParameters] = []
        events: list[dict[str, Any]] = []
        for attempt, parameters in answers:
            number = None if parameters is None else now.next_ask + len(events)
            rows.append(TrialParameters(trial=attempt.trial, index=attempt.awaited_index, parameter_id=number,
                                        value=parameters))
            if number is not None:
                events.append({"event": "ask", "number": number, "parameters": parameters,
                               "trial": attempt.trial.public_id})
                Trial.objects.filter(pk=attempt.trial_id).update(
                    parameter_set_count=F("parameter_set_count") + 1, revision=revision)
        insert(rows)
        if events:
            append_events(experiment, events, work.now())
            update(Experiment, "id = %s", [experiment.pk], next_ask=now.next_ask + len(events))
    experiment.next_ask = now.next_ask + len(events)
    work.tuners.recorded(experiment.pk, len(events))
    for attempt, parameters in answers:
        logger.log(logging.INFO, "trial %d is given %s", attempt.trial.sequence_id,
                   f"parameter set {attempt.awaited_index}" if parameters is not None else
                   "no further parameters: the tuner has no more for it", extra={"trial": attempt.trial.public_id})
    hand_over_known(work, experiment)
    if experiment.several_clusters:
        doorbell.ring(experiment.pk)  # the workers of the other clusters hand over theirs


def _hand_over(work: ClusterWork, experiment: Experiment, service: TrainingService) -> None:
    """Give the service what keepers do not hold yet: once each, and again after a failure that passes."""
    not_held = select(Attempt, _OF_ATTEMPT, _NOT_HELD, [work.cluster_pk, experiment.pk])
    known = work.handed_over.get(experiment.pk, {})
    handed = work.handed_over[experiment.pk] = {
        attempt.pk: known[attempt.pk] for attempt in not_held if attempt.pk in known}
    due = [attempt for attempt in not_held
           if handed.get(attempt.pk) is None or handed[attempt.pk].index != attempt.awaited_index
           or work.monotonic() >= handed[attempt.pk].again_at]
    if not due:
        return
    keys = [attempt.trial_id for attempt in due]
    first = first_parameters(keys)
    sets = {(row.trial_id, row.index): row for row in TrialParameters.objects.filter(
        trial__in=keys, index__in={attempt.awaited_index for attempt in due})}
    for attempt in _with_trials(due):
        row = sets[attempt.trial_id, attempt.awaited_index]
        attempt.trial.experiment = experiment
        form = form_without_token(attempt, first.get(attempt.trial_id), type(service)).with_parameters(
            HyperParameters(given_text(experiment, row), row.index))
        handed[attempt.pk] = HandedOver(row.index)
        _call(work, service, attempt, form, handed[attempt.pk])


def _call(work: ClusterWork, service: TrainingService, attempt: Attempt, form: JobApplicationForm,
          handed: HandedOver) -> None:
    def failed(error: TrainingServiceError) -> None:
        logger.warning("parameter set %d could not be handed to trial %d by the platform: %s Its keeper is given it "
                       "with the answer to its next report.", handed.index, attempt.trial.sequence_id, error,
                       extra={"trial": attempt.trial.public_id})
        if isinstance(error, TemporaryError):
            handed.again_at = work.monotonic() + AGAIN_AFTER

    work.host.call(f"parameters of trial {attempt.trial.sequence_id}", "update_trial_job",
                   lambda: job_detail(service.update_trial_job(attempt.job_name, form)),
                   lambda detail: write_down(work, detail), failed)
