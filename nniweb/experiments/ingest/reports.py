"""Stores what keepers report: many reports in one transaction, each entry exactly once.

Used by the keeper endpoints and by whatever else brings journals home. Thread-safe, blocking.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from operator import itemgetter
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from nniweb.database.outage_logs import first_line, takes_nothing
from nniweb.experiments.ingest import refused_keeper
from nniweb.experiments.ingest.report_rows import Overtaken, ReportRows, corrected, corrected_times, for_database
from nniweb.experiments.ingest.report_size_limit import KeptEntries, within_limit
from nniweb.experiments.ingest.reported_ends import end_as_reported
from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt, has_newer_attempt, reporting_attempts
from nniweb.experiments.lifecycle.reasons import said
from nniweb.experiments.lifecycle.retries import SUSPENDED
from nniweb.experiments.lifecycle.transitions import attempt_started, move_trial
from nniweb.experiments.lifecycle.trial_end import stop_reason
from nniweb.experiments.models import Attempt, Trial, TrialParameters
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.results.other_metrics import Numbers
from nniweb.experiments.sql import database_health
from nniweb.experiments.sql.exact_text import to_bytes
from nniweb.experiments.sql.idle_connections import drop_connection
from trainingservice.receiver.report_reading import ReadReport, RefusedReport
from trainingservice.trial_job import parameter_text
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: How long after the server took an attempt's end its token still opens it: answers can be lost, keepers repeat
#: their last report and send files.
TOKEN_GRACE = timedelta(hours=25)
#: Seconds until a keeper shall report again though it has nothing to say; the second while its trial waits for
#: parameters that nobody has given yet.
NEXT_REPORT_WITHIN, NEXT_REPORT_WHILE_PARAMETERS_ARE_DUE = 10.0, 0.2
_NOTHING: Numbers = {}
_METRIC_FIELDS = itemgetter("n", "at", "kind", "parameter_id", "sequence", "value")


@dataclass
class Delivery:
    """One report on its way into the database."""

    job_name: str
    #: SHA-256 (hex) of the bearer token, None where the report does not come over HTTP.
    token_hash: str | None
    report: ReadReport
    received_at: datetime


@dataclass
class Answer:
    """What the sender is told: an HTTP status and the body."""

    status: int
    body: dict[str, Any]
    retry_after: int | None = None


def store(deliveries: Sequence[Delivery]) -> list[Answer]:
    """Store all deliveries, answers in their order. When this returns the acknowledged entries are durable.

    An entry the database refuses is isolated by halving and rejected; what goes wrong with the
    database itself (disk full, server gone) answers 503, and keepers keep their journals.
    """
    try:
        with transaction.atomic():
            answers = _store(deliveries)
        database_health.note_written()
        return answers
    except DatabaseError as error:
        if takes_nothing(error):
            database_health.note_refused(error)
            logger.warning("reports are refused for now: the database says %s", first_line(error))
            if connection.vendor == "postgresql":
                drop_connection()
            return [_busy("The server's database cannot take reports at the moment.") for _ in deliveries]
        return _store_halves(deliveries) if len(deliveries) > 1 else [_store_without_poison(deliveries[0])]
    except Overtaken:
        if len(deliveries) > 1:
            return _store_halves(deliveries)
        return [_busy("The same report is being stored already.")]


def _store_halves(deliveries: Sequence[Delivery]) -> list[Answer]:
    middle = len(deliveries) // 2
    return store(deliveries[:middle]) + store(deliveries[middle:])


def _store_without_poison(delivery: Delivery) -> Answer:
    """Halve a report the database refuses until the entry at fault stands alone; reject that one."""
    lines = delivery.report.lines
    if not lines:
        return _refused_by_database(delivery)
    if len(lines) > 1:
        rejected: list[contract.Rejected] = []
        for part in (lines[: len(lines) // 2], lines[len(lines) // 2:]):
            answer = store([_with_lines(delivery, part, ())])[0]
            if answer.status != 200:
                return answer
            rejected += answer.body["rejected"]
        answer.body["rejected"] = [*delivery.report.rejected, *rejected]
        return answer
    n = lines[0][0]
    logger.error("entry %d of job %s cannot be stored and is rejected", n, delivery.job_name, exc_info=True)
    refused: contract.Rejected = {"n": n, "field": "", "message": "the database refused this entry"}
    try:
        with transaction.atomic():
            return _store([_with_lines(delivery, ((n, None),), (*delivery.report.rejected, refused))])[0]
    except DatabaseError:
        return _refused_by_database(delivery)
    except Overtaken:
        return _busy("The same report is being stored already.")


def _refused_by_database(delivery: Delivery) -> Answer:
    """Nothing in it but the frame of the report is left to be at fault. The others' reports do not suffer from it."""
    logger.error("a report of job %s cannot be stored and is refused", delivery.job_name, exc_info=True)
    return _refusal(400, contract.ERROR_UNREADABLE, "The database refused this report.")


