"""NNI's GP tuner: scikit-learn's Gaussian process and one of three rules for the next point."""

import contextlib
import functools
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from nniweb.tuning.class_args import GpArgs
from nniweb.tuning.search_space.coordinate_table import Table
from nniweb.tuning.search_space.space import SearchSpace
from nniweb.tuning.tuner_base.acquisition import confidence_bound, expected_improvement, probability_of_improvement
from nniweb.tuning.tuner_base.surrogate_search import Acquisition, SurrogateSearch

# An ask costs the cube of the results that are modelled; beyond this many it would take seconds.
MODELLED_TRIALS = 200
# More random candidates than this find nothing better, they only take time.
_MOST_CANDIDATES = 4000


class GaussianProcess:
    """A Gaussian process with a Matern kernel of smoothness ``nu`` and noise ``alpha``."""

    def __init__(self, nu: float, alpha: float) -> None:
        kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(length_scale=0.5, length_scale_bounds=(0.05, 10.0), nu=nu)
        self._regressor = GaussianProcessRegressor(kernel, alpha=alpha, n_restarts_optimizer=1)

    def fit(self, features: Table, losses: Table, seed: int) -> None:
        self._regressor.set_params(random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound is no reason to stop
            try:
                self._regressor.fit(features, losses)
            except np.linalg.LinAlgError:  # points on top of each other with different results
                self._regressor.set_params(alpha=max(self._regressor.alpha, 1e-4)).fit(features, losses)

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


def _acquisition(args: GpArgs) -> Acquisition:
    if args.utility == "ucb":
        return functools.partial(confidence_bound, kappa=args.kappa)
    if args.utility == "poi":
        return functools.partial(probability_of_improvement, xi=args.xi)
    return functools.partial(expected_improvement, xi=args.xi)


def build(space: SearchSpace, seed: int, optimize_mode: str, args: GpArgs) -> SurrogateSearch:
    return SurrogateSearch(
        space,
        seed,
        optimize_mode,
        surrogate=lambda: GaussianProcess(args.nu, args.alpha),
        acquisition=_acquisition(args),
        cold_start=args.cold_start_num,
        samples=min(args.selection_num_warm_up, _MOST_CANDIDATES),
        most=MODELLED_TRIALS,
    )
