"""What the chart of an experiment's results shows: every trial where they are few, the telling ones where many."""

from dataclasses import dataclass

from nniweb.experiments.best_so_far import evenly
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.progress import RESULTS
from trainingservice.trial_job_status import ENDS, TrialJobStatus

#: Most points with a value that a chart gets, and most marks of trials that ended without one.
MOST_POINTS = 2000
MOST_MARKS = 400
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
class ResultChart:
    points: list[Point]
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
    with_value, without = [], []
    for public_id, sequence_id, status, final, latest, ended_at, started_at in rows.iterator(5000):
        counts = final is not None and status in RESULTS
        shown = final if final is not None else latest
        if status in (TrialJobStatus.FAILED.value, TrialJobStatus.WAITING.value):
            shown = None
        at = ended_at or started_at
        point = Point(public_id, sequence_id, status, shown, counts, at.timestamp() if at else None)
        if shown is not None:
            with_value.append(point)
        elif status in _ENDS:
            without.append(point)
    kept = _thinned(with_value, most, greater_is_better=experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE)
    marks = evenly(without, MOST_MARKS)
    points = sorted([*kept, *marks], key=lambda point: point.sequence_id)
    return ResultChart(points, len(with_value) + len(without) - len(points), experiment.revision)


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
