"""A search space as one endless numbered list of points, coarse ones first, none twice.

Choices, randint and quniform are in the list with all their values from the start. Every other type is refined in
epochs: first the median of its distribution, then its quartiles, then eighths and so on. Each epoch combines all that
is known so far and leaves out the combinations of earlier epochs; where these are many, in a scattered order, because
in the order of the parameters the first ones would not change for long. Nothing is enumerated: point ``n`` is computed
from n, so a space of a billion points costs nothing until it is walked.
"""

import math
from typing import Any

from nniweb.tuning.constraints.constraint import first_broken
from nniweb.tuning.search_space.grid_axes import ProductAxis
from nniweb.tuning.search_space.space import SearchSpace

#: So many points that constraints forbid are looked at for one that they allow, beside the scattered ones: a second.
MOST_LOOKS = 10_000
# So many new points of an epoch are in a scattered order, also with constraints.
_MOST_SCATTERED = 50_000
# New points of an epoch that are tried in the order of the parameters: mostly all of them are tried.
_FEW = 64
# In units of 1e-18: spaces may have more points than a float can count.
_GOLDEN_RATIO = 618_033_988_749_894_848


class GridTooLarge(Exception):
    """So many points of the grid are forbidden that it is not known where the next allowed one is."""


class Grid:
    """The points of a search space in the order a grid search tries them."""

    def __init__(self, space: SearchSpace) -> None:
        self._axis = ProductAxis(space)
        self._space = space
        self._epoch = 0

    def first_allowed(self, index: int) -> tuple[int, dict[str, Any]] | None:
        """The first point from ``index`` on that the space's constraints allow, and its index; None when there is none.
        Raises GridTooLarge where MOST_LOOKS looks find none. Points are skipped without a look where the values of some
        parameters break a constraint whatever the others are.
        """
        looks = 0
        while looks < MOST_LOOKS:
            point = self.point(index)
            if point is None:
                return None
            broken = first_broken(self._space.constraints, point)
            if broken is None:
                return index, point
            if self._is_scattered():
                index += 1  # there are not many of them
            else:
                looks += 1
                index = self._axis.next_possible(broken, index, point)
        raise GridTooLarge(f"constraints forbid {MOST_LOOKS:,} points of the grid, one after the other")

    @property
    def size(self) -> int | None:
        """How many points there are; None where the list has no end, or it is not known yet."""
        return self._axis.size(0) if self._axis.is_complete(0) else None

    def point(self, index: int) -> dict[str, Any] | None:
        """Point ``index``, allowed or not, or None when the space has no more than ``index`` points. Fast for rising
        indices.
        """
        while index >= self._axis.size(self._epoch):
            if self._axis.is_complete(self._epoch):
                return None
            self._epoch += 1
        earlier = self._axis.size(self._epoch - 1)
        place = index - earlier
        if self._is_scattered():
            place = _scattered(place, self._axis.size(self._epoch) - earlier)
        value: dict[str, Any] = self._axis.value(earlier + place)
        return value

    def _is_scattered(self) -> bool:
        """Whether the new points of the epoch are in a scattered order. With constraints many are not: in the order of
        the parameters those that break one can be skipped.
        """
        new = self._axis.size(self._epoch) - self._axis.size(self._epoch - 1)
        return not self._space.constraints or new <= _MOST_SCATTERED


def _scattered(place: int, count: int) -> int:
    """The ``place``-th of so many, each once, in an order whose every beginning is spread over all: equal steps of the
    golden ratio. A few are in their own order.
    """
    if count <= _FEW:
        return place
    step = count * _GOLDEN_RATIO // 10**18
    while math.gcd(step, count) > 1:
        step += 1
    return place * step % count
