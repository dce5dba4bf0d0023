"""Losses as a Gaussian process takes them: with a distribution that is nearly normal."""

import math

import numpy as np
from scipy.optimize import fminbound

from nniweb.tuning.search_space.coordinate_table import Table

# Of the parameter of the transformation.
_PRECISION = 1.48e-8


def normalized(losses: Table) -> Table:
    """With mean 0 and deviation 1, in the same order. The losses themselves where that cannot be computed."""
    with np.errstate(all="ignore"):
        moved = YeoJohnson(losses).likeliest() if np.isfinite(losses).all() and losses.std() > 0 else losses
        found: Table = (moved - moved.mean()) / moved.std()
    return found if np.isfinite(found).all() and found.std() > 0 else losses


class YeoJohnson:
    """Yeo and Johnson's transformation of these numbers, which are finite and not all the same. As scipy and
    scikit-learn have it, which look anew at what they are given at each of the steps in which they fit it.
    """

    def __init__(self, numbers: Table) -> None:
        self._is_negative = numbers < 0
        self._logs = np.log1p(np.abs(numbers))
        self._slope = float(np.where(self._is_negative, -self._logs, self._logs).sum())

    def likeliest(self) -> Table:
        """By the parameter with which the numbers are most probably those of a normal distribution."""
        least, most = self._bounds()
        return self.at(float(fminbound(self._unlikelihood, least, most, xtol=_PRECISION)))

    def at(self, parameter: float) -> Table:
        """With this parameter."""
        # of a negative number the same as of its size, with the parameter on the other side of 1, and negative again
        power = np.where(self._is_negative, 2.0 - parameter, parameter)
        size = np.where(np.abs(power) < np.finfo(float).eps, self._logs, np.expm1(power * self._logs) / power)
        return np.where(self._is_negative, -size, size)

    def _unlikelihood(self, parameter: float) -> float:
        variance = float(self.at(parameter).var())
        if not np.finfo(float).tiny <= variance < np.inf:
            return np.inf
        return len(self._logs) / 2 * math.log(variance) - (parameter - 1.0) * self._slope

    def _bounds(self) -> tuple[float, float]:
        """Between these no number of up to twenty times the largest size is transformed to zero or infinity."""
        limits, size = np.finfo(float), math.log1p(20.0 * math.expm1(self._logs.max()))
        margin = math.log(limits.eps)
        least, most = (math.log(limits.tiny) - margin) / 2 / size, (math.log(limits.max) + margin) / 2 / size
        if self._is_negative.all():
            return 2.0 - most, 2.0 - least
        return (max(2.0 - most, least), min(2.0 - least, most)) if self._is_negative.any() else (least, most)
