"""The axes of a grid: lists of values that grow by epochs, of one parameter or of a whole space."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nniweb.tuning.constraints.constraint import Constraint
from nniweb.tuning.constraints.ranges import Range
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

# Of a longer list of options it is not looked for the least and the greatest.
_MOST_OPTIONS = 1000
_LARGEST = 1e300
# Of one parameter, kept.
_MOST_EXTENTS = 1000

#: Of each parameter the values that it takes: from the one of this number to the one before the other.
Spans = list[tuple[int, int]]


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

    @abstractmethod
    def extent(self, start: int, stop: int) -> Range | None:
        """From the least to the greatest of the values ``start`` to ``stop`` (one at least); None where one of them is
        no number.
        """


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

    def extent(self, start: int, stop: int) -> Range | None:
        # a choice may have its options in any order; of ranges of whole numbers the ends are enough
        places = range(start, stop) if stop - start <= _MOST_OPTIONS else ()
        return extent_of([self.value(place) for place in places])


class RisingAxis(FiniteAxis):
    """The same with numbers that rise."""

    def extent(self, start: int, stop: int) -> Range | None:
        return extent_of([self.value(start), self.value(stop - 1)])


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
        self._extents: dict[tuple[int, int], Range | None] = {}

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

    def extent(self, start: int, stop: int) -> Range | None:
        if (start, stop) not in self._extents:
            if len(self._extents) >= _MOST_EXTENTS:
                self._extents.clear()
            self._extents[start, stop] = extent_of(self._values[start:stop])
        return self._extents[start, stop]

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

    def extent(self, start: int, stop: int) -> Range | None:
        return None


class ProductAxis(Axis):
    """A whole space: every combination of its parameters' values. A space without parameters has one point."""

    def __init__(self, space: SearchSpace) -> None:
        self._names = list(space.parameters)
        self._axes = [_axis(parameter) for parameter in space.parameters.values()]
        #: What was computed, by the epoch: a walk asks for each point.
        self._sizes: dict[int, int] = {}
        self._groups: dict[int, list[tuple[int, Spans]]] = {}

    def size(self, epoch: int) -> int:
        if epoch not in self._sizes:
            self._sizes[epoch] = math.prod(axis.size(epoch) for axis in self._axes) if epoch >= 0 else 0
        return self._sizes[epoch]

    def value(self, index: int) -> Any:
        epoch, position = _epoch_of(self, index)
        for count, spans in self._groups_of(epoch):
            if position < count:
                return self._combination(spans, position)
            position -= count
        return {}

    def is_complete(self, epoch: int) -> bool:
        return all(axis.is_complete(epoch) for axis in self._axes)

    def extent(self, start: int, stop: int) -> Range | None:
        return None

    def next_possible(self, constraint: Constraint, index: int, point: Mapping[str, Any]) -> int:
        """The next index at which the constraint may be true, or one before it; ``point`` is the one at ``index``,
        which breaks it.

        Points lie in blocks: those that have the same values of the first parameters. Of the blocks in which it cannot
        be true whatever the other parameters are, the largest one is left out, and as many after it as are known to be
        like it.
        """
        epoch, position = _epoch_of(self, index)
        for count, spans in self._groups_of(epoch):
            if position < count:
                return index + self._points_to_skip(constraint, point, spans, position)
            position -= count
        return index + 1

    def _points_to_skip(self, constraint: Constraint, point: Mapping[str, Any], spans: Spans,
                        position: int) -> int:
        named = {name.parts[0] for name in constraint.names}
        extents = {name: axis.extent(*span) for name, axis, span in zip(self._names, self._axes, spans, strict=True)
                   if name in named}

        def is_possible() -> bool:
            return constraint.may_allow(lambda parts: extents.get(parts[0]) if len(parts) == 1 else None)

        block = math.prod(stop - start for start, stop in spans)
        if not is_possible():
            return block - position % block
        last = max((place for place, name in enumerate(self._names) if name in named), default=-1)
        for place, (name, (start, stop)) in enumerate(zip(self._names, spans, strict=True)):
            block //= stop - start
            if name in named:
                extents[name] = extent_of([point[name]])
            if place == last or (name in named and not is_possible()):
                break
        first, alike = start + position // block % (stop - start), 1
        while last >= 0 and first + 2 * alike <= stop:
            extents[name] = self._axes[place].extent(first, first + 2 * alike)
            if is_possible():
                break
            alike *= 2
        return alike * block - position % block

    def _groups_of(self, epoch: int) -> list[tuple[int, Spans]]:
        """The new points of an epoch, grouped by the first parameter whose value is new: those before it take known
        values, those behind it any. Of each group how many there are, and the span of each parameter's values.
        """
        if epoch not in self._groups:
            self._groups[epoch] = []
            for first_new in range(len(self._axes)):
                spans = []
                for place, axis in enumerate(self._axes):
                    earlier, known = axis.size(epoch - 1), axis.size(epoch)
                    spans.append((0, earlier) if place < first_new else (earlier if place == first_new else 0, known))
                self._groups[epoch].append((math.prod(stop - start for start, stop in spans), spans))
        return self._groups[epoch]

    def _combination(self, spans: Spans, position: int) -> dict[str, Any]:
        """The last parameter changes fastest."""
        values = []
        for axis, (start, stop) in zip(reversed(self._axes), reversed(spans), strict=True):
            position, place = divmod(position, stop - start)
            values.append(axis.value(start + place))
        return dict(zip(self._names, reversed(values), strict=True))


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
        return RisingAxis(parameter.size, range(parameter.low, parameter.high).__getitem__)
    assert isinstance(parameter, Numeric)
    if parameter.type_name == "quniform":
        multiples = parameter.grid_values()
        return RisingAxis(len(multiples), lambda index: parameter.grid_value(multiples[index]))
    return RefinedAxis(parameter)


def extent_of(values: Sequence[Any]) -> Range | None:
    """From the least to the greatest; None where there are none, or one is no number."""
    numbers = [float(value) for value in values
               if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST]
    return Range(min(numbers), max(numbers)) if numbers and len(numbers) == len(values) else None
