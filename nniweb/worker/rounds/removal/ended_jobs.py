"""Removes the ended jobs of ended experiments from platforms that keep them, as the experiment's retention says.

A platform that cannot do it is asked again with growing pauses, for about a week. Then the jobs stay, which the
experiment's events say. Deleting the experiment removes them, too.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Q

from nniweb.experiments.lifecycle.trial_end import UNTOLD
from nniweb.experiments.models import Attempt, Experiment, ExperimentEvent, Trial, TrialOutput
from nniweb.experiments.retention.policy import FOREVER, SAVED, jobs_kept
from nniweb.experiments.secrets.masking import struck_out
from nniweb.experiments.sql.exact_text import printable
from nniweb.experiments.sql.selected_rows import is_any
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.removal.delete_experiments import PAUSES
from trainingservice.base import RemovedJobs
from trainingservice.errors import TrainingServiceError

logger = logging.getLogger(__name__)

#: Until an experiment is looked at again that has ended and whose trials have not.
AGAIN_AFTER = timedelta(seconds=30)
_DUE = "cluster_id = %s AND jobs_due_at <= %s AND deleted_at IS NULL"


@dataclass
class _Jobs:
    """``whole``: names of jobs of whose reporting part the server has all output; ``unsaved``: the others."""

    whole: list[str]
    unsaved: list[str]


def remove_some(work: ClusterWork) -> None:
    """One step for one experiment of the cluster whose jobs are due."""
    service, now = work.service, work.now()
    if service is None or work.removing_jobs is not None or not is_any(
            Experiment, _DUE, [work.cluster_pk, connection.ops.adapt_datetimefield_value(now)]):
        return
    experiment = Experiment.objects.filter(
        cluster=work.cluster_pk, jobs_due_at__lte=now, deleted_at=None).order_by("jobs_due_at").first()
    if experiment is None:
        return
    due = due_at(experiment) if service.keeps_ended_jobs else None
    if due is None or due > now:
        _write(work, experiment, jobs_due_at=due)
        return
    if Trial.objects.unfinished().filter(experiment=experiment).exists():
        _write(work, experiment, jobs_due_at=now + AGAIN_AFTER)
        return
    is_saved_only = jobs_kept(experiment.retention) == SAVED
    jobs = jobs_of(experiment, work.cluster_pk)
    names = jobs.whole if is_saved_only else [*jobs.whole, *jobs.unsaved]

    def removed(done: RemovedJobs) -> None:
        work.removing_jobs = None
        _removed(work, experiment, done, len(jobs.unsaved) if is_saved_only else 0)

    def failed(error: TrainingServiceError) -> None:
        work.removing_jobs = None
        _failed(work, experiment, error)

    work.removing_jobs = experiment.pk
    work.host.call(f"removal of the ended jobs of experiment {experiment.public_id}", "remove_ended_jobs",
                   lambda: service.remove_ended_jobs(names, keep_unsaved=is_saved_only), removed, failed)


def due_at(experiment: Experiment) -> datetime | None:
    """When its jobs are to go; None: they are not."""
    kept = jobs_kept(experiment.retention)
    if kept == FOREVER or not experiment.is_finished or experiment.ended_at is None:
        return None
    return experiment.ended_at if kept == SAVED else experiment.ended_at + timedelta(days=int(kept))


def jobs_of(experiment: Experiment, cluster_pk: int) -> _Jobs:
    """Those on this cluster. The server has all output of a job whose keeper told its end, if none of it was skipped or
    left out.
    """
    here = Q(cluster=cluster_pk) | Q(cluster=None) if experiment.cluster_id == cluster_pk else Q(cluster=cluster_pk)
    attempts = Attempt.objects.filter(here, trial__experiment=experiment)
    skipped = set(TrialOutput.objects.filter(attempt__trial__experiment=experiment, skipped__gt=0).values_list(
        "attempt", flat=True))
    jobs = _Jobs([], [])
    for pk, name, journal_id, observed, stored in attempts.order_by("pk").values_list(
            "pk", "job_name", "journal_id", "observed_end", "stored_bytes"):
        is_told = not (observed or {}).get(UNTOLD) and (bool(journal_id) or not observed)
        is_whole = is_told and pk not in skipped and not 0 < settings.TRIAL_BYTES < stored
        (jobs.whole if is_whole else jobs.unsaved).append(name)
    return jobs


def _removed(work: ClusterWork, experiment: Experiment, done: RemovedJobs, unsaved: int) -> None:
    now = work.now()
    left = done.left + unsaved
    parts = [f"The jobs of {done.removed} ended trial(s) were removed from the platform."] if done.removed else []
    if done.is_through and left and experiment.jobs_removed_at is None:
        parts.append(f"Those of {left} trial(s) are left there if the platform still has them: their logs or "
                     "volumes have something that the server does not have. Set retention.jobs to a number of days to "
                     "remove them.")
    with work.lease.transaction():
        # somebody may have gone on with it, or changed its retention, meanwhile
        changed = Experiment.objects.filter(pk=experiment.pk, jobs_due_at=experiment.jobs_due_at).update(
            jobs_due_at=None if done.is_through else now, cleanup_tries=0)
        if done.removed:
            Experiment.objects.filter(pk=experiment.pk).update(jobs_removed_at=now)
        if parts and (changed or done.removed):
            ExperimentEvent.objects.create(experiment=experiment, at=now, kind="retention", message=" ".join(parts))
    if parts:
        logger.info("experiment %s: %s", experiment.public_id, " ".join(parts))


def _failed(work: ClusterWork, experiment: Experiment, error: TrainingServiceError) -> None:
    now, why = work.now(), printable(struck_out(str(error)), 1000)
    if experiment.cleanup_tries >= len(PAUSES):
        said = f"Its ended jobs could not be removed from the platform and stay there: {why}"
        logger.warning("experiment %s: %s", experiment.public_id, said)
        with work.lease.transaction():
            Experiment.objects.filter(pk=experiment.pk, jobs_due_at=experiment.jobs_due_at).update(
                jobs_due_at=None, cleanup_tries=0)
            ExperimentEvent.objects.create(experiment=experiment, at=now, kind="retention", message=said)
        return
    pause = PAUSES[experiment.cleanup_tries]
    logger.info("experiment %s: its ended jobs cannot be removed from the platform yet (next try in %d s): %s",
                experiment.public_id, pause, why)
    _write(work, experiment, jobs_due_at=now + timedelta(seconds=pause), cleanup_tries=experiment.cleanup_tries + 1)


def _write(work: ClusterWork, experiment: Experiment, **fields: Any) -> None:
    """Unless somebody has written meanwhile when its jobs are due."""
    with work.lease.transaction():
        Experiment.objects.filter(pk=experiment.pk, jobs_due_at=experiment.jobs_due_at).update(**fields)
