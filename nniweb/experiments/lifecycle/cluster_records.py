"""What is remembered of a cluster of an experiment that runs on several: its platform's failures and its refusal."""

from __future__ import annotations

from datetime import datetime

from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.models import Attempt, ExperimentCluster
from trainingservice.reasons import as_document

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


def _row_of(attempt: Attempt) -> ExperimentCluster | None:
    return ExperimentCluster.objects.filter(
        experiment__trials=attempt.trial_id, cluster=attempt.cluster_id).select_related("cluster").first() \
        if attempt.cluster_id is not None else None
