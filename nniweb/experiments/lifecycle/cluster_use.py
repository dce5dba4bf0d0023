"""Which clusters of an experiment that runs on several can take its trials now, and why the others cannot."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nniweb.database.database_clock import database_now
from nniweb.experiments.clusters.worker_presence import is_leased
from nniweb.experiments.lifecycle.reason_columns import document, from_document
from nniweb.experiments.models import Cluster, Experiment, ExperimentCluster
from nniweb.experiments.models.experiment_cluster import rows_by_cluster
from trainingservice.reasons import Reason


def why_unusable(experiment: Experiment) -> dict[int, str]:
    """Cluster (primary key) -> why it gets no trials of this experiment; those that can be used are left out."""
    now = database_now()  # once for all of them
    said = {pk: _why_not(row, now) for pk, row in rows_by_cluster(experiment).items()}
    return {pk: why for pk, why in said.items() if why}


def _why_not(row: ExperimentCluster, now: datetime) -> str:
    cluster = row.cluster
    if not row.is_listed:
        return Reason("not_listed")
    if row.is_drained:
        return Reason("drained")
    if not row.takes_trials:
        return Reason("no_weight")
    if not cluster.enabled:
        return Reason("disabled_there")
    if is_refused(row):
        refusal: Mapping[str, Any] = row.refusal or {}
        said = from_document(refusal["message"], refusal["reason"])
        return Reason("refused_there", said=str(said), because=refusal["reason"])
    if not is_leased(cluster, now):
        return Reason("no_worker_there")
    if cluster.health in (Cluster.Health.AWAY, Cluster.Health.BAD):
        return Reason("unhealthy_there", said=cluster.message,
                      because=document(cluster.reason, cluster.reason_arguments))
    return ""


def is_refused(row: ExperimentCluster) -> bool:
    """Whether its platform has refused a trial, and nobody has changed the cluster since."""
    return row.refusal is not None and row.refusal["settings_revision"] == row.cluster.settings_revision
