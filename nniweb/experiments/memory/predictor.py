"""How much GPU memory a trial needs, by what trials of its experiment with other parameters needed.

Memory is mostly a constant share and a product of parameters (batch size, width, depth). So the logarithm of what lies
above a constant is fitted linearly to the logarithms of parameters, with a little ridge; of several constants the one
counts that fits best. How far off the fit is tells each trial by the fit without it: the quantile of these residuals is
the uncertainty, wider where the new parameters are farther away than those that are known. It needs few trials, and a
mistake costs time only: a trial that runs out is run again alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nniweb.tuning.search_space.parser import LONGEST_NAME

#: Trials whose memory is known, from which on something is predicted, and the most of them, the newest, that count.
FEWEST, MOST = 5, 150
#: Share of trials that need no more than ``upper``.
QUANTILE = 0.95
#: On top of what is predicted: a share, and bytes that a context may differ by.
HEAD_ROOM, CONTEXT = 0.05, 200 * 1024 ** 2
#: Columns: the first so many of a number or an option each, and fewer than a third of the trials.
_MOST_COLUMNS = 12
_RIDGE = 1e-3
#: Constant shares that are tried, of the smallest peak.
_SHARES = (0.0, 0.3, 0.6, 0.8, 0.9, 0.97)
#: A trial that ran out needed more than it had: so much of it is taken for its peak.
_RAN_OUT = 1.3


@dataclass(frozen=True)
class Seen:
    """One trial: its parameters (flat or nested), and the most bytes that it had on one GPU. ``ran_out``: it needed
    more.
    """

    parameters: Mapping[str, Any]
    peak: int
    ran_out: bool = False


@dataclass(frozen=True)
class Prediction:
    """Bytes on each GPU: most likely, and at most with QUANTILE, head room included. ``trials``: by how many."""

    expected: int
    upper: int
    trials: int


@dataclass(frozen=True)
class MemoryModel:
    """Fitted once, and then asked for many trials, by any thread."""

    trials: int
    columns: Sequence[tuple[str, str]]
    means: Sequence[float]
    scales: Sequence[float]
    #: Bytes of the constant share.
    offset: float = 0.0
    #: What residuals of logarithms stay below with QUANTILE.
    quantile: float = 0.0
    #: The largest distance of a known trial from all of them.
    farthest: float = 0.0
    weights: Sequence[float] = ()
    inverse: Sequence[Sequence[float]] = ()

    def predict(self, parameters: Mapping[str, Any]) -> Prediction:
        """In some ten microseconds."""
        row = _row(flat(parameters), self.columns, self.means, self.scales)
        expected = self.offset + math.exp(min(60.0, _product(self.weights, row)))
        distance = _quadratic(row, self.inverse)
        wider = math.sqrt((1 + distance) / (1 + min(distance, self.farthest)))
        upper = expected * math.exp(min(20.0, self.quantile * wider))
        return Prediction(int(expected), int(upper * (1 + HEAD_ROOM)) + CONTEXT, self.trials)


def fit(history: Sequence[Seen]) -> MemoryModel | None:
    """A model of these trials, the oldest first; None where they are too few."""
    known = [one for one in history if one.peak > 0][-MOST:]
    if len(known) < FEWEST:
        return None
    each = [flat(one.parameters) for one in known]
    peaks = [one.peak * (_RAN_OUT if one.ran_out else 1.0) for one in known]
    columns = _columns_of(each, [math.log(peak) for peak in peaks])
    values = [[_value(parameters, column) for column in columns] for parameters in each]
    means = [sum(column) / len(each) for column in zip(*values, strict=True)]
    scales = [math.sqrt(sum((value - mean) ** 2 for value in column) / len(each)) or 1.0
              for column, mean in zip(zip(*values, strict=True), means, strict=True)]
    rows = [_row(parameters, columns, means, scales) for parameters in each]
    return min((_fitted(share * min(peaks), peaks, rows, MemoryModel(len(known), columns, means, scales))
                for share in _SHARES), key=lambda model: model.quantile)


def _fitted(offset: float, peaks: Sequence[float], rows: Sequence[Sequence[float]], model: MemoryModel) -> MemoryModel:
    """The model with this constant share. A trial weighs as much as its logarithm moves that of its whole peak."""
    target = [math.log(peak - offset) for peak in peaks]
    loads = [((peak - offset) / peak) ** 2 for peak in peaks]
    size = len(rows[0])
    ridge = _RIDGE * sum(loads)
    gram = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            gram[i][j] = gram[j][i] = sum(load * row[i] * row[j] for load, row in zip(loads, rows, strict=True))
        gram[i][i] += ridge if i else 0.0
    inverse = _inverted(gram)
    moments = [sum(load * row[i] * value for load, row, value in zip(loads, rows, target, strict=True))
               for i in range(size)]
    weights = [_product(line, moments) for line in inverse]
    distances = [_quadratic(row, inverse) for row in rows]
    residuals = []
    for row, value, peak, load, distance in zip(rows, target, peaks, loads, distances, strict=True):
        without_it = value - (value - _product(weights, row)) / (1 - min(load * distance, 0.95))
        residuals.append(math.log(peak / (offset + math.exp(min(60.0, without_it)))))
    residuals.sort()
    # with few trials the largest one, and more than that: nobody has seen the tail yet
    rank = min(len(residuals), math.ceil((len(residuals) + 1) * QUANTILE))
    return replace(model, offset=offset, weights=weights, inverse=inverse, farthest=max(distances),
                   quantile=max(0.0, residuals[rank - 1]) * (1 + 2 / len(residuals)))


def flat(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Parameters by flat names: those of nested choices behind the name of the choice, unless that is too long."""
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, Mapping) and len(prefix) + len(name) <= LONGEST_NAME:
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def _columns_of(each: Sequence[Mapping[str, Any]], target: Sequence[float]) -> list[tuple[str, str]]:
    """Those that go with the target most: (name, "log" or "plain") of numbers, (name, option as JSON) of all else."""
    found: list[tuple[str, str]] = []
    for name in dict.fromkeys(name for parameters in each for name in parameters):
        values = [parameters.get(name) for parameters in each]
        if all(_is_number(value) for value in values):
            found.append((name, "log" if all(value > 0 for value in values) else "plain"))  # type: ignore[operator]
        else:
            options = dict.fromkeys(json.dumps(value, sort_keys=True, default=str) for value in values)
            found += [(name, option) for option in list(options)[1:_MOST_COLUMNS]]
    most = min(_MOST_COLUMNS, max(1, len(each) // 3))
    found = [column for column in found if len({_value(parameters, column) for parameters in each}) > 1]
    chosen = sorted(found, key=lambda column: -abs(_correlation([_value(parameters, column) for parameters in each],
                                                                target)))[:most]
    return [column for column in found if column in chosen]


def _row(parameters: Mapping[str, Any], columns: Sequence[tuple[str, str]], means: Sequence[float],
         scales: Sequence[float]) -> list[float]:
    return [1.0, *((_value(parameters, column) - mean) / scale
                   for column, mean, scale in zip(columns, means, scales, strict=True))]


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _value(parameters: Mapping[str, Any], column: tuple[str, str]) -> float:
    name, kind = column
    value = parameters.get(name)
    if kind in ("log", "plain"):
        number = float(value) if _is_number(value) else 0.0  # type: ignore[arg-type]
        return math.log(max(number, 1e-30)) if kind == "log" else number
    return float(json.dumps(value, sort_keys=True, default=str) == kind)


def _is_number(value: Any) -> bool:
    # no NaN, either, and none whose square is more than a float holds
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    mean, mean_other = sum(one) / len(one), sum(other) / len(other)
    spread = math.sqrt(sum((a - mean) ** 2 for a in one) * sum((b - mean_other) ** 2 for b in other))
    return sum((a - mean) * (b - mean_other) for a, b in zip(one, other, strict=True)) / spread if spread else 0.0


def _quadratic(row: Sequence[float], matrix: Sequence[Sequence[float]]) -> float:
    return _product(row, [_product(line, row) for line in matrix])


def _inverted(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """By Gauss and Jordan with pivots; of a symmetric matrix that the ridge keeps from being singular."""
    size = len(matrix)
    rows = [[*line, *(float(i == j) for j in range(size))] for i, line in enumerate(matrix)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda number: abs(rows[number][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        divisor = rows[column][column] or 1e-12
        rows[column] = [value / divisor for value in rows[column]]
        for number in range(size):
            factor = rows[number][column]
            if number != column and factor:
                rows[number] = [value - factor * own for value, own in zip(rows[number], rows[column], strict=True)]
    return [row[size:] for row in rows]
