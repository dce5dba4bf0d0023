"""NNI's SMAC tuner: a random forest models the results, and the expected improvement picks the next point."""

import numpy as np
import sklearn
from sklearn.tree import ExtraTreeRegressor

from nniweb.tuning.class_args import SmacArgs
from nniweb.tuning.search_space.coordinate_table import Table
from nniweb.tuning.search_space.space import SearchSpace
from nniweb.tuning.tuner_base.acquisition import expected_improvement
from nniweb.tuning.tuner_base.surrogate_search import SurrogateSearch

_COLD_START = 10
_CANDIDATES = 2000
_TREES = 40
#: Numbers of trees are below this one, as scikit-learn's forests choose them.
_MOST_SEEDS = np.iinfo(np.int32).max


class RandomForest:
    """Trees with random splits, each of a sample of the results; the mean and the spread of what they say.

    The same trees as those of scikit-learn's ``ExtraTreesRegressor(bootstrap=True)``. For each tree that forest looks
    through the features and through its own arguments, which takes longer than to grow a tree of so few results.
    """

    def __init__(self) -> None:
        self._trees: list[ExtraTreeRegressor] = []

    def fit(self, features: Table, losses: Table, seed: int) -> float:
        self._known, self._seed = (features, losses), seed % 2**32
        self._grow(features, losses)
        return float(losses.min())

    def believe(self, features: Table, at_least: Table) -> None:
        known, losses = self._known
        means = np.maximum(self.predict(features)[0], at_least)
        self._grow(np.vstack([known, features]), np.concatenate([losses, means]))

    def _grow(self, features: Table, losses: Table) -> None:
        seen, said = features.astype(np.float32), np.ascontiguousarray(losses, dtype=np.float64)[:, None]
        seeds = np.random.RandomState(self._seed)
        self._trees = []
        with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
            for _ in range(_TREES):
                seed = seeds.randint(_MOST_SEEDS)
                rows = np.random.RandomState(seed).randint(0, len(seen), len(seen))
                weights = np.bincount(rows, minlength=len(seen)).astype(np.float64)
                tree = ExtraTreeRegressor(max_features=5 / 6, random_state=seed)
                self._trees.append(tree.fit(seen, said, sample_weight=weights, check_input=False))

    def predict(self, features: Table) -> tuple[Table, Table]:
        # what each tree's own predict does, less a look at all features by each of them
        seen = features.astype(np.float32)
        said = np.stack([tree.tree_.predict(seen)[:, 0] for tree in self._trees])
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
