"""``nni.common.hpo_utils.Deduplicator``: no point twice."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any

from nniweb.tuning.custom_algorithms.nni import NoMoreTrialError
from nniweb.tuning.custom_algorithms.nni.formatted_space import Key, ParameterSpec, deformat_parameters


class Deduplicator:
    """Called with a flat point it returns that point the first time, and another one, which was not there yet, each
    time after. Raises NoMoreTrialError when the space has no other.
    """

    def __init__(self, formatted_search_space: Mapping[Key, ParameterSpec]) -> None:
        self._space = dict(formatted_search_space)
        self._seen: set[str] = set()
        self._others = _grid(self._space)
        self._is_endless = any(not spec.is_nested() and _never_repeats(spec) for spec in self._space.values())

    def __call__(self, formatted_parameters: Mapping[Key, Any]) -> dict[Key, Any]:
        point = dict(formatted_parameters)
        if self._is_endless or self._is_new(point):
            return point
        for other in self._others:
            if self._is_new(other):
                return other
        raise NoMoreTrialError("all points of the search space were tried")

    def add_history(self, formatted_parameters: Mapping[Key, Any]) -> None:
        """This point was tried before."""
        self._is_new(formatted_parameters)

    def _is_new(self, point: Mapping[Key, Any]) -> bool:
        text = json.dumps(deformat_parameters(point, self._space), sort_keys=True, default=str)
        is_new = text not in self._seen
        self._seen.add(text)
        return is_new


def _never_repeats(spec: ParameterSpec) -> bool:
    if spec.categorical or spec.q is not None:
        return False
    return spec.sigma > 0 if spec.normal_distributed else spec.low < spec.high


def _grid(space: Mapping[Key, ParameterSpec]) -> Iterator[dict[Key, Any]]:
    """All points; of a space without an end ever finer grids, which repeat the coarser ones."""
    specs = list(space.values())
    is_finite = all(spec.categorical or spec.clip is not None for spec in specs)
    for fineness in itertools.count(1):
        yield from _points(specs, fineness, {})
        if is_finite:
            return


def _points(specs: Sequence[ParameterSpec], fineness: int, begun: dict[Key, Any]) -> Iterator[dict[Key, Any]]:
    if not specs:
        yield dict(begun)
    elif not specs[0].is_activated_in(begun):
        yield from _points(specs[1:], fineness, begun)
    else:
        for number in _numbers(specs[0], fineness):
            yield from _points(specs[1:], fineness, {**begun, specs[0].key: number})


def _numbers(spec: ParameterSpec, fineness: int) -> Iterator[Any]:
    if spec.categorical:
        yield from range(spec.size)
    elif spec.clip is not None:
        assert spec.q is not None
        low, high = spec.clip
        for multiple in range(round(low / spec.q), round(high / spec.q) + 1):
            value = min(max(multiple * spec.q, low), high)
            yield math.log(value) if spec.log_distributed else value
    else:
        parts = 2**fineness
        for part in range(1, parts):
            yield (NormalDist(spec.mu, spec.sigma).inv_cdf(part / parts) if spec.normal_distributed
                   else spec.low + (spec.high - spec.low) * part / parts)
