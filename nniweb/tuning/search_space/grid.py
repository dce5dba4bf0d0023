"""A search space as one endless numbered list of points, coarse ones first, none twice.

Choices, randint and quniform are in the list with all their values from the start. Every other type is refined in
epochs: first the median of its distribution, then its quartiles, then eighths and so on. Each epoch combines all that
is known so far and leaves out the combinations of earlier epochs; where these are many, in a scattered order, because
in the order of the parameters the first ones would not change for long. Nothing is enumerated: point ``n`` is computed
from n, so a space of a billion points costs nothing until it is walked.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from typing import Any

from nniweb.tuning.constraints.constraint import first_broken
from nniweb.tuning.search_space.space import (
    NAME_KEY,
    Choice,
    NestedChoice,
    NestedOption,
    Numeric,
    Parameter,
    RandInt,
    SearchSpace,
)

#: So many points that constraints forbid are looked at for one that they allow: some seconds.
MOST_SKIPS = 50_000
# New points of an epoch that are tried in the order of the parameters: mostly all of them are tried.
_FEW = 64
# In units of 1e-18: spaces may have more points than a float can count.
_GOLDEN_RATIO = 618_033_988_749_894_848


class Axis(ABC):
    """A numbered list of values that grows by epochs: the values known in epoch e are those below ``size(e)``."""

    @abstractmethod
    def size(self, epoch: int) -> int:
        """How many values are known in this epoch; 0 for epoch -1."""

    @abstractmethod
    def value(self, index: int) -> Any:
        """The value of this number, whatever the epoch."""

    @abstractmethod
    def is_complete(self, epoch: int) -> bool:
        """Whether no later epoch adds a value."""


class FiniteAxis(Axis):
    """All values are known from the start."""

    def __init__(self, size: int, value: Callable[[int], Any]) -> None:
        self._size = size
        self._value = value

    def size(self, epoch: int) -> int:
        return self._size if epoch >= 0 else 0

    def value(self, index: int) -> Any:
        return self._value(index)

    def is_complete(self, epoch: int) -> bool:
        return epoch >= 0


class RefinedAxis(Axis):
    """A real parameter: in each epoch every interval between known quantiles is halved.

    A quantized parameter is complete once no multiple of q lies between any two neighbours.
    """

    def __init__(self, parameter: Numeric) -> None:
        self._parameter = parameter
        self._values: list[float] = []
        self._known: set[float] = set()
        self._add(0.5)
        self._sizes = [1]
        self._intervals = [(0.0, 0.5), (0.5, 1.0)]

    def size(self, epoch: int) -> int:
        if epoch < 0:
            return 0
        while epoch >= len(self._sizes) and self._intervals:
            self._refine()
        return self._sizes[min(epoch, len(self._sizes) - 1)]

    def value(self, index: int) -> float:
        return self._values[index]

    def is_complete(self, epoch: int) -> bool:
        self.size(epoch)
        return epoch >= len(self._sizes) - 1 and not self._intervals

    def _refine(self) -> None:
        intervals = []
        for low, high in self._intervals:
            middle = (low + high) / 2
            if low < middle < high and self._has_values_between(low, high):
                self._add(middle)
                intervals += [(low, middle), (middle, high)]
            elif self._parameter.q is not None:
                # All between the ends is known; the ends of the distribution themselves were not looked at yet.
                self._add(low)
                self._add(high)
        self._intervals = intervals
        self._sizes.append(len(self._values))

    def _add(self, quantile: float) -> None:
        value = self._parameter.value_at(quantile)
        if value not in self._known:
            self._known.add(value)
            self._values.append(value)

    def _has_values_between(self, low: float, high: float) -> bool:
        below, above, q = self._parameter.value_at(low), self._parameter.value_at(high), self._parameter.q
        if q is None:
            return below < above
        # The tolerance absorbs what k * q is off as a binary number.
        next_multiple = math.floor(below / q + 1e-9) + 1
        return next_multiple < above / q - 1e-9


class UnionAxis(Axis):
    """A nested choice: the points of each option's space, option after option within an epoch."""

    def __init__(self, options: tuple[NestedOption, ...]) -> None:
        self._names = [option.name for option in options]
        self._spaces = [ProductAxis(option.space) for option in options]

    def size(self, epoch: int) -> int:
        return sum(space.size(epoch) for space in self._spaces)

    def value(self, index: int) -> Any:
        epoch, position = _epoch_of(self, index)
        for name, space in zip(self._names, self._spaces, strict=True):
            earlier = space.size(epoch - 1)
            new = space.size(epoch) - earlier
            if position < new:
                return {NAME_KEY: name, **space.value(earlier + position)}
            position -= new
        raise IndexError(index)

    def is_complete(self, epoch: int) -> bool:
        return all(space.is_complete(epoch) for space in self._spaces)


