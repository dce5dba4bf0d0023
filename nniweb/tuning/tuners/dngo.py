"""NNI's DNGO tuner: a neural network learns features, and a Bayesian linear regression on them models the results."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import BayesianRidge
from sklearn.neural_network import MLPRegressor

from nniweb.tuning.class_args import DngoArgs
from nniweb.tuning.search_space.coordinate_table import Table
from nniweb.tuning.search_space.space import SearchSpace
from nniweb.tuning.tuner_base.acquisition import expected_improvement
from nniweb.tuning.tuner_base.surrogate_search import Surrogate, SurrogateSearch, scaled

_LAYERS = (50, 50, 50)


class NeuralNetwork:
    """The last hidden layer of a trained network as the features of a linear model that knows how sure it is."""

    def __init__(self, epochs: int) -> None:
        self._network = MLPRegressor(
            hidden_layer_sizes=_LAYERS, activation="tanh", solver="lbfgs", alpha=1e-3, max_iter=epochs
        )
        self._linear = BayesianRidge()

    def fit(self, features: Table, losses: Table, seed: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is the user's choice
            self._network.set_params(random_state=seed).fit(features, losses)
        self._linear.fit(self._hidden(features), losses)

    def predict(self, features: Table) -> tuple[Table, Table]:
        means, deviations = self._linear.predict(self._hidden(features), return_std=True)
        return means, deviations

    def _hidden(self, features: Table) -> Table:
        values = features
        for weights, bias in zip(self._network.coefs_[:-1], self._network.intercepts_[:-1], strict=True):
            values = np.tanh(values @ weights + bias)
        return values


class Dngo(SurrogateSearch):
    """Trains once in ``update`` results, from the results that had come by then, as NNI does."""

    def __init__(self, space: SearchSpace, seed: int, optimize_mode: str, args: DngoArgs) -> None:
        super().__init__(
            space,
            seed,
            optimize_mode,
            surrogate=lambda: NeuralNetwork(args.num_epochs_per_training),
            acquisition=expected_improvement,
            cold_start=args.trials_per_update,
            samples=args.sample_size,
        )
        self._update = args.trials_per_update
        self._trained: tuple[int, Surrogate] | None = None

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._trained = None

    def fitted(self, rng: np.random.Generator) -> tuple[Surrogate, float]:
        """The network of the present round of results, trained from exactly these: it is the same after a restart."""
        results = [record for record in self.records if record.loss is not None]
        count = len(results) // self._update * self._update
        used = results[:count]
        key = hash(tuple((id(record), record.loss) for record in used))
        rows = self._table.rows(record.coordinates for record in used)
        losses = scaled(np.array([record.loss for record in used], dtype=float))
        if self._trained is None or self._trained[0] != key:
            model = self._surrogate()
            model.fit(self._table.features(rows), losses, self.seed % 2**31)
            self._trained = key, model
        return self._trained[1], float(losses.min())


def build(space: SearchSpace, seed: int, optimize_mode: str, args: DngoArgs) -> Dngo:
    return Dngo(space, seed, optimize_mode, args)
