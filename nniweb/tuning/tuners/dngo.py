"""NNI's DNGO tuner: a neural network learns features, and a Bayesian linear regression on them models the results."""

import copy
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

    def fit(self, features: Table, losses: Table, seed: int) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is the user's choice
            self._network.set_params(random_state=seed).fit(features, losses)
        self._known = self._hidden(features), losses
        self._linear.fit(*self._known)
        return float(losses.min())

    def knowing(self, features: Table, losses: Table) -> "NeuralNetwork":
        """The same network with a linear model of these results."""
        other = copy.copy(self)
        other._linear = BayesianRidge()
        other._known = self._hidden(features), losses
        other._linear.fit(*other._known)
        return other

    def believe(self, features: Table, at_least: Table) -> None:
        """The network stays: it is learned from results alone."""
        known, losses = self._known
        hidden = self._hidden(features)
        means = np.maximum(self._linear.predict(hidden), at_least)
        linear = BayesianRidge()
        linear.fit(np.vstack([known, hidden]), np.concatenate([losses, means]))
        self._linear = linear

    def predict(self, features: Table) -> tuple[Table, Table]:
        means, deviations = self._linear.predict(self._hidden(features), return_std=True)
        return means, deviations

    def _hidden(self, features: Table) -> Table:
        values = features
        for weights, bias in zip(self._network.coefs_[:-1], self._network.intercepts_[:-1], strict=True):
            values = np.tanh(values @ weights + bias)
        return values


class Dngo(SurrogateSearch):
    """Trains the network once in ``update`` results, from the results that had come by then, as NNI does. The linear
    model on it, which costs nothing, knows all results.
    """

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
        self._epochs = args.num_epochs_per_training
        self._trained: tuple[int, NeuralNetwork] | None = None

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._trained = None

    def fitted(self, rng: np.random.Generator) -> tuple[Surrogate, float]:
        """The network of the present round of results, trained from exactly these: it is the same after a restart."""
        results = self.results(0, len(self.records))
        count = len(results) // self._update * self._update
        used = dict(list(results.items())[:count])
        key = hash(tuple(used.items()))
        if self._trained is None or self._trained[0] != key:
            network = NeuralNetwork(self._epochs)
            network.fit(self.features(used), scaled(np.array(list(used.values()))), self.seed % 2**31)
            self._trained = key, network
        losses = scaled(np.array(list(results.values())))
        model = self._trained[1].knowing(self.features(results), losses)
        self.believe_others(model)
        return model, float(losses.min())


def build(space: SearchSpace, seed: int, optimize_mode: str, args: DngoArgs) -> Dngo:
    return Dngo(space, seed, optimize_mode, args)
