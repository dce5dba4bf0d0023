"""The axes on which an experiment's hyper-parameters are drawn: from its search space, or from what trials were given.

A nested choice gives one axis for the choice and one for each parameter of its options: these have a value only where
that option was taken.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.problem import InvalidInput
from nniweb.tuning.search_space.space import NAME_KEY, Choice, NestedChoice, Numeric, RandInt, SearchSpace, point_key

#: A parameter without a search space that has more values than this, not all of them numbers, gets no axis.
MOST_CATEGORIES = 30
#: More axes than this are not made of parameters that no search space describes.
MOST_GUESSED_AXES = 100

_NUMBERS = (float, int)
#: Kinds of values that can be looked up as they are.
_SIMPLE = (str, float, int)


class _Missing:
    """A trial has no such parameter."""


MISSING = _Missing()
#: What a trial was given there, or MISSING.
Take = Callable[[Any], Any]


@dataclass(frozen=True)
class Axis:
    """One parameter: a number, or one of several options."""

    #: Unique, such as ``lr`` or ``layer.Conv.kernel``.
    name: str
    #: "number" or "category".
    kind: str
    logarithmic: bool = False
    #: Whole numbers only.
    whole: bool = False
    #: The range drawn, for numbers; None where no trial and no space says.
    low: float | None = None
    high: float | None = None
    #: What a value of the column stands for, for categories.
    options: tuple[Any, ...] = ()
    #: Name of the choice that this one hangs on, and the index of its option; None where it always has a value.
    choice: str | None = None
    option: int | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether more and less mean something: numbers, and options that are all numbers."""
        return self.kind == "number" or all(_is_number(option) for option in self.options)


@dataclass(frozen=True)
class Column:
    """An axis with its values, one a trial: a number, the index of an option, or None where it is not used."""

    axis: Axis
    values: list[float | int | None]


def columns_of(raw_space: Any, points: Sequence[Any]) -> list[Column]:
    """The columns of what trials were given. A space that only the user's own tuner can read is guessed from them."""
    try:
        space = parse_search_space(raw_space)
    except InvalidInput:
        return [column for name in _names_in(points) if (column := _guessed(name, points)) is not None]
    return [_column(axis, [take(point) for point in points]) for axis, take in _axes(space, "", _itself, None, None)]


def _axes(space: SearchSpace, prefix: str, inside: Take, choice: str | None,
          option: int | None) -> Iterator[tuple[Axis, Take]]:
    for key, parameter in space.parameters.items():
        name, take = f"{prefix}{key}", _entry(inside, key)
        if isinstance(parameter, Numeric):
            bounded = not parameter.is_normal
            yield Axis(name, "number", parameter.is_log, low=parameter.first if bounded else None,
                       high=parameter.second if bounded else None, choice=choice, option=option), take
        elif isinstance(parameter, RandInt):
            yield Axis(name, "number", whole=True, low=parameter.low, high=parameter.high - 1, choice=choice,
                       option=option), take
        elif isinstance(parameter, Choice):
            yield Axis(name, "category", options=parameter.options, choice=choice, option=option), take
        elif isinstance(parameter, NestedChoice):
            names = tuple(one.name for one in parameter.options)
            yield Axis(name, "category", options=names, choice=choice, option=option), _entry(take, NAME_KEY)
            for index, one in enumerate(parameter.options):
                yield from _axes(one.space, f"{name}.{_text(one.name)}.", _where(take, one.name), name, index)


def _itself(point: Any) -> Any:
    return point


def _entry(inside: Take, key: str) -> Take:
    def take(point: Any) -> Any:
        found = point if inside is _itself else inside(point)
        return found.get(key, MISSING) if isinstance(found, dict) else MISSING  # it was read from JSON

    return take


def _where(take: Take, option: Any) -> Take:
    wanted = point_key(option)

    def only(point: Any) -> Any:
        found = take(point)
        taken = isinstance(found, dict) and NAME_KEY in found and point_key(found[NAME_KEY]) == wanted
        return found if taken else MISSING

    return only


def _column(axis: Axis, values: list[Any]) -> Column:
    return _numbers(axis, values) if axis.kind == "number" else _categories(axis, values)


def _numbers(axis: Axis, values: list[Any]) -> Column:
    numbers = [value if _is_number(value) else None for value in values]
    known = [value for value in numbers if value is not None]
    # the space may have been changed since, or have no bounds
    ends = [*known, *(end for end in (axis.low, axis.high) if end is not None)]
    low, high = (min(ends), max(ends)) if ends else (None, None)
    logarithmic = axis.logarithmic and low is not None and low > 0
    return Column(Axis(axis.name, "number", logarithmic, axis.whole, low, high, choice=axis.choice,
                       option=axis.option), list(numbers))


def _categories(axis: Axis, values: list[Any]) -> Column:
    options = list(axis.options)
    places = {point_key(option): place for place, option in reversed(list(enumerate(options)))}
    indices: list[float | int | None] = []
    looked_up: dict[tuple[type, Any], int] = {}  # to make a value's key takes longer than all else here
    for value in values:
        if value is MISSING:
            indices.append(None)
            continue
        itself = (type(value), value) if isinstance(value, _SIMPLE) else (object, point_key(value))
        place = looked_up.get(itself)
        if place is None:
            place = places.setdefault(point_key(value), len(options))
            if place == len(options):
                options.append(value)  # of an earlier form of the space
            looked_up[itself] = place
        indices.append(place)
    return Column(Axis(axis.name, "category", options=tuple(options), choice=axis.choice, option=axis.option), indices)


def _names_in(points: Sequence[Any]) -> list[str]:
    names = dict.fromkeys(name for point in points if isinstance(point, dict) for name in point)
    return list(names)[:MOST_GUESSED_AXES]


def _guessed(name: str, points: Sequence[Any]) -> Column | None:
    values = [_entry(_itself, name)(point) for point in points]
    known = [value for value in values if value is not MISSING]
    if all(_is_number(value) for value in known):
        return _numbers(Axis(name, "number", whole=all(isinstance(value, int) for value in known)), values)
    if len({point_key(value) for value in known}) > MOST_CATEGORIES:
        return None
    return _categories(Axis(name, "category"), values)


def _is_number(value: Any) -> bool:
    return type(value) in _NUMBERS and abs(value) <= 1e308  # true is none


def _text(option: Any) -> str:
    return option if isinstance(option, str) else json.dumps(option, ensure_ascii=False)
