"""One report of a keeper becomes rows, within the transaction of its group."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from nniweb.experiments.ingest.checkpoint_entries import without_unknown
from nniweb.experiments.ingest.entry_times import clock_of_report, for_database
from nniweb.experiments.ingest.known_metrics import without_heard
from nniweb.experiments.ingest.report_answers import Answer, awaited_index, reply
from nniweb.experiments.ingest.report_entries import store_entries
from nniweb.experiments.ingest.report_gathering import gathering
from nniweb.experiments.ingest.report_intervals import intervals
from nniweb.experiments.ingest.report_rows import ReportRows
from nniweb.experiments.ingest.report_size_limit import KeptEntries, within_limit
from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.lifecycle import heartbeats
from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.lifecycle.retries import SUSPENDED
from nniweb.experiments.lifecycle.transitions import move_trial
from nniweb.experiments.models import Attempt, Trial
from nniweb.experiments.pubsub.revisions import next_revision
from trainingservice.receiver.report_reading import ReadReport, RefusedReport
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: How long after the server took an attempt's end its token still opens it: answers can be lost, keepers repeat
#: their last report and send files.
TOKEN_GRACE = timedelta(hours=25)
#: The code with which a trial says that its keeper was refused: it speaks now, so that is over.
_REFUSED_FOR_ITS_VERSION = "keeper_version"
#: Types of entries that add rows of their own and change no more than what their trial shows.
_ADDING = frozenset({contract.METRIC, contract.OUTPUT})


@dataclass
class Delivery:
    """One report on its way into the database."""

    job_name: str
    #: SHA-256 (hex) of the bearer token, None where the report does not come over HTTP.
    token_hash: str | None
    report: ReadReport
    received_at: datetime


def authenticate(attempt: Attempt | ReportingAttempt, token_hash: str | None, now: datetime) -> None:
    """Raises RefusedReport (401) unless the token opens this attempt; ``token_hash`` None is trusted."""
    expired = attempt.end_received_at is not None and now - attempt.end_received_at > TOKEN_GRACE
    if token_hash is not None and (token_hash not in attempt.token_hashes or expired):
        raise RefusedReport(401, contract.ERROR_TOKEN, "This token is not valid for this trial job.")


def only_adds(report: ReadReport, attempt: ReportingAttempt) -> bool:
    """Whether a report brings nothing but metrics and output of an attempt that runs: others of its experiment may be
    stored at the same time.
    """
    return (attempt.status == TrialJobStatus.RUNNING and attempt.has_started and attempt.stage != Attempt.Stage.ENDED
            and attempt.reason != _REFUSED_FOR_ITS_VERSION
            and all(entry is None or entry["type"] in _ADDING for _, entry in report.lines))


def accept_report(delivery: Delivery, attempt: ReportingAttempt, rows: ReportRows, revisions: dict[int, int],
                  phases: Mapping[int, list[contract.Order]]) -> Answer:
    """Take what is new of the report into ``rows``. Raises RefusedReport; then nothing of it was taken.

    ``revisions``: by experiment, of those that the group changes. ``phases``: orders of multi-phase trials, by attempt.
    """
    report, now = delivery.report, delivery.received_at
    if report.replica:
        return reply(attempt, report, phases, heartbeats.SHORTEST, accepted=0)
    _check_claim(report, attempt)
    new = report.after(attempt.accepted)
    entries = without_heard(new.entries, attempt) if attempt.listened else new.entries
    unknown: list[contract.Rejected] = []
    if not report.only_results and any(entry["type"] == contract.CHECKPOINT for entry in entries):
        entries, unknown = without_unknown(entries, attempt.pk)
    kept = within_limit(entries, attempt, settings.TRIAL_BYTES)
    tell_of_limit(kept, attempt)
    within = intervals.next_report_within(attempt, has_news=bool(report.lines))
    gather_for = 0.0
    if report.lines:
        gathering.came(1)
        gather_for = 0.0 if report.tells_of_an_end else gathering.seconds_for(attempt)
    rows.heard(attempt, accepted=new.accepted, now=for_database(now), stored_bytes=kept.stored_bytes, within=within,
               journal_id=attempt.journal_id or (report.journal_id if new.accepted else ""),
               parameter_index=report.keeper["parameter_index"],
               awaited=attempt.awaited_index if report.only_results
               else awaited_index(kept.entries, attempt.awaited_index))
    if report.resources:
        rows.reading(attempt.pk, now, report.resources)
    is_back = attempt.status == TrialJobStatus.UNKNOWN and attempt.has_started and attempt.stage != Attempt.Stage.ENDED
    is_refuted = attempt.reason == _REFUSED_FOR_ITS_VERSION
    if new.entries or is_back or is_refuted:
        revision = revisions.get(attempt.experiment_pk)
        if revision is None:
            revision = revisions[attempt.experiment_pk] = next_revision(attempt.experiment_pk, needs_round=False)
        if is_refuted:
            _forget_refusal(attempt, revision)
        if is_back:
            move_trial(attempt.trial_pk, TrialJobStatus.RUNNING, now, revision=revision, message="")
            attempt.status = TrialJobStatus.RUNNING
        store_entries(kept.entries, attempt, clock_of_report(report.sent_at, now), rows, revision)
    return reply(attempt, report, phases, within, accepted=new.accepted, left_out=[*unknown, *kept.rejected],
                 gather_for=gather_for)


def _check_claim(report: ReadReport, attempt: ReportingAttempt) -> None:
    """Raises RefusedReport (409) where another keeper owns the attempt."""
    if attempt.journal_id and report.journal_id != attempt.journal_id:
        raise RefusedReport(409, contract.ERROR_CLAIMED, "Another keeper has claimed this attempt.")
    if not attempt.journal_id and attempt.number > 1 and Attempt.objects.filter(
            trial_id=attempt.trial_pk, journal_id=report.journal_id, end_reason=SUSPENDED).exists():
        raise RefusedReport(409, contract.ERROR_CLAIMED, "The attempt of this keeper has ended.")


def _forget_refusal(attempt: ReportingAttempt, revision: int) -> None:
    Trial.objects.filter(pk=attempt.trial_pk, message=attempt.message).update(revision=revision, **said(""))
    attempt.message = attempt.reason = ""


def tell_of_limit(kept: KeptEntries, attempt: ReportingAttempt) -> None:
    """Once for each attempt: what is left out leaves ``stored_bytes`` over the limit."""
    if kept.rejected and attempt.stored_bytes <= settings.TRIAL_BYTES:
        trial = attempt.row().trial
        logger.warning("job %s has sent more than %d MB of metrics and output (NNIWEB_TRIAL_MB); further ones are not "
                       "stored, except its first final result", attempt.job_name, settings.TRIAL_BYTES // 1_000_000,
                       extra={"experiment": trial.experiment.public_id, "trial": trial.public_id})
