"""Stores what keepers report: many reports in one transaction, each entry exactly once.

Used by the keeper endpoints and by whatever else brings journals home. Thread-safe, blocking.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import F, Value
from django.db.models.functions import Coalesce, NullIf
from django.utils import timezone

from nniweb.experiments import doorbell, outside_stops, room_to_write
from nniweb.experiments.exact_text import to_bytes
from nniweb.experiments.idle_connections import drop_connection
from nniweb.experiments.metric_number import number_in
from nniweb.experiments.models import Attempt, Experiment, Metric, TrialOutput, TrialParameters
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.readings import store_readings
from nniweb.experiments.report_room import KeptEntries, within_limit
from nniweb.experiments.retries import SUSPENDED, has_newer_attempt
from nniweb.experiments.revisions import next_revision
from nniweb.experiments.transitions import attempt_started, end_attempt, move_trial
from nniweb.experiments.verdict import stop_sentence, verdict, with_cause
from nniweb.outage_logs import first_line, takes_nothing
from trainingservice.report_reading import ReadReport, RefusedReport
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


@dataclass
class _Batch:
    """Rows gathered from the reports of one transaction."""

    metrics: list[tuple[Any, ...]] = field(default_factory=list)
    output: list[tuple[Any, ...]] = field(default_factory=list)
    readings: list[tuple[int, datetime, dict[str, Any]]] = field(default_factory=list)
    #: Experiments of which a trial ended, and those with new intermediate results (primary keys).
    ended: set[int] = field(default_factory=set)
    with_results: set[int] = field(default_factory=set)


def store(deliveries: Sequence[Delivery]) -> list[Answer]:
    """Store all deliveries, answers in their order. When this returns the acknowledged entries are durable.

    An entry the database refuses is isolated by halving and rejected; what goes wrong with the
    database itself (disk full, server gone) answers 503, and keepers keep their journals.
    """
    try:
        with transaction.atomic():
            answers = _store(deliveries)
        room_to_write.note_written()
        return answers
    except DatabaseError as error:
        if takes_nothing(error):
            room_to_write.note_refused(error)
            logger.warning("reports are refused for now: the database says %s", first_line(error))
            if connection.vendor == "postgresql":
                drop_connection()
            return [_busy("The server's database cannot take reports at the moment.") for _ in deliveries]
        if len(deliveries) > 1:
            middle = len(deliveries) // 2
            return store(deliveries[:middle]) + store(deliveries[middle:])
        return [_store_without_poison(deliveries[0])]


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


def _refused_by_database(delivery: Delivery) -> Answer:
    """Nothing in it but the frame of the report is left to be at fault. The others' reports do not suffer from it."""
    logger.error("a report of job %s cannot be stored and is refused", delivery.job_name, exc_info=True)
    return _refusal(400, contract.ERROR_UNREADABLE, "The database refused this report.")


def _with_lines(delivery: Delivery, lines: Any, rejected: tuple[contract.Rejected, ...]) -> Delivery:
    report = delivery.report
    return Delivery(delivery.job_name, delivery.token_hash,
                    ReadReport(report.keeper, report.sent_at, tuple(lines), rejected, None), delivery.received_at)


def _store(deliveries: Sequence[Delivery]) -> list[Answer]:
    names = {delivery.job_name for delivery in deliveries}
    attempts = {attempt.job_name: attempt for attempt in
                Attempt.objects.filter(job_name__in=names).select_related("trial").defer("platform_state")}
    phases = _later_parameters([attempt.trial_id for attempt in attempts.values()])
    revisions = _revisions_of(deliveries, attempts)
    batch = _Batch()
    answers = []
    for delivery in deliveries:
        attempt = attempts.get(delivery.job_name)
        if attempt is None:
            answers.append(_refusal(404, "unknown", "No trial job of this name is known here."))
            continue
        try:
            authenticate(attempt, delivery.token_hash, delivery.received_at)
            answers.append(_take(delivery, attempt, batch, revisions, phases))
        except RefusedReport as error:
            answers.append(Answer(error.status, error.document(settings.INSTALLATION_ID)))
    _write(batch)
    _call_workers(batch)
    return answers


