"""Third step of a round: trials and experiments that are wanted stopped, or are at their limits, end."""

from __future__ import annotations

from nniweb.experiments.actions.intents import limit_reached
from nniweb.experiments.lifecycle.reason_columns import reason_of
from nniweb.experiments.lifecycle.transitions import end_attempt, move_experiment, move_trial, set_targets
from nniweb.experiments.lifecycle.trial_end import rest_reason, stop_reason, stopped_as_wanted
from nniweb.experiments.models import Attempt, Experiment, Trial
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.models.trial import RESTS, STOPS, TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.replicates.new_trials import replicates_to_start
from nniweb.observability.log_ids import ExperimentLogger
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.observing.observe_trials import detail_of
from nniweb.worker.rounds.submissions import claim_never_handed_over, was_never_handed_over
from nniweb.worker.rounds.trials_missing import reason_of_limit
from nniweb.worker.rounds.warm_places import job_to_stop
from nniweb.worker.rounds.work_counts import WorkCounts
from trainingservice.base import TrainingService
from trainingservice.errors import TrainingServiceError, UnknownTrialJob
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = ExperimentLogger(__name__)

#: Seconds until the order to freeze is brought once more to a trial that runs on.
FREEZE_AGAIN_AFTER = 60.0
#: Trials whose targets are written in one transaction.
CHUNK = 200


def carry_out_stops(work: ClusterWork, experiment: Experiment, found: WorkCounts) -> None:
    """End trials that are not wanted any more, then move the experiment on."""
    if experiment.target == ExperimentTarget.STOP:
        _want_all_stopped(work, experiment)
    if found.unwanted or experiment.target == ExperimentTarget.STOP:
        _stop_trials(work, experiment)
    _move_on(work, experiment)


def stop_guests(work: ClusterWork, experiment: Experiment, found: WorkCounts) -> None:
    """As ``carry_out_stops``, of an experiment whose home is another cluster: its trials on this one."""
    if found.unwanted:
        _stop_trials(work, experiment)


def _want_all_stopped(work: ClusterWork, experiment: Experiment) -> None:
    """The experiment's stop becomes the target of its trials, in chunks."""
    reason = reason_of(experiment) if experiment.reason == "token_ended" else Reason("experiment_stopped")
    while trials := list(Trial.objects.unfinished().filter(experiment=experiment).exclude(
            target__in=STOPS)[:CHUNK]):
        with work.lease.transaction():
            set_targets(trials, TrialTarget.USER_CANCELED, work.now(), revision=next_revision(experiment.pk),
                           reason=reason)


def _stop_trials(work: ClusterWork, experiment: Experiment) -> None:
    _freeze_trials(work, experiment)
    unwanted = list(Trial.objects.unfinished().filter(experiment=experiment, target__in=STOPS))
    if not unwanted:
        return
    attempts = {attempt.trial_id: attempt for attempt in
                Attempt.objects.filter(trial__in=unwanted).order_by("number")}
    for trial in unwanted:
        attempt = attempts.get(trial.pk)
        if attempt is None or attempt.stage == Attempt.Stage.ENDED:
            if experiment.cluster_id != work.cluster_pk:
                continue
            with work.lease.transaction():
                move_trial(trial.pk, TrialJobStatus(trial.target), work.now(), revision=next_revision(experiment.pk),
                           message=stop_reason(trial.target, reason_of(trial)))
        elif attempt.cluster_id != work.cluster_pk:
            if experiment.cluster_id == work.cluster_pk and was_never_handed_over(attempt):
                _end_never_handed_over(work, trial, attempt)
        elif attempt.job_name not in work.stops_sent and attempt.pk not in work.submitting:
            _send_stop(work, trial, attempt)


def _end_never_handed_over(work: ClusterWork, trial: Trial, attempt: Attempt) -> None:
    """Of a cluster whose worker has not come to it: there is no job."""
    with work.lease.transaction():
        revision = next_revision(trial.experiment_id)
        if claim_never_handed_over(attempt):
            end_attempt(attempt, stopped_as_wanted(trial.target, reason_of(trial), "never started"), work.now(),
                        revision=revision)


def _freeze_trials(work: ClusterWork, experiment: Experiment) -> None:
    """Those that are to rest: keepers are given the order, jobs of which nothing runs are removed."""
    for attempt in Attempt.objects.under_way().filter(
            cluster=work.cluster_pk,
            trial__in=Trial.objects.unfinished().filter(experiment=experiment, target__in=RESTS)).select_related(
            "trial"):
        trial, service = attempt.trial, work.service
        if attempt.pk in work.submitting or service is None:
            continue
        if (attempt.journal_id or trial.status != TrialJobStatus.WAITING) and not _is_suspended(work, service, attempt):
            _order_freeze(work, service, trial, attempt)
        elif attempt.job_name not in work.stops_sent:
            with work.lease.transaction():  # first: it may be wanted running again before the platform has done it
                Attempt.objects.filter(pk=attempt.pk).exclude(stage=Attempt.Stage.ENDED).update(
                    end_reason=contract.FROZEN)
            _send_stop(work, trial, attempt)


