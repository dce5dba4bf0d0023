"""From which step on Medianstop would have stopped none of the best trials, as the trials that have ended show."""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

#: So many of the ended trials count as the best.
BEST_SHARE = 0.2


@dataclass(frozen=True)
class Judged:
    """``suggested``: with this ``start_step``, or a greater one, none of the ``best`` trials would have been stopped.
    ``lost``: of those so many would have been stopped with the one that is set.
    """

    suggested: int
    best: int
    lost: int


def judge_start_step(curves: Sequence[Sequence[float]], finals: Sequence[float], optimize_mode: str,
                     start_step: int | None) -> Judged:
    """Judge each of the best trials, by final result, at each step against all others: the median of the averages of
    their first results, as Medianstop does. The order in which the trials ended takes no part, so what is said does not
    depend on it. ``curves``: of each trial its results step by step, finite. ``start_step`` None: as Medianstop's.
    """
    sign = 1.0 if optimize_mode == "maximize" else -1.0
    averages = [[total / count for count, total in enumerate(accumulate(sign * value for value in curve), 1)]
                for curve in curves]
    longest = max(map(len, curves), default=0)
    at_step = [sorted(one[step] for one in averages if len(one) > step) for step in range(longest)]
    order = sorted(range(len(curves)), key=lambda place: (-sign * finals[place], place))
    best = order[:math.ceil(BEST_SHARE * len(curves))]
    first = longest / 2 if start_step is None else start_step
    stops = [_steps_of_stops([sign * value for value in curves[place]], averages[place], at_step) for place in best]
    return Judged(suggested=max((steps[-1] + 1 for steps in stops if steps), default=0), best=len(best),
                  lost=sum(bool(steps) and steps[-1] >= first for steps in stops))


def _steps_of_stops(values: Sequence[float], own: Sequence[float], at_step: Sequence[list[float]]) -> list[int]:
    """The numbers of results after which the trial is worse than the median of the others."""
    found = []
    for step, best_so_far in enumerate(accumulate(values, max)):
        others = at_step[step]
        if len(others) < 2:
            break
        # the median of the others, of an even number the lesser one: without the trial's own place
        middle = (len(others) - 2) // 2
        middle += bisect.bisect_left(others, own[step]) <= middle
        if best_so_far < others[middle]:
            found.append(step + 1)
    return found
