"""The clusters of an experiment that runs on several: what runs on each and what it cost, and why one gets nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Q, Sum

from nniweb.experiments.lifecycle.cluster_use import why_unusable
from nniweb.experiments.models import Attempt, Experiment, ExperimentCluster
from nniweb.experiments.models.experiment_cluster import rows_by_cluster
from trainingservice.trial_job_status import TrialJobStatus


@dataclass(frozen=True)
class ClusterFigures:
    """Of one cluster. Hours are those of all attempts there, the time so far of running ones among them."""

    row: ExperimentCluster
    after: list[str]
    is_home: bool
    running: int
    waiting: int
    ended: int
    hours: float
    #: Hours times the cost of an hour; None without a cost.
    spent: float | None
    #: Why it gets no trials now, a Reason; "" where it does.
    why_not: str


def cluster_figures(experiment: Experiment, now: datetime) -> list[ClusterFigures]:
    """In the order of the list, those that were taken out of it last; [] for an experiment on one cluster."""
    rows = rows_by_cluster(experiment)
    if not rows:
        return []
    unusable = why_unusable(experiment)
    attempts = Attempt.objects.filter(trial__experiment=experiment)
    is_running = Q(stage__in=[Attempt.Stage.SUBMITTING, Attempt.Stage.SUBMITTED]) & ~Q(
        trial__status=TrialJobStatus.WAITING.value)
    counted: dict[int | None, Any] = {row["cluster"]: row for row in attempts.values("cluster").annotate(
        ended=Count("pk", filter=Q(stage=Attempt.Stage.ENDED, started_at__isnull=False)),
        running=Count("pk", filter=is_running), under_way=Count("pk", filter=~Q(stage=Attempt.Stage.ENDED)),
        seconds=Sum("duration", filter=Q(stage=Attempt.Stage.ENDED))).order_by()}
    so_far: dict[int | None, float] = {}
    for pk, started in attempts.filter(is_running, started_at__isnull=False).values_list("cluster", "started_at"):
        assert started is not None  # asked for
        so_far[pk] = so_far.get(pk, 0.0) + max(0.0, (now - started).total_seconds())
    found = []
    for pk, row in sorted(rows.items(), key=lambda item: (not item[1].is_listed, item[1].position, item[1].pk)):
        counts = counted.get(pk, {"ended": 0, "running": 0, "under_way": 0, "seconds": None})
        hours = ((counts["seconds"] or 0.0) + so_far.get(pk, 0.0)) / 3600
        found.append(ClusterFigures(
            row, [rows[first].cluster.name for first in row.after if first in rows], pk == experiment.cluster_id,
            counts["running"], counts["under_way"] - counts["running"], counts["ended"], hours,
            None if row.cost is None else row.cost * hours, unusable.get(pk, "")))
    return found
