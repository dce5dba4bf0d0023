"""What storing reports needs to know of the attempts they are about: one small question for a whole group of reports.

Asked by hand: the ORM takes longer to put the question together and to make objects of the answer than the database
takes to store the reports.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from nniweb.experiments.models import Attempt


@dataclass(slots=True)
class ReportingAttempt:
    """An attempt and its trial as they were when the group was begun, brought up to date by what the group stores."""

    pk: int
    job_name: str
    number: int
    stage: str
    token_hashes: list[str]
    #: "" until a journal owns it.
    journal_id: str
    accepted: int
    stored_bytes: int
    awaited_index: int
    #: How many metrics came by the service's listener.
    listened: int
    has_started: bool
    end_received_at: datetime | None
    trial_pk: int
    experiment_pk: int
    #: Of the trial: its status and target, and why it is wanted so.
    status: str
    target: str
    message: str
    reason: str
    reason_arguments: dict[str, Any]
    has_final: bool
    #: Whether it may ask for further parameter sets, each with a result of its own.
    is_multi_phase: bool
    #: Whether the experiment's assessor, or a tuner of its own, is told intermediate results.
    hears_results: bool
    #: Whether it runs in a warm place.
    is_in_place: bool
    #: Whether a page of it, or of its experiment, is open.
    is_watched: bool

    def row(self) -> Attempt:
        """The model's object with what is known here; its other columns are read when somebody asks for them."""
        known = {"id": self.pk, "trial_id": self.trial_pk, "number": self.number, "job_name": self.job_name,
                 "stage": self.stage}  # in the order of the model's fields, which Django counts on
        return Attempt.from_db(connection.alias, known, tuple(known.values()))


_COLUMNS = """SELECT a.id, a.job_name, a.number, a.stage, a.token_hashes, a.journal_id, a.accepted, a.stored_bytes,
 a.awaited_index, a.listened, a.started_at IS NOT NULL, a.end_received_at, t.id, t.experiment_id, t.status, t.target,
 t.message, t.reason, t.reason_arguments,
 t.final_value IS NOT NULL, e.multi_phase,
 e.assessor IS NOT NULL, e.tuner, a.place_id IS NOT NULL, t.watched_until, e.watched_until
 FROM experiments_attempt a JOIN experiments_trial t ON t.id = a.trial_id
 JOIN experiments_experiment e ON e.id = t.experiment_id WHERE a.job_name IN """


def reporting_attempts(job_names: Collection[str]) -> Mapping[str, ReportingAttempt]:
    """Those of these names that exist, by name."""
    with connection.cursor() as cursor:
        cursor.execute(f"{_COLUMNS}({', '.join(['%s'] * len(job_names))})", list(job_names))
        rows = cursor.fetchall()
    return {attempt.job_name: attempt for attempt in map(_read, rows)}


def has_newer_attempt(attempt: ReportingAttempt) -> bool:
    """Whether the trial's status and figures are another attempt's by now."""
    return attempt.stage == Attempt.Stage.ENDED and \
        Attempt.objects.filter(trial_id=attempt.trial_pk, number__gt=attempt.number).exists()


def _read(row: Sequence[Any]) -> ReportingAttempt:
    *values, has_assessor, tuner, is_in_place, trial_watched, experiment_watched = row
    values[4], values[11], values[18] = json.loads(row[4]), _time(row[11]), json.loads(row[18])
    values[20] = bool(row[20])
    values += [bool(has_assessor or json.loads(tuner).get("class_name")), bool(is_in_place),
               _is_to_come(trial_watched) or _is_to_come(experiment_watched)]
    return ReportingAttempt(*values)


def _is_to_come(stored: datetime | None) -> bool:
    at = _time(stored)
    return at is not None and at > datetime.now(UTC)


def _time(stored: datetime | None) -> datetime | None:
    """A time as the driver gives it; SQLite's says nothing of its zone, which is UTC."""
    return stored.replace(tzinfo=UTC) if stored is not None and stored.tzinfo is None else stored
