"""NNI's Curvefitting: stop a trial whose learning curve, drawn on to its end, stays below the best."""

import warnings
from typing import Any

import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit

from nniweb.tuning.assessors.assessor import Assessor
from nniweb.tuning.class_args import CurvefittingArgs

# Of a longer curve so many points are fitted: a fit takes as long as it has points, and each result asks for one.
_MOST_POINTS = 100
_TWO_SHAPES: tuple[list[float], ...] = ([1.0, 1.0, 0.2, 1.0], [-10, -10, 1e-4, 0.1], [10, 10, 10, 5])

# Curves that begin steep and flatten out, over steps 1, 2, 3 ...: a level and a scale, and one or two shapes each.
_CURVES: list[tuple[Any, ...]] = [
    # formula, first guess, least, most
    (lambda x, c, a, k: c - a * x**-k, [1.0, 1.0, 0.7], [-10, -10, 0.01], [10, 10, 10]),
    (lambda x, c, a, k: c - a / np.log1p(x) ** k, [1.0, 1.0, 1.0], [-10, -10, 0.01], [10, 10, 10]),
    (lambda x, c, a, k: c - a * np.exp(-k * x), [1.0, 1.0, 0.2], [-10, -10, 1e-4], [10, 10, 10]),
    (lambda x, c, a, k, d: c - a * np.exp(-((k * x) ** d)), *_TWO_SHAPES),
    (lambda x, c, a, k, d: c - a / (1 + (k * x) ** d), *_TWO_SHAPES),
]  # fmt: skip


class CurveFitting(Assessor):
    """After ``start_step`` results a trial is judged, then after each ``gap`` more. Several families of curves are
    fitted by least squares; their predictions of result number ``epoch_num`` are averaged, better fits counting more
    (NNI weighs them by a Markov chain instead). The trial is stopped when the prediction is worse than the best final
    result by more than (1 - threshold) of its size; NNI's own rule, ``threshold`` times the best, where results are
    positive and maximized.
    """

    def __init__(self, optimize_mode: str, args: CurvefittingArgs) -> None:
        self._sign = 1.0 if optimize_mode == "maximize" else -1.0
        self._args = args
        self._best: float | None = None
        self._judged: dict[str, int] = {}

    def should_stop(self, trial: str, values: list[float]) -> bool:
        steps, args = len(values), self._args
        if self._best is None or steps < max(args.start_step, 3) or steps >= args.epoch_num:
            return False
        if trial in self._judged and steps - self._judged[trial] < args.gap:
            return False
        self._judged[trial] = steps
        predicted = predict([self._sign * value for value in values], args.epoch_num)
        return predicted is not None and predicted < self._best - (1 - args.threshold) * abs(self._best)

    def trial_end(self, trial: str, values: list[float], succeeded: bool) -> None:
        self._judged.pop(trial, None)
        if succeeded and values:
            last = self._sign * values[-1]
            self._best = last if self._best is None else max(self._best, last)


def predict(values: list[float], step: int) -> float | None:
    """The value at a later step (the first is 1) by the curves that fit; None where none does."""
    measured = np.array(values)
    with np.errstate(all="ignore"):
        spread = float(np.ptp(measured))
    if not np.isfinite(spread):
        return None
    if spread == 0:
        return values[-1]
    scaled = (measured - measured[0]) / spread
    x = np.arange(1, len(values) + 1, dtype=float)
    if len(values) > _MOST_POINTS:
        chosen = np.linspace(0, len(values) - 1, _MOST_POINTS).astype(int)
        x, scaled = x[chosen], scaled[chosen]
    found = []
    for formula, guess, least, most in _CURVES:
        if len(guess) > len(values):
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", OptimizeWarning)
            try:
                fitted, _ = curve_fit(formula, x, scaled, p0=guess, bounds=(least, most), max_nfev=500)
            except (RuntimeError, ValueError):
                continue  # this family does not fit
            error = float(np.mean((formula(x, *fitted) - scaled) ** 2))
            end = float(formula(np.array([float(step)]), *fitted)[0])
        if np.isfinite(error) and np.isfinite(end):
            found.append((1 / (error + 1e-6), end))
    if not found:
        return None
    total = sum(weight for weight, _ in found)
    return float(measured[0] + spread * sum(weight / total * end for weight, end in found))


def build(optimize_mode: str, args: CurvefittingArgs) -> CurveFitting:
    return CurveFitting(optimize_mode, args)
