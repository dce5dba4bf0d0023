"""Removes what deleted experiments left on the platform, when their rows are gone (``remove_rows``); then the last row.

A platform that cannot do it is asked again after growing pauses, for about a week. Then what is left stays there, which
the audit log says.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db.models import Q, QuerySet

from nniweb.experiments.access import audit
from nniweb.experiments.access.request_actor import asked_by
from nniweb.experiments.launch.checkpoint_folders import remove_checkpoints
from nniweb.experiments.lifecycle.tuner_surroundings import remove_tuner_folder
from nniweb.experiments.models import CodeArchive, Experiment, ExperimentCluster
from nniweb.experiments.secrets.masking import struck_out
from nniweb.experiments.sql.exact_text import printable
from nniweb.experiments.sql.selected_rows import is_any
from nniweb.worker.rounds.cluster_work import ClusterWork
from trainingservice.base import TrainingService
from trainingservice.errors import TrainingServiceError

logger = logging.getLogger(__name__)

#: After each try in vain the seconds until the next; after the last one none follows.
PAUSES = (10, 60, 300, 900, 3600, 6 * 3600, *[24 * 3600] * 6)
_DELETED = "cluster_id = %s AND deleted_at IS NOT NULL"
#: Of experiments with several clusters: the home waits so long until the others have removed what was left there, and
#: a cluster that could not is asked again after these seconds.
WAIT_FOR_OTHERS, PAUSE_OF_OTHERS = timedelta(days=7), 300.0
_LEFT_HERE = ("cluster_id = %s AND used_at IS NOT NULL AND cleaned_at IS NULL AND EXISTS (SELECT 1 FROM"
              " experiments_experiment deleted WHERE deleted.id = experiment_id AND deleted.deleted_at IS NOT NULL)")


def delete_some(work: ClusterWork) -> None:
    """One step for one deleted experiment of the cluster."""
    service = work.service
    if service is None or work.cleaning:
        return
    if is_any(ExperimentCluster, _LEFT_HERE, [work.cluster_pk]) and _clean_as_guest(work, service):
        return
    if not is_any(Experiment, _DELETED, [work.cluster_pk]):
        return
    experiment = Experiment.objects.filter(
        Q(cleanup_after=None) | Q(cleanup_after__lte=work.now()), cluster=work.cluster_pk, deleted_at__isnull=False,
        rows_removed_at__isnull=False).exclude(
        pk__in=_left_elsewhere(work.cluster_pk).filter(experiment__deleted_at__gte=work.now() - WAIT_FOR_OTHERS).values(
            "experiment")).select_related("cluster").first()
    if experiment is None:
        return

    def cleaned(_: None) -> None:
        work.cleaning.discard(experiment.pk)
        _remove_last_row(work, experiment)

    def failed(error: TrainingServiceError) -> None:
        work.cleaning.discard(experiment.pk)
        _failed(work, experiment, str(error))

    work.cleaning.add(experiment.pk)
    work.host.call(f"clean-up of experiment {experiment.public_id}", "clean_up_experiment",
                   lambda: service.clean_up_experiment(experiment.public_id), cleaned, failed)


def _left_elsewhere(home: int) -> QuerySet[ExperimentCluster]:
    """Other clusters on which something of deleted experiments of this home may be left."""
    return ExperimentCluster.objects.filter(
        experiment__cluster=home, experiment__deleted_at__isnull=False, used_at__isnull=False, cleaned_at=None).exclude(
        cluster=home)


def _clean_as_guest(work: ClusterWork, service: TrainingService) -> bool:
    """Remove what a deleted experiment of another home left here. Whether there is one."""
    row = ExperimentCluster.objects.filter(
        Q(jobs_due_at=None) | Q(jobs_due_at__lte=work.now()), cluster=work.cluster_pk, used_at__isnull=False,
        cleaned_at=None, experiment__deleted_at__isnull=False, experiment__rows_removed_at__isnull=False).exclude(
        experiment__cluster=work.cluster_pk).select_related("experiment").first()
    if row is None:
        return False
    experiment = row.experiment

    def cleaned(_: None) -> None:
        work.cleaning.discard(experiment.pk)
        with work.lease.transaction():
            ExperimentCluster.objects.filter(pk=row.pk).update(cleaned_at=work.now())

    def failed(error: TrainingServiceError) -> None:
        work.cleaning.discard(experiment.pk)
        logger.warning("experiment %s: its data on one of its clusters cannot be removed yet: %s", experiment.public_id,
                       struck_out(str(error)))
        with work.lease.transaction():
            ExperimentCluster.objects.filter(pk=row.pk).update(
                jobs_due_at=work.now() + timedelta(seconds=PAUSE_OF_OTHERS))

    work.cleaning.add(experiment.pk)
    work.host.call(f"clean-up of experiment {experiment.public_id}", "clean_up_experiment",
                   lambda: service.clean_up_experiment(experiment.public_id), cleaned, failed)
    return True


def _remove_last_row(work: ClusterWork, experiment: Experiment) -> None:
    remove_checkpoints(experiment)
    remove_tuner_folder(experiment)
    with work.lease.transaction():
        if experiment.code_id is not None:
            CodeArchive.objects.filter(pk=experiment.code_id).update(last_used=work.now())
        experiment.delete()


def _failed(work: ClusterWork, experiment: Experiment, why: str) -> None:
    where, why = f"cluster {experiment.cluster.name}", struck_out(why)
    if experiment.cleanup_tries >= len(PAUSES):
        logger.error("experiment %s: its data on %s was not removed after %d tries and stays there: "
                     "%s", experiment.public_id, where,
                     experiment.cleanup_tries + 1, why)
        with asked_by("worker"):
            audit.record("experiment.left-behind", experiment, cluster=experiment.cluster.name, why=printable(why))
        _remove_last_row(work, experiment)
        return
    pause = PAUSES[experiment.cleanup_tries]
    logger.warning("experiment %s: its data on %s cannot be removed yet (next try in %d s): %s",
                   experiment.public_id, where, pause, why)
    with work.lease.transaction():
        Experiment.objects.filter(pk=experiment.pk).update(
            cleanup_tries=experiment.cleanup_tries + 1, cleanup_after=work.now() + timedelta(seconds=pause),
            message=printable(f"Its data on {where} cannot be removed yet: {why}"))
