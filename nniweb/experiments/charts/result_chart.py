"""What the charts of an experiment's results show: every trial where they are few, the telling ones where many."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Count, F, Func, IntegerField, Max, QuerySet, Value
from django.db.models.sql.compiler import SQLCompiler

from nniweb.experiments.charts.trial_ids import trial_ids
from nniweb.experiments.models import Attempt, Experiment, Proposal, Trial
from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.models.trial import RESULTS, counts_for_best
from nniweb.experiments.results.best_so_far import evenly
from nniweb.experiments.results.other_metrics import mode_of, numbers_of_metric
from trainingservice.trial_job_status import ENDS, TrialJobStatus

#: Most points with a value that a chart gets, and most marks of trials that ended without one.
MOST_POINTS = 1000
MOST_MARKS = 300
#: Bars of the histogram of durations, at most about so many.
BARS = 20
#: So often the best may improve before the line of the best is thinned, too.
MOST_IMPROVEMENTS = 1000

_ENDS = frozenset(end.value for end in ENDS)
_AN_END = RESULTS[0]
_WITHOUT_VALUE = (TrialJobStatus.FAILED.value, TrialJobStatus.WAITING.value)


@dataclass(frozen=True, slots=True)
class Point:
    """One trial on the chart."""

    id: str
    sequence_id: int
    status: str
    #: The final result; the latest intermediate one where there is no final one (yet); None on the axis.
    value: float | None
    #: Whether ``value`` is a final result that counts for the best.
    counts: bool
    #: When it ended or began, in seconds since the epoch.
    at: float | None
    #: Of a mean, its standard error; None for all else.
    error: float | None = None
    #: Whether ``value`` is a final result that breaks a constraint on outcomes, or was not compared with them yet.
    infeasible: bool = False


@dataclass(frozen=True)
class Histogram:
    """How many trials took how long."""

    #: Seconds; bar i holds those from i times this.
    bar_width: float
    counts: list[int]
    #: When the last trial ended, in seconds since the epoch; None without any.
    until: float | None


@dataclass(frozen=True)
class ResultChart:
    points: list[Point]
    #: Of all attempts that have run.
    durations: Histogram
    #: maximize or minimize; None for a metric of which neither is wanted: there is no best.
    mode: str | None
    #: Trials that have a value (or ended without one) and were left out.
    left_out: int
    revision: int


class _Whole(Func):
    """A number without what stands behind its point, for numbers that are not below 0."""

    function = "CAST"
    template = "CAST(%(expressions)s AS integer)"
    output_field = IntegerField()

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> tuple[str, Any]:
        return self.as_sql(compiler, connection, template="CAST(trunc(%(expressions)s) AS integer)")  # its cast rounds


def chart_of(experiment: Experiment, most: int = MOST_POINTS, metric: str | None = None) -> ResultChart:
    """The chart's points in order of sequence, read after the experiment's own row was. ``metric``: of a further one,
    the trials that have reported it.

    Every trial that was better than all before it stays, so the line of the best so far is exact; of the others the
    least, the greatest and two more of each stretch stay. Six queries at most. Of a trial with a result, which nearly
    all are where there are many, only number and result are read: at 100,000 trials columns are what takes time.
    """
    mode = str(experiment.optimize_mode) if metric is None else mode_of(experiment, metric)
    trials = Trial.objects.filter(experiment=experiment)
    errors: dict[int, float] = {}
    if metric is not None:
        values, rest = _results_of_metric(experiment, metric)
    elif experiment.has_replicates:
        values, rest, errors = _means(experiment)
    else:
        values, rest = _results(trials)
    results = len(values)
    others: dict[int, str] = {}  # those that are shown, though their value is no result: sequence -> status
    without: list[int] = []
    infeasible: set[int] = set()
    for sequence_id, status, final, latest in rest:
        shown = None if status in _WITHOUT_VALUE else latest if final is None else final
        if shown is not None:
            values.append((sequence_id, shown))
            others[sequence_id] = status
            if experiment.outcome_constraints and status in RESULTS and final is not None:
                infeasible.add(sequence_id)
        elif status in _ENDS and metric is None:
            without.append(sequence_id)
    if len(values) > results:
        values.sort()
    kept = _thinned(values, others, most, mode)
    shown_values: dict[int, float | None] = {**dict.fromkeys(evenly(without, MOST_MARKS)), **dict(kept)}
    rows = trials.filter(sequence_id__in=list(shown_values)).order_by("sequence_id").values_list(
        "public_id", "sequence_id", "status", "ended_at", "started_at")
    points = [Point(public_id, sequence_id, others.get(sequence_id, status), value,
                    value is not None and sequence_id not in others, at.timestamp() if at else None,
                    errors.get(sequence_id), sequence_id in infeasible)
              for public_id, sequence_id, status, ended_at, started_at in rows
              for value, at in [(shown_values[sequence_id], ended_at or started_at)]]
    left_out = len(values) + len(without) - len(points)
    return ResultChart(points, durations_of(experiment), mode, left_out, experiment.revision)


#: Number, status, final and latest value.
_Row = tuple[int, str, float | None, float | None]


def _results(trials: QuerySet[Trial]) -> tuple[list[tuple[int, float]], Iterable[_Row]]:
    """Number and value of those with a result, in order, and the others."""
    is_result = counts_for_best()
    values = [(sequence_id, final) for sequence_id, final in trials.filter(is_result).order_by(
        "sequence_id").values_list("sequence_id", "final_number").iterator(20_000) if final is not None]
    return values, trials.exclude(is_result).order_by("sequence_id").values_list(
        "sequence_id", "status", "final_number", "latest_number").iterator(20_000)


def _means(experiment: Experiment) -> tuple[list[tuple[int, float]], Iterable[_Row], dict[int, float]]:
    """As ``_results``, of proposals by their first trials: those that were run in full have results. Then the standard
    errors of means.
    """
    values: list[tuple[int, float]] = []
    others: list[_Row] = []
    errors: dict[int, float] = {}
    for sequence_id, state, mean, error in Proposal.objects.filter(experiment=experiment).order_by(
            "first_sequence_id").values_list("first_sequence_id", "state", "mean", "standard_error").iterator(20_000):
        if state == ProposalState.COMPLETE and mean is not None:
            values.append((sequence_id, mean))
        elif state == ProposalState.OPEN:
            others.append((sequence_id, TrialJobStatus.RUNNING.value, mean, None))
        else:
            ended = TrialJobStatus.FAILED if mean is None else TrialJobStatus.SUCCEEDED
            others.append((sequence_id, ended.value, mean, None))
        if error is not None:
            errors[sequence_id] = error
    return values, others, errors


def _results_of_metric(experiment: Experiment, metric: str) -> tuple[list[tuple[int, float]], Iterable[_Row]]:
    """As ``_results``, of the trials that have reported a further metric."""
    values, others = [], []
    for row in numbers_of_metric(experiment, metric).order_by("trial__sequence_id").values_list(
            "trial__sequence_id", "trial__status", "final", "latest", "trial__feasible").iterator(20_000):
        if row[1] in RESULTS and row[2] is not None and row[4] is not False:
            values.append((row[0], row[2]))
        else:
            others.append(row[:4])
    return values, others


def durations_of(experiment: Experiment, bars: int = BARS) -> Histogram:
    """Counted by the database, in bars of a width of 1, 2 or 5 times a power of ten seconds, as narrow as ``bars`` of
    them hold all.
    """
    # before the attempts: one that ends meanwhile is counted twice by a page rather than never
    trials = trial_ids(experiment, until=Max("ended_at"))
    until = trials["until"]
    attempts = Attempt.objects.filter(trial__experiment=experiment, duration__isnull=False)
    if trials["first"] is not None:  # else PostgreSQL reads the attempts of all experiments
        attempts = attempts.filter(trial_id__gte=trials["first"], trial_id__lte=trials["last"])
    rows: list[Any] = list(attempts.annotate(bar=_Whole(F("duration"))).values("bar").annotate(
        count=Count("pk"), longest=Max("duration")).order_by())
    longest = max((row["longest"] for row in rows), default=0.0)
    seconds = until.timestamp() if until else None
    if longest <= 0:
        return Histogram(1.0, [row["count"] for row in rows], seconds)
    width = bar_width(longest, bars)
    in_one = 1.0  # seconds of a row; bars of whole seconds are made of such, narrower ones are asked for
    if width < 1:
        in_one = width
        rows = list(attempts.annotate(bar=_Whole(F("duration") / Value(width))).values("bar").annotate(
            count=Count("pk")).order_by())
    counts = [0] * (int(longest / width) + 1)
    for row in rows:
        bar = int(row["bar"] * in_one / width) if width > in_one else row["bar"]
        counts[min(max(0, bar), len(counts) - 1)] += row["count"]  # one may have come since the first question
    return Histogram(width, counts, seconds)


def bar_width(longest: float, bars: int) -> float:
    """Seconds; ``longest`` is more than 0."""
    power = 10.0 ** math.floor(math.log10(longest / bars))
    return next(width for width in (power, 2 * power, 5 * power, 10 * power, 20 * power) if longest < bars * width)


def _thinned(points: list[tuple[int, float]], others: dict[int, str], most: int, mode: str | None
             ) -> list[tuple[int, float]]:
    """Of (sequence, value) those that are shown. ``others``: the status of those whose value is no result."""
    if len(points) <= most:
        return points
    values = [value if mode == Experiment.OptimizeMode.MAXIMIZE else -value for _, value in points]
    improving, best = [], float("-inf")
    for index, value in enumerate(values if mode is not None else ()):
        if value > best and points[index][0] not in others:
            best = value
            improving.append(index)
    unfinished = [index for index, (sequence_id, _) in enumerate(points)
                  if others.get(sequence_id, _AN_END) not in _ENDS] if others else []
    kept = {*evenly(improving, min(MOST_IMPROVEMENTS, most)), *unfinished[-most // 4:]}
    stretches = max(1, (most - len(kept)) // 4)
    for number in range(stretches):
        begin, end = len(points) * number // stretches, len(points) * (number + 1) // stretches
        if stretch := values[begin:end]:
            kept.update((begin + stretch.index(min(stretch)), begin + stretch.index(max(stretch)), begin,
                         begin + len(stretch) // 2))
    return [points[index] for index in sorted(kept)]
