"""What is remembered of a cluster of an experiment that runs on several: its platform's failures and its refusal."""

from __future__ import annotations

from datetime import datetime

from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.lifecycle.retries import REFUSED
from nniweb.experiments.lifecycle.trial_end import TrialEnd
from nniweb.experiments.models import Attempt, ExperimentCluster
from trainingservice.reasons import Reason, as_document, refusal
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: So many failures are remembered of a cluster.
MOST_FAILURES = 5


def note_platform_failure(attempt: Attempt, now: datetime) -> None:
    """A trial failed there and it was not the command's doing."""
    row = _row_of(attempt)
    if row is not None:
        ExperimentCluster.objects.filter(pk=row.pk).update(failures=[*row.failures, now.timestamp()][-MOST_FAILURES:])


def note_refusal(attempt: Attempt, reason: str) -> bool:
    """The platform will never take a trial of the experiment. Whether another of its clusters may take it."""
    row = _row_of(attempt)
    if row is None:
        return False
    ExperimentCluster.objects.filter(pk=row.pk).update(refusal={
        "message": said(reason)["message"], "reason": as_document(reason),
        "settings_revision": row.cluster.settings_revision})
    others = ExperimentCluster.objects.filter(experiment=row.experiment_id).exclude(pk=row.pk).select_related("cluster")
    return any(one.takes_trials and one.cluster.enabled and (
        one.refusal is None or one.refusal["settings_revision"] != one.cluster.settings_revision) for one in others)


def end_of_refused(attempt: Attempt, reason: str) -> TrialEnd:
    """Of an attempt that its platform will never take: the trial goes to another cluster that may, or has failed."""
    why = refusal(reason)
    if not note_refusal(attempt, why):
        return TrialEnd(TrialJobStatus.FAILED, why, REFUSED)
    return TrialEnd(TrialJobStatus.WAITING, Reason(
        "moves", cluster=attempt.runs_on.name, said=str(reason), because=as_document(why)), contract.FROZEN)


def _row_of(attempt: Attempt) -> ExperimentCluster | None:
    return ExperimentCluster.objects.filter(
        experiment__trials=attempt.trial_id, cluster=attempt.cluster_id).select_related("cluster").first() \
        if attempt.cluster_id is not None else None