def _call_workers(batch: _Batch) -> None:
    """Ring for the worker where something follows: an end frees a slot, an assessor waits for results."""
    heard = batch.with_results - batch.ended
    if heard:
        heard = set(Experiment.objects.hearing_results().filter(pk__in=heard).values_list("pk", flat=True))
    for pk in batch.ended | heard:
        doorbell.ring_on_commit(pk)


def _revisions_of(deliveries: Sequence[Delivery], attempts: Mapping[str, Attempt]) -> dict[int, int]:
    """The next revision of each experiment that these reports will change.

    Taken before any other row and in one order: two processes that store reports, or one and a worker, then never
    wait for each other in a circle. A report that is refused afterwards has taken a revision for nothing.
    """
    changed = set()
    for delivery in deliveries:
        attempt, lines = attempts.get(delivery.job_name), delivery.report.lines
        if attempt is None or delivery.report.replica:
            continue
        if (lines and lines[-1][0] > attempt.accepted) or attempt.trial.status == TrialJobStatus.UNKNOWN:
            with suppress(RefusedReport):
                authenticate(attempt, delivery.token_hash, delivery.received_at)
                changed.add(attempt.trial.experiment_id)
    return {pk: next_revision(pk, needs_round=False) for pk in sorted(changed)}


def authenticate(attempt: Attempt, token_hash: str | None, now: datetime) -> None:
    """Raises RefusedReport (401) unless the token opens this attempt; ``token_hash`` None is trusted."""
    expired = attempt.end_received_at is not None and now - attempt.end_received_at > TOKEN_GRACE
    if token_hash is not None and (token_hash not in attempt.token_hashes or expired):
        raise RefusedReport(401, contract.ERROR_TOKEN, "This token does not open this trial job.")


def _take(delivery: Delivery, attempt: Attempt, batch: _Batch, revisions: dict[int, int],
          phases: dict[int, list[contract.Order]]) -> Answer:
    report, now = delivery.report, delivery.received_at
    if report.replica:
        return _reply(attempt, report, phases, accepted=0)
    if attempt.journal_id and report.journal_id != attempt.journal_id:
        raise RefusedReport(409, contract.ERROR_CLAIMED, "Another keeper has claimed this attempt.")
    if not attempt.journal_id and attempt.number > 1 and Attempt.objects.filter(
            trial_id=attempt.trial_id, journal_id=report.journal_id, end_reason=SUSPENDED).exists():
        raise RefusedReport(409, contract.ERROR_CLAIMED, "The attempt of this keeper has ended.")
    new = report.after(attempt.accepted)
    kept = within_limit(new.entries, attempt, settings.TRIAL_BYTES)
    _tell_of_limit(kept, attempt)

    owns = attempt.journal_id or (report.journal_id if new.accepted else "")
    awaited = _awaited_index(kept.entries, attempt.awaited_index)
    if not _update_attempt(attempt, new.accepted, owns, awaited, kept.stored_bytes, report, now):
        return _busy("The same report is being stored already.")
    attempt.stored_bytes = kept.stored_bytes
    attempt.accepted, attempt.journal_id, attempt.awaited_index = new.accepted, owns, awaited
    if report.resources:
        batch.readings.append((attempt.pk, now, report.resources))

    is_back = attempt.trial.status == TrialJobStatus.UNKNOWN and attempt.started_at is not None \
        and attempt.stage != Attempt.Stage.ENDED
    if new.entries or is_back:
        experiment_pk = attempt.trial.experiment_id
        if experiment_pk not in revisions:
            revisions[experiment_pk] = next_revision(experiment_pk, needs_round=False)
        if is_back:
            move_trial(attempt.trial_id, TrialJobStatus.RUNNING, now, revision=revisions[experiment_pk], message="")
            attempt.trial.status = TrialJobStatus.RUNNING
        _gather(kept.entries, attempt, delivery, batch, revisions[experiment_pk])
    return _reply(attempt, report, phases, accepted=new.accepted, left_out=kept.rejected)


def _tell_of_limit(kept: KeptEntries, attempt: Attempt) -> None:
    """Once for each attempt: what is left out leaves ``stored_bytes`` over the limit."""
    if kept.rejected and attempt.stored_bytes <= settings.TRIAL_BYTES:
        logger.warning("job %s has sent more than %d MB of metrics and output; what comes now is not kept, its first "
                       "final result excepted (NNIWEB_TRIAL_MB)", attempt.job_name, settings.TRIAL_BYTES // 1_000_000,
                       extra={"experiment": attempt.trial.experiment.public_id, "trial": attempt.trial.public_id})