def _with_lines(delivery: Delivery, lines: Any, rejected: tuple[contract.Rejected, ...]) -> Delivery:
    report = delivery.report
    return Delivery(delivery.job_name, delivery.token_hash,
                    ReadReport(report.keeper, report.sent_at, tuple(lines), rejected, None), delivery.received_at)


def _store(deliveries: Sequence[Delivery]) -> list[Answer]:
    attempts = reporting_attempts({delivery.job_name for delivery in deliveries})
    phases = _later_parameters([attempt.trial_pk for attempt in attempts.values() if attempt.has_later_parameters])
    revisions = _revisions_of(deliveries, attempts)
    rows = ReportRows()
    answers = []
    for delivery in deliveries:
        attempt = attempts.get(delivery.job_name)
        if attempt is None:
            answers.append(_refusal(404, "unknown", "No trial job of this name is known here."))
            continue
        try:
            authenticate(attempt, delivery.token_hash, delivery.received_at)
            answers.append(_accept(delivery, attempt, rows, revisions, phases))
        except RefusedReport as error:
            answers.append(Answer(error.status, error.document(settings.INSTALLATION_ID)))
    rows.write()
    for pk in rows.calling:
        doorbell.ring_on_commit(pk)
    return answers


def _revisions_of(deliveries: Sequence[Delivery], attempts: Mapping[str, ReportingAttempt]) -> dict[int, int]:
    """The next revision of each experiment that these reports will change.

    Taken before any other row and in one order: two processes that store reports, or one and a worker, then never
    wait for each other in a circle. A report that is refused afterwards has taken a revision for nothing.
    """
    changed = set()
    for delivery in deliveries:
        attempt, lines = attempts.get(delivery.job_name), delivery.report.lines
        if attempt is None or delivery.report.replica:
            continue
        if (lines and lines[-1][0] > attempt.accepted) or attempt.status == TrialJobStatus.UNKNOWN:
            with suppress(RefusedReport):
                authenticate(attempt, delivery.token_hash, delivery.received_at)
                changed.add(attempt.experiment_pk)
    return {pk: next_revision(pk, needs_round=False) for pk in sorted(changed)}


def authenticate(attempt: Attempt | ReportingAttempt, token_hash: str | None, now: datetime) -> None:
    """Raises RefusedReport (401) unless the token opens this attempt; ``token_hash`` None is trusted."""
    expired = attempt.end_received_at is not None and now - attempt.end_received_at > TOKEN_GRACE
    if token_hash is not None and (token_hash not in attempt.token_hashes or expired):
        raise RefusedReport(401, contract.ERROR_TOKEN, "This token does not open this trial job.")


