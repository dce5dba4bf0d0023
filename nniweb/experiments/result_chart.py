"""What the charts of an experiment's results show: every trial where they are few, the telling ones where many."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Max

from nniweb.experiments.best_so_far import evenly
from nniweb.experiments.models import Attempt, Experiment, Trial
from nniweb.experiments.progress import RESULTS
from trainingservice.trial_job_status import ENDS, TrialJobStatus

#: Most points with a value that a chart gets, and most marks of trials that ended without one.
MOST_POINTS = 2000
MOST_MARKS = 400
#: Bars of the histogram of durations, at most about so many.
BARS = 20
#: So often the best may improve before the line of the best is thinned, too.
MOST_IMPROVEMENTS = 1000

_ENDS = frozenset(end.value for end in ENDS)
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


@dataclass(frozen=True)
class Histogram:
    """How many trials took how long."""

    #: Seconds; bar i holds those from i times this.
    bar_width: float
    counts: list[int]
    #: When the last of them ended, in seconds since the epoch; None without any.
    until: float | None


@dataclass(frozen=True)
class ResultChart:
    points: list[Point]
    #: Of all attempts that have run.
    durations: Histogram
    #: Trials that have a value (or ended without one) and were left out.
    left_out: int
    revision: int


class _Result(NamedTuple):
    """What of a trial decides whether it is shown."""

    pk: int
    sequence_id: int
    status: str
    value: float | None
    counts: bool


def chart_of(experiment: Experiment, most: int = MOST_POINTS) -> ResultChart:
    """The chart's points in order of sequence, read after the experiment's own row was.

    Every trial that was better than all before it stays, so the line of the best so far is exact;
    of the others the least, the greatest and two more of each stretch stay. Four queries; of all
    trials only numbers are read, which at 100,000 trials is most of the time.
    """
    rows = Trial.objects.filter(experiment=experiment).order_by("sequence_id").values_list(
        "pk", "sequence_id", "status", "final_number", "latest_number")
    with_value, without = [], []
    for pk, sequence_id, status, final, latest in rows.iterator(10_000):
        shown = None if status in _WITHOUT_VALUE else latest if final is None else final
        if shown is not None:
            with_value.append(_Result(pk, sequence_id, status, shown, final is not None and status in RESULTS))
        elif status in _ENDS:
            without.append(_Result(pk, sequence_id, status, None, False))
    kept = _thinned(with_value, most, greater_is_better=experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE)
    marks = evenly(without, MOST_MARKS)
    shown_results = sorted([*kept, *marks], key=lambda result: result.sequence_id)
    details = {pk: (public_id, ended_at or started_at) for pk, public_id, ended_at, started_at in Trial.objects.filter(
        pk__in=[result.pk for result in shown_results]).values_list("pk", "public_id", "ended_at", "started_at")}
    points = [Point(details[result.pk][0], result.sequence_id, result.status, result.value, result.counts,
                    at.timestamp() if (at := details[result.pk][1]) else None)
              for result in shown_results if result.pk in details]
    left_out = len(with_value) + len(without) - len(points)
    return ResultChart(points, _durations(experiment), left_out, experiment.revision)


def _durations(experiment: Experiment) -> Histogram:
    attempts = Attempt.objects.filter(trial__experiment=experiment, duration__isnull=False)
    until = attempts.aggregate(Max("trial__ended_at"))["trial__ended_at__max"]
    durations = attempts.values_list("duration", flat=True).iterator(10_000)
    seconds = [duration for duration in durations if duration is not None]
    return histogram(seconds, until.timestamp() if until else None)


def histogram(durations: list[float], until: float | None, bars: int = BARS) -> Histogram:
    """Bars of a width of 1, 2 or 5 times a power of ten seconds, as narrow as ``bars`` of them hold all durations."""
    longest = max(durations, default=0.0)
    if longest <= 0:
        return Histogram(1.0, [len(durations)] if durations else [], until)
    power = 10.0 ** math.floor(math.log10(longest / bars))
    width = next(width for width in (power, 2 * power, 5 * power, 10 * power, 20 * power) if longest < bars * width)
    counts = [0] * (int(longest / width) + 1)
    for seconds in durations:
        counts[max(0, int(seconds / width))] += 1
    return Histogram(width, counts, until)


def _thinned(points: list[_Result], most: int, *, greater_is_better: bool) -> list[_Result]:
    if len(points) <= most:
        return points
    sign = 1 if greater_is_better else -1
    improving, best = [], float("-inf")
    for index, point in enumerate(points):
        if point.counts and point.value is not None and sign * point.value > best:
            best = sign * point.value
            improving.append(index)
    unfinished = [index for index, point in enumerate(points) if point.status not in _ENDS]
    kept = {*evenly(improving, min(MOST_IMPROVEMENTS, most)), *unfinished[-most // 4:]}
    stretches = max(1, (most - len(kept)) // 4)
    for number in range(stretches):
        stretch = range(len(points) * number // stretches, len(points) * (number + 1) // stretches)
        if stretch:
            by_value = sorted(stretch, key=lambda index: points[index].value or 0.0)
            kept.update((by_value[0], by_value[-1], stretch[0], stretch[len(stretch) // 2]))
    return [points[index] for index in sorted(kept)]