def _update_attempt(attempt: Attempt, accepted: int, journal_id: str, awaited: int, stored_bytes: int,
                    report: ReadReport, now: datetime) -> bool:
    """Write how far the journal is, unless another process did since the row was read; False then.

    By hand: this is the one statement every report needs, and the ORM takes five times as long to
    put it together as the database to carry it out.
    """
    columns = ("accepted = %s, journal_id = %s, heard_at = %s, unseen_since = NULL, parameter_index = %s,"
               " awaited_index = %s, stored_bytes = %s")
    values = [accepted, journal_id, _time_adapter()(now), report.keeper["parameter_index"], awaited, stored_bytes]
    if report.resources:
        columns += ", resources = %s"
        values.append(connection.ops.adapt_json_value(report.resources, None))
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE experiments_attempt SET {columns} WHERE id = %s AND accepted = %s AND journal_id = %s",
                       [*values, attempt.pk, attempt.accepted, attempt.journal_id])
        return bool(cursor.rowcount)


def _gather(entries: Sequence[contract.Entry], attempt: Attempt, delivery: Delivery, batch: _Batch,
            revision: int) -> None:
    now = delivery.received_at
    adapted = _time_adapter()
    received_at = adapted(now)
    # the trial machine's clock may be wrong: entries are moved by the difference seen on this report
    offset = now.timestamp() - delivery.report.sent_at if delivery.report.sent_at is not None else 0.0
    metrics: list[tuple[contract.Entry, float | None]] = []
    for entry in entries:
        kind = entry["type"]
        if kind == contract.METRIC:
            number = number_in(entry["value"])
            metrics.append((entry, number))
            batch.metrics.append((
                attempt.pk, entry["n"], entry["kind"], _id_text(entry["parameter_id"]), entry["sequence"],
                to_bytes(entry["value"]), number, adapted(_corrected(entry["at"], offset, now)), received_at,
                revision))
        elif kind == contract.OUTPUT:
            batch.output.append((attempt.pk, entry["stream"], entry["offset"], entry["data"].encode("latin-1"),
                                 entry["skipped"], revision))
        elif kind == contract.STARTED:
            # the name by which the platform knows the machine is better than the one it has for itself
            Attempt.objects.filter(pk=attempt.pk).update(
                machine_name=Coalesce(NullIf(F("machine_name"), Value("")), Value(entry["host"])),
                working_directory=entry["working_directory"])
            if attempt.stage != Attempt.Stage.ENDED:
                attempt_started(attempt, _corrected(entry["at"], offset, now), revision=revision)
    if metrics and not has_newer_attempt(attempt):
        _show_on_trial(attempt, metrics, revision)
    if any(entry["kind"] == contract.PERIODICAL for entry, _ in metrics):
        batch.with_results.add(attempt.trial.experiment_id)
    for entry in entries:  # after the metrics: whoever sees the end sees the final value
        if entry["type"] == contract.ENDED:
            batch.ended.add(attempt.trial.experiment_id)
            _end(attempt, entry, _corrected(entry["at"], offset, now), batch, revision)


def _show_on_trial(attempt: Attempt, metrics: Sequence[tuple[contract.Entry, float | None]], revision: int) -> None:
    """Keep the trial's row ready for tables: latest intermediate result, their count, the first final value."""
    trial = attempt.trial
    intermediate = [number for entry, number in metrics if entry["kind"] == contract.PERIODICAL]
    final = next(((entry["value"], number) for entry, number in metrics if entry["kind"] == contract.FINAL), None)
    assignments, values = ["revision = %s"], [revision]
    if intermediate:
        assignments += ["intermediate_count = intermediate_count + %s", "latest_number = COALESCE(%s, latest_number)"]
        values += [len(intermediate), next((n for n in reversed(intermediate) if n is not None), None)]  # type: ignore[list-item]
    if final is not None:
        # CASE looks at the row as it was, so the first final value stays, number and text together
        assignments += ["final_number = CASE WHEN final_value IS NULL THEN %s ELSE final_number END",
                        "final_value = COALESCE(final_value, %s)"]
        values += [final[1], to_bytes(final[0])]  # type: ignore[list-item]
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE experiments_trial SET {', '.join(assignments)} WHERE id = %s", [*values, trial.pk])


