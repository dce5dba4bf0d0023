"""The clusters of an experiment that runs on several."""

from __future__ import annotations

from typing import Any

from django.db import models

from .cluster import Cluster
from .experiment import Experiment


class ExperimentCluster(models.Model):
    """One of the clusters of an experiment that runs on several, the home among them. With one cluster there is none.

    A row stays as long as its experiment, because trials may have run there.
    """

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="cluster_rows", db_index=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    #: Its place in the list, from 0 on.
    position = models.PositiveSmallIntegerField()
    #: False since somebody took it out of the list: it gets no new trials, as one that is drained.
    is_listed = models.BooleanField(default=True)
    #: None: as many as ``trial_concurrency`` allows.
    up_to = models.PositiveIntegerField(null=True)
    #: Its share of the trials, compared with the other clusters; 0: no new trials.
    weight = models.FloatField(default=1.0)
    #: What an hour of a trial costs there; None: not given.
    cost = models.FloatField(null=True)
    #: Clusters (primary keys) that get trials before it, as long as they have room.
    after = models.JSONField(default=list)
    is_drained = models.BooleanField(default=False)
    #: Of trials there, in place of the experiment's own.
    trial_options = models.JSONField(default=dict)
    trial_gpu_number = models.PositiveIntegerField(null=True)
    gpus_of_a_trial = models.PositiveIntegerField(default=0)
    cpus_of_a_trial = models.FloatField(default=1.0)
    #: When the first trial was placed there; its code may be there since.
    used_at = models.DateTimeField(null=True)
    #: Of a platform that will never take a trial of the experiment: {"message", "reason": {"code", ...},
    #: "settings_revision"}; None: it has not said so. It counts until the entry or the cluster's settings change.
    refusal = models.JSONField(null=True)
    #: When trials failed there by the platform's fault, the last few: seconds since 1970.
    failures = models.JSONField(default=list)
    #: When the jobs of the ended experiment are removed there; and when what the deleted experiment left was removed.
    jobs_due_at = models.DateTimeField(null=True)
    cleaned_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "cluster"], name="one_row_per_cluster")]
        ordering = ["position", "pk"]

    def __str__(self) -> str:
        return f"{self.experiment} on {self.cluster}"

    @property
    def takes_trials(self) -> bool:
        """Whether a person wants new trials there."""
        return self.is_listed and not self.is_drained and self.weight > 0


#: As ``ExperimentCluster.takes_trials``, for queries.
TAKES_TRIALS = models.Q(is_listed=True, is_drained=False, weight__gt=0)


def of_cluster(cluster: Cluster) -> models.Q:
    """Experiments that have this cluster as their only one or as one of several, also one taken out of their list."""
    return models.Q(cluster=cluster) | models.Q(
        pk__in=ExperimentCluster.objects.filter(cluster=cluster).values("experiment"))


def rows_by_cluster(experiment: Experiment) -> dict[int, ExperimentCluster]:
    """The rows of an experiment by the cluster's primary key, {} where it runs on one. One query, once for an object
    of the experiment.
    """
    if not experiment.several_clusters:
        return {}
    known: dict[int, ExperimentCluster] | None = experiment.__dict__.get("_rows_by_cluster")
    if known is None:
        known = {row.cluster_id: row for row in ExperimentCluster.objects.filter(
            experiment=experiment).select_related("cluster")}
        keep_rows(experiment, known)
    return known


def keep_rows(experiment: Experiment, rows: dict[int, ExperimentCluster]) -> None:
    """Have ``rows_by_cluster`` answer with these rows, which were read already."""
    experiment.__dict__["_rows_by_cluster"] = rows


def options_on(experiment: Experiment, cluster_pk: int | None) -> dict[str, Any]:
    """The options of the experiment's trials on one of its clusters; None: on its only one."""
    row = rows_by_cluster(experiment).get(cluster_pk) if cluster_pk is not None else None
    return dict((row.trial_options if row is not None else experiment.trial_options) or {})


def gpu_number_on(experiment: Experiment, cluster_pk: int | None) -> int | None:
    """As ``trialGpuNumber`` of an experiment file, on one of its clusters."""
    row = rows_by_cluster(experiment).get(cluster_pk) if cluster_pk is not None else None
    return row.trial_gpu_number if row is not None else experiment.trial_gpu_number
