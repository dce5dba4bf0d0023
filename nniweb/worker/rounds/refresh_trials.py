"""A step of a round: the platform is asked about the jobs of trials that somebody wants refreshed."""

from __future__ import annotations

from nniweb.experiments.launch.job_forms import first_parameters, form_without_token
from nniweb.experiments.lifecycle.reason_columns import document, said_by_platform, struck_reason
from nniweb.experiments.models import Attempt, Experiment, Trial
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.observability.log_ids import ExperimentLogger
from nniweb.worker.cluster_host.service_answers import job_detail
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.observing.observe_trials import write_down
from nniweb.worker.rounds.work_counts import WorkCounts
from trainingservice.base import TrainingService
from trainingservice.errors import TrainingServiceError
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

logger = ExperimentLogger(__name__)

#: Jobs of one cluster that are asked about at the same time: its other calls must not wait behind many of these.
MOST_AT_ONCE = 8


def refresh_trials(work: ClusterWork, experiment: Experiment, found: WorkCounts) -> None:
    """Ask about those that are wanted; what the platform answers is written down in a later round.

    Nothing is lost where this worker dies meanwhile: the wish stays in the row until it was met.
    """
    service = work.service
    room = MOST_AT_ONCE - len(work.refreshing)
    if not found.to_refresh or service is None or room <= 0:
        return
    wanted = Attempt.objects.under_way().filter(
        trial__experiment=experiment, cluster=work.cluster_pk, refresh_asked_at__isnull=False,
        stage=Attempt.Stage.SUBMITTED).exclude(
        pk__in=list(work.refreshing)).select_related("trial", "place").order_by("refresh_asked_at", "pk")[:room]
    attempts = list(wanted)
    parameters = first_parameters([attempt.trial_id for attempt in attempts])
    for attempt in attempts:
        attempt.trial.experiment = experiment
        _ask(work, service, attempt, form_without_token(attempt, parameters.get(attempt.trial_id), type(service)))


def _ask(work: ClusterWork, service: TrainingService, attempt: Attempt, form: JobApplicationForm) -> None:
    work.refreshing.add(attempt.pk)
    job_name = attempt.job_name if attempt.place is None else attempt.place.job_name  # that the platform knows

    def answered(detail: TrialJobDetail) -> None:
        work.refreshing.discard(attempt.pk)
        write_down(work, detail)
        _note(work, attempt, detail.message if detail.status is TrialJobStatus.UNKNOWN else "")

    def failed(error: TrainingServiceError) -> None:
        work.refreshing.discard(attempt.pk)
        logger.warning("trial %d could not be refreshed: %s", attempt.trial.sequence_id, error,
                       extra={"trial": attempt.trial.public_id})
        _note(work, attempt, error.reason)

    work.host.call(f"refresh of trial {attempt.trial.sequence_id}", "update_trial_job",
                   lambda: job_detail(service.update_trial_job(job_name, form)), answered, failed)


def _note(work: ClusterWork, attempt: Attempt, problem: str) -> None:
    """It was done; ``problem``: why the platform does not say how the job is, "" where it does."""
    columns = said_by_platform(struck_reason(problem))
    with work.lease.transaction():
        revision = next_revision(attempt.trial.experiment_id, needs_round=False)
        Attempt.objects.filter(pk=attempt.pk).update(
            refresh_asked_at=None, refreshed_at=work.now(), refresh_problem={
                "message": columns["message"],
                "reason": document(columns["reason"], columns["reason_arguments"])} if problem else None)
        Trial.objects.filter(pk=attempt.trial_id).update(revision=revision)
