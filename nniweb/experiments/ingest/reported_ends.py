"""The end of a trial as its keeper tells it."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from nniweb.experiments.ingest.report_rows import ReportRows
from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.lifecycle.reason_columns import read
from nniweb.experiments.lifecycle.transitions import end_attempt
from nniweb.experiments.lifecycle.trial_end import (
    TrialEnd,
    held,
    platform_decides,
    told_by_keeper,
    with_platforms_word,
)
from nniweb.experiments.models import Attempt, TrialOutput
from nniweb.experiments.sql.selected_rows import select
from trialkeeper import contract


def end_as_reported(attempt: ReportingAttempt, entry: contract.Entry, at: datetime, rows: ReportRows,
                    revision: int) -> None:
    """End the attempt by its keeper's ``ended`` entry, unless the platform is to speak first."""
    # read now that the revision holds off whoever writes it
    [row] = select(Attempt, ("id", "observed_end", "end_reason"), "WHERE id = %s", [attempt.pk])  # each trial asks
    observed = row.observed_end or {}  # empty where the platform said nothing yet
    told = told_by_keeper(entry, attempt.target, read(attempt.message, attempt.reason, attempt.reason_arguments),
                          "" if entry["exit_code"] == 0 else _last_words(attempt.pk, rows),
                          has_result=attempt.has_final and not attempt.is_multi_phase,
                          was_frozen=row.end_reason == contract.FROZEN)
    if told.reason == contract.LOST and not told.duration and attempt.has_started:  # its keeper was of an older version
        began = attempt.row().started_at
        told = replace(told, duration=None if began is None else max(0.0, (at - began).total_seconds()),
                       by_keeper=False)
    by_platform = platform_decides(told, attempt.target, attempt.trial_pk)
    if by_platform and not observed:
        _hold(attempt.pk, told, at)
        return
    end = with_platforms_word(told, observed, attempt.target, by_platform)
    if end_attempt(attempt.row(), end, at, revision=revision):
        attempt.stage = Attempt.Stage.ENDED


def _hold(attempt_pk: int, told: TrialEnd, at: datetime) -> None:
    Attempt.objects.filter(pk=attempt_pk, observed_end__isnull=True).exclude(stage=Attempt.Stage.ENDED).update(
        observed_end_at=at, observed_end=held(told))


def _last_words(attempt_pk: int, rows: ReportRows) -> str:
    """The last line the trial wrote to stderr, as far as it has arrived."""
    pieces: list[Any] = [
        row.data for row in rows.output if row.attempt_id == attempt_pk and row.stream == "stderr"][-1:]
    if not pieces:
        here = TrialOutput.objects.filter(attempt=attempt_pk, stream="stderr", storage_path=None)
        pieces = list(here.order_by("-offset").values_list("data", flat=True)[:1])
    lines = bytes(pieces[0]).decode("utf-8", "replace").split("\n") if pieces else []
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
