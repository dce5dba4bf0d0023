"""Second step of a round: the tuner is told of ends and of a new search space, the assessor of results."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from nniweb.experiments.lifecycle.reason_columns import from_document
from nniweb.experiments.lifecycle.transitions import move_experiment, set_targets
from nniweb.experiments.lifecycle.tuner_events import append_events, reports_of
from nniweb.experiments.models import Experiment, Metric, Trial, TrialParameters
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.notifications import outbox
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.queries.present_revisions import certain_upto
from nniweb.experiments.replicates.ends import take_ends
from nniweb.experiments.replicates.told_variants import hashes_of, is_told
from nniweb.experiments.results.feasibility import Judgements, judged, note_feasibility, violation_of
from nniweb.experiments.results.objectives import say_what_is_missing, take_into_front
from nniweb.experiments.sql.changed_rows import update
from nniweb.experiments.sql.selected_rows import places, select
from nniweb.observability.log_ids import ExperimentLogger
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.failed_trials import (
    INCLUDES_INTERMEDIATES,
    failures_in_row,
    last_intermediates,
    results_of,
    why_given_up,
)
from nniweb.worker.rounds.telling.ended_spans import show_ended
from nniweb.worker.rounds.telling.told_results import end_of_trial, ends_of_sets, tell_results_of_sets
from nniweb.worker.rounds.work_counts import UNFINISHED_TRIALS, WorkCounts
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = ExperimentLogger(__name__)

#: Trials the tuner is told of, and results the assessor is told of, in one round.
CHUNK = 500
ASSESSED = "Stopped by the assessor, because its results are worse than those of earlier trials."
ADVISED = "Stopped by the experiment's custom advisor."
# by hand: each trial asks
_TAUGHT_OF = ("id", "public_id", "sequence_id", "ask_number", "status", "message", "reason", "final_number",
              "final_value", "feasible", "proposal", "variant")
_NOT_TAUGHT = ("WHERE experiment_id = %s AND NOT taught"
               f" AND status NOT IN ({UNFINISHED_TRIALS})"
               f" ORDER BY ended_at, id LIMIT {CHUNK}")
_PARAMETERS = 'WHERE "index" = 0 AND trial_id IN '


def teach_tuner(work: ClusterWork, experiment: Experiment, found: WorkCounts) -> None:
    """Give the tuner a changed search space and the ends of trials, and the assessor new results."""
    # read before the results are handed over: a trial's results then reach the assessor before its end
    ended = _not_taught(experiment) if found.not_taught else []
    if not experiment.is_finished and not experiment.waits_for_search_space and work.tuners.ready(experiment):
        _tell_search_space(work, experiment)
        if experiment.multi_phase:
            tell_results_of_sets(work, experiment)
        if experiment.assessor is not None or experiment.has_own_tuner:
            while _assess(work, experiment):
                pass
    if ended:
        _tell_ends(work, experiment, ended)


def _not_taught(experiment: Experiment) -> list[Trial]:
    """Ended trials that the tuner was not told of, in the order of their ends, a chunk."""
    return select(Trial, _TAUGHT_OF, _NOT_TAUGHT, [experiment.pk])


def _tell_ends(work: ClusterWork, experiment: Experiment, trials: Sequence[Trial]) -> None:
    """Each end becomes an event of the tuner's history, once; only then is the tuner itself told."""
    keys = [trial.pk for trial in trials]
    theirs = places(keys)
    results = results_of(experiment, trials)
    judgements: Judgements = {}
    events: list[dict[str, Any]] = []
    if experiment.multi_phase:
        events = ends_of_sets(experiment, trials, results)
    elif not experiment.has_replicates:
        texts = {trial.pk: trial.final_value for trial in trials}
        if experiment.tuner.get(INCLUDES_INTERMEDIATES) \
                and (experiment.has_own_tuner or experiment.outcome_constraints):
            texts |= {pk: text for pk, (_, text) in last_intermediates(experiment, trials).items()}
        judgements = judged(experiment, texts)
        parameters = {row.trial_id: row.value for row in select(
            TrialParameters, ("id", "trial", "value"), _PARAMETERS + theirs, keys)}
        hashes = hashes_of(trials)
        events = [end_of_trial(experiment, trial, parameters.get(trial.pk) or {}, results[trial.pk], texts[trial.pk],
                               violation_of(judgements.get(trial.pk, ())), hashes.get(trial.variant_id))
                  for trial in trials if is_told(experiment, trial.ask_number, trial)]
    with work.lease.transaction():
        revision = next_revision(experiment.pk, needs_round=len(trials) == CHUNK)
        taught = update(Trial, f"NOT taught AND id IN {theirs}", keys, taught=True)
        if taught and experiment.has_replicates:
            events = take_ends(experiment, trials, results, revision, work.now())
        if taught and events:
            append_events(experiment, events, work.now())
        if taught:
            say_what_is_missing(experiment, trials, results, revision)
            for trial in note_feasibility(trials, judgements, revision):
                outbox.trial_has_result(trial.pk, work.now())
            take_into_front(experiment, trials, results, revision)
            _count_failures(work, experiment, trials)
    if taught:
        _log_ends(experiment, trials, results)
        _log_proposals(events if experiment.has_replicates else ())
        work.tuners.tell(experiment, events, {} if experiment.multi_phase or experiment.has_replicates else {
            trial.ask_number: trial.public_id for trial in trials})
        show_ended(experiment, trials)
    if experiment.assessor is not None:
        for trial in trials:
            work.tuners.trial_end(experiment, trial.public_id, trial.status == TrialJobStatus.SUCCEEDED)
    if experiment.status == ExperimentStatus.ERROR:
        work.tuners.finish(experiment.pk)  # it is rebuilt from the events if the experiment is resumed


