"""The assessors that draw curves on or ask Optuna: Curvefitting, Percentile, SuccessiveHalving, Wilcoxon."""

import math
from typing import Any

import pytest

from nniweb.tuning.algorithms import build_assessor
from nniweb.tuning.assessors import curvefitting
from nniweb.tuning.assessors.assessment import Assessment
from nniweb.tuning.assessors.assessor import Assessor
from nniweb.tuning.assessors.curvefitting import predict


def make(name: str, mode: str = "maximize", **args: Any) -> Assessor:
    return build_assessor(name, args, mode)


def learning(end: float, steps: int, mode: str = "maximize") -> list[float]:
    values = [end * (1 - math.exp(-0.3 * step)) for step in range(1, steps + 1)]
    return values if mode == "maximize" else [1 - value for value in values]


def stopped_at(assessor: Assessor, values: list[float], trial: str = "t") -> int | None:
    """After how many results the trial was to be stopped."""
    for length in range(1, len(values) + 1):
        if assessor.should_stop(trial, values[:length]):
            return length
    return None


def finish(assessor: Assessor, trial: str, values: list[float], succeeded: bool = True) -> None:
    assert stopped_at(assessor, values, trial) is None
    assessor.trial_end(trial, values, succeeded)


@pytest.mark.parametrize("curve", [
    lambda step: 0.9 - 0.8 * step**-0.7,
    lambda step: 0.9 - 0.8 * math.exp(-0.2 * step),
    lambda step: 5000 - 3000 / math.log(step + 1),
    lambda step: -3 - 2 * math.exp(-((0.1 * step) ** 1.5)),
])  # fmt: skip
def test_the_end_of_a_learning_curve_is_predicted_from_its_first_third(curve: Any) -> None:
    values = [curve(step) for step in range(1, 11)]
    predicted = predict(values, 30)
    assert predicted is not None
    assert abs(predicted - curve(30)) < 0.1 * abs(curve(30) - curve(1))


@pytest.mark.parametrize("mode", ["maximize", "minimize"])
def test_curvefitting_stops_what_will_not_come_near_the_best_and_spares_what_will(mode: str) -> None:
    assessor = make("Curvefitting", mode, epoch_num=20, optimize_mode=mode)
    assert stopped_at(assessor, learning(0.1, 20, mode), "first") is None
    assessor.trial_end("first", learning(0.9, 20, mode), True)
    assert stopped_at(assessor, learning(0.5, 20, mode), "bad") == 6
    assert stopped_at(assessor, learning(0.92, 20, mode), "good") is None


def test_curvefitting_may_demand_more_than_the_best() -> None:
    assessor = make("Curvefitting", epoch_num=20, threshold=1.2)
    assessor.trial_end("first", learning(0.5, 20), True)
    assert stopped_at(assessor, learning(0.55, 20), "a little better") is not None
    assert stopped_at(assessor, learning(0.9, 20), "much better") is None


def test_curvefitting_judges_from_start_step_on_and_after_each_gap() -> None:
    assessor = make("Curvefitting", epoch_num=20, start_step=8, gap=4)
    assessor.trial_end("first", learning(0.9, 20), True)
    assert stopped_at(assessor, learning(0.5, 20)) == 8
    # good up to its eighth result, then it falls: seen at the twelfth
    assert stopped_at(assessor, [*learning(0.95, 8), *[0.2] * 12], "falls") == 12


@pytest.mark.parametrize("values", [[0.5] * 12, [math.inf] * 12, [1e308, -1e308] * 6, [0.0] * 12])
def test_curvefitting_is_not_upset_by_strange_curves(values: list[float]) -> None:
    assessor = make("Curvefitting", epoch_num=20)
    assessor.trial_end("failed", learning(5.0, 20), False)
    assert stopped_at(assessor, values) is None
    assessor.trial_end("first", learning(0.9, 20), True)
    stopped_at(assessor, values)


@pytest.mark.parametrize("mode", ["maximize", "minimize"])
def test_percentile_keeps_the_best_quarter_of_what_finished_trials_had_at_that_step(mode: str) -> None:
    sign = 1 if mode == "maximize" else -1
    assessor = make("Percentile", mode, percentile=25.0, n_startup_trials=4)
    for value in (1, 2, 3, 4):
        finish(assessor, f"t{value}", [sign * value] * 3)
    assert stopped_at(assessor, [sign * 3.0] * 3, "third") == 1
    assert stopped_at(assessor, [sign * 3.5] * 3, "best quarter") is None


def test_successive_halving_lets_one_of_eta_pass_each_rung() -> None:
    assessor = make("SuccessiveHalving", min_resource=1, reduction_factor=2)
    finish(assessor, "best", [5.0, 5.0])
    assert stopped_at(assessor, [1.0, 1.0, 1.0, 1.0], "worse") == 2
    assert stopped_at(assessor, [9.0] * 4, "better") is None


@pytest.mark.slow
def test_wilcoxon_stops_what_is_worse_than_the_best_at_the_same_steps() -> None:
    assessor = make("Wilcoxon", p_threshold=0.1)
    finish(assessor, "best", [float(step) + 10 for step in range(20)])
    worse = stopped_at(assessor, [float(step) for step in range(20)], "worse")
    assert worse is not None
    assert worse < 10
    assert stopped_at(assessor, [float(step) + 11 for step in range(20)], "better") is None


@pytest.mark.parametrize("name", ["Percentile", "SuccessiveHalving", "Wilcoxon", "Curvefitting"])
def test_failed_and_stopped_trials_are_no_standard_and_reports_may_come_twice(name: str) -> None:
    assessment = Assessment(make(name))
    for trial in range(8):
        for step in range(4):
            report = {"trial": f"t{trial}", "sequence": step, "value": 1.0}
            assert assessment.intermediate([report, report]) == []
        assessment.trial_end(f"t{trial}", False)
    assert assessment.intermediate([{"trial": "good", "sequence": 0, "value": 0.5}]) == []


def test_of_a_long_curve_no_more_points_are_fitted_than_of_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[int] = []
    curve_fit = curvefitting.curve_fit

    def seen(formula: Any, x: Any, y: Any, **options: Any) -> Any:
        fitted.append(len(x))
        return curve_fit(formula, x, y, **options)

    monkeypatch.setattr(curvefitting, "curve_fit", seen)
    assert predict([1 - 0.7 / step for step in range(1, 2001)], 4000) == pytest.approx(1.0, abs=0.01)
    assert max(fitted) <= 100
