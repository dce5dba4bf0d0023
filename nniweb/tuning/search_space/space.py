"""NNI's search space language: what a parameter may be, one random point of it, and whether a point lies inside.

A point has two forms. *Parameters* is what a trial receives: ``{"lr": 0.01, "layer": {"_name": "Conv", "kernel": 3}}``.
*Coordinates* is what algorithms compute with: one number per active parameter, addressed by its path. The coordinate of
a numeric parameter is a quantile from 0 to 1 of its own distribution, so that equal steps are equally probable whatever
the type; the coordinate of a choice or randint is the index of its value.

Parsing (with messages for people) is in ``search_space_parser.py``.
"""

import copy
import json
import math
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from nniweb.tuning.constraints.constraint import Constraint, first_broken
from nniweb.tuning.search_space.problem import MOST_PROBLEMS, Problem

if TYPE_CHECKING:
    import numpy as np

Parameters = dict[str, Any]
Path = tuple[str, ...]
Coordinates = dict[Path, float | int]

NAME_KEY = "_name"
# Quantiles stay this far from 0 and 1, where a normal distribution is infinite: 8.2 standard deviations.
SMALLEST_QUANTILE = 2.0**-53
_STANDARD_NORMAL = NormalDist()
# What a product such as 3 * 0.1 may be off, relative to its size.
_ROUNDING = 1e-9
_LARGEST_NUMBER = sys.float_info.max
#: Points that are drawn at most for one that the constraints allow.
MOST_DRAWS = 10_000
#: The same where nothing else is left, once in the life of a space.
_LAST_DRAWS = 100_000


class NothingAllowed(Exception):
    """No point was found that the constraints allow. Not an error: the search ends."""


class Parameter(ABC):
    """One entry of a search space. Immutable; equal when it means the same."""

    @property
    def size(self) -> int:
        """How many values there are; 0 for a real parameter."""
        return 0

    @property
    @abstractmethod
    def type_name(self) -> str:
        """NNI's ``_type``."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The ``{"_type": ..., "_value": ...}`` that parses to this parameter again."""


