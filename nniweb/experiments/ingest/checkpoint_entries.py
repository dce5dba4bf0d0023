"""What keepers' journals tell of checkpoints: one counts from here on, one was put back, one failed.

All within the transaction of the report's group.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from nniweb.experiments.checkpoints.stored_checkpoints import (
    confirm,
    let_go_of_older,
    rows_of,
    trials_to_take_from,
)
from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.models import Attempt, Checkpoint, Trial, TrialEvent
from nniweb.experiments.sql.exact_text import printable
from trainingservice.reasons import Reason
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: Kinds of events of a trial.
RESUMED, FAILED = "resumed", "checkpoint failed"
#: Events of one trial that tell of failed checkpoints; further ones are in the log only.
MOST_EVENTS = 20


def without_unknown(entries: Sequence[contract.Entry], attempt_pk: int
                    ) -> tuple[list[contract.Entry], list[contract.Rejected]]:
    """The entries less those that name a checkpoint whose content was not sent, and what their keeper is told."""
    named = {entry["id"] for entry in entries if _is_saved(entry)}
    known = rows_of(attempt_pk, named) if named else set()
    rejected: list[contract.Rejected] = [
        {"n": entry["n"], "field": "id", "message": "the content of this checkpoint was not sent before"}
        for entry in entries if _is_saved(entry) and entry["id"] not in known]
    wrong = {one["n"] for one in rejected}
    return [entry for entry in entries if entry["n"] not in wrong], rejected


def _is_saved(entry: contract.Entry) -> bool:
    return bool(entry["type"] == contract.CHECKPOINT and entry["event"] == contract.SAVED)


def keep_checkpoint_entry(attempt: ReportingAttempt, entry: contract.Entry, at: datetime, revision: int) -> None:
    """Store one entry of type ``checkpoint``."""
    if entry["event"] == contract.SAVED:
        confirm(attempt.pk, entry, at)
        let_go_of_older(attempt.trial_pk, at)
    elif entry["event"] == contract.RESTORED:
        _resumed(attempt, entry, at)
    else:
        _failed(attempt, entry, at)
    Trial.objects.filter(pk=attempt.trial_pk).update(revision=revision)


def _resumed(attempt: ReportingAttempt, entry: contract.Entry, at: datetime) -> None:
    checkpoint = _restored(attempt.trial_pk, str(entry["id"]))
    if checkpoint is None:
        logger.warning("job %s went on from the checkpoint %s, which is not known any more", attempt.job_name,
                       entry["id"])
        return
    TrialEvent.objects.create(trial_id=attempt.trial_pk, at=at, kind=RESUMED, message=printable(Reason(
        "checkpoint_resumed", name=checkpoint.name, step=checkpoint.step, attempt=checkpoint.attempt.number,
        **({} if checkpoint.trial_id == attempt.trial_pk else {"trial": checkpoint.trial.sequence_id}))))
    if checkpoint.attempt_id == attempt.pk:
        return  # another run of the same attempt: its results are numbered on
    first = checkpoint.joined_sequence or 0
    Attempt.objects.filter(pk=attempt.pk).update(resumed_from=checkpoint, first_sequence=first)
    # its figures are those of the joined curve; what was counted of this attempt before stays counted
    trial = Trial.objects.filter(pk=attempt.trial_pk)
    trial.filter(intermediate_count=0).update(intermediate_count=first)


def _restored(trial_pk: int, manifest: str) -> Checkpoint | None:
    """The trial's own, or that of a trial that it continues; None where there is none any more."""
    known = Checkpoint.objects.filter(manifest=manifest, confirmed_at__isnull=False).select_related(
        "attempt", "trial").order_by("-attempt__number")
    if (own := known.filter(trial=trial_pk).first()) is not None:
        return own
    trial = Trial.objects.select_related("experiment").only(
        "continues", "experiment__tuner").get(pk=trial_pk)
    return next((found for before in trials_to_take_from(trial)[1:]
                 if (found := known.filter(trial=before).first()) is not None), None)


def _failed(attempt: ReportingAttempt, entry: contract.Entry, at: datetime) -> None:
    reason = Reason("checkpoint_failed", name=entry["name"], kept=entry["k"] > 0, problem=entry["problem"],
                    detail=entry["detail"])
    logger.warning("job %s: %s", attempt.job_name, reason)
    told = TrialEvent.objects.filter(trial=attempt.trial_pk, kind=FAILED)
    if told.count() < MOST_EVENTS:
        TrialEvent.objects.create(trial_id=attempt.trial_pk, at=at, kind=FAILED, message=printable(reason))
