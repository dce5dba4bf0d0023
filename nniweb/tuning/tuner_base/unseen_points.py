"""Which points an experiment has tried already, and the next ones it has not."""

import copy
import itertools
import random
from collections.abc import Iterable

import numpy as np

from nniweb.tuning.search_space.grid import Grid, GridTooLarge
from nniweb.tuning.search_space.nearest_allowed import nearest_allowed
from nniweb.tuning.search_space.space import MOST_DRAWS, NothingAllowed, Parameters, SearchSpace, point_key
from nniweb.tuning.tuner_base.tuner import NoMoreParameters

_ALL_TRIED = "every point of the search space was tried"
_TOO_LARGE = "the next point that the constraints allow is too far away in the grid"
# In a space of which only a small part is left, random draws hardly ever hit it; the grid always does.
_RANDOM_DRAWS = 100
# Tried points from which the way to one that constraints forbid is looked along.
_CENTRES = 100
# Random points that are moved towards an allowed one.
_WALKS = 100


class UnseenPoints:
    """Remembers all points tried in the experiment's life, also those of an earlier search space."""

    def __init__(self, space: SearchSpace) -> None:
        self._seen: set[str] = set()
        #: Points that were tried and that the constraints allow, where there are constraints; the newest.
        self._allowed: dict[str, Parameters] = {}
        self._space = space
        self._grid = Grid(space)
        self._next = 0
        #: Where the grid was left because it is too large to look for the next allowed point.
        self._left_at: int | None = None
        #: Whether ``first_of`` gives a point again when all were tried.
        self.may_repeat = False

    def update_search_space(self, space: SearchSpace) -> None:
        self._space = space
        self._grid = Grid(space)
        self._next = 0
        self._left_at = None

    def add(self, parameters: Parameters) -> None:
        key = point_key(parameters)
        self._seen.add(key)
        if self._space.constraints and key not in self._allowed and self._space.allows(parameters):
            self._allowed[key] = parameters
            if len(self._allowed) > _CENTRES:
                del self._allowed[next(iter(self._allowed))]

    def __contains__(self, parameters: Parameters) -> bool:
        return point_key(parameters) in self._seen

    def first_of_grid(self) -> Parameters:
        """The first point of the grid that was not tried. Raises NoMoreParameters when all were, and GridTooLarge."""
        if self._left_at == self._next:  # looking again takes seconds and finds nothing
            raise GridTooLarge(_TOO_LARGE)
        try:
            while (found := self._grid.first_allowed(self._next)) is not None:
                self._next, point = found
                if point not in self:
                    return copy.deepcopy(point)  # the grid keeps its options
                self._next += 1
        except GridTooLarge:
            self._left_at = self._next
            raise
        raise NoMoreParameters(_ALL_TRIED)

    def first_of(self, candidates: Iterable[Parameters], rng: np.random.Generator) -> Parameters:
        """The first candidate that was not tried, else a random point, else the next of the grid; with ``may_repeat``
        then the first candidate, or a random point. In a space with a continuous parameter, too: what is random there
        never repeats, but the edges and the best known values of all parameters are proposed again and again. Of
        candidates that the constraints forbid, where they forbid all, the first is moved towards a point that was
        tried, until they allow it. Where draws find nothing, random points are moved the same way.

        Raises NoMoreParameters.
        """
        first = forbidden = None
        for candidate in candidates:
            if not self._space.allows(candidate):
                forbidden = candidate if forbidden is None else forbidden
                continue
            first = candidate if first is None else first
            if candidate not in self:
                return candidate
        if first is None and forbidden is not None:
            nearest = nearest_allowed(self._space, forbidden, list(self._allowed.values()))
            if nearest is not None and nearest not in self:
                return nearest
        draws = MOST_DRAWS if self._space.constraints else _RANDOM_DRAWS
        for point in itertools.islice(self._space.drawn(rng, draws), _RANDOM_DRAWS):
            if point not in self:
                return point
        if (found := self._found_from_allowed(rng)) is not None:
            return found
        try:
            return self.first_of_grid()
        except (NoMoreParameters, GridTooLarge):
            if not self.may_repeat:
                raise NoMoreParameters(_ALL_TRIED) from None
            return self._space.sample(rng) if first is None else first

    def _found_from_allowed(self, rng: np.random.Generator) -> Parameters | None:
        """A point that the constraints allow and that was not tried, where random draws hardly ever hit one."""
        if not self._space.constraints:
            return None
        try:
            centres = list(self._allowed.values()) or [self._space.an_allowed_point()]
        except NothingAllowed:
            return None
        chance = random.Random(int(rng.integers(2**32)))  # noqa: S311  # no secret
        for point in self._space.drawn_by(chance, _WALKS):
            centre = centres[chance.randrange(len(centres))]
            found = nearest_allowed(self._space, point, [centre], chance.random())
            if found is not None and found not in self:
                return found
        return None
