"""A small Gaussian process without further packages: what it needs is numpy, which is always there.

Kernel: Matern with smoothness 5/2 (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equation
4.17). Lengths and noise are those of a few candidates under which the data are likeliest (equation 5.8), the amplitude
follows from them in closed form.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from nniweb.tuning.search_space.coordinate_table import Table

#: Lengths that all features are tried with, as a share of the longest way through the cube of the features.
_LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
#: Noise, as a share of the variance.
_NOISES = (1e-4, 1e-2, 0.1, 0.4)
#: Then each feature's length is tried with these factors: one that hardly matters gets a long one.
_FACTORS = (3.0, 0.5)
_SHORTEST, _LONGEST = 0.02, 50.0
_SMALLEST = 1e-9


class SmoothModel:
    """Predicts losses from features between 0 and 1. ``fit`` first. ``lengths``: one for each feature; the longer, the
    less it matters. ``noise``: as a share of the variance.
    """

    def __init__(self) -> None:
        self.lengths: Table = np.ones(1)
        self.noise = _NOISES[0]
        self._amplitude = 1.0

    def fit(self, features: Table, losses: Table, *, by_feature: bool = False, like: Table | None = None) -> None:
        """``by_feature``: each feature may have a length of its own. ``like``: the lengths have these proportions."""
        self._features, self._mean = features, float(losses.mean())
        self._losses = losses - self._mean
        shape = np.ones(features.shape[1]) if like is None else like / np.exp(np.mean(np.log(like)))
        widest = np.sqrt(features.shape[1])
        candidates = [(share * widest * shape, noise) for share, noise in product(_LENGTHS, _NOISES)]
        best = max(candidates, key=lambda one: self._likelihood(*one))
        if by_feature:
            best = self._with_own_lengths(*best)
        self._settle(*best)

    def predict(self, features: Table) -> tuple[Table, Table]:
        """Means and standard deviations of the losses without noise."""
        between = _matern(features, self._features, self.lengths)
        half = np.linalg.solve(self._root, between.T)
        variances = np.maximum(1.0 - np.sum(half**2, axis=0), _SMALLEST)
        return self._mean + between @ self._pull, np.sqrt(variances * self._amplitude)

    def believe(self, features: Table, losses: Table) -> None:
        """Take these as further results; lengths, noise and amplitude stay."""
        self._features = np.vstack([self._features, features])
        self._losses = np.concatenate([self._losses, losses - self._mean])
        amplitude = self._amplitude
        self._settle(self.lengths, self.noise)
        self._amplitude = amplitude

    def _with_own_lengths(self, lengths: Table, noise: float) -> tuple[Table, float]:
        reached = self._likelihood(lengths, noise)
        for place in range(len(lengths)):
            for factor in _FACTORS:
                tried = lengths.copy()
                while _SHORTEST < tried[place] < _LONGEST:
                    tried[place] *= factor
                    likelihood = self._likelihood(tried, noise)
                    if likelihood <= reached:
                        break
                    lengths, reached = tried.copy(), likelihood
        return lengths, noise

    def _root_of(self, lengths: Table, noise: float) -> Table:
        covariance = _matern(self._features, self._features, lengths)
        return np.asarray(np.linalg.cholesky(covariance + (noise + _SMALLEST) * np.eye(len(covariance))), float)

    def _likelihood(self, lengths: Table, noise: float) -> float:
        root = self._root_of(lengths, noise)
        half = np.linalg.solve(root, self._losses)
        amplitude = max(float(half @ half) / len(half), _SMALLEST)
        return float(-0.5 * len(half) * np.log(amplitude) - np.sum(np.log(np.diag(root))))

    def _settle(self, lengths: Table, noise: float) -> None:
        self.lengths, self.noise = lengths, noise
        self._root = self._root_of(lengths, noise)
        half = np.linalg.solve(self._root, self._losses)
        self._amplitude = max(float(half @ half) / len(half), _SMALLEST)
        self._pull = np.asarray(np.linalg.solve(self._root.T, half), float)


def _matern(some: Table, others: Table, lengths: Sequence[float] | Table) -> Table:
    one, other = some / lengths, others / lengths
    squares = np.sum(one**2, axis=1)[:, None] + np.sum(other**2, axis=1)[None, :] - 2 * one @ other.T
    far = np.sqrt(5.0 * np.maximum(squares, 0.0))
    result: Table = (1.0 + far + far**2 / 3.0) * np.exp(-far)
    return result