def _accept(delivery: Delivery, attempt: ReportingAttempt, rows: ReportRows, revisions: dict[int, int],
          phases: Mapping[int, list[contract.Order]]) -> Answer:
    report, now = delivery.report, delivery.received_at
    if report.replica:
        return _reply(attempt, report, phases, accepted=0)
    if attempt.journal_id and report.journal_id != attempt.journal_id:
        raise RefusedReport(409, contract.ERROR_CLAIMED, "Another keeper has claimed this attempt.")
    if not attempt.journal_id and attempt.number > 1 and Attempt.objects.filter(
            trial_id=attempt.trial_pk, journal_id=report.journal_id, end_reason=SUSPENDED).exists():
        raise RefusedReport(409, contract.ERROR_CLAIMED, "The attempt of this keeper has ended.")
    new = report.after(attempt.accepted)
    kept = within_limit(new.entries, attempt, settings.TRIAL_BYTES)
    _tell_of_limit(kept, attempt)
    rows.heard(attempt, accepted=new.accepted, now=for_database(now), stored_bytes=kept.stored_bytes,
               journal_id=attempt.journal_id or (report.journal_id if new.accepted else ""),
               parameter_index=report.keeper["parameter_index"],
               awaited=attempt.awaited_index if report.only_results
               else _awaited_index(kept.entries, attempt.awaited_index))
    if report.resources:
        rows.reading(attempt.pk, now, report.resources)

    is_back = attempt.status == TrialJobStatus.UNKNOWN and attempt.has_started and attempt.stage != Attempt.Stage.ENDED
    is_refuted = attempt.reason == refused_keeper.CODE
    if new.entries or is_back or is_refuted:
        revision = revisions.get(attempt.experiment_pk)
        if revision is None:
            revision = revisions[attempt.experiment_pk] = next_revision(attempt.experiment_pk, needs_round=False)
        if is_refuted:
            Trial.objects.filter(pk=attempt.trial_pk, message=attempt.message).update(revision=revision, **said(""))
            attempt.message = attempt.reason = ""
        if is_back:
            move_trial(attempt.trial_pk, TrialJobStatus.RUNNING, now, revision=revision, message="")
            attempt.status = TrialJobStatus.RUNNING
        _gather(kept.entries, attempt, delivery, rows, revision)
    return _reply(attempt, report, phases, accepted=new.accepted, left_out=kept.rejected)


def _tell_of_limit(kept: KeptEntries, attempt: ReportingAttempt) -> None:
    """Once for each attempt: what is left out leaves ``stored_bytes`` over the limit."""
    if kept.rejected and attempt.stored_bytes <= settings.TRIAL_BYTES:
        trial = attempt.row().trial
        logger.warning("job %s has sent more than %d MB of metrics and output; what comes now is not kept, its first "
                       "final result excepted (NNIWEB_TRIAL_MB)", attempt.job_name, settings.TRIAL_BYTES // 1_000_000,
                       extra={"experiment": trial.experiment.public_id, "trial": trial.public_id})


