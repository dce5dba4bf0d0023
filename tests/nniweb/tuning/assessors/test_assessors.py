"""Medianstop's rule, and how reports are put in order before an assessor sees them."""

import random

import pytest

from benchmarks.search.curves import lost_and_saved
from nniweb.tuning.assessors.assessment import Assessment
from nniweb.tuning.assessors.assessor import Assessor
from nniweb.tuning.assessors.medianstop import MedianStop


class Recording(Assessor):
    """Stops where told, and remembers what it was asked."""

    def __init__(self, stop_at: float | None = None) -> None:
        self.asked: list[list[float]] = []
        self.ended: list[tuple[str, list[float], bool]] = []
        self._stop_at = stop_at

    def should_stop(self, trial: str, values: list[float]) -> bool:
        self.asked.append(list(values))
        return values[-1] == self._stop_at

    def trial_end(self, trial: str, values: list[float], succeeded: bool) -> None:
        self.ended.append((trial, list(values), succeeded))


def report(sequence: int, value: float | None, trial: str = "t") -> dict[str, object]:
    return {"trial": trial, "sequence": sequence, "value": value}


def with_finished(mode: str, *curves: list[float], start_step: int = 0) -> MedianStop:
    assessor = MedianStop(mode, start_step)
    for index, curve in enumerate(curves):
        assessor.trial_end(f"done{index}", curve, True)
    return assessor


def test_a_trial_is_stopped_when_its_best_is_strictly_worse_than_the_median_of_running_averages() -> None:
    # averages of the first two: 1.5, 3, 5: median 3
    assessor = with_finished("maximize", [1, 2], [2, 4], [4, 6])
    assert assessor.should_stop("low", [2.9, 1])
    assert not assessor.should_stop("equal", [3, 0])
    assert not assessor.should_stop("best counts", [1, 3.5])
    smaller = with_finished("minimize", [1, 2], [2, 4], [4, 6])
    assert smaller.should_stop("high", [3.1, 9])
    assert not smaller.should_stop("equal", [9, 3])


def test_of_two_middle_averages_the_one_that_is_kinder_to_the_trial_decides() -> None:
    assert not with_finished("maximize", [1], [3]).should_stop("t", [2])
    assert with_finished("maximize", [1], [3]).should_stop("t", [0.9])
    assert not with_finished("minimize", [1], [3]).should_stop("t", [2])
    assert with_finished("minimize", [1], [3]).should_stop("t", [3.1])


def test_nothing_is_stopped_before_start_step_or_beyond_what_finished_trials_reported() -> None:
    assessor = with_finished("maximize", [10, 10, 10], start_step=3)
    assert not assessor.should_stop("t", [0, 0])
    assert assessor.should_stop("t", [0, 0, 0])
    assert not assessor.should_stop("t", [0, 0, 0, 0])


def test_only_trials_that_succeeded_set_the_standard() -> None:
    assessor = MedianStop("maximize")
    assessor.trial_end("failed", [10], False)
    assert not assessor.should_stop("t", [0])
    assessor.trial_end("ok", [10], True)
    assert assessor.should_stop("t", [0])


def test_the_verdict_is_that_of_the_rule_written_out() -> None:
    rng = random.Random(5)
    for mode in ("maximize", "minimize"):
        finished = [[rng.gauss(0, 1) for _ in range(rng.randint(1, 6))] for _ in range(25)]
        assessor = with_finished(mode, *finished)
        for _ in range(200):
            values = [rng.gauss(-0.3 if mode == "maximize" else 0.3, 0.5) for _ in range(rng.randint(1, 7))]
            step = len(values)
            averages = sorted(sum(curve[:step]) / step for curve in finished if len(curve) >= step)
            if not averages:
                expected = False
            elif mode == "maximize":
                expected = max(values) < averages[(len(averages) - 1) // 2]
            else:
                expected = min(values) > averages[len(averages) // 2]
            assert assessor.should_stop("t", values) == expected


def test_reports_are_judged_in_the_order_of_their_sequence_whatever_the_order_of_arrival() -> None:
    assessor = Recording()
    assessment = Assessment(assessor)
    assert assessment.intermediate([report(0, 1.0), report(2, 3.0)]) == []
    assert assessor.asked == [[1.0]]
    assessment.intermediate([report(1, 2.0)])
    assert assessor.asked == [[1.0], [1.0, 2.0], [1.0, 2.0, 3.0]]


def test_of_two_reports_for_one_sequence_the_last_wins_and_nothing_is_judged_twice() -> None:
    assessor = Recording()
    assessment = Assessment(assessor)
    assessment.intermediate([report(0, 1.0), report(1, 2.0), report(0, 9.0), report(2, 3.0)])
    assert assessor.asked == [[1.0], [1.0, 2.0], [9.0, 2.0, 3.0]]
    assessment.trial_end("t", True)
    assert assessor.ended == [("t", [9.0, 2.0, 3.0], True)]


def test_a_report_without_a_number_repeats_the_one_before_it() -> None:
    assessor = Recording()
    assessment = Assessment(assessor)
    assessment.intermediate([report(0, None)])
    assert assessor.asked == []
    assessment.intermediate([report(1, 5.0), report(2, None), report(3, 6.0)])
    assert assessor.asked[-1] == [5.0, 5.0, 5.0, 6.0]


def test_a_trial_is_named_once_as_one_to_stop_and_ignored_after_its_end() -> None:
    assessment = Assessment(Recording(stop_at=7.0))
    assert assessment.intermediate([report(0, 7.0), report(1, 7.0), report(0, 1.0, "other")]) == ["t"]
    assert assessment.intermediate([report(2, 7.0)]) == []
    assert assessment.stopped() == ["t"]
    assessment.trial_end("t", False)
    assert assessment.stopped() == []
    assert assessment.intermediate([report(3, 7.0)]) == []


@pytest.mark.parametrize("bundle", [1, 2, 5, 40])
def test_how_reports_are_bundled_does_not_change_the_verdicts(bundle: int) -> None:
    rng = random.Random(1)
    reports = [report(sequence, rng.random(), f"t{trial}") for sequence in range(5) for trial in range(8)]

    def stops(size: int) -> set[str]:
        assessment = Assessment(with_finished("maximize", *[[rng.random() * 0 + 0.9] * 5] * 3))
        found: list[str] = []
        for start in range(0, len(reports), size):
            found += assessment.intermediate(reports[start : start + size])
        assert len(found) == len(set(found))
        return set(found)

    assert stops(bundle) == stops(len(reports))


def test_medianstop_that_waits_for_half_a_trial_ends_none_of_the_best() -> None:
    """NNI's default judges from the first result on, and ends trials that rise slowly."""
    for seed in range(3):
        lost, saved = lost_and_saved("Medianstop", {"start_step": "auto"}, seed)
        assert lost == 0
        assert saved > 0.15
    assert lost_and_saved("Medianstop", {}, 0)[0] > 10


def test_what_a_trial_has_of_one_that_it_continues_is_not_judged_again() -> None:
    assessor = Recording(stop_at=1.0)
    assessment = Assessment(assessor)
    before = [{**report(sequence, 1.0), "inherited": True} for sequence in range(2)]
    assert assessment.intermediate([*before, report(2, 3.0)]) == []
    assert assessor.asked == [[1.0, 1.0, 3.0]]
    assert assessment.intermediate([*before, report(3, 1.0)]) == ["t"], "told twice, it changes nothing"
    assert assessor.asked[1:] == [[1.0, 1.0, 3.0, 1.0]]
    assessment.trial_end("t", False)
    assert assessor.ended == [("t", [1.0, 1.0, 3.0, 1.0], False)]
