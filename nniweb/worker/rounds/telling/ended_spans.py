"""The spans of whole trials, from the moment they were made until they ended."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

from django.db import DatabaseError
from django.utils import timezone

from nniweb.experiments.models import Attempt, Experiment, Trial
from trainingservice import tracing

logger = logging.getLogger(__name__)


def show_ended(experiment: Experiment, trials: Sequence[Trial]) -> None:
    """Of each of these trials, which ended just now: its first span, and below it how long each attempt waited and ran.
    Asks the database, where anything is recorded.
    """
    if tracing.is_on():
        try:
            _show_ended(experiment, trials)
        except DatabaseError as error:
            logger.debug("the spans of %d trials are left out; the database's error: %s", len(trials), error)


def _show_ended(experiment: Experiment, trials: Sequence[Trial]) -> None:
    keys = [trial.pk for trial in trials]
    attempts = defaultdict(list)
    for attempt in Attempt.objects.filter(trial__in=keys).select_related("cluster").only(
            "trial", "number", "job_name", "created_at", "started_at", "ended_at", "cluster__platform").order_by(
            "number"):
        attempts[attempt.trial_id].append(attempt)
    times = {pk: (made, ended) for pk, made, ended in Trial.objects.filter(pk__in=keys).values_list(
        "pk", "created_at", "ended_at")}
    for trial in trials:
        if trial.pk not in times:
            continue  # deleted meanwhile
        whose, which = experiment.public_id, trial.public_id
        made, ended = times[trial.pk][0], times[trial.pk][1] or timezone.now()
        where = ""
        for attempt in attempts[trial.pk]:
            where = attempt.cluster.platform if attempt.cluster is not None else ""
            over = attempt.ended_at or ended
            tracing.between("wait", attempt.created_at, attempt.started_at or over, experiment=whose, trial=which,
                            job=attempt.job_name, platform=where)
            if attempt.started_at is not None:
                tracing.between("run", attempt.started_at, over, experiment=whose, trial=which, job=attempt.job_name,
                                platform=where)
        tracing.between("trial", made, ended, is_first=True, experiment=whose, trial=which, platform=where,
                        outcome=str(trial.status), attempts=len(attempts[trial.pk]))
