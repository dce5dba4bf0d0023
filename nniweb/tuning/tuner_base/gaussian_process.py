"""A Gaussian process of scikit-learn's as a model of results."""

import contextlib
import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern, WhiteKernel

from nniweb.tuning.search_space.coordinate_table import Table
from nniweb.tuning.tuner_base.likelihood import Regressor
from nniweb.tuning.tuner_base.normal_losses import normalized

# Beyond so many columns the parameters share one length: as many lengths are not learned from so few results.
_MOST_LENGTHS = 40
# The variance of the noise that is taken for none, where losses have variance 1.
_LEAST_NOISE = 1e-6
# Steps in which the kernel is fitted; more of them change the proposals little.
_MOST_STEPS = 20


class GaussianProcess:
    """A Gaussian process with a Matern kernel of smoothness ``nu``. ``alpha``: the noise of results, as a share of
    their variance; one length for all columns, as in NNI. None: the noise is fitted, each column has a length of its
    own, and the losses are first made more normally distributed by Yeo and Johnson's transformation.
    """

    def __init__(self, nu: float, alpha: float | None) -> None:
        self._nu = nu
        self._alpha = alpha
        self._regressor = GaussianProcessRegressor()

    def fit(self, features: Table, losses: Table, seed: int) -> float:
        if self._alpha is None:
            return self._fit_with_noise(features, normalized(losses), seed)
        self._regressor = Regressor(self._kernel(0.5), alpha=self._alpha, n_restarts_optimizer=1, random_state=seed)
        _fit(self._regressor, features, losses)
        return float(losses.min())

    def _fit_with_noise(self, features: Table, losses: Table, seed: int) -> float:
        columns = features.shape[1]
        lengths = np.full(columns, 0.5) if columns <= _MOST_LENGTHS else 0.5
        kernel = self._kernel(lengths) + WhiteKernel(1e-3, (_LEAST_NOISE, 1.0))
        fitted = Regressor(kernel, alpha=_LEAST_NOISE, optimizer=_in_few_steps, random_state=seed)
        _fit(fitted, features, losses)
        # what is asked is the function, not what another noisy result of it would be
        self._regressor = GaussianProcessRegressor(
            fitted.kernel_.k1, alpha=fitted.alpha + fitted.kernel_.k2.noise_level, optimizer=None)
        _fit(self._regressor, features, losses)
        return float(self.predict(features)[0].min())

    def _kernel(self, lengths: float | Table) -> Kernel:
        return ConstantKernel(1.0, (1e-2, 1e2)) * Matern(lengths, (0.05, 10.0), nu=self._nu)

    def believe(self, features: Table, at_least: Table) -> None:
        """The kernel stays: it is learned from results alone."""
        known, losses = self._regressor.X_train_, self._regressor.y_train_
        means = np.maximum(self.predict(features)[0], at_least)
        believing = GaussianProcessRegressor(self._regressor.kernel_, alpha=self._regressor.alpha, optimizer=None)
        with contextlib.suppress(np.linalg.LinAlgError):  # they lie on results: of them all is known
            self._regressor = believing.fit(np.vstack([known, features]), np.concatenate([losses, means]))

    def predict(self, features: Table) -> tuple[Table, Table]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # variances that come out a hair below zero are set to zero
            means, deviations = self._regressor.predict(features, return_std=True)
        return means, deviations


def _fit(regressor: GaussianProcessRegressor, features: Table, losses: Table) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound is no reason to stop
        try:
            regressor.fit(features, losses)
        except np.linalg.LinAlgError:  # points on top of each other with different results
            regressor.set_params(alpha=max(regressor.alpha, 1e-4)).fit(features, losses)


def _in_few_steps(negative_likelihood: Callable[[Table], tuple[float, Table]], start: Table, bounds: Table
                  ) -> tuple[Table, float]:
    """scikit-learn's own way to fit a kernel, which has no limit of its own."""
    found = minimize(negative_likelihood, start, jac=True, method="L-BFGS-B", bounds=bounds,
                     options={"maxiter": _MOST_STEPS})
    return found.x, found.fun