def _end(attempt: Attempt, entry: contract.Entry, at: datetime, batch: _Batch, revision: int) -> None:
    # read now that the revision holds off whoever writes it
    observed = Attempt.objects.filter(pk=attempt.pk).values_list("observed_end", flat=True).get() or {}
    status, message = verdict(entry["reason"], entry["exit_code"], entry["signal"], entry["message"],
                              attempt.trial.target, attempt.trial.message,
                              "" if entry["exit_code"] == 0 else _last_words(attempt, batch))
    if attempt.trial.target == TrialTarget.RUN and outside_stops.must_be_held(attempt, entry["reason"]):
        if not observed:
            outside_stops.hold(attempt, entry, status, message, at)
            return
        status, message = TrialJobStatus(observed["status"]), observed["message"] or message
    message = with_cause(status, message, attempt.trial.target, str(observed.get("cause") or ""))
    if end_attempt(attempt, status, at, revision=revision, message=message, reason=entry["reason"],
                   exit_code=entry["exit_code"], duration=entry["duration"]):
        attempt.stage, attempt.ended_at = Attempt.Stage.ENDED, at


def _last_words(attempt: Attempt, batch: _Batch) -> str:
    """The last line the trial wrote to stderr, as far as it has arrived."""
    pieces = [row[3] for row in batch.output if row[0] == attempt.pk and row[1] == "stderr"][-1:]
    if not pieces:
        pieces = list(TrialOutput.objects.filter(attempt=attempt, stream="stderr").order_by("-offset")
                      .values_list("data", flat=True)[:1])
    lines = bytes(pieces[0]).decode("utf-8", "replace").split("\n") if pieces else []
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def _corrected(at: float, offset: float, now: datetime) -> datetime:
    """The entry's time by the server's clock, never in the future."""
    try:
        return min(datetime.fromtimestamp(at + offset, UTC), now)
    except (OverflowError, ValueError, OSError):
        return now


def _write(batch: _Batch) -> None:
    with connection.cursor() as cursor:
        if batch.metrics:
            cursor.executemany(
                f"INSERT INTO {Metric._meta.db_table} (attempt_id, n, kind, parameter_id, sequence, value, number,"
                " recorded_at, received_at, revision) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING", batch.metrics)
        if batch.output:
            cursor.executemany(
                f'INSERT INTO {TrialOutput._meta.db_table} (attempt_id, stream, "offset", data, skipped, revision)'
                " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING", batch.output)
    store_readings(batch.readings)


def _time_adapter() -> Callable[[datetime], Any]:
    """Makes a time (UTC) what this database's driver wants; on SQLite what Django writes, in a tenth of the time."""
    if connection.vendor == "sqlite":
        return lambda at: at.replace(tzinfo=None).isoformat(" ")
    return connection.ops.adapt_datetimefield_value


def _id_text(parameter_id: Any) -> str:
    """JSON text of a parameter id, which is nearly always a number."""
    return str(parameter_id) if type(parameter_id) is int else json.dumps(parameter_id)


def _later_parameters(trial_pks: Sequence[int]) -> dict[int, list[contract.Order]]:
    """Parameters of index 1 and above (multi-phase trials), as orders, by trial."""
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


def _reply(attempt: Attempt, report: ReadReport, phases: dict[int, list[contract.Order]], accepted: int,
           left_out: Sequence[contract.Rejected] = ()) -> Answer:
    orders: list[contract.Order] = []
    trial, holds = attempt.trial, report.keeper["parameter_index"]
    if any(entry["type"] == contract.ENDED for entry in report.entries):
        pass  # there is nothing left to stop
    elif trial.target != TrialTarget.RUN:
        orders.append({"order": contract.ORDER_STOP, "reason": stop_sentence(trial.target, trial.message)})
    elif attempt.stage == Attempt.Stage.ENDED:
        orders.append({"order": contract.ORDER_STOP, "reason": "the trial has ended, or is tried again elsewhere"})
    later = phases.get(attempt.trial_id, ())
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
