"""Removes the ended jobs of ended experiments from clusters that are not their home, as their retention says.

A platform that cannot do it is asked again until a week after the experiment's end.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import connection

from nniweb.experiments.models import Experiment, ExperimentCluster, Trial
from nniweb.experiments.retention.policy import SAVED, jobs_kept
from nniweb.experiments.sql.selected_rows import is_any
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.removal.ended_jobs import AGAIN_AFTER, due_at, jobs_of
from trainingservice.base import RemovedJobs
from trainingservice.errors import TrainingServiceError

logger = logging.getLogger(__name__)

#: Until a platform that could not do it is asked again, and until it is given up after the experiment's end.
PAUSE, GIVEN_UP_AFTER = timedelta(minutes=10), timedelta(days=7)


def remove_some_of_guests(work: ClusterWork) -> None:
    """One step for one experiment of another home whose jobs here are due."""
    service, now = work.service, work.now()
    if service is None or work.removing_jobs is not None or not is_any(
            ExperimentCluster, "cluster_id = %s AND jobs_due_at <= %s",
            [work.cluster_pk, connection.ops.adapt_datetimefield_value(now)]):
        return
    row = ExperimentCluster.objects.filter(
        cluster=work.cluster_pk, jobs_due_at__lte=now, experiment__deleted_at=None).exclude(
        experiment__cluster=work.cluster_pk).select_related("experiment").order_by("jobs_due_at").first()
    if row is None:
        return
    experiment: Experiment = row.experiment
    due = due_at(experiment) if service.keeps_ended_jobs else None
    if due is None or due > now:
        _write(work, row, due)
        return
    if Trial.objects.unfinished().filter(experiment=experiment).exists():
        _write(work, row, now + AGAIN_AFTER)
        return
    is_saved_only = jobs_kept(experiment.retention) == SAVED
    jobs = jobs_of(experiment, work.cluster_pk)
    names = jobs.whole if is_saved_only else [*jobs.whole, *jobs.unsaved]

    def removed(done: RemovedJobs) -> None:
        work.removing_jobs = None
        _write(work, row, None if done.is_through else now)

    def failed(error: TrainingServiceError) -> None:
        work.removing_jobs = None
        logger.info("experiment %s: its ended jobs on one of its clusters cannot be removed yet: %s",
                    experiment.public_id, error)
        is_over = experiment.ended_at is not None and now > experiment.ended_at + GIVEN_UP_AFTER
        _write(work, row, None if is_over else now + PAUSE)

    work.removing_jobs = experiment.pk
    work.host.call(f"removal of the ended jobs of experiment {experiment.public_id}", "remove_ended_jobs",
                   lambda: service.remove_ended_jobs(names, keep_unsaved=is_saved_only), removed, failed)


def _write(work: ClusterWork, row: ExperimentCluster, due: datetime | None) -> None:
    """Unless somebody has written meanwhile when its jobs are due."""
    with work.lease.transaction():
        ExperimentCluster.objects.filter(pk=row.pk, jobs_due_at=row.jobs_due_at).update(jobs_due_at=due)
