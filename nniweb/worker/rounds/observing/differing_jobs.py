"""Which jobs the rows say something else of than the platform does.

Each look asks this of all jobs of a cluster, most of which run as they did before. So what is compared is read as plain
values, and rows become objects only of the jobs that differ.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from nniweb.experiments.lifecycle.heartbeats import SHORTEST, missed_after
from nniweb.experiments.models import Attempt, Trial
from nniweb.experiments.models.trial import RESTS
from nniweb.experiments.sql.exact_text import printable
from nniweb.experiments.sql.selected_rows import places, reading_of
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

#: Tags of a job that are taken over, and how long one may be.
MOST_TAGS, MOST_OF_TAG = 20, 64


class KnownJob(NamedTuple):
    """What the rows say of an attempt that has not ended, and of its trial, as the database gives it."""

    attempt_pk: int
    job_name: str
    stage: str
    journal_id: str | None
    is_unseen: bool
    heard_at: Any
    report_within: int | None
    url: str
    machine_name: str
    working_directory: str
    interpreter: str
    interpreter_version: str
    #: JSON texts.
    platform_state: str
    tags: str
    status: str
    target: str
    message: str


_STATEMENT = f"""
    SELECT a.id, a.job_name, a.stage, a.journal_id, a.unseen_since IS NOT NULL, a.heard_at, a.report_within, a.url,
           a.machine_name, a.working_directory, a.interpreter, a.interpreter_version, a.platform_state, a.tags,
           t.status, t.target, t.message
    FROM {Attempt._meta.db_table} a JOIN {Trial._meta.db_table} t ON t.id = a.trial_id
    WHERE a.stage <> '{Attempt.Stage.ENDED.value}' AND a.job_name IN """


def known_jobs(job_names: Sequence[str]) -> list[KnownJob]:
    """Of those of these names that have not ended."""
    if not job_names:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT + places(job_names), job_names)
        return [KnownJob(*row) for row in cursor.fetchall()]


def differs(known: KnownJob, detail: TrialJobDetail, now: datetime) -> bool:
    """Whether the rows say something else than the platform, of a job that has not ended by its word either."""
    if detail.status is TrialJobStatus.UNKNOWN:
        return (not known.is_unseen and not _was_just_heard(known, now)
                or says_what_is_not_known(known.status, known.message, detail))
    return (has_been_suspended(known.journal_id, detail)
            or was_interrupted(known.journal_id, known.status, detail)
            or known.status != detail.status and not (known.status == "RUNNING" and known.journal_id)
            or says_why_it_waits(known.stage, known.target, detail) and known.message != printable(detail.message)
            or known.is_unseen
            or facts(detail).items() - _facts_of(known).items() != set()
            or _is_other(known.platform_state, detail.platform_state)
            or _is_other(known.tags, tags_of(detail)))


def has_been_suspended(journal_id: str | None, detail: TrialJobDetail) -> bool:
    """Whether a run has begun that is over now, though the job is not."""
    return detail.suspended and bool(journal_id)


def was_interrupted(journal_id: str | None, status: str, detail: TrialJobDetail) -> bool:
    """Whether nothing runs now of a trial that is shown as running, and that the platform runs again."""
    return detail.interrupted and bool(journal_id) and status == TrialJobStatus.RUNNING


def says_why_it_waits(stage: str, target: str, detail: TrialJobDetail) -> bool:
    """Whether the platform knows best why the trial waits: not of one that is still to be handed over, or is to be
    frozen.
    """
    return detail.status is TrialJobStatus.WAITING and stage != Attempt.Stage.SUBMITTING and target not in RESTS


def says_what_is_not_known(status: str, message: str, detail: TrialJobDetail) -> bool:
    """Whether the platform has something to say, other than what stands there, of a trial that nobody knows better."""
    return (status in (TrialJobStatus.WAITING, TrialJobStatus.UNKNOWN) and bool(detail.message)
            and message != printable(detail.message))


def facts(detail: TrialJobDetail) -> dict[str, str]:
    """What is taken over as it is; a keeper's own report may know better, so empty ones are left out."""
    facts = {"url": detail.url, "machine_name": detail.machine, "working_directory": detail.working_directory}
    return {name: value for name, value in (facts | interpreter_of(detail)).items() if value}


def interpreter_of(detail: TrialJobDetail) -> dict[str, str]:
    """The fact that no keeper knows: which Python the command runs; {} where the platform has not looked."""
    if detail.interpreter is None:
        return {}
    return {"interpreter": printable(detail.interpreter.path),
            "interpreter_version": printable(detail.interpreter.version)[:40]}


def tags_of(detail: TrialJobDetail) -> list[str]:
    """The platform's tags of a job, as far as a trial can carry them."""
    return [tag for tag in dict.fromkeys(map(str, detail.tags)) if tag.strip() and printable(tag, MOST_OF_TAG) == tag
            ][:MOST_TAGS] if detail.tags else []


def _facts_of(known: KnownJob) -> dict[str, str]:
    return {"url": known.url, "machine_name": known.machine_name, "working_directory": known.working_directory,
            "interpreter": known.interpreter, "interpreter_version": known.interpreter_version}


def _is_other(text: str, value: Collection[Any]) -> bool:
    """Whether a JSON text stands for something else. Most are empty, which nobody need parse."""
    return bool(value) if text in ("{}", "[]") else bool(json.loads(text) != value)


def _was_just_heard(known: KnownJob, now: datetime) -> bool:
    """Whether its keeper is one of so many that writing down of each of them, again and again, that the platform does
    not see it, and that it was heard nevertheless, would be most of what the database does.
    """
    if known.heard_at is None or (known.report_within or SHORTEST) <= SHORTEST:
        return False
    heard_at: datetime = reading_of(Attempt, "heard_at")(known.heard_at)
    return now - heard_at < missed_after(known.report_within, 0.0)
