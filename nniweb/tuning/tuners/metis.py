"""NNI's Metis tuner: a Gaussian process, and each time a choice between three kinds of next points."""

import warnings
from collections import Counter

import numpy as np
from sklearn.mixture import GaussianMixture

from nniweb.tuning.class_args import MetisArgs
from nniweb.tuning.search_space.coordinate_table import Table
from nniweb.tuning.search_space.space import Parameters, SearchSpace, point_key
from nniweb.tuning.tuner_base.acquisition import expected_improvement
from nniweb.tuning.tuner_base.gaussian_process import GaussianProcess
from nniweb.tuning.tuner_base.surrogate_search import SurrogateSearch, scaled
from nniweb.tuning.tuners.gaussian_process import MODELLED_TRIALS

# The best share of the results that counts as good, when it is asked where good points are.
_GOOD = 0.3
# A result that is so many deviations from what the others predict is doubted.
_DOUBTED = 2.0
# A result is looked at so, after so many more: each time costs a trial that finds nothing new.
_DOUBT_EVERY = 5


class Metis(SurrogateSearch):
    """The candidates are: the point with the lowest predicted loss (exploitation); the point about which least is
    known among those that lie where good results are, rather than where bad ones are, by two Gaussian mixtures
    (exploration); with ``no_resampling: false`` the tried point whose result fits the others least, once more. The
    one with the largest expected improvement is proposed. ``no_candidates`` leaves only the first.
    """

    def __init__(self, space: SearchSpace, seed: int, optimize_mode: str, args: MetisArgs) -> None:
        super().__init__(
            space,
            seed,
            optimize_mode,
            surrogate=lambda: GaussianProcess(nu=2.5, alpha=None),
            acquisition=expected_improvement,
            cold_start=args.cold_start_num,
            samples=args.selection_num_starting_points,
            most=MODELLED_TRIALS,
        )
        self._args = args

    def propose(self, number: int) -> Parameters:
        is_time = not self._args.no_resampling and self.told >= self._cold_start and self.told % _DOUBT_EVERY == 0
        # where every point can be tried, none is tried twice before the others
        if is_time and self.space.is_endless() and (again := self._doubted()) is not None:
            return again
        return super().propose(number)

    def _rated(self, rng: np.random.Generator) -> list[Parameters]:
        model, best = self.fitted(rng)
        table = self.candidates(rng)
        features = self._table.features(table)
        means, deviations = model.predict(features)
        lowest = list(self.allowed(table, np.argsort(means, kind="stable"), 50))
        if self._args.no_candidates:
            return self._points_of(table[lowest])
        promise = expected_improvement(means, deviations, best)
        explored = np.argsort(-deviations * self._lies_well(features, int(rng.integers(2**31))), kind="stable")
        exploit, explore = lowest[0], next(self.allowed(table, explored, 1))
        order = [exploit, explore] if promise[exploit] >= promise[explore] else [explore, exploit]
        return self._points_of(table[[*order, *lowest[1:25]]])

    def _points_of(self, rows: Table) -> list[Parameters]:
        return [self._table.parameters(row) for row in rows]

    def _lies_well(self, features: Table, seed: int) -> Table:
        """From 0 to 1: how much likelier a point is among the good results than among the others."""
        told = self.best(len(self.records))
        rows = self._table.features(self._table.rows(record.coordinates for record in told))
        good = max(2, int(len(told) * _GOOD))
        if len(told) - good < 2:
            return np.ones(len(features))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few points or equal ones: the mixture is rough then
            logs = [
                GaussianMixture(1, covariance_type="diag", reg_covar=1e-3, random_state=seed).fit(part).score_samples(
                    features)
                for part in (rows[:good], rows[good:])
            ]  # fmt: skip
        likelier: Table = 1.0 / (1.0 + np.exp(np.clip(logs[1] - logs[0], -50, 50)))
        return likelier

    def _doubted(self) -> Parameters | None:
        """The tried point whose result fits the others least, where one does not; it is tried again at most once, and
        not where the space has been changed and does not have it any more.
        """
        observed = self.results(self._most // 4, self._most)
        told = [self.records[place] for place in observed]
        rows = self._table.rows(record.coordinates for record in told)
        losses = scaled(np.array(list(observed.values())))
        tried = Counter(point_key(record.parameters) for record in self.records)
        is_left = [tried[point_key(record.parameters)] == 1 and self.space.contains(record.parameters)
                   and self.space.allows(record.parameters) for record in told]
        others = GaussianProcess(nu=2.5, alpha=0.1)
        others.fit(self._table.features(rows), losses, self.seed % 2**31)
        means, _ = others.predict(self._table.features(rows))
        residuals = np.abs(losses - means)
        residuals[np.logical_not(is_left)] = 0.0
        worst = int(np.argmax(residuals))
        spread = float(np.sqrt(np.mean(residuals**2)))
        return dict(told[worst].parameters) if spread > 0 and residuals[worst] > _DOUBTED * spread > 0.2 else None


def build(space: SearchSpace, seed: int, optimize_mode: str, args: MetisArgs) -> Metis:
    return Metis(space, seed, optimize_mode, args)
