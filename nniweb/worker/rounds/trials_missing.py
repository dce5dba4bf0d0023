"""Why an experiment has no trials: said while its tuner does not answer, and where it ends without a single one."""

from __future__ import annotations

from datetime import datetime, timedelta

from nniweb.experiments.models import Experiment
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.work_counts import WorkCounts
from trainingservice.reasons import Reason, because_of

#: A tuner may think for so long before it is remarked on.
LONG = timedelta(seconds=30)


def why_no_answer(work: ClusterWork, experiment: Experiment, found: WorkCounts) -> str:
    """The reason, where the tuner was asked for parameters and has not answered for long, or where nothing runs until a
    program outside of the server proposes something; else "". The same each time until it answers.
    """
    if experiment.has_external_tuner:
        idle = not (found.waiting or found.under_way or found.not_taught)
        return Reason("waits_for_proposals", proposed=experiment.next_ask) if idle else ""
    asked_at = work.tuners.asked_at(experiment.pk)
    return _silent(experiment, asked_at) if asked_at is not None and work.now() - asked_at >= LONG else ""


def reason_of_limit(work: ClusterWork, experiment: Experiment, limit: str) -> str:
    """The reason for which an experiment at this limit ends: the limit, and where it has no trial what kept them."""
    asked_at = work.tuners.asked_at(experiment.pk)
    why = experiment.message
    if not why and asked_at is not None:
        why = _silent(experiment, asked_at)
    elif not why and experiment.pk in work.tuners:
        why = Reason("nothing_proposed")
    return or_no_trial(experiment, limit, why)


def or_no_trial(experiment: Experiment, end: str, why: str = "") -> str:
    """The reason for an end, with that there was no trial where that is so, and ``why``."""
    if experiment.next_sequence_id:
        return end
    return Reason("no_trial", said=str(end), why=str(why), **because_of(end))


def _silent(experiment: Experiment, asked_at: datetime) -> Reason:
    is_one_by_one = experiment.has_own_tuner and not experiment.tuner.get("multi_thread")
    return Reason("tuner_silent", asked_at=f"{asked_at:%Y-%m-%d %H:%M:%S}", own=is_one_by_one)
