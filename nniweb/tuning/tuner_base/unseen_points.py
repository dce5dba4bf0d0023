"""Which points an experiment has tried already, and the next ones it has not."""

import copy
from collections.abc import Iterable

import numpy as np

from nniweb.tuning.search_space.grid import Grid
from nniweb.tuning.search_space.space import Parameters, SearchSpace, point_key
from nniweb.tuning.tuner_base.tuner import NoMoreParameters

# In a space of which only a small part is left, random draws hardly ever hit it; the grid always does.
_RANDOM_DRAWS = 100


class UnseenPoints:
    """Remembers all points tried in the experiment's life, also those of an earlier search space."""

    def __init__(self, space: SearchSpace) -> None:
        self._seen: set[str] = set()
        self._space = space
        self._grid = Grid(space)
        self._next = 0
        #: Whether ``first_of`` gives a point again when all were tried.
        self.may_repeat = False

    def update_search_space(self, space: SearchSpace) -> None:
        self._space = space
        self._grid = Grid(space)
        self._next = 0

    def add(self, parameters: Parameters) -> None:
        self._seen.add(point_key(parameters))

    def __contains__(self, parameters: Parameters) -> bool:
        return point_key(parameters) in self._seen

    def first_of_grid(self) -> Parameters:
        """The first point of the grid that was not tried. Raises NoMoreParameters when all were."""
        while (point := self._grid.point(self._next)) is not None:
            if point not in self:
                return copy.deepcopy(point)  # the grid keeps its options
            self._next += 1
        raise NoMoreParameters("every point of the search space was tried")

    def first_of(self, candidates: Iterable[Parameters], rng: np.random.Generator) -> Parameters:
        """The first candidate that was not tried, else a random point, else the next of the grid; with ``may_repeat``
        then the first candidate, or a random point.

        A space with a continuous parameter never repeats in practice and is not asked. Raises NoMoreParameters.
        """
        first = None
        for candidate in candidates:
            first = candidate if first is None else first
            if self._space.is_endless() or candidate not in self:
                return candidate
        for _ in range(_RANDOM_DRAWS):
            point = self._space.sample(rng)
            if self._space.is_endless() or point not in self:
                return point
        try:
            return self.first_of_grid()
        except NoMoreParameters:
            if not self.may_repeat:
                raise
            return self._space.sample(rng) if first is None else first
