"""NNI's SMAC tuner: a random forest models the results, and the expected improvement picks the next point."""

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from nniweb.tuning.class_args import SmacArgs
from nniweb.tuning.search_space.coordinate_table import Table
from nniweb.tuning.search_space.space import SearchSpace
from nniweb.tuning.tuner_base.acquisition import expected_improvement
from nniweb.tuning.tuner_base.surrogate_search import SurrogateSearch

_COLD_START = 10
_CANDIDATES = 2000
_TREES = 40


class RandomForest:
    """Trees with random splits; the mean and the spread of what they say."""

    def __init__(self) -> None:
        self._forest = ExtraTreesRegressor(_TREES, min_samples_leaf=1, max_features=5 / 6, bootstrap=True)

    def fit(self, features: Table, losses: Table, seed: int) -> float:
        self._known = features, losses
        self._forest.set_params(random_state=seed % 2**32).fit(features, losses)
        return float(losses.min())

    def believe(self, features: Table, at_least: Table) -> None:
        known, losses = self._known
        means = np.maximum(self.predict(features)[0], at_least)
        self._forest.fit(np.vstack([known, features]), np.concatenate([losses, means]))

    def predict(self, features: Table) -> tuple[Table, Table]:
        # what each tree's own predict does, less a look at all features by each of them
        seen = features.astype(np.float32)
        said = np.stack([tree.tree_.predict(seen)[:, 0] for tree in self._forest.estimators_])
        return said.mean(axis=0), said.std(axis=0)


def build(space: SearchSpace, seed: int, optimize_mode: str, _args: SmacArgs) -> SurrogateSearch:
    return SurrogateSearch(
        space,
        seed,
        optimize_mode,
        surrogate=RandomForest,
        acquisition=expected_improvement,
        cold_start=_COLD_START,
        samples=_CANDIDATES,
    )
