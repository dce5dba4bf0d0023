"""Proposals from results of earlier experiments, as long as they agree with the results of this one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nniweb.tuning.guidance.mapped_parameters import map_parameters
from nniweb.tuning.guidance.opening_points import RankedPoints, opening_points
from nniweb.tuning.guidance.smooth_model import SmoothModel
from nniweb.tuning.search_space.coordinate_table import CoordinateTable, Table
from nniweb.tuning.search_space.space import Coordinates, Parameter, Parameters, Path, SearchSpace
from nniweb.tuning.tuner_base.surrogate_search import Surrogate, SurrogateSearch, scaled

if TYPE_CHECKING:
    from nniweb.tuning.guidance.joint_model import JointModel

#: Results of this experiment with which they are compared, at least.
FEWEST_COMPARED = 4
#: Proposals with the best points of theirs, every second one.
OPENING = 2
#: The largest share of proposals that follow from them.
LARGEST_SHARE = 0.75
_SAMPLES = 500
# As many more for a Gaussian process, whose predictions are worth it.
_MORE_SAMPLES = 1500
_MOST_RESULTS = 150
# Points that are looked at around each of the best earlier ones.
_NEIGHBOURS = 30
#: Deviations by which a point that little is known of may be better than its mean.
CURIOSITY = 1.0
# Standard errors that are taken off the correlation: of few results, a good one is often chance.
_DOUBT = 1.5


@dataclass(frozen=True)
class EarlierResult:
    """A point (perhaps without some of the parameters) and its loss: less is better."""

    parameters: Parameters
    loss: float


@dataclass(frozen=True)
class Agreement:
    """How an earlier experiment agrees with this one. ``compared``: results of this one; ``correlation``: Kendall's tau
    between what the earlier one predicts for them and what came out, None while too few are there; ``weight``: 0 to 1.
    """

    compared: int
    correlation: float | None
    weight: float


class _EarlierModel:
    """What an earlier experiment predicts. Features that are the same in all its results say nothing."""

    def __init__(self, space: SearchSpace, table: CoordinateTable, results: Sequence[EarlierResult]) -> None:
        fitting = [(space.coordinates(mapped.parameters), result.loss) for result in results
                   if (mapped := map_parameters(space, result.parameters)).is_usable]
        fitting.sort(key=lambda one: one[1])
        self.coordinates: list[Coordinates] = [coordinates for coordinates, _ in fitting]
        self._model = SmoothModel()
        features = table.features(table.rows(self.coordinates)) if fitting else np.zeros((0, 1))
        self.features = features
        self.losses = scaled(np.array([loss for _, loss in fitting])) if fitting else np.zeros(0)
        self._known = np.ptp(features, axis=0) > 0 if len(features) else np.zeros(1, dtype=bool)
        self.is_usable = len(fitting) > 2 and bool(self._known.any())
        if self.is_usable:
            self._model.fit(features[:, self._known], self.losses, by_feature=True)

    def predict(self, features: Table) -> Table:
        """Losses with mean 0 and deviation 1, on a scale of its own."""
        return self._model.predict(features[:, self._known])[0]

    @property
    def lengths(self) -> Table:
        """The distance in each feature over which results differ; the longer, the less it matters."""
        lengths = np.full(len(self._known), float(self._model.lengths.max()))
        lengths[self._known] = self._model.lengths
        return lengths


class _Combined:
    """The mean of what earlier experiments predict, by their weights, and a model of what is different here (as Vizier
    stacks regressors: Golovin et al., Google Vizier, KDD 2017, section 3.3). Where none of them has a weight, a model
    of the results here alone.
    """

    def __init__(self, models: Sequence[_EarlierModel], weights: Sequence[float]) -> None:
        self._models, self._weights = models, np.array(weights)
        self._here = SmoothModel()

    def fit(self, features: Table, losses: Table, _seed: int) -> float:
        expected = self._expected(features)
        centred = expected - expected.mean()
        variance = float(centred @ centred)
        self._slope = max(float(centred @ losses) / variance, 0.0) if variance > 0 else 0.0
        self._level = float(losses.mean()) - self._slope * float(expected.mean())
        heaviest = self._models[int(np.argmax(self._weights))] if self._weights.any() else None
        self._here.fit(features, losses - self._slope * expected - self._level, by_feature=heaviest is None,
                       like=heaviest.lengths if heaviest is not None else None)
        return float(losses.min())

    def predict(self, features: Table) -> tuple[Table, Table]:
        means, deviations = self._here.predict(features)
        return means + self._slope * self._expected(features) + self._level, deviations

    def believe(self, features: Table, at_least: Table) -> None:
        means = np.maximum(self.predict(features)[0], at_least)
        self._here.believe(features, means - self._slope * self._expected(features) - self._level)

    def _expected(self, features: Table) -> Table:
        if not self._weights.any():
            return np.zeros(len(features))
        total: Table = sum(weight * model.predict(features) for model, weight
                           in zip(self._models, self._weights, strict=True) if weight) / self._weights.sum()
        return total


class EarlierSearch(SurrogateSearch):
    """Hears everything that the tuner hears, and proposes in its place when ``wants`` says so.

    The first proposals are the best distinct points of the earlier experiments (Feurer, Springenberg and Hutter,
    Initializing Bayesian Hyperparameter Optimization via Meta-Learning, AAAI 2015), every second one. With
    FEWEST_COMPARED results a model of each earlier experiment is compared with them. Its weight is Epanechnikov's
    kernel of the share of pairs that it puts in the wrong order, 0 where that is half of them or more (Wistuba,
    Schilling and Schmidt-Thieme, Two-Stage Transfer Surrogate Model for Automatic Hyperparameter Optimization, ECML
    2016, with the bandwidth 1/2). The share is the one that Kendall's tau has less one and a half standard errors (of
    rankings without relation: Kendall, A New Measure of Rank Correlation, 1938). Three quarters of the greatest weight
    is the share of proposals that follow from them; the others are the tuner's.

    A tuner whose proposals follow from a Gaussian process (``by_process`` says it of the next one) is another matter:
    taking turns with it saves nothing, so good is it alone. With it all proposals follow from one process of the
    results of all experiments (``joint_model``), as long as the correlation is above 0: how far earlier results are to
    be doubted, the process learns.
    """

    def __init__(self, space: SearchSpace, seed: int, optimize_mode: str, earlier: Sequence[Sequence[EarlierResult]],
                 *, by_process: Callable[[], bool] = lambda: False) -> None:
        super().__init__(space, seed, optimize_mode, surrogate=self._model, acquisition=_lower_bound,
                         cold_start=FEWEST_COMPARED, samples=_SAMPLES, most=_MOST_RESULTS)
        self._earlier = earlier
        self._by_process = by_process
        self._known_at = (-1, False)
        self._agreements: list[Agreement] = []
        self._learn()

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._learn()

    def _learn(self) -> None:
        self._models = [_EarlierModel(self.space, self._table, results) for results in self._earlier]
        self._openings = opening_points([RankedPoints(one.coordinates, one.features) for one in self._models], OPENING)
        self._known_at = (-1, False)
        #: The joint model of the last proposal, and how many results it is of.
        self._joint: tuple[int, JointModel] | None = None

    def wants(self, number: int) -> bool:
        """Whether proposal ``number`` is to follow from the earlier results."""
        if self.told >= FEWEST_COMPARED:
            weight = max((one.weight for one in self.agreements()), default=0.0)
            if self._by_process():
                return weight > 0
            return float(np.random.default_rng([self.seed, number, 1]).random()) < LARGEST_SHARE * weight
        if number % 2 or number // 2 >= len(self._openings):
            return False
        return not self.is_reversed()

    def propose(self, number: int) -> Parameters:
        rng = np.random.default_rng([self.seed, number, 2])
        if self.told >= FEWEST_COMPARED and any(one.weight for one in self.agreements()):
            return self.points.first_of(self._rated(rng), rng)
        return self.points.first_of(self._opening(number // 2, rng), rng)

    def is_reversed(self) -> bool:
        """Whether no earlier experiment has the results so far in their order. Of two or three results the order alone
        says something: a reversed one ends the opening.
        """
        return self.told > 1 and max(self._correlation(model) for model in self._models) <= 0

    def agreements(self) -> list[Agreement]:
        """Of each earlier experiment with the results so far."""
        now = self.told, self._by_process()
        if self._known_at != now:
            self._known_at = now
            self._agreements = [self._agreement(model, 0.0 if self._by_process() else _DOUBT) for model in self._models]
        return self._agreements

    def _agreement(self, model: _EarlierModel, doubt: float) -> Agreement:
        count = min(self.told, _MOST_RESULTS)
        if count < FEWEST_COMPARED or not model.is_usable:
            return Agreement(count, None, 0.0)
        correlation = self._correlation(model)
        error = math.sqrt(2 * (2 * count + 5) / (9 * count * (count - 1)))  # of unrelated rankings
        at_least = max(correlation - doubt * error, 0.0)
        return Agreement(count, correlation, 1 - (1 - at_least) ** 2)

    def _correlation(self, model: _EarlierModel) -> float:
        observed = self.results(_MOST_RESULTS // 4, _MOST_RESULTS)
        if not model.is_usable:
            return 0.0
        return kendall(model.predict(self.features(observed)), np.array(list(observed.values())))

    def _model(self) -> Surrogate:
        weights = [one.weight for one in self.agreements()]
        if not self._by_process():
            return _Combined(self._models, weights)
        # not at the top: it needs packages that are not always installed
        from nniweb.tuning.guidance.joint_model import JointModel

        # several proposals between two results follow from the same fit
        told, before = self._joint or (-1, None)
        model = JointModel([model for model, weight in zip(self._models, weights, strict=True) if weight],
                           before.parameters if before is not None and told == self.told else None)
        self._joint = self.told, model
        return model

    def _opening(self, place: int, rng: np.random.Generator) -> Iterator[Parameters]:
        for coordinates in self._openings[place:]:
            yield self.filled(coordinates, rng)

    def filled(self, coordinates: Coordinates, rng: np.random.Generator) -> Parameters:
        """A point with these coordinates; what is missing is random."""
        def pick(path: Path, parameter: Parameter) -> float | int:
            if path in coordinates:
                return coordinates[path]
            size: int = getattr(parameter, "size", 0)
            return int(rng.integers(size)) if size else float(rng.random())

        return self.space.build(pick)

    def candidates(self, rng: np.random.Generator) -> Table:
        """Those around the best results of this experiment, and around the best earlier ones."""
        best = self._table.rows(self.space.coordinates(self.filled(one, rng)) for one in self._openings)
        around = [self._table.near(row, _NEIGHBOURS, rng) for row in best]
        more = self._table.random(_MORE_SAMPLES if self._by_process() else 0, rng)
        return np.vstack([super().candidates(rng), best, *around, more])


def _lower_bound(means: Table, deviations: Table, _best: float) -> Table:
    result: Table = CURIOSITY * deviations - means
    return result


def kendall(some: Table, others: Table) -> float:
    """Kendall's tau-b, without scipy; 0 where one of them is constant."""
    upper = np.triu_indices(len(some), 1)
    one, other = (np.sign(values[:, None] - values[None, :])[upper] for values in (some, others))
    size = math.sqrt(float(np.sum(one**2) * np.sum(other**2)))
    return float(np.sum(one * other)) / size if size else 0.0