class ProductAxis(Axis):
    """A whole space: every combination of its parameters' values. A space without parameters has one point."""

    def __init__(self, space: SearchSpace) -> None:
        self._names = list(space.parameters)
        self._axes = [_axis(parameter) for parameter in space.parameters.values()]

    def size(self, epoch: int) -> int:
        return math.prod(axis.size(epoch) for axis in self._axes) if epoch >= 0 else 0

    def value(self, index: int) -> Any:
        epoch, position = _epoch_of(self, index)
        for spans in self._groups(epoch):
            count = math.prod(stop - start for start, stop in spans)
            if position < count:
                return self._combination(spans, position)
            position -= count
        return {}

    def is_complete(self, epoch: int) -> bool:
        return all(axis.is_complete(epoch) for axis in self._axes)

    def next_with_another(self, names: Collection[str], index: int) -> int:
        """The next index at which one of these parameters has another value than at ``index``, or one before them."""
        epoch, position = _epoch_of(self, index)
        last = max((place for place, name in enumerate(self._names) if name in names), default=-1)
        for spans in self._groups(epoch):
            count = math.prod(stop - start for start, stop in spans)
            if position < count:
                block = math.prod(stop - start for start, stop in spans[last + 1:])
                return index - position % block + block
            position -= count
        return index + 1

    def _groups(self, epoch: int) -> Iterator[list[tuple[int, int]]]:
        """The new points of an epoch, grouped by the first parameter whose value is new: those before it take known
        values, those behind it any. Of each group the span of each parameter's values.
        """
        for first_new in range(len(self._axes)):
            spans = []
            for place, axis in enumerate(self._axes):
                earlier, known = axis.size(epoch - 1), axis.size(epoch)
                spans.append((0, earlier) if place < first_new else (earlier if place == first_new else 0, known))
            yield spans

    def _combination(self, spans: list[tuple[int, int]], position: int) -> dict[str, Any]:
        """The last parameter changes fastest."""
        values = []
        for axis, (start, stop) in zip(reversed(self._axes), reversed(spans), strict=True):
            position, place = divmod(position, stop - start)
            values.append(axis.value(start + place))
        return dict(zip(self._names, reversed(values), strict=True))


class Grid:
    """The points of a search space in the order a grid search tries them."""

    def __init__(self, space: SearchSpace) -> None:
        self._axis = ProductAxis(space)
        self._space = space
        self._epoch = 0

    def first_allowed(self, index: int) -> tuple[int, dict[str, Any]] | None:
        """The first point from ``index`` on that the space's constraints allow, and its index; None when there is none,
        or none in MOST_SKIPS looks. Points that only repeat what makes a constraint false are skipped without a look.
        """
        for _ in range(MOST_SKIPS):
            point = self.point(index)
            if point is None:
                return None
            broken = first_broken(self._space.constraints, point)
            if broken is None:
                return index, point
            names = {name.parts[0] for name in broken.names}
            index = index + 1 if self._is_scattered() else self._axis.next_with_another(names, index)
        return None

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
        return not self._space.constraints or new <= MOST_SKIPS


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


def _epoch_of(axis: Axis, index: int) -> tuple[int, int]:
    """The epoch in which a value appears, and its place among that epoch's new values."""
    epoch = 0
    while index >= axis.size(epoch):
        if axis.is_complete(epoch):
            raise IndexError(index)
        epoch += 1
    return epoch, index - axis.size(epoch - 1)


def _axis(parameter: Parameter) -> Axis:
    if isinstance(parameter, NestedChoice):
        return UnionAxis(parameter.options)
    if isinstance(parameter, Choice):
        return FiniteAxis(parameter.size, parameter.options.__getitem__)
    if isinstance(parameter, RandInt):
        return FiniteAxis(parameter.size, range(parameter.low, parameter.high).__getitem__)
    assert isinstance(parameter, Numeric)
    if parameter.type_name == "quniform":
        multiples = parameter.grid_values()
        return FiniteAxis(len(multiples), lambda index: parameter.grid_value(multiples[index]))
    return RefinedAxis(parameter)
