"""Stores metrics that a service told its listener: as a keeper's are stored, numbered by the host.

A keeper numbers what it reports. A listener is told metrics without numbers, perhaps once more after a restart, and
perhaps of a trial whose keeper reports the same. So each attempt counts what it was told by the listener, from
``FIRST_NUMBER`` on, and a metric that is there already is left out, whoever told it first (``known_metrics``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Max, Q

from nniweb.experiments.ingest.entry_times import ReportClock
from nniweb.experiments.ingest.known_metrics import FIRST_NUMBER, identity, known_metrics
from nniweb.experiments.ingest.one_report import tell_of_limit
from nniweb.experiments.ingest.report_answers import awaited_index
from nniweb.experiments.ingest.report_entries import store_entries
from nniweb.experiments.ingest.report_rows import ReportRows
from nniweb.experiments.ingest.report_size_limit import within_limit
from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt, reporting_attempts
from nniweb.experiments.lifecycle.transitions import move_trial
from nniweb.experiments.models import Attempt, Metric
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.pubsub.revisions import next_revision
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeardMetric:
    """What a listener was told: an entry without its number, or why there is none."""

    job_name: str
    entry: contract.Entry | None
    fault: str = ""


def store_heard(heard: Sequence[HeardMetric], cluster_pk: int, now: datetime) -> set[str]:
    """Store them, in their order, inside the caller's transaction. Returns the names of jobs that the cluster does not
    have, of which nothing is stored.
    """
    by_job: dict[str, list[HeardMetric]] = {}
    for metric in heard:
        by_job.setdefault(metric.job_name, []).append(metric)
    experiments = dict(Attempt.objects.filter(
        Q(cluster=cluster_pk) | Q(cluster=None, trial__experiment__cluster=cluster_pk), job_name__in=by_job
        ).values_list("job_name", "trial__experiment_id"))
    revisions = {pk: next_revision(pk, needs_round=False) for pk in sorted(set(experiments.values()))}
    # read only now: who stores a report of one of them takes its experiment's revision first
    attempts = reporting_attempts(set(experiments)) if experiments else {}
    rows = ReportRows()
    for job_name, attempt in attempts.items():
        its = by_job[job_name]
        _tell_of_faults(attempt, [metric.fault for metric in its if metric.fault])
        entries = [metric.entry for metric in its if metric.entry is not None]
        _store_of(attempt, entries, rows, revisions[attempt.experiment_pk], now)
    rows.write()
    for pk in rows.calling:
        doorbell.ring_on_commit(pk)
    return by_job.keys() - attempts.keys()


def _store_of(attempt: ReportingAttempt, entries: Sequence[contract.Entry], rows: ReportRows, revision: int,
              now: datetime) -> None:
    new = _numbered(attempt, _new(attempt, entries))
    if not new:
        return
    kept = within_limit(new, attempt, settings.TRIAL_BYTES)
    tell_of_limit(kept, attempt)
    rows.listened(attempt, listened=attempt.listened + len(new), stored_bytes=kept.stored_bytes,
                  awaited=awaited_index(kept.entries, attempt.awaited_index))
    if attempt.status == TrialJobStatus.UNKNOWN and attempt.stage != Attempt.Stage.ENDED:
        move_trial(attempt.trial_pk, TrialJobStatus.RUNNING, now, revision=revision, message="")
        attempt.status = TrialJobStatus.RUNNING.value
    store_entries(kept.entries, attempt, ReportClock(0.0, now), rows, revision)


def _new(attempt: ReportingAttempt, entries: Sequence[contract.Entry]) -> list[contract.Entry]:
    """Those that are not there yet. An intermediate result without a sequence number gets the next one, and is new."""
    entries = [{**entry, "sequence": 0} if entry["sequence"] is None and entry["kind"] != contract.PERIODICAL else entry
               for entry in entries]
    known = known_metrics(attempt.pk, [entry for entry in entries if entry["sequence"] is not None])
    following = _next_sequence(attempt.pk) if any(entry["sequence"] is None for entry in entries) else 0
    new = []
    for entry in entries:
        if entry["sequence"] is None:
            entry = {**entry, "sequence": following}
        elif identity(entry) in known:
            continue
        known.add(identity(entry))
        if entry["kind"] == contract.PERIODICAL:
            following = max(following, entry["sequence"] + 1)
        new.append(entry)
    return new


def _numbered(attempt: ReportingAttempt, entries: Iterable[contract.Entry]) -> list[contract.Entry]:
    return [{**entry, "n": FIRST_NUMBER + number} for number, entry in enumerate(entries, attempt.listened + 1)]


def _next_sequence(attempt_pk: int) -> int:
    last = Metric.objects.filter(attempt=attempt_pk, kind=contract.PERIODICAL).aggregate(last=Max("sequence"))["last"]
    return 0 if last is None else last + 1


def _tell_of_faults(attempt: ReportingAttempt, faults: Sequence[str]) -> None:
    if not faults:
        return
    trial = attempt.row().trial
    for fault in faults:
        logger.warning("trial %d: a metric that the platform's service emits cannot be read and is not stored: %s",
                       trial.sequence_id, fault,
                       extra={"experiment": trial.experiment.public_id, "trial": trial.public_id})
