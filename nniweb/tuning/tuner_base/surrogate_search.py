"""Search with a model of the results: random points first, then those that the model expects the most of.

The tuners GP, SMAC, DNGO and Metis are this search with different models.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nniweb.tuning.search_space.coordinate_table import CoordinateTable, Table
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.learning_tuner import LearningTuner

# On the model's scale, of which 0 is the mean of the results.
_LOSS_OF_FAILED = 0.0
# Where the model's first choices were all tried (in small spaces), so many more of its choices are looked at.
_CHOICES = 50
# Sums and squares of larger losses may be no floats.
_LARGEST = 1e100
# Of how many of the best results the surroundings are looked at, and how closely.
_CENTRES = 5
_NEIGHBOURS = 60


class Surrogate(Protocol):
    """Predicts losses of points that were not tried."""

    def fit(self, features: Table, losses: Table, seed: int) -> float:
        """Learn from results; the losses have mean 0 and deviation 1. Returns the best loss, on the scale on which
        ``predict`` has its means.
        """

    def predict(self, features: Table) -> tuple[Table, Table]:
        """Means and standard deviations."""

    def believe(self, features: Table, at_least: Table) -> None:
        """Take it that these points have what ``predict`` says of them, no less than ``at_least`` each, and be as sure
        of it as of results.
        """


#: Of means, deviations and the best loss so far: how much each point promises, more is better.
Acquisition = Callable[[Table, Table, float], Table]


class SurrogateSearch(LearningTuner):
    """``cold_start`` results come from random points. Then ``samples`` random points and points around the best are
    rated by ``acquisition``, and the best rated that was not tried is proposed. At most ``most`` results (the best and
    the newest) are modelled; running trials are believed to come out as the model predicts, so that concurrent
    proposals spread out and look for the best point all the same.
    """

    def __init__(
        self,
        space: SearchSpace,
        seed: int,
        optimize_mode: str,
        *,
        surrogate: Callable[[], Surrogate],
        acquisition: Acquisition,
        cold_start: int,
        samples: int,
        most: int = 300,
    ) -> None:
        super().__init__(space, seed, optimize_mode)
        self._surrogate = surrogate
        self._acquisition = acquisition
        self._cold_start = max(cold_start, 2)
        self._samples = samples
        self._most = most
        self._table = CoordinateTable(space)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._table = CoordinateTable(space)

    def propose(self, number: int) -> Parameters:
        rng = self.rng(number)
        chosen = self._rated(rng) if self.told >= self._cold_start else []
        return self.points.first_of(chosen, rng)

    def _rated(self, rng: np.random.Generator) -> Iterable[Parameters]:
        model, best = self.fitted(rng)
        candidates = self.candidates(rng)
        means, deviations = model.predict(self._table.features(candidates))
        promise = self._acquisition(means, deviations, best)
        order = np.argsort(-promise, kind="stable")
        return (self._table.parameters(candidates[row]) for row in self.allowed(candidates, order, _CHOICES))

    def fitted(self, rng: np.random.Generator) -> tuple[Surrogate, float]:
        """A model of the results so far, and the best of them on its scale."""
        observed = self.results(self._most // 4, self._most)
        losses = scaled(np.array(list(observed.values())))
        model = self._surrogate()
        best = model.fit(self.features(observed), losses, int(rng.integers(2**31)))
        self.believe_others(model)
        return model, best

    def believe_others(self, model: Surrogate) -> None:
        """What is not known yet of the running trials is what the model predicts of them. Trials that ended without a
        result have at least the mean: a model that leaves them out proposes such points for ever.
        """
        running, failed = self.running(self._most), self.without_result(self._most)
        if running or failed:
            at_least = np.array([-np.inf] * len(running) + [_LOSS_OF_FAILED] * len(failed))
            model.believe(self.features([*running, *failed]), at_least)

    def features(self, places: Iterable[int]) -> Table:
        """What a regression sees of these records."""
        return self._table.features(self._table.rows(self.records[place].coordinates for place in places))

    def candidates(self, rng: np.random.Generator) -> Table:
        centres = self._table.rows(record.coordinates for record in self.best(_CENTRES))
        around = [self._table.near(row, _NEIGHBOURS, rng) for row in centres]
        return np.vstack([self._table.random(self._samples, rng), *around])

    def allowed(self, candidates: Table, order: npt.NDArray[np.intp], most: int) -> Iterator[int]:
        """The first of these rows that the constraints allow; where they allow none, the first, which ``first_of`` then
        moves. Rows are looked at as they are asked for: thousands are rated, and mostly the first is proposed.
        """
        rows = (row for row in order if self.space.allows(self._table.parameters(candidates[row])))
        first = next(rows, order[0])
        return itertools.chain([first], itertools.islice(rows, most - 1))


def scaled(losses: Table) -> Table:
    """The losses with mean 0 and deviation 1. Very large ones are cut off, where they would hide all differences."""
    largest = float(np.abs(losses).max())
    if is_huge := largest > _LARGEST:
        losses = losses / largest
    median = float(np.median(losses))
    with np.errstate(over="ignore"):
        spread = float(np.median(np.abs(losses - median))) or float(np.std(losses / 1e3)) * 1e3
    if not 0 < spread < 1e300:
        spread = 1.0
    cut: Table = np.clip(losses, median - 20 * spread, median + 20 * spread)
    if is_huge:  # those that are left may be as small
        cut = (cut - median) / (float(np.abs(cut - median).max()) or 1.0)
    deviation = float(cut.std())
    result: Table = (cut - cut.mean()) / (deviation if 0 < deviation < 1e300 else 1.0)
    return result
