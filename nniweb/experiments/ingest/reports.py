"""Stores what keepers report: many reports in one transaction, each entry exactly once.

Used by the keeper endpoints and by whatever else brings journals home. Thread-safe, blocking.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import DatabaseError, DataError, IntegrityError, connection, transaction
from django.utils import timezone

from nniweb.database.outage_logs import first_line, takes_nothing
from nniweb.experiments.ingest.one_report import Delivery, accept_report, authenticate, only_adds
from nniweb.experiments.ingest.report_answers import Answer, busy, later_parameters, refusal
from nniweb.experiments.ingest.report_rows import Overtaken, ReportRows
from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt, reporting_attempts
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.pubsub.drawn_revisions import experiments_rows
from nniweb.experiments.pubsub.revisions import take_for_reports
from nniweb.experiments.sql import database_health
from nniweb.experiments.sql.idle_connections import drop_connection
from trainingservice.receiver.report_reading import ReadReport, RefusedReport
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = logging.getLogger(__name__)


def store(deliveries: Sequence[Delivery]) -> list[Answer]:
    """Store all deliveries, answers in their order. When this returns the acknowledged entries are durable.

    An entry the database refuses for what is in it is isolated by halving and rejected; what goes wrong with the
    database itself (disk full, server gone, a damaged table) answers 503, and keepers keep their journals.
    """
    try:
        answers = _store_new(deliveries)
        database_health.note_written()
        experiments_rows.bring_up_to_date()
        return answers
    except DatabaseError as error:
        if takes_nothing(error):
            database_health.note_refused(error)
            logger.warning("reports are refused at the moment; the database's error: %s", first_line(error))
            if connection.vendor == "postgresql":
                drop_connection()
            return [busy("The server's database cannot take reports at the moment.") for _ in deliveries]
        if len(deliveries) > 1:
            return _store_halves(deliveries)
        if isinstance(error, DataError | IntegrityError):
            return [_store_without_poison(deliveries[0])]
        logger.error("a report of job %s is refused at the moment; the database is damaged, or not as this program "
                     "needs it: %s", deliveries[0].job_name, first_line(error))
        return [busy("The server's database cannot take this report at the moment.")]
    except Overtaken:
        if len(deliveries) > 1:
            return _store_halves(deliveries)
        return [busy("The same report is being stored already.")]


def _store_new(deliveries: Sequence[Delivery]) -> list[Answer]:
    """In one transaction; once more in another one where something is there already, which then stays as it is."""
    try:
        with transaction.atomic():
            return _store(deliveries, all_are_new=True)
    except IntegrityError:
        with transaction.atomic():
            return _store(deliveries)


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
        return busy("The same report is being stored already.")


def _refused_by_database(delivery: Delivery) -> Answer:
    """Nothing in it but the frame of the report is left to be at fault. The others' reports do not suffer from it."""
    logger.error("a report of job %s cannot be stored and is refused", delivery.job_name, exc_info=True)
    return refusal(400, contract.ERROR_UNREADABLE, "The database refused this report.")


def _with_lines(delivery: Delivery, lines: Any, rejected: tuple[contract.Rejected, ...]) -> Delivery:
    report = delivery.report
    return Delivery(delivery.job_name, delivery.token_hash,
                    ReadReport(report.keeper, report.sent_at, tuple(lines), rejected, None), delivery.received_at)


def _store(deliveries: Sequence[Delivery], *, all_are_new: bool = False) -> list[Answer]:
    attempts = reporting_attempts({delivery.job_name for delivery in deliveries})
    phases = later_parameters([attempt.pk for attempt in attempts.values() if attempt.is_multi_phase])
    revisions = _revisions_of(deliveries, attempts)
    rows = ReportRows(all_are_new)
    answers = []
    for delivery in deliveries:
        attempt = attempts.get(delivery.job_name)
        if attempt is None:
            answers.append(refusal(404, "unknown", "No trial job of this name is known here."))
            continue
        try:
            authenticate(attempt, delivery.token_hash, delivery.received_at)
            answers.append(accept_report(delivery, attempt, rows, revisions, phases))
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
    alone: set[int] = set()
    together: set[int] = set()
    for delivery in deliveries:
        attempt, lines = attempts.get(delivery.job_name), delivery.report.lines
        if attempt is None or delivery.report.replica:
            continue
        if (lines and lines[-1][0] > attempt.accepted) or attempt.status == TrialJobStatus.UNKNOWN:
            with suppress(RefusedReport):
                authenticate(attempt, delivery.token_hash, delivery.received_at)
                (together if only_adds(delivery.report, attempt) else alone).add(attempt.experiment_pk)
    revisions = take_for_reports(alone, together)
    if connection.vendor == "postgresql":
        experiments_rows.note({pk: revisions[pk] for pk in together - alone})
    return revisions


def received_now() -> datetime:
    return timezone.now()
