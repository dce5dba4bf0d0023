"""The random forest of SMAC against scikit-learn's own."""

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from nniweb.tuning.tuners.smac import RandomForest


def test_it_predicts_exactly_what_scikit_learns_forest_predicts() -> None:
    rng = np.random.default_rng(5)
    features, losses, asked = rng.random((30, 4)), rng.normal(size=30), rng.random((200, 4))
    ours, theirs = RandomForest(), ExtraTreesRegressor(40, max_features=5 / 6, bootstrap=True, random_state=7)
    assert ours.fit(features, losses, 7) == losses.min()
    theirs.fit(features, losses)
    means, deviations = ours.predict(asked)
    said = np.stack([tree.predict(asked) for tree in theirs.estimators_])
    assert np.array_equal(means, said.mean(axis=0))
    assert np.array_equal(deviations, said.std(axis=0))

    believed, at_least = rng.random((3, 4)), np.array([-np.inf, 0.0, 9.0])
    results = np.concatenate([losses, np.maximum(said_of(theirs, believed), at_least)])
    ours.believe(believed, at_least)
    theirs.fit(np.vstack([features, believed]), results)
    assert np.array_equal(ours.predict(asked)[0], said_of(theirs, asked))


def said_of(forest: ExtraTreesRegressor, points: np.ndarray) -> np.ndarray:
    return np.stack([tree.predict(points) for tree in forest.estimators_]).mean(axis=0)
