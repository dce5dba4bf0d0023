"""Removes deleted experiments: first what they left on the platform, then their rows, in small steps."""

from __future__ import annotations

import contextlib
import logging

from django.core.files.storage import default_storage

from nniweb.experiments.checkpoint_folders import remove_checkpoints
from nniweb.experiments.models import (
    Attempt,
    CodeArchive,
    Experiment,
    LogLine,
    Metric,
    ResourceReading,
    Trial,
    TrialFile,
    TrialOutput,
)
from nniweb.worker.cluster_work import ClusterWork
from trainingservice.errors import TrainingServiceError

logger = logging.getLogger(__name__)

#: Rows removed in one transaction, so that no other writer waits long.
CHUNK = 2000


def delete_some(work: ClusterWork) -> None:
    """One step for one deleted experiment of the cluster."""
    service = work.service
    experiment = Experiment.objects.filter(cluster=work.cluster_pk, deleted_at__isnull=False).first()
    if experiment is None or service is None or experiment.pk in work.cleaning:
        return

    def cleaned(_: None) -> None:
        work.cleaning.discard(experiment.pk)
        _delete_rows(work, experiment)

    def failed(error: TrainingServiceError) -> None:
        logger.warning("experiment %s cannot be cleaned up yet: %s", experiment.public_id, error)
        work.cleaning.discard(experiment.pk)

    work.cleaning.add(experiment.pk)
    work.host.call(f"clean-up of experiment {experiment.public_id}",
                   lambda: service.clean_up_experiment(experiment.public_id), cleaned, failed)


def _delete_rows(work: ClusterWork, experiment: Experiment) -> None:
    attempts = Attempt.objects.filter(trial__experiment=experiment)
    for file in TrialFile.objects.filter(attempt__in=attempts):
        with contextlib.suppress(OSError):
            default_storage.delete(file.storage_path)
    remove_checkpoints(experiment)
    for model in (Metric, TrialOutput, ResourceReading):
        while pks := list(model.objects.filter(attempt__in=attempts).values_list("pk", flat=True)[:CHUNK]):
            with work.lease.transaction():
                model.objects.filter(pk__in=pks).delete()
    while pks := list(Trial.objects.filter(experiment=experiment).values_list("pk", flat=True)[:CHUNK // 10]):
        with work.lease.transaction():
            Trial.objects.filter(pk__in=pks).delete()
    while pks := list(LogLine.objects.filter(experiment=experiment).values_list("pk", flat=True)[:CHUNK]):
        with work.lease.transaction():
            LogLine.objects.filter(pk__in=pks).delete()
    with work.lease.transaction():
        if experiment.code_id is not None:
            CodeArchive.objects.filter(pk=experiment.code_id).update(last_used=work.now())
        experiment.delete()
