"""What is fitted quicker here than by scikit-learn is the same."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.preprocessing import PowerTransformer

from nniweb.tuning.tuner_base.likelihood import Likelihood, Regressor
from nniweb.tuning.tuner_base.normal_losses import normalized

POINTS = np.random.default_rng(4).random((12, 3))
LOSSES = np.sin(4 * POINTS.sum(axis=1)) + POINTS[:, 0]


def kernel(lengths: Any, nu: float = 2.5, *, noise: bool = False) -> Any:
    plain = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(lengths, (0.05, 10.0), nu=nu)
    return plain + WhiteKernel(1e-3, (1e-6, 1.0)) if noise else plain


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("lengths", [0.5, np.array([0.5, 0.3, 2.0])])
def test_the_likelihood_and_its_slopes_are_those_of_scikit_learn(lengths: Any, noise: bool) -> None:
    used = kernel(lengths, noise=noise)
    theirs = GaussianProcessRegressor(used, alpha=1e-3, optimizer=None).fit(POINTS, LOSSES)
    for theta in (used.theta, used.theta + 0.7, used.theta - 1.3):
        value, slopes = theirs.log_marginal_likelihood(theta, eval_gradient=True)
        our_value, our_slopes = Likelihood(POINTS, LOSSES, 1e-3).at(theta, noise)
        assert our_value == pytest.approx(value, rel=1e-9)
        assert our_slopes == pytest.approx(slopes, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(("lengths", "nu", "noise"), [(0.5, 2.5, False), (np.full(3, 0.5), 2.5, True),
                                                      (0.5, 1.5, False)])
def test_the_kernel_that_is_fitted_is_the_one_that_scikit_learn_fits(lengths: Any, nu: float, noise: bool) -> None:
    used = kernel(lengths, nu, noise=noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parameters at their bounds
        ours, theirs = (kind(used, alpha=1e-3, n_restarts_optimizer=1, random_state=3).fit(POINTS, LOSSES)
                        for kind in (Regressor, GaussianProcessRegressor))
    assert ours.kernel_.theta == pytest.approx(theirs.kernel_.theta, abs=1e-4)
    assert ours.predict(POINTS[:4] + 0.1) == pytest.approx(theirs.predict(POINTS[:4] + 0.1), rel=1e-4)


def test_points_on_top_of_each_other_have_no_likelihood() -> None:
    value, slopes = Likelihood(np.zeros((3, 2)), np.arange(3.0), -1.0).at(np.zeros(2), has_noise=False)
    assert (value, list(slopes)) == (-np.inf, [0.0, 0.0])


@pytest.mark.parametrize("losses", [
    LOSSES, LOSSES - 9, LOSSES + 9, -np.exp(3 * LOSSES), np.exp(9 * LOSSES), np.array([0.0, 0.0, 1.0]),
    np.array([-1.0, 1.0]), np.array([0.0, 1e-12, 3.0, -2.0])])
def test_losses_become_as_normal_as_scikit_learn_makes_them(losses: Any) -> None:
    with np.errstate(all="ignore"):
        theirs = PowerTransformer("yeo-johnson").fit_transform(losses[:, None])[:, 0]
    assert normalized(losses) == pytest.approx(theirs, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("losses", [np.zeros(3), np.full(4, 2.5), np.array([0.0, np.nan, 1.0]), np.ones(1)])
def test_losses_that_cannot_be_made_normal_stay_as_they_are(losses: Any) -> None:
    assert normalized(losses) is losses
