"""Trials of services under which no keeper reports: how long their last results are waited for, and lost jobs."""

from __future__ import annotations

from collections.abc import Collection

from nniweb.experiments.lifecycle.reason_columns import reason_of
from nniweb.experiments.lifecycle.transitions import end_attempt
from nniweb.experiments.lifecycle.trial_end import TrialEnd, stopped_as_wanted
from nniweb.experiments.models import Attempt, Trial
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.worker.rounds.cluster_work import ClusterWork
from trainingservice.base import TrainingService
from trainingservice.errors import UnknownTrialJob
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: How long the final result of a trial that has succeeded is waited for, in seconds: a service that looks at a job's
#: status and at its metrics by turns may see the end first.
FINAL_RESULT_SECONDS = 5.0
#: ``Attempt.end_reason`` of jobs that their service does not have any more.
_LOST = contract.LOST


def has_final(attempt: Attempt) -> bool:
    return Trial.objects.filter(pk=attempt.trial_id, final_value__isnull=False).exists()


def with_final(attempt_pks: Collection[int]) -> set[int]:
    """Those whose trials have a final result."""
    return set(Attempt.objects.filter(
        pk__in=attempt_pks, trial__final_value__isnull=False).values_list("pk", flat=True))


def end_lost_jobs(work: ClusterWork, service: TrainingService, listed: Collection[str]) -> None:
    """End trials whose jobs had begun and are not among the service's any more: it was started anew, and they ended
    with the object before, or it cannot find them. ``listed``: the names of those that it has.
    """
    begun = Attempt.objects.under_way().filter(
        cluster=work.cluster_pk, stage=Attempt.Stage.SUBMITTED, journal_id="",
        trial__status__in=[TrialJobStatus.RUNNING.value, TrialJobStatus.UNKNOWN.value]).exclude(
        pk__in=list(work.submitting)).exclude(job_name__in=listed).select_related("trial")
    for attempt in begun:
        if not _is_unknown(work, service, attempt.job_name):
            continue
        trial = attempt.trial
        end = TrialEnd(TrialJobStatus.FAILED, Reason(
            "end_unknown", platform=service.platform, said=(
                "The platform's service was restarted and no longer has the trial's job, so how it ended is not "
                "known.")), _LOST)
        if trial.target != TrialTarget.RUN:
            end = stopped_as_wanted(trial.target, reason_of(trial), _LOST)
        with work.lease.transaction():
            end_attempt(attempt, end, work.now(), revision=next_revision(trial.experiment_id))


def _is_unknown(work: ClusterWork, service: TrainingService, job_name: str) -> bool:
    try:
        work.host.ask("get_trial_job", lambda: service.get_trial_job(job_name), None)
    except UnknownTrialJob:
        return True
    return False