def _is_suspended(work: ClusterWork, service: TrainingService, attempt: Attempt) -> bool:
    """Whether the platform has ended the run before the order came, so that no keeper is there to carry it out."""
    if not service.suspends_jobs:
        return False
    detail = detail_of(work, service, attempt.job_name)
    return detail is not None and detail.suspended


def _order_freeze(work: ClusterWork, service: TrainingService, trial: Trial, attempt: Attempt) -> None:
    """Once, and again after a while where it was not carried out: the answer to its next report has it, too."""
    now = work.monotonic()
    if now < work.freezes_due.get(attempt.pk, now):
        return
    work.freezes_due = {pk: due for pk, due in work.freezes_due.items() if due > now} | {
        attempt.pk: now + FREEZE_AGAIN_AFTER}
    logger.info("trial %d is being frozen: %s", trial.sequence_id, _why(trial), extra={"trial": trial.public_id})
    order: contract.Order = {"order": contract.ORDER_FREEZE, "reason": str(_why(trial))}

    def failed(error: TrainingServiceError) -> None:
        if not isinstance(error, UnknownTrialJob):
            logger.warning("the order to freeze trial %d could not be brought to its machine: %s Its keeper is given "
                           "it with the answer to its next report.", trial.sequence_id, error,
                           extra={"trial": trial.public_id})

    work.host.call(f"freeze of trial {trial.sequence_id}", "give_order",
                   lambda: service.give_order(attempt.job_name, order), lambda _: None, failed)


def _send_stop(work: ClusterWork, trial: Trial, attempt: Attempt) -> None:
    service = work.service
    if service is None:
        return  # the order in the reply to the keeper's next report is the other way
    job_name = job_to_stop(work, trial, attempt)
    if job_name is None or job_name in work.stops_sent:
        return
    work.stops_sent.add(job_name)
    logger.info("trial %d is being stopped: %s", trial.sequence_id, _why(trial), extra={"trial": trial.public_id})
    early = trial.target == TrialTarget.EARLY_STOPPED

    def failed(error: TrainingServiceError) -> None:
        if not isinstance(error, UnknownTrialJob):
            logger.warning("trial %d could not be stopped yet: %s", trial.sequence_id, error,
                           extra={"trial": trial.public_id})
        else:
            _end_unknown(work, trial, attempt)
        work.stops_sent.discard(job_name)

    work.host.call(f"cancel of trial {trial.sequence_id}", "cancel_trial_job",
                   lambda: service.cancel_trial_job(job_name, early), lambda _: None, failed)


def _why(trial: Trial) -> str:
    return (rest_reason if trial.target in RESTS else stop_reason)(trial.target, reason_of(trial))


def _end_unknown(work: ClusterWork, trial: Trial, attempt: Attempt) -> None:
    """The platform has no such job. Unless a keeper reports for it, there is nothing to wait for."""
    if attempt.journal_id:
        return
    with work.lease.transaction():
        end_attempt(attempt, stopped_as_wanted(trial.target, reason_of(trial), "never started"), work.now(),
                    revision=next_revision(trial.experiment_id))


def _move_on(work: ClusterWork, experiment: Experiment) -> None:
    """The experiment's own status: stopped when its trials have ended, at its limits, done."""
    status = experiment.status
    resting = (ExperimentStatus.NO_MORE_TRIAL, ExperimentStatus.TUNER_NO_MORE_TRIAL)
    searching = (ExperimentStatus.RUNNING, ExperimentStatus.TUNER_NO_MORE_TRIAL)
    if status in searching and (reason := limit_reached(experiment, work.now())):
        with work.lease.transaction():
            move_experiment(experiment, ExperimentStatus.NO_MORE_TRIAL, work.now(),
                            message=reason_of_limit(work, experiment, reason))
    if experiment.status in (ExperimentStatus.STOPPING, *resting):
        if Trial.objects.unfinished().filter(experiment=experiment).exists() \
                or Trial.objects.not_taught().filter(experiment=experiment).exists():
            return
        if experiment.status == ExperimentStatus.TUNER_NO_MORE_TRIAL and replicates_to_start(experiment):
            return
        goal = ExperimentStatus.STOPPED if experiment.status == ExperimentStatus.STOPPING else ExperimentStatus.DONE
        with work.lease.transaction():
            move_experiment(experiment, goal, work.now(), message=reason_of(experiment))
        work.tuners.finish(experiment.pk)
