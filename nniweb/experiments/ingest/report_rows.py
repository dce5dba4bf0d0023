"""The rows that a group of reports becomes: gathered while reports are taken, written with a statement for each kind.

One statement for all reports, put together by hand: one for each report was most of what a report cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from typing import Any

from django.db import connection

from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.ingest.resource_samples import store_readings
from nniweb.experiments.ingest.row_statements import (
    FINAL,
    HEARD,
    LISTENED,
    METRIC,
    OUTPUT,
    PROGRESS,
    RESOURCES,
    REVISION,
    STARTED,
    FinalRow,
    HeardRow,
    ListenedRow,
    MetricRow,
    OutputRow,
    ProgressRow,
    ResourcesRow,
    RevisionRow,
    StartedRow,
    change_rows,
    write_rows,
)
from nniweb.experiments.results.other_metrics import OtherMetrics
from nniweb.experiments.sql.exact_text import to_bytes


class Overtaken(Exception):
    """Another process has stored a report of the same attempt since this group's attempts were read."""


@dataclass
class ReportRows:
    """Used within one transaction. Rows of one kind are written in the order in which they came.

    ``all_are_new``: as of ``write_rows``.
    """

    all_are_new: bool = False

    metrics: list[MetricRow] = field(default_factory=list)
    output: list[OutputRow] = field(default_factory=list)
    #: Experiments whose worker has something to do now: an end frees a slot, an assessor waits for results.
    calling: set[int] = field(default_factory=set)
    #: Metrics beside the results; written at once.
    others: OtherMetrics = field(default_factory=OtherMetrics)
    _heard: list[HeardRow] = field(default_factory=list)
    _listened: list[ListenedRow] = field(default_factory=list)
    _started: list[StartedRow] = field(default_factory=list)
    _resources: list[ResourcesRow] = field(default_factory=list)
    _readings: list[tuple[int, datetime, dict[str, Any]]] = field(default_factory=list)
    _revisions: list[RevisionRow] = field(default_factory=list)
    _progress: list[ProgressRow] = field(default_factory=list)
    _finals: list[FinalRow] = field(default_factory=list)

    def heard(self, attempt: ReportingAttempt, *, accepted: int, journal_id: str, parameter_index: int, awaited: int,
              stored_bytes: int, now: Any, within: float) -> None:
        """How far the attempt's journal is; ``now`` as ``for_database`` makes it; ``within``: seconds to the next."""
        self._heard.append(HeardRow(
            attempt.pk, accepted, journal_id, now, ceil(within), parameter_index, awaited, stored_bytes,
            was_accepted=attempt.accepted, was_of=attempt.journal_id,
            was_listened=attempt.listened))
        attempt.accepted, attempt.journal_id = accepted, journal_id
        attempt.awaited_index, attempt.stored_bytes = awaited, stored_bytes

    def listened(self, attempt: ReportingAttempt, *, listened: int, stored_bytes: int, awaited: int) -> None:
        """How much its service has told the listener."""
        self._listened.append(ListenedRow(attempt.pk, listened, stored_bytes, awaited))
        attempt.listened, attempt.stored_bytes, attempt.awaited_index = listened, stored_bytes, awaited

    def started(self, attempt_pk: int, host: str, working_directory: str) -> None:
        """Where it runs, as its keeper says."""
        self._started.append(StartedRow(attempt_pk, host, working_directory))

    def reading(self, attempt_pk: int, at: datetime, data: dict[str, Any]) -> None:
        self._resources.append(ResourcesRow(attempt_pk, connection.ops.adapt_json_value(data, None)))
        self._readings.append((attempt_pk, at, data))

    def show_on_trial(self, trial_pk: int, revision: int, intermediate: Sequence[float | None],
                      final: tuple[str, float | None] | None) -> None:
        """Keep the trial's row ready for tables: latest intermediate result, their count, the first final value."""
        if intermediate:
            latest = next((number for number in reversed(intermediate) if number is not None), None)
            self._progress.append(ProgressRow(trial_pk, revision, len(intermediate), latest))
        elif final is None:
            self._revisions.append(RevisionRow(trial_pk, revision))
        if final is not None:
            self._finals.append(FinalRow(trial_pk, revision, final[1], to_bytes(final[0])))

    def write_trials(self) -> None:
        """Write what trials show now, before an end that looks at it."""
        change_rows(REVISION, self._revisions)
        change_rows(PROGRESS, self._progress)
        change_rows(FINAL, self._finals)
        for rows in (self._revisions, self._progress, self._finals):
            rows.clear()

    def write(self) -> None:
        """Write everything. Raises Overtaken."""
        if change_rows(HEARD, self._heard) != len(self._heard):
            raise Overtaken
        change_rows(LISTENED, self._listened)
        self.write_trials()
        change_rows(STARTED, self._started)
        write_rows(METRIC, self.metrics, all_are_new=self.all_are_new)
        write_rows(OUTPUT, self.output, all_are_new=self.all_are_new)
        change_rows(RESOURCES, self._resources)
        store_readings(self._readings)
