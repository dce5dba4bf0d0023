"""One Gaussian process of this experiment's results and of earlier ones: what it predicts, and when it does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("sklearn")

from nniweb.tuning.guidance.joint_model import FEWEST_EARLIER_ROWS, MOST_ROWS, JointModel, line_through
from nniweb.tuning.guidance.smooth_model import SmoothModel
from nniweb.tuning.search_space.coordinate_table import Table

Function = Callable[[Table], Table]


def bowl(features: Table) -> Table:
    result: Table = np.sum((features - 0.4) ** 2, axis=1)
    return result


def moved(features: Table) -> Table:
    return bowl(features - 0.1)


def scaled(losses: Table) -> Table:
    result: Table = (losses - losses.mean()) / losses.std()
    return result


class Earlier:
    def __init__(self, function: Function, count: int = 60, seed: int = 1) -> None:
        features = np.random.default_rng(seed).random((count, 3))
        order = np.argsort(function(features))
        self.features, self.losses = features[order], scaled(function(features))[order]
        self._model = SmoothModel()
        self._model.fit(self.features, self.losses)

    def predict(self, features: Table) -> Table:
        return self._model.predict(features)[0]


OWN = np.random.default_rng(7).random((6, 3))
ELSEWHERE = np.random.default_rng(8).random((80, 3))


def fitted(earlier: Earlier, own: Table = OWN, function: Function = bowl) -> JointModel:
    model = JointModel([earlier])
    model.fit(own, scaled(function(own)), 0)
    return model


def order_of(model: JointModel, function: Function = bowl) -> float:
    """How well it orders points that were not tried, from -1 to 1."""
    return float(np.corrcoef(np.argsort(np.argsort(model.predict(ELSEWHERE)[0])),
                             np.argsort(np.argsort(function(ELSEWHERE))))[0, 1])


def noise(features: Table) -> Table:
    return np.random.default_rng(len(features)).normal(size=len(features))


@pytest.mark.parametrize("earlier", [bowl, moved, lambda features: 50 + 3 * np.sqrt(bowl(features)),
                                     lambda features: bowl(features) + 0.02 * noise(features)])
def test_six_results_are_enough_with_earlier_ones_that_agree(earlier: Function) -> None:
    assert order_of(fitted(Earlier(earlier))) > 0.85


@pytest.mark.parametrize("earlier", [noise, lambda features: -bowl(features), lambda features: features[:, 0]])
def test_with_results_of_its_own_it_forgets_earlier_ones_that_mislead(earlier: Function) -> None:
    own = np.random.default_rng(3).random((40, 3))
    assert order_of(fitted(Earlier(earlier), own)) > 0.9


def test_it_is_surer_where_results_are() -> None:
    model = fitted(Earlier(noise))
    assert model.predict(OWN)[1].max() < model.predict(ELSEWHERE)[1].min() + 1e-9


def test_what_runs_is_believed_to_come_out_as_predicted_and_what_failed_not_to_be_good() -> None:
    point = np.array([[0.4, 0.4, 0.4]])
    rises = []
    for at_least in (-np.inf, 0.0):
        model = fitted(Earlier(bowl))
        mean, deviation = model.predict(point)
        model.believe(point, np.array([at_least]))
        believed, now = model.predict(point)
        assert now < deviation
        rises.append(float(believed[0] - mean[0]))
    assert rises[0] == pytest.approx(0.0, abs=0.05)
    assert rises[1] > 0.5


def test_many_earlier_results_do_not_make_it_slow() -> None:
    model = JointModel([Earlier(bowl, 300), Earlier(moved, 300)])
    own = np.random.default_rng(3).random((20, 3))
    model.fit(own, scaled(bowl(own)), 0)
    assert len(model._losses) <= MOST_ROWS
    own = np.random.default_rng(3).random((MOST_ROWS, 3))
    model.fit(own, scaled(bowl(own)), 0)
    assert len(model._losses) <= MOST_ROWS + FEWEST_EARLIER_ROWS


def test_the_gradient_is_that_of_the_likelihood() -> None:
    model = fitted(Earlier(moved))
    parameters = np.log(np.array([0.5, 0.3, 1.0, 1.2, 0.2, 2.0, 1e-2, 1e-2]))
    steps = 1e-5 * np.eye(len(parameters))
    differences = [(model._unlikeliness(parameters + step)[0] - model._unlikeliness(parameters - step)[0]) / 2e-5
                   for step in steps]
    assert model._unlikeliness(parameters)[1] == pytest.approx(differences, rel=1e-3, abs=1e-3)


def test_the_line_never_falls() -> None:
    expected = np.array([1.0, 2.0, 3.0])
    assert line_through(expected, 2 * expected + 1) == pytest.approx((2.0, 1.0))
    assert line_through(expected, -expected) == (0.0, -2.0)
    assert line_through(np.ones(3), expected) == (0.0, 2.0)
