"""Which start_step of Medianstop would have lost none of the best trials."""

import pytest

from benchmarks.search.curves import curves
from nniweb.tuning.assessors.medianstop import MedianStop
from nniweb.tuning.assessors.start_step import judge_start_step

#: Four that are good from the start, and one that is behind until its fourth result and ends best.
CURVES = [[5.0, 6.0, 7.0, 8.0, 8.0, 8.0]] * 4 + [[1.0, 2.0, 3.0, 8.5, 9.0, 9.9]]
FINALS = [curve[-1] for curve in CURVES]


def test_a_slow_starter_that_ends_best_moves_it_behind_its_weak_steps() -> None:
    found = judge_start_step(CURVES, FINALS, "maximize", 0)
    assert (found.suggested, found.lost, found.best) == (4, 1, 1)
    assert judge_start_step(CURVES, FINALS, "maximize", 4).lost == 0
    assert judge_start_step(CURVES, FINALS, "maximize", None).lost == 1  # auto: half of six results


def test_it_is_the_same_for_losses() -> None:
    negative = [[-value for value in curve] for curve in CURVES]
    assert judge_start_step(negative, [-final for final in FINALS], "minimize", 0) == judge_start_step(
        CURVES, FINALS, "maximize", 0)


def test_where_the_best_lead_from_the_start_every_start_step_will_do() -> None:
    steady = [[level + step for step in range(5)] for level in range(10)]
    found = judge_start_step(steady, [curve[-1] for curve in steady], "maximize", 7)
    assert (found.suggested, found.lost, found.best) == (0, 0, 2)


@pytest.mark.parametrize("curves_seen", [[], [[]], [[1.0]]])
def test_few_and_short_curves_ask_for_nothing(curves_seen: list[list[float]]) -> None:
    found = judge_start_step(curves_seen, [0.0] * len(curves_seen), "maximize", 0)
    assert (found.suggested, found.lost) == (0, 0)


def test_medianstop_itself_stops_none_of_the_best_with_it_and_some_with_less() -> None:
    seen = curves(3)[:100]
    finals = [curve[-1] for curve in seen]
    found = judge_start_step(seen, finals, "maximize", 0)
    best = sorted(range(100), key=lambda place: -finals[place])[:found.best]

    def stopped(start_step: int) -> int:
        """Of the best ones, each judged when all others have ended."""
        count = 0
        for place in best:
            assessor = MedianStop("maximize", start_step)
            for other, curve in enumerate(seen):
                if other != place:
                    assessor.trial_end(str(other), curve, succeeded=True)
            count += any(assessor.should_stop("it", seen[place][:step]) for step in range(1, 31))
        return count

    assert stopped(found.suggested) == 0
    assert stopped(found.suggested - 1) > 0
    assert stopped(0) == found.lost > 0
