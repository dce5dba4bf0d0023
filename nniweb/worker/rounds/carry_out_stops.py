"""Third step of a round: trials and experiments that are wanted stopped, or are at their limits, end."""

from __future__ import annotations

from nniweb.experiments.actions.intents import limit_reached
from nniweb.experiments.lifecycle.reason_columns import reason_of
from nniweb.experiments.lifecycle.transitions import end_attempt, move_experiment, move_trial, set_targets
from nniweb.experiments.lifecycle.trial_end import stop_reason, stopped_as_wanted
from nniweb.experiments.models import Attempt, Experiment, Trial
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.replicates.new_trials import replicates_to_start
from nniweb.observability.log_ids import ExperimentLogger
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.trials_missing import reason_of_limit
from nniweb.worker.rounds.work_counts import WorkCounts
from trainingservice.errors import TrainingServiceError, UnknownTrialJob
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus

logger = ExperimentLogger(__name__)

#: Trials whose targets are written in one transaction.
CHUNK = 200


def carry_out_stops(work: ClusterWork, experiment: Experiment, found: WorkCounts) -> None:
    """End trials that are not wanted any more, then move the experiment on."""
    if experiment.target == ExperimentTarget.STOP:
        _want_all_stopped(work, experiment)
    if found.unwanted or experiment.target == ExperimentTarget.STOP:
        _stop_trials(work, experiment)
    _move_on(work, experiment)


def _want_all_stopped(work: ClusterWork, experiment: Experiment) -> None:
    """The experiment's stop becomes the target of its trials, in chunks."""
    while trials := list(Trial.objects.unfinished().filter(experiment=experiment, target=TrialTarget.RUN)[:CHUNK]):
        with work.lease.transaction():
            set_targets(trials, TrialTarget.USER_CANCELED, work.now(), revision=next_revision(experiment.pk),
                           reason=Reason("experiment_stopped"))


def _stop_trials(work: ClusterWork, experiment: Experiment) -> None:
    unwanted = list(Trial.objects.unfinished().filter(experiment=experiment).exclude(target=TrialTarget.RUN))
    if not unwanted:
        return
    attempts = {attempt.trial_id: attempt for attempt in
                Attempt.objects.filter(trial__in=unwanted).order_by("number")}
    for trial in unwanted:
        attempt = attempts.get(trial.pk)
        if attempt is None or attempt.stage == Attempt.Stage.ENDED:
            with work.lease.transaction():
                move_trial(trial.pk, TrialJobStatus(trial.target), work.now(), revision=next_revision(experiment.pk),
                           message=stop_reason(trial.target, reason_of(trial)))
        elif attempt.job_name not in work.stops_sent and attempt.pk not in work.submitting:
            _send_stop(work, trial, attempt)


def _send_stop(work: ClusterWork, trial: Trial, attempt: Attempt) -> None:
    service = work.service
    if service is None:
        return  # the order in the reply to the keeper's next report is the other way
    work.stops_sent.add(attempt.job_name)
    logger.info("trial %d is being stopped: %s", trial.sequence_id, stop_reason(trial.target, reason_of(trial)),
                extra={"trial": trial.public_id})
    early = trial.target == TrialTarget.EARLY_STOPPED

    def failed(error: TrainingServiceError) -> None:
        if not isinstance(error, UnknownTrialJob):
            logger.warning("trial %d could not be stopped yet: %s", trial.sequence_id, error,
                           extra={"trial": trial.public_id})
        else:
            _end_unknown(work, trial, attempt)
        work.stops_sent.discard(attempt.job_name)

    work.host.call(f"cancel of trial {trial.sequence_id}", "cancel_trial_job",
                   lambda: service.cancel_trial_job(attempt.job_name, early), lambda _: None, failed)


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