@dataclass(frozen=True)
class Numeric(Parameter):
    """The eight real types: uniform, normal, their logarithmic and their quantized forms.

    ``first`` and ``second`` are low and high, or mu and sigma where ``is_normal``; with ``is_log`` mu and sigma are
    those of the logarithm, low and high are not. ``q`` is None where the type has none.
    """

    first: float
    second: float
    q: float | None = None
    is_normal: bool = False
    is_log: bool = False

    @property
    def type_name(self) -> str:
        kind = "normal" if self.is_normal else "uniform"
        return f"{'q' if self.q is not None else ''}{'log' if self.is_log else ''}{kind}"

    def to_json(self) -> dict[str, Any]:
        values = [self.first, self.second] if self.q is None else [self.first, self.second, self.q]
        return {"_type": self.type_name, "_value": values}

    def value_at(self, quantile: float) -> float:
        """The value below which the share ``quantile`` of draws lies, by NNI's formula; it never decreases."""
        quantile = min(max(quantile, SMALLEST_QUANTILE), 1 - SMALLEST_QUANTILE)
        if self.is_normal:
            raw = self.first + self.second * _STANDARD_NORMAL.inv_cdf(quantile)
        else:
            low, high = self._edges
            raw = low + (high - low) * quantile
        return self._finish(math.exp(raw) if self.is_log else raw)

    def quantile_of(self, value: float) -> float:
        """The inverse of ``value_at`` (for quantized types: the quantile of the value before rounding)."""
        if self.is_log:
            value = math.log(max(value, 5e-324))
        if self.is_normal:
            quantile = _STANDARD_NORMAL.cdf((value - self.first) / self.second)
        else:
            low, high = self._edges
            quantile = (value - low) / (high - low) if low < high else 0.5
        return min(max(quantile, SMALLEST_QUANTILE), 1 - SMALLEST_QUANTILE)

    def holds(self, value: object) -> bool:
        """Whether a trial could receive this value; the bounds of a quantized type count as inside."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST_NUMBER:
            return False
        if not self.is_normal:
            slack = _ROUNDING * max(abs(self.first), abs(self.second))
            if not self.first - slack <= value <= self.second + slack:
                return False
            if value in (self.first, self.second):
                return True
        elif self.is_log and value < 0:
            return False
        if self.q is None:
            return True
        multiples = value / self.q
        return math.isfinite(multiples) and abs(self._finish(value) - value) <= _ROUNDING * max(abs(value), self.q)

    def grid_values(self) -> range:
        """For a bounded quantized type the whole numbers that, multiplied by q and clipped, are its values."""
        assert self.q is not None
        return range(round(self.first / self.q), round(self.second / self.q) + 1)

    def grid_value(self, multiple: int) -> float:
        assert self.q is not None
        return self._clip(multiple * self.q)

    @cached_property
    def _edges(self) -> tuple[float, float]:
        return (math.log(self.first), math.log(self.second)) if self.is_log else (self.first, self.second)

    def _finish(self, value: float) -> float:
        if self.q is not None:
            value = round(value / self.q) * self.q
        return self._clip(value)

    def _clip(self, value: float) -> float:
        return value if self.is_normal else min(max(value, self.first), self.second)


@dataclass(frozen=True)
class RandInt(Parameter):
    """A whole number, ``low`` inclusive, ``high`` exclusive."""

    low: int
    high: int

    @property
    def type_name(self) -> str:
        return "randint"

    @property
    def size(self) -> int:
        return self.high - self.low

    def to_json(self) -> dict[str, Any]:
        return {"_type": self.type_name, "_value": [self.low, self.high]}


@dataclass(frozen=True)
class Choice(Parameter):
    """One of a list of plain options (any JSON values)."""

    options: tuple[Any, ...]

    @property
    def type_name(self) -> str:
        return "choice"

    @property
    def size(self) -> int:
        return len(self.options)

    def to_json(self) -> dict[str, Any]:
        return {"_type": self.type_name, "_value": list(self.options)}


@dataclass(frozen=True)
class NestedOption:
    """A named option of a nested choice with the parameters that exist only when it is chosen."""

    name: Any
    space: "SearchSpace"


@dataclass(frozen=True)
class NestedChoice(Parameter):
    """One of several sub-spaces; the trial receives ``{"_name": <option>, <sub-parameter>: ...}``."""

    options: tuple[NestedOption, ...]

    @property
    def type_name(self) -> str:
        return "choice"

    @property
    def size(self) -> int:
        return len(self.options)

    def to_json(self) -> dict[str, Any]:
        values = [{NAME_KEY: option.name, **option.space.to_json()} for option in self.options]
        return {"_type": self.type_name, "_value": values}


# Chooses the coordinate of one parameter.
Pick = Callable[[Path, Parameter], float | int]


@dataclass(frozen=True)
class SearchSpace:
    """A parsed search space; may be shared between threads. ``constraints``: trials run with those of its points only
    that all of them allow.
    """

    parameters: Mapping[str, Parameter]
    constraints: tuple[Constraint, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {name: parameter.to_json() for name, parameter in self.parameters.items()}

    def build(self, pick: Pick, prefix: Path = ()) -> Parameters:
        """The parameters whose coordinates ``pick`` chooses, asked in order and only for what is active.

        The point is the caller's: it shares no list or object with the space.
        """
        point: Parameters = {}
        for name, parameter in self.parameters.items():
            path = (*prefix, name)
            coordinate = pick(path, parameter)
            # by exact types: thousands of points are drawn for one proposal, and isinstance asks abstract classes
            if type(parameter) is Numeric:
                point[name] = parameter.value_at(coordinate)
            elif type(parameter) is RandInt:
                point[name] = parameter.low + int(coordinate)
            elif type(parameter) is Choice:
                option = parameter.options[int(coordinate)]
                point[name] = copy.deepcopy(option) if isinstance(option, list | dict) else option
            elif type(parameter) is NestedChoice:
                index = int(coordinate)
                nested = parameter.options[index]
                point[name] = {NAME_KEY: nested.name, **nested.space.build(pick, (*path, str(index)))}
        return point

    def sample(self, rng: "np.random.Generator") -> Parameters:
        """One random point that the constraints allow: each parameter by its own distribution, each option of a choice
        equally probable. Where MOST_DRAWS draws have none, always the same point. Raises NothingAllowed.
        """
        point = next(self.drawn(rng, MOST_DRAWS if self.constraints else 1), None)
        return self.an_allowed_point() if point is None else point

    def drawn(self, rng: "np.random.Generator", most: int) -> Iterator[Parameters]:
        """Those of ``most`` random points that the constraints allow."""

        def pick(_: Path, parameter: Parameter) -> float | int:
            return int(rng.integers(parameter.size)) if parameter.size else float(rng.random())

        for _ in range(most):
            if self.allows(point := self.build(pick)):
                yield point

    def allows(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the constraints allow these parameters, which need not be a point of the space."""
        return not self.constraints or first_broken(self.constraints, parameters) is None

    def an_allowed_point(self) -> Parameters:
        """Always the same point, looked for once in the life of a space. Raises NothingAllowed."""
        if self._last_resort is None:
            raise NothingAllowed("no point that satisfies the constraints was found")
        return copy.deepcopy(self._last_resort)

    @cached_property
    def _last_resort(self) -> Parameters | None:
        drawn = self.drawn_by(random.Random(0), _LAST_DRAWS)  # noqa: S311  # no secret
        return next((point for point in drawn if self.allows(point)), None)

    def drawn_by(self, rng: random.Random, count: int) -> Iterator[Parameters]:
        """So many random points, allowed or not, without numpy."""

        def pick(_: Path, parameter: Parameter) -> float | int:
            return rng.randrange(parameter.size) if parameter.size else rng.random()

        for _ in range(count):
            yield self.build(pick)

    def contains(self, parameters: object) -> bool:
        """Whether a trial could have received exactly these parameters."""
        return not self.problems_with(parameters)

    def problems_with(self, parameters: object) -> list[Problem]:
        """What keeps these parameters from being a point of the space, the first MOST_PROBLEMS of it; an empty list
        when nothing does.
        """
        if not isinstance(parameters, Mapping):
            return [Problem("", "the parameters must be an object of names and values")]
        return list(islice(self._problems(parameters, ""), MOST_PROBLEMS))

    def coordinates(self, parameters: Mapping[str, Any]) -> Coordinates:
        """Coordinates of a point. Parts that are not of this space (it may have changed since) are left out."""
        return dict(self._coordinates(parameters, ()))

    def is_endless(self) -> bool:
        """Whether random points practically never repeat: some parameter at the top is continuous."""
        return any(isinstance(entry, Numeric) and entry.q is None and (entry.is_normal or entry.first < entry.second)
                   for entry in self.parameters.values())

    def _problems(self, point: Mapping[str, Any], prefix: str) -> Iterator[Problem]:
        for name, parameter in self.parameters.items():
            path = f"{prefix}{name}"
            if name not in point:
                yield Problem(path, "is missing")
                continue
            value = point[name]
            if isinstance(parameter, NestedChoice):
                option = _named_option(parameter, value)
                if option is None:
                    names = ", ".join(json.dumps(option.name) for option in parameter.options)
                    yield Problem(path, f'must be an object whose "_name" is one of {names}')
                else:
                    yield from parameter.options[option].space._problems(value, f"{path}.")
            elif (isinstance(parameter, Numeric) and not parameter.holds(value)) or (
                isinstance(parameter, RandInt | Choice) and _index_of(parameter, value) is None
            ):
                yield Problem(path, f"{_shown(value)} is not a value of {_shown(parameter.to_json())}")
        for name in point:
            if name not in self.parameters and not (prefix and name == NAME_KEY):
                yield Problem(f"{prefix}{name}", "is not a parameter of the search space")

    def _coordinates(self, point: Mapping[str, Any], prefix: Path) -> Iterator[tuple[Path, float | int]]:
        for name, parameter in self.parameters.items():
            if name not in point:
                continue
            path, value = (*prefix, name), point[name]
            if isinstance(parameter, Numeric):
                if parameter.holds(value):
                    yield path, parameter.quantile_of(value)
            elif isinstance(parameter, NestedChoice):
                option = _named_option(parameter, value)
                if option is not None:
                    yield path, option
                    yield from parameter.options[option].space._coordinates(value, (*path, str(option)))
            elif isinstance(parameter, RandInt | Choice):
                index = _index_of(parameter, value)
                if index is not None:
                    yield path, index


def point_key(parameters: object) -> str:
    """A text that is equal for equal points, also after a database has turned 2.0 into 2 (PostgreSQL 1e20 into a whole
    number) or moved keys about.
    """
    return json.dumps(_with_real_numbers(parameters), sort_keys=True)


def _with_real_numbers(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _with_real_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_real_numbers(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST_NUMBER \
            and float(value) == value:
        return float(value)
    return value


def _index_of(parameter: RandInt | Choice, value: object) -> int | None:
    if isinstance(parameter, RandInt):
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            return None
        return int(value) - parameter.low if parameter.low <= value < parameter.high else None
    # By text and not by ==, for which 1, 1.0 and true are the same option.
    for as_text in (json.dumps, point_key):
        wanted = as_text(value)
        for index, option in enumerate(parameter.options):
            if as_text(option) == wanted:
                return index
    return None


def _named_option(parameter: NestedChoice, value: object) -> int | None:
    if isinstance(value, Mapping):
        for index, option in enumerate(parameter.options):
            if NAME_KEY in value and point_key(option.name) == point_key(value[NAME_KEY]):
                return index
    return None


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 100 else f"{text[:97]}..."
