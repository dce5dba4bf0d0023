"""Removes the rows of a deleted experiment, a turn at a time. Its own row stays for what is left on its platform."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db.models import Model

from nniweb.experiments.models import (
    Attempt,
    EarlierExperiment,
    Experiment,
    ExperimentChange,
    ExperimentEvent,
    LogLine,
    Metric,
    MetricName,
    MetricNumber,
    NodeBooking,
    Place,
    Proposal,
    ProposalKey,
    ResourceReading,
    Trial,
    TrialEvent,
    TrialFile,
    TrialOutput,
    TrialParameters,
    TunerEvent,
)
from nniweb.experiments.retention.checkpoint_removal import remove_checkpoints_of
from nniweb.experiments.retention.removal import MOST_BYTES, Pace, paths_of, remove_file, remove_rows
from trialkeeper import contract

#: Trials whose rows are removed together, and what refers to them: first what refers to attempts, then attempts.
TRIALS_AT_ONCE = 100
#: Pieces of output in one transaction, if all are as large as they can be.
_PIECES = MOST_BYTES // contract.MAX_OUTPUT_PIECE_BYTES
_OF_ATTEMPTS: tuple[type[Model], ...] = (Metric, ResourceReading, NodeBooking)
_OF_TRIALS: tuple[type[Model], ...] = (Attempt, TrialEvent, TrialParameters, MetricNumber, ProposalKey)
_OF_EXPERIMENTS: tuple[type[Model], ...] = (TunerEvent, LogLine, ExperimentEvent, ExperimentChange, MetricName,
                                           Proposal, EarlierExperiment, Place)


def remove_rows_of(experiment: Experiment, now: datetime, pace: Pace, is_over: Callable[[], bool]) -> bool:
    """Remove what there is; False where ``is_over`` came first. True: all is gone, and ``rows_removed_at`` says so."""
    if not remove_checkpoints_of(experiment, pace, is_over):
        return False
    while trials := list(Trial.objects.filter(experiment=experiment).order_by("sequence_id")
                         .values_list("pk", flat=True)[:TRIALS_AT_ONCE]):
        if not _remove_trials(trials, pace, is_over):
            return False
    for model in _OF_EXPERIMENTS:
        while remove_rows(model, pace, experiment=experiment):
            if is_over():
                return False
    Experiment.objects.filter(pk=experiment.pk, rows_removed_at=None).update(rows_removed_at=now)
    return True


def _remove_trials(trials: list[int], pace: Pace, is_over: Callable[[], bool]) -> bool:
    attempts = list(Attempt.objects.filter(trial__in=trials).values_list("pk", flat=True))
    for kind in ("files", "output"):
        for path in paths_of(kind, attempt__in=attempts):
            remove_file(path)
            if is_over():
                return False
    while remove_rows(TrialFile, pace, attempt__in=attempts):
        if is_over():
            return False
    while remove_rows(TrialOutput, pace, most=_PIECES, attempt__in=attempts):
        if is_over():
            return False
    rest: list[tuple[type[Model], dict[str, Any]]] = [
        *((model, {"attempt__in": attempts}) for model in _OF_ATTEMPTS),
        *((model, {"trial__in": trials}) for model in _OF_TRIALS), (Trial, {"pk__in": trials})]
    for model, which in rest:
        while remove_rows(model, pace, **which):
            if is_over():
                return False
    return True
