"""The likelihood of results under a Gaussian process, as scikit-learn fits kernels by it, in a third of the time.

A fit asks for it some twenty to a hundred times. scikit-learn then looks through the kernel's parts, clones them, and
computes all distances anew, which takes longer than the likelihood itself of some hundred results.
"""

from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern, Product, Sum, WhiteKernel

from nniweb.tuning.search_space.coordinate_table import Table

_SMOOTHNESS = 2.5
# More numbers than this are not kept: the squared differences of all pairs of points, column by column.
_MOST_KEPT = 4_000_000


class Regressor(GaussianProcessRegressor):  # type: ignore[misc]  # scikit-learn has no types
    """scikit-learn's. Its fit is quicker where the kernel is a constant times a Matern kernel of smoothness 2.5, with a
    white kernel added or not.
    """

    def fit(self, X: Table, y: Table) -> "Regressor":  # noqa: N803  # as there
        self._likelihood = Likelihood(X, y, self.alpha) if _is_known(self.kernel) and _is_small(X) else None
        try:
            fitted: Regressor = super().fit(X, y)
        finally:
            self._likelihood = None
        return fitted

    def log_marginal_likelihood(self, theta: Table | None = None, eval_gradient: bool = False,
                                clone_kernel: bool = True) -> Any:
        """The likelihood, with ``eval_gradient`` and its gradient. ``theta``: logarithms of the kernel's parameters."""
        likelihood: Likelihood | None = getattr(self, "_likelihood", None)
        if likelihood is None or theta is None or not eval_gradient:
            return super().log_marginal_likelihood(theta, eval_gradient, clone_kernel)
        return likelihood.at(theta, isinstance(self.kernel, Sum))


def _is_known(kernel: Kernel) -> bool:
    if isinstance(kernel, Sum) and isinstance(kernel.k2, WhiteKernel):
        kernel = kernel.k1
    return (isinstance(kernel, Product) and isinstance(kernel.k1, ConstantKernel)
            and isinstance(kernel.k2, Matern) and kernel.k2.nu == _SMOOTHNESS)


def _is_small(features: Table) -> bool:
    return features.size * len(features) <= _MOST_KEPT


class Likelihood:
    """Of these results, ``losses``, at these points. ``alpha``: the variance of the noise that is not fitted."""

    def __init__(self, features: Table, losses: Table, alpha: float) -> None:
        self._losses, self._alpha = losses, alpha
        #: By column, of each pair of points; twice their sum is five times less than what the kernel computes with.
        self._squares = (features.T[:, :, None] - features.T[:, None, :]) ** 2
        self._one = np.eye(len(features))

    def at(self, theta: Table, has_noise: bool) -> tuple[float, Table]:
        """The logarithm of the likelihood, and its derivatives. ``theta``: logarithms of the constant, of the length or
        the lengths, and of the variance of the noise where that ``has_noise``.
        """
        constant, *lengths = np.exp(theta[:-1] if has_noise else theta)
        noise = float(np.exp(theta[-1])) if has_noise else 0.0
        by_column = np.broadcast_to(1.0 / np.square(lengths), len(self._squares))
        squared = np.tensordot(by_column, self._squares, 1)
        scaled = np.sqrt(5.0 * squared)
        falling = constant * np.exp(-scaled)
        alike = (1.0 + scaled + 5.0 / 3.0 * squared) * falling
        try:
            root = cholesky(alike + (noise + self._alpha) * self._one, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return -np.inf, np.zeros_like(theta)
        weights = cho_solve((root, True), self._losses, check_finite=False)
        value = -0.5 * self._losses @ weights - np.log(np.diag(root)).sum() - len(root) / 2 * np.log(2 * np.pi)
        inner = np.outer(weights, weights) - cho_solve((root, True), self._one, check_finite=False)
        steep = inner * falling * (1.0 + scaled) * (5.0 / 3.0)
        by_length = np.tensordot(self._squares, steep, 2) * by_column
        slopes = [np.sum(inner * alike), *(by_length if len(lengths) > 1 else [by_length.sum()])]
        if has_noise:
            slopes.append(noise * np.trace(inner))
        return float(value), 0.5 * np.array(slopes)
