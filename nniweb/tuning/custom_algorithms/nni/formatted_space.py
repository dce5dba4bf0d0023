"""``nni.common.hpo_utils.formatting``: a search space as a flat table, for algorithms that know nothing of nesting.

The key of a parameter is the path to it: names, and before each name inside of a nested choice the index of its option.
A flat point maps such keys to numbers: the index of an option, the distance of an integer from the lowest one, the
logarithm of what is spread over orders of magnitude; what is not chosen is not there.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

Key = tuple[str | int, ...]


class ParameterSpec(NamedTuple):
    """One parameter. Fields that its type has no use for are None."""

    name: str
    type: str
    values: list[Any]
    key: Key
    #: Whether a flat point holds an index, and of how many; all others are real numbers.
    categorical: bool
    size: int = None  # type: ignore[assignment]  # as NNI has it
    chosen_size: int | None = 1
    #: Bounds, of the logarithm where ``log_distributed``.
    low: float = None  # type: ignore[assignment]
    high: float = None  # type: ignore[assignment]
    normal_distributed: bool = None  # type: ignore[assignment]
    #: Of the logarithm where ``log_distributed``.
    mu: float = None  # type: ignore[assignment]
    sigma: float = None  # type: ignore[assignment]
    q: float | None = None
    #: The bounds of values that are rounded to multiples of ``q``; none of a normal distribution.
    clip: tuple[float, float] | None = None
    log_distributed: bool = None  # type: ignore[assignment]

    def is_nested(self) -> bool:
        """Whether it belongs to an option of a choice."""
        return len(self.key) > 1 and isinstance(self.key[-2], int)

    def is_activated_in(self, partial_parameters: Mapping[Key, Any]) -> bool:
        """Whether a flat point, in which the choices above it are settled, has it."""
        return not self.is_nested() or partial_parameters.get(self.key[:-2]) == self.key[-2]


def format_search_space(search_space: Mapping[str, Any]) -> dict[Key, ParameterSpec]:
    """The parameters by their keys; a choice stands before what is inside of it."""
    return {spec.key: spec for spec in _specs_in(search_space, ())}


def deformat_parameters(formatted_parameters: Mapping[Key, Any],
                        formatted_search_space: Mapping[Key, ParameterSpec]) -> dict[str, Any]:
    """What a trial gets for a flat point, by NNI's formulas for rounding and clipping."""
    found: dict[str, Any] = {}
    for key, number in formatted_parameters.items():
        spec = formatted_search_space[key]
        group = found
        names = [part for part in key if isinstance(part, str)]
        for name in names[:-1]:
            group = group.setdefault(name, {})
        if _has_options_with_names(spec):
            group.setdefault(names[-1], {})["_name"] = spec.values[number]["_name"]
        else:
            group[names[-1]] = _value(spec, number)
    return found


def format_parameters(parameters: Mapping[str, Any],
                      formatted_search_space: Mapping[Key, ParameterSpec]) -> dict[Key, Any]:
    """The flat point of what a trial got. What was rounded away is not known any more."""
    point: dict[Key, Any] = {}
    for key, spec in formatted_search_space.items():
        if spec.is_activated_in(point):
            value: Any = parameters
            for part in key:
                value = value[part] if isinstance(part, str) else value
            point[key] = _number(spec, value)
    return point


def _specs_in(space: Mapping[str, Any], above: Key) -> Iterator[ParameterSpec]:
    for name, written in space.items():
        if name == "_name":
            continue
        spec = _spec((*above, name), written["_type"], written["_value"])
        yield spec
        if _has_options_with_names(spec):
            for index, option in enumerate(spec.values):
                yield from _specs_in(option, (*spec.key, index))


def _spec(key: Key, kind: str, values: list[Any]) -> ParameterSpec:
    spec = ParameterSpec(str(key[-1]), kind, values, key, categorical=kind in ("choice", "randint"))
    if kind == "choice":
        return spec._replace(size=len(values))
    if kind == "randint":
        return spec._replace(size=_whole(values[1]) - _whole(values[0]))
    first, second = float(values[0]), float(values[1])
    is_rounded, is_log, is_normal = kind.startswith("q"), "log" in kind, "normal" in kind
    spec = spec._replace(normal_distributed=is_normal, log_distributed=is_log,
                         q=float(values[2]) if is_rounded else None)
    if is_normal:
        return spec._replace(mu=first, sigma=second)
    return spec._replace(low=math.log(first) if is_log else first, high=math.log(second) if is_log else second,
                         clip=(first, second) if is_rounded else None)


def _whole(bound: Any) -> int:
    """NNI 3 takes bounds with a fraction and rounds them up."""
    return math.ceil(float(bound))


def _has_options_with_names(spec: ParameterSpec) -> bool:
    return spec.type == "choice" and all(isinstance(option, dict) and "_name" in option for option in spec.values)


def _value(spec: ParameterSpec, number: Any) -> Any:
    if spec.type == "choice":
        return spec.values[number]
    if spec.type == "randint":
        return int(number + min(map(_whole, spec.values)))
    value = math.exp(number) if spec.log_distributed else number
    if spec.q is not None:
        value = round(value / spec.q) * spec.q
    if spec.clip is not None:
        value = min(max(value, spec.clip[0]), spec.clip[1])
    return value.item() if isinstance(value, np.number) else value


def _number(spec: ParameterSpec, value: Any) -> Any:
    if _has_options_with_names(spec):
        return [option["_name"] for option in spec.values].index(value["_name"])
    if spec.type == "choice":
        return spec.values.index(value)
    if spec.type == "randint":
        return value - min(map(_whole, spec.values))
    return math.log(value) if spec.log_distributed else value
