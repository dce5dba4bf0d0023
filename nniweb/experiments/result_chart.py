"""What the charts of an experiment's results show: every trial where they are few, the telling ones where many."""

import math
from dataclasses import dataclass

from nniweb.experiments.best_so_far import evenly
from nniweb.experiments.models import Experiment, Trial
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
    #: Of all trials that ended after they had begun.
    durations: Histogram
    #: Trials that have a value (or ended without one) and were left out.
    left_out: int
    revision: int


def chart_of(experiment: Experiment, most: int = MOST_POINTS) -> ResultChart:
    """The chart's points in order of sequence. One query for the trials, after the experiment's own row was read.

    Every trial that was better than all before it stays, so the line of the best so far is exact;
    of the others the least, the greatest and two more of each stretch stay.
    """
    rows = Trial.objects.filter(experiment=experiment).order_by("sequence_id").values_list(
        "public_id", "sequence_id", "status", "final_number", "latest_number", "ended_at", "started_at")
    with_value, without, durations = [], [], []
    until: float | None = None
    for public_id, sequence_id, status, final, latest, ended_at, started_at in rows.iterator(5000):
        counts = final is not None and status in RESULTS
        shown = final if final is not None else latest
        if status in (TrialJobStatus.FAILED.value, TrialJobStatus.WAITING.value):
            shown = None
        if started_at and ended_at:
            durations.append((ended_at - started_at).total_seconds())
            until = max(until or 0.0, ended_at.timestamp())
        at = ended_at or started_at
        point = Point(public_id, sequence_id, status, shown, counts, at.timestamp() if at else None)
        if shown is not None:
            with_value.append(point)
        elif status in _ENDS:
            without.append(point)
    kept = _thinned(with_value, most, greater_is_better=experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE)
    marks = evenly(without, MOST_MARKS)
    points = sorted([*kept, *marks], key=lambda point: point.sequence_id)
    left_out = len(with_value) + len(without) - len(points)
    return ResultChart(points, histogram(durations, until), left_out, experiment.revision)


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


def _thinned(points: list[Point], most: int, *, greater_is_better: bool) -> list[Point]:
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
