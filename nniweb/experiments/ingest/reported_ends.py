"""The end of a trial as its keeper tells it."""

from datetime import datetime
from typing import Any

from nniweb.experiments.ingest.report_rows import ReportRows
from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.lifecycle import external_termination
from nniweb.experiments.lifecycle.end_classification import classify_end, with_cause
from nniweb.experiments.lifecycle.reasons import read
from nniweb.experiments.lifecycle.transitions import end_attempt
from nniweb.experiments.models import Attempt, TrialOutput
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.sql.selected_rows import select
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


def end_as_reported(attempt: ReportingAttempt, entry: contract.Entry, at: datetime, rows: ReportRows,
                    revision: int) -> None:
    """Judge an ``ended`` entry, and end the attempt unless the platform is to speak first."""
    row = attempt.row()
    # read now that the revision holds off whoever writes it
    observed = _observed_end(attempt.pk)
    status, message = classify_end(entry["reason"], entry["exit_code"], entry["signal"], entry["message"],
                              attempt.target, read(attempt.message, attempt.reason, attempt.reason_arguments),
                              "" if entry["exit_code"] == 0 else _last_words(attempt.pk, rows))
    if attempt.target == TrialTarget.RUN and external_termination.must_be_held(row, entry["reason"]):
        if not observed:
            external_termination.hold(row, entry, status, message, at)
            return
        status = TrialJobStatus(observed["status"])
        message = read(observed["message"], observed.get("code", ""), observed.get("arguments", {})) or message
    message = with_cause(status, message, attempt.target, str(observed.get("cause") or ""))
    if end_attempt(row, status, at, revision=revision, message=message, reason=entry["reason"],
                   exit_code=entry["exit_code"], duration=entry["duration"]):
        attempt.stage = Attempt.Stage.ENDED


def _observed_end(attempt_pk: int) -> dict[str, Any]:
    """What the platform said of its end; empty where it said nothing yet. By hand: each trial asks."""
    [attempt] = select(Attempt, ("id", "observed_end"), "WHERE id = %s", [attempt_pk])
    return attempt.observed_end or {}


def _last_words(attempt_pk: int, rows: ReportRows) -> str:
    """The last line the trial wrote to stderr, as far as it has arrived."""
    pieces = [row[3] for row in rows.output if row[0] == attempt_pk and row[1] == "stderr"][-1:]
    if not pieces:
        pieces = list(TrialOutput.objects.filter(attempt=attempt_pk, stream="stderr").order_by("-offset")
                      .values_list("data", flat=True)[:1])
    lines = bytes(pieces[0]).decode("utf-8", "replace").split("\n") if pieces else []
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
