"""How much a point promises, given the mean and the deviation that a model predicts for its loss."""

import numpy as np
from scipy.stats import norm

from nniweb.tuning.search_space.coordinate_table import Table

_SMALLEST_DEVIATION = 1e-9


def expected_improvement(means: Table, deviations: Table, best: float, xi: float = 0.0) -> Table:
    """How much better than the best the point will be on average, counting a worse one as no change."""
    deviations = np.maximum(deviations, _SMALLEST_DEVIATION)
    gain = best - means - xi
    z = gain / deviations
    result: Table = gain * norm.cdf(z) + deviations * norm.pdf(z)
    return result


def confidence_bound(means: Table, deviations: Table, _best: float, kappa: float = 5.0) -> Table:
    """How good it is if luck helps: the mean less ``kappa`` deviations."""
    return kappa * deviations - means


def probability_of_improvement(means: Table, deviations: Table, best: float, xi: float = 0.0) -> Table:
    """How probable it is that the point is better than the best."""
    result: Table = norm.cdf((best - means - xi) / np.maximum(deviations, _SMALLEST_DEVIATION))
    return result