def _gather(entries: Sequence[contract.Entry], attempt: ReportingAttempt, delivery: Delivery, rows: ReportRows,
            revision: int) -> None:
    now = delivery.received_at
    received_at = for_database(now)
    # the trial machine's clock may be wrong: entries are moved by the difference seen on this report
    offset = now.timestamp() - delivery.report.sent_at if delivery.report.sent_at is not None else 0.0
    recorded_at = corrected_times(offset, now)
    intermediate: list[float | None] = []
    final: tuple[str, float | None] | None = None
    latest_others: dict[str, float] = {}
    final_others: Numbers = {}
    has_metrics, end = False, None
    for entry in entries:
        kind = entry["type"]
        if kind == contract.METRIC:
            n, at, metric, parameter_id, sequence, value = _METRIC_FIELDS(entry)
            has_metrics = True
            try:  # a number, as nearly always: without a call
                plain = float(value)
                number, others = plain if isfinite(plain) else None, _NOTHING
            except ValueError:
                number, others = rows.others.read(value, attempt.experiment_pk)
            if metric == contract.PERIODICAL:
                intermediate.append(number)
                latest_others |= others
            elif metric == contract.FINAL and final is None:
                final, final_others = (value, number), others
            rows.metrics.append((
                attempt.pk, n, metric, str(parameter_id) if type(parameter_id) is int else json.dumps(parameter_id),
                sequence, to_bytes(value), number, recorded_at(at), received_at, revision))
        elif kind == contract.OUTPUT:
            rows.output.append((attempt.pk, entry["stream"], entry["offset"], entry["data"].encode("latin-1"),
                                entry["skipped"], revision))
        elif kind == contract.STARTED:
            rows.started(attempt.pk, entry["host"], entry["working_directory"])
            attempt.has_started = True
            if attempt.stage != Attempt.Stage.ENDED:
                attempt_started(attempt.row(), corrected(entry["at"], offset, now), revision=revision,
                                by_keeper=True)
        else:
            end = entry
    if has_metrics and not has_newer_attempt(attempt):
        rows.show_on_trial(attempt.trial_pk, revision, intermediate, final)
        if latest_others or (final_others and not attempt.has_final):
            rows.others.keep(attempt.experiment_pk, attempt.trial_pk, {} if attempt.has_final else final_others,
                             latest_others)
        attempt.has_final = attempt.has_final or final is not None
    if end is not None or (intermediate and attempt.hears_results):
        rows.calling.add(attempt.experiment_pk)
    if end is not None:  # after the metrics: whoever sees the end sees the final value
        rows.write_trials()
        end_as_reported(attempt, end, corrected(end["at"], offset, now), rows, revision)


def _later_parameters(trial_pks: Sequence[int]) -> dict[int, list[contract.Order]]:
    """Parameters of index 1 and above (multi-phase trials), as orders, by trial."""
    if not trial_pks:
        return {}
    orders: dict[int, list[contract.Order]] = defaultdict(list)
    for row in TrialParameters.objects.filter(trial_id__in=trial_pks, index__gt=0).order_by("trial_id", "index"):
        text = parameter_text(row.value, row.parameter_id, index=row.index)
        orders[row.trial_id].append({"order": contract.ORDER_PARAMETERS, "index": row.index, "text": text})
    return orders


def _awaited_index(entries: Sequence[contract.Entry], before: int) -> int:
    """Index of the parameters the trial asked for last; a request that names none is passed over."""
    asked = [entry["value"] for entry in entries
             if entry["type"] == contract.METRIC and entry["kind"] == contract.REQUEST_PARAMETER]
    right = [int(text) for text in asked if text.isascii() and text.isdecimal() and len(text) < 10]
    return right[-1] if right else before


def _reply(attempt: ReportingAttempt, report: ReadReport, phases: Mapping[int, list[contract.Order]], accepted: int,
           left_out: Sequence[contract.Rejected] = ()) -> Answer:
    orders: list[contract.Order] = []
    holds = report.keeper["parameter_index"]
    if (attempt.target != TrialTarget.RUN or attempt.stage == Attempt.Stage.ENDED) and not report.tells_of_an_end:
        orders.append({"order": contract.ORDER_STOP, "reason": (
            stop_reason(attempt.target, attempt.message) if attempt.target != TrialTarget.RUN
            else "the trial has ended, or is tried again elsewhere")})
    later = phases.get(attempt.trial_pk, ())
    orders += [order for order in later if order["index"] > holds]
    due = attempt.awaited_index > holds and all(order["index"] != attempt.awaited_index for order in later)
    return Answer(200, {"installation": settings.INSTALLATION_ID, "accepted": accepted,
                        "rejected": [*report.rejected, *left_out], "orders": orders,
                        "next_report_within": NEXT_REPORT_WHILE_PARAMETERS_ARE_DUE if due else NEXT_REPORT_WITHIN})


def _refusal(status: int, error: str, message: str) -> Answer:
    return Answer(status, {"installation": settings.INSTALLATION_ID, "error": error, "message": message})


def _busy(message: str) -> Answer:
    answer = _refusal(503, contract.ERROR_BUSY, message)
    answer.retry_after = 1
    return answer


def received_now() -> datetime:
    return timezone.now()
