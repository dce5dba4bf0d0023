"""The entries of one report become rows: metrics, output, the trial's start and end."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from operator import itemgetter

from nniweb.experiments.ingest.checkpoint_entries import keep_checkpoint_entry
from nniweb.experiments.ingest.entry_times import ReportClock, for_database
from nniweb.experiments.ingest.report_rows import ReportRows
from nniweb.experiments.ingest.reported_ends import end_as_reported
from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt, has_newer_attempt
from nniweb.experiments.ingest.results_of_sets import SetResult, keep_results_of_sets
from nniweb.experiments.ingest.row_statements import MetricRow, OutputRow
from nniweb.experiments.ingest.told_once import note_metric_problems, note_warm_start
from nniweb.experiments.lifecycle.transitions import attempt_continued, attempt_started
from nniweb.experiments.models import Attempt
from nniweb.experiments.results.other_metrics import Numbers
from nniweb.experiments.sql.exact_text import to_bytes
from trialkeeper import contract

_NOTHING: Numbers = {}
_METRIC_FIELDS = itemgetter("n", "at", "kind", "parameter_id", "sequence", "value")


@dataclass(slots=True)
class _Results:
    """What the entries say that the trial's own row shows."""

    has_metrics: bool = False
    #: In their order; None where a result is no number.
    intermediate: list[float | None] = field(default_factory=list)
    #: The first one: its text, and its number where it is one.
    final: tuple[str, float | None] | None = None
    #: Where it may ask for further parameter sets: all final results, in their order, with their parameter ids.
    of_sets: list[SetResult] = field(default_factory=list)
    asks_for_parameters: bool = False
    #: The machine's own name, where the trial has started with these entries.
    host: str = ""
    #: Metrics beside the results, by name: the latest of each, and those of the final result.
    latest_others: dict[str, float] = field(default_factory=dict)
    final_others: Numbers = field(default_factory=dict)


def store_entries(entries: Sequence[contract.Entry], attempt: ReportingAttempt, clock: ReportClock, rows: ReportRows,
                  revision: int) -> None:
    """Metrics and output first, then what the trial shows, then its end: whoever sees the end sees the final value."""
    results, end = _gather(entries, attempt, clock, rows, revision)
    if results.has_metrics and not has_newer_attempt(attempt):
        _show(results, attempt, rows, revision)
    if end is not None or results.of_sets or results.asks_for_parameters \
            or (results.intermediate and attempt.hears_results):
        rows.calling.add(attempt.experiment_pk)
    if end is not None:
        if end["warm_start"] is not None:
            note_warm_start(attempt, end["warm_start"], clock.corrected(end["at"]), results.host)
        note_metric_problems(attempt, end["metric_problems"], clock.corrected(end["at"]))
        if end["gpu_peak"] is not None:
            Attempt.objects.filter(pk=attempt.pk).update(gpu_peak=end["gpu_peak"])
        rows.write_trials()
        end_as_reported(attempt, end, clock.corrected(end["at"]), rows, revision)


def _gather(entries: Sequence[contract.Entry], attempt: ReportingAttempt, clock: ReportClock, rows: ReportRows,
            revision: int) -> tuple[_Results, contract.Entry | None]:
    """The results and the ``ended`` entry, if there is one. Metrics are handled in place: most entries are metrics."""
    received_at, recorded_at = for_database(clock.now), clock.written
    results, end = _Results(), None
    intermediate, metrics = results.intermediate, rows.metrics
    for entry in entries:
        kind = entry["type"]
        if kind == contract.METRIC:
            n, at, metric, parameter_id, sequence, value = _METRIC_FIELDS(entry)
            results.has_metrics = True
            try:  # a number, as nearly always: without a call
                plain = float(value)
                number, others = plain if isfinite(plain) else None, _NOTHING
            except ValueError:
                number, others = rows.others.read(value, attempt.experiment_pk)
            if metric == contract.PERIODICAL:
                intermediate.append(number)
                if others:
                    results.latest_others |= others
            elif metric == contract.FINAL:
                if results.final is None:
                    results.final, results.final_others = (value, number), others
                if attempt.is_multi_phase:
                    results.of_sets.append(SetResult(parameter_id, value, number, others))
            elif metric == contract.REQUEST_PARAMETER and attempt.is_multi_phase:
                results.asks_for_parameters = True
            metrics.append(MetricRow(
                attempt.pk, n, metric, str(parameter_id) if type(parameter_id) is int else json.dumps(parameter_id),
                sequence, to_bytes(value), number, recorded_at(at), received_at, revision))
        elif kind == contract.OUTPUT:
            rows.output.append(OutputRow(attempt.pk, entry["stream"], entry["offset"],
                                         entry["data"].encode("latin-1"), entry["skipped"], revision))
        elif kind == contract.CHECKPOINT:
            keep_checkpoint_entry(attempt, entry, clock.corrected(entry["at"]), revision)
        elif kind == contract.STARTED:
            rows.started(attempt.pk, entry["host"], entry["working_directory"])
            attempt.has_started, end, results.host = True, None, entry["host"]
            if attempt.stage != Attempt.Stage.ENDED and entry["n"] > 1:
                attempt_continued(attempt.row(), clock.corrected(entry["at"]), revision=revision)
            elif attempt.stage != Attempt.Stage.ENDED:
                attempt_started(attempt.row(), clock.corrected(entry["at"]), revision=revision, by_keeper=True,
                                target=attempt.target)
        else:
            end = entry
    return results, end


def _show(results: _Results, attempt: ReportingAttempt, rows: ReportRows, revision: int) -> None:
    rows.show_on_trial(attempt.trial_pk, revision, results.intermediate,
                       None if attempt.is_multi_phase else results.final)
    if attempt.is_multi_phase:
        others = keep_results_of_sets(attempt.trial_pk, results.of_sets) if results.of_sets else {}
    else:
        others = {} if attempt.has_final else results.final_others
    if results.latest_others or others:
        rows.others.keep(attempt.experiment_pk, attempt.trial_pk, others, results.latest_others)
    attempt.has_final = attempt.has_final or results.final is not None