def _log_proposals(events: Sequence[Mapping[str, Any]]) -> None:
    for event in events:
        logger.info("proposal %s has ended: %s; the tuner gets %s", event["number"], event["status"],
                    "no value" if event["value"] is None else
                    f"{event['value']:g}, the mean of {event['replicates']}")


def _log_ends(experiment: Experiment, trials: Sequence[Trial], results: Mapping[int, Sequence[float | None]]) -> None:
    gets = "its proposal" if experiment.has_replicates else "the tuner"
    for trial in trials:
        told = [f"{value:g}" for value in results[trial.pk] if value is not None]
        logger.log(logging.WARNING if trial.status == TrialJobStatus.FAILED else logging.INFO,
                   "trial %d ended: %s%s%s", trial.sequence_id, trial.status,
                   f"; {gets} gets {', '.join(told)}" if len(told) == len(results[trial.pk]) else "",
                   f". {trial.message}" if trial.message else "", extra={"trial": trial.public_id})


def _count_failures(work: ClusterWork, experiment: Experiment, trials: Sequence[Trial]) -> None:
    """Give the experiment up after too many failed trials in a row. Each end is counted once, as it is taught once."""
    if not experiment.failures_in_row and all(trial.status != TrialJobStatus.FAILED for trial in trials):
        return  # none before, by this row, and none now: only the worker of the experiment ever counts them up
    before = Experiment.objects.values_list("failures_in_row", flat=True).get(pk=experiment.pk)
    experiment.failures_in_row = failures_in_row(before, trials)
    if experiment.failures_in_row != before:
        Experiment.objects.filter(pk=experiment.pk).update(failures_in_row=experiment.failures_in_row)
    if reason := why_given_up(experiment):
        move_experiment(experiment, ExperimentStatus.ERROR, work.now(), message=reason)


def _tell_search_space(work: ClusterWork, experiment: Experiment) -> None:
    if work.tuners.search_space_version(experiment.pk) >= experiment.search_space_version:
        return
    with work.lease.transaction():
        next_revision(experiment.pk)
        append_events(experiment, [{"event": "search_space", "search_space": experiment.search_space}], work.now())
    work.tuners.update_search_space(experiment)
    logger.info("the tuner gets the new search space: %s", ", ".join(experiment.search_space) or "an empty one")


def _assess(work: ClusterWork, experiment: Experiment) -> bool:
    """Hand new intermediate results to the assessor, a chunk; the trials it gives up are wanted stopped early.

    False where there are none.
    """
    seen = work.tuners.assessed_revision(experiment.pk)
    changed = Trial.objects.filter(experiment=experiment, revision__gt=seen)
    if experiment.has_own_tuner:
        changed = changed.filter(variant=None)  # it is told results of the code alone
    new = Metric.objects.filter(attempt__trial__in=changed, revision__gt=seen, kind=contract.PERIODICAL)
    if (certain := certain_upto(experiment.pk)) is not None:
        new = new.filter(revision__lte=certain)
    revisions = list(new.order_by("revision").values_list("revision", flat=True)[:CHUNK])
    if not revisions or experiment.pk not in work.tuners:
        return False
    upto = revisions[-1]  # whole revisions only: what has been assessed is remembered by revision
    rows = new.filter(revision__lte=upto).order_by("revision", "n")
    work.tuners.assess(experiment, list(reports_of(experiment, rows)), upto)
    return True


def stop_early(work: ClusterWork, experiment: Experiment, public_ids: list[str]) -> None:
    """The assessor, or an advisor of the user's own, has given these trials up."""
    trials = list(Trial.objects.unfinished().filter(experiment=experiment, public_id__in=public_ids))
    if not trials or experiment.status == ExperimentStatus.STOPPING:
        return
    with work.lease.transaction():
        set_targets(trials, TrialTarget.EARLY_STOPPED, work.now(), revision=next_revision(experiment.pk),
                       reason=ADVISED if experiment.has_own_tuner and experiment.assessor is None else ASSESSED)


def note_choice(work: ClusterWork, experiment: Experiment, chosen: dict[str, Any]) -> None:
    """A tuner that chooses among others (``Tuner.chosen``) proposes by another one from now on."""
    with work.lease.transaction():
        if Experiment.objects.values_list("tuner_choice", flat=True).get(pk=experiment.pk) == chosen:
            return  # it was made again
        next_revision(experiment.pk, needs_round=False)
        Experiment.objects.filter(pk=experiment.pk).update(tuner_choice=chosen)
    logger.info("%s proposes by %s. %s", experiment.tuner.get("name"), chosen["tuner"],
                from_document("", chosen["reason"]))
