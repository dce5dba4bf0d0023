"""A Gaussian process of this experiment's results and of earlier ones at once.

What is searched here is a sum: a function that the experiments share, and a difference that is this experiment's own.
Both have a Matern kernel of smoothness 5/2; the difference has lengths in the same proportions, all times one factor.
Earlier results have a noise of their own. So how much they count follows from the likelihood of all results: where they
do not predict those of this experiment, the difference or their noise is large (Swersky, Snoek and Adams, Multi-Task
Bayesian Optimization, NIPS 2013; the sum is that of Kennedy and O'Hagan, Predicting the Output from a Complex Computer
Code, Biometrika, 2000).
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

from nniweb.tuning.search_space.coordinate_table import Table
from nniweb.tuning.tuner_base.normal_losses import normalized

#: Rows of earlier experiments and of this one together, at most, and of the earlier ones at least.
MOST_ROWS, FEWEST_EARLIER_ROWS = 200, 50
# Steps in which the parameters are fitted; more of them change the proposals little.
_MOST_STEPS = 40
# The share of the noise that is always there, so that equal points can be told apart.
_LEAST_NOISE = 1e-6
_SMALLEST = 1e-9
# Of the parameters their start, their bounds, and a normal prior of their logarithm: middle, deviation. The few results
# at the beginning say nothing of the parameters that have one.
_LENGTH = (0.5, 0.05, 10.0)
_SHARED = (1.0, 1e-2, 1e2)
_OWN = (0.2, 1e-4, 1e2)
_FACTOR = (2.0, 0.3, 10.0)
_NOISE = (1e-3, 1e-6, 1.0)
_PRIORS = ((1, 0.1, 2.0), (2, 2.0, 1.0), (3, 1e-3, 3.0))


class Earlier(Protocol):
    """Results of an earlier experiment, the best first: ``losses`` have mean 0 and deviation 1."""

    features: Table
    losses: Table

    def predict(self, features: Table) -> Table:
        """Losses on that scale."""


class JointModel:
    """``earlier``: at least one. Its losses are compared on a line through what it predicts for the results of this
    experiment and what came out. Of each experiment as many results are used, from the best to the worst.
    ``parameters``: of a model that was fitted to the same results, to save the time that finding them takes.
    """

    def __init__(self, earlier: Sequence[Earlier], parameters: Table | None = None) -> None:
        self._earlier = earlier
        self.parameters = parameters

    def fit(self, features: Table, losses: Table, _seed: int) -> float:
        rows, values = [features], [losses]
        most = max(MOST_ROWS - len(features), FEWEST_EARLIER_ROWS) // len(self._earlier)
        for one in self._earlier:
            taken = np.unique(np.linspace(0, len(one.losses) - 1, most).astype(int))
            slope, level = line_through(one.predict(features), losses)
            rows.append(one.features[taken])
            values.append(level + slope * one.losses[taken])
        together = np.concatenate(values)
        self._features = np.vstack(rows)
        self._losses = normalized((together - together.mean()) / (float(together.std()) or 1.0))
        self._is_own = np.arange(len(together)) < len(losses)
        self._failed = float(self._losses[self._is_own].mean())
        if self.parameters is None:
            self.parameters = self._likeliest(features.shape[1])
        self._settle(self.parameters)
        return float(self.predict(features)[0].min())

    def _likeliest(self, columns: int) -> Table:
        start, low, high = (np.log([*[bound] * columns, *rest]) for bound, *rest in zip(
            _LENGTH, _SHARED, _OWN, _FACTOR, _NOISE, _NOISE, strict=True))
        found = minimize(self._unlikeliness, start, jac=True, method="L-BFGS-B",
                         bounds=list(zip(low, high, strict=True)), options={"maxiter": _MOST_STEPS})
        result: Table = found.x
        return result

    def predict(self, features: Table) -> tuple[Table, Table]:
        """Means and standard deviations of this experiment's losses without noise."""
        squares = _squares(features, self._features, self._lengths)
        between = (self._shared * _matern(squares)[0]
                   + self._own * self._is_own * _matern(squares / self._factor**2)[0])
        half = solve_triangular(self._root, between.T, lower=True)
        variances = np.maximum(self._shared + self._own - np.sum(half**2, axis=0), _SMALLEST)
        return between @ self._pull, np.sqrt(variances)

    def believe(self, features: Table, at_least: Table) -> None:
        """The parameters stay: they are learned from results alone."""
        # what failed has at least the mean of this experiment, of which 0 is not the mean here
        means = np.maximum(self.predict(features)[0], np.where(np.isfinite(at_least), self._failed, -np.inf))
        self._features = np.vstack([self._features, features])
        self._losses = np.concatenate([self._losses, means])
        self._is_own = np.concatenate([self._is_own, np.ones(len(features), dtype=bool)])
        self._settle(self._taken)

    def _unlikeliness(self, parameters: Table) -> tuple[float, Table]:
        """The negative logarithm of likelihood and priors (Rasmussen and Williams, Gaussian Processes for Machine
        Learning, 2006, equations 5.8 and 5.9), and its gradient.
        """
        self._take(parameters)
        squares = _squares(self._features, self._features, self._lengths)
        both = np.outer(self._is_own, self._is_own)
        shared, shared_slope = _matern(squares)
        own, own_slope = (both * part for part in _matern(squares / self._factor**2))
        try:
            root = np.linalg.cholesky(self._covariance(shared, own))
        except np.linalg.LinAlgError:  # the search goes on elsewhere
            return 1e25, np.zeros_like(parameters)
        pull = cho_solve((root, True), self._losses)
        weights = 0.5 * (cho_solve((root, True), np.eye(len(root))) - np.outer(pull, pull))
        slopes = weights * (self._shared * shared_slope + self._own * own_slope / self._factor**2)
        places = self._features / self._lengths
        by_length = 2 * (places**2).T @ slopes.sum(axis=1) - 2 * np.einsum("ik,ik->k", places, slopes @ places)
        by_noise = np.diag(weights) * self._noise
        gradient = np.concatenate([by_length, [
            self._shared * np.sum(weights * shared), self._own * np.sum(weights * own),
            self._own * np.sum(weights * own_slope * squares) / self._factor**2,
            by_noise[self._is_own].sum(), by_noise[~self._is_own].sum()]])
        value = 0.5 * float(self._losses @ pull) + float(np.sum(np.log(np.diag(root))))
        for place, middle, deviation in _PRIORS:
            off = (parameters[len(by_length) + place] - np.log(middle)) / deviation
            value += 0.5 * off**2
            gradient[len(by_length) + place] += off / deviation
        return value, gradient

    def _take(self, parameters: Table) -> None:
        self._taken = parameters
        self._lengths = np.exp(parameters[:-5])
        self._shared, self._own, self._factor, own_noise, noise = np.exp(parameters[-5:])
        self._noise = np.where(self._is_own, own_noise, noise)

    def _settle(self, parameters: Table) -> None:
        self._take(parameters)
        squares = _squares(self._features, self._features, self._lengths)
        own = np.outer(self._is_own, self._is_own) * _matern(squares / self._factor**2)[0]
        self._root = np.linalg.cholesky(self._covariance(_matern(squares)[0], own))
        self._pull = cho_solve((self._root, True), self._losses)

    def _covariance(self, shared: Table, own: Table) -> Table:
        result: Table = self._shared * shared + self._own * own + np.diag(self._noise + _LEAST_NOISE)
        return result


def line_through(expected: Table, losses: Table) -> tuple[float, float]:
    """Slope (never below 0) and level of the line with the least squares."""
    centred = expected - expected.mean()
    variance = float(centred @ centred)
    slope = max(float(centred @ losses) / variance, 0.0) if variance > 0 else 0.0
    return slope, float(losses.mean()) - slope * float(expected.mean())


def _squares(some: Table, others: Table, lengths: Table) -> Table:
    """Of the distances."""
    one, other = some / lengths, others / lengths
    squares = np.sum(one**2, axis=1)[:, None] + np.sum(other**2, axis=1)[None, :] - 2 * one @ other.T
    result: Table = np.maximum(squares, 0.0)
    return result


def _matern(squares: Table) -> tuple[Table, Table]:
    """The kernel, and what the square of a distance in one feature is multiplied with in its derivative by the
    logarithm of that feature's length.
    """
    far = np.sqrt(5.0 * squares)
    near = np.exp(-far)
    return (1.0 + far + far**2 / 3.0) * near, 5.0 / 3.0 * (1.0 + far) * near
