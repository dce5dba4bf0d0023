"""Whether a constraint can be true where only ranges of its names are known.

Interval arithmetic (Moore, Interval Analysis, 1966): a range of each part follows from the ranges of the parts in it.
What has no range (a text, a remainder, most powers) may be anything, so an answer of "cannot be true" is always right,
and the other answer is not.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from nniweb.tuning.constraints.evaluation import constant
from nniweb.tuning.constraints.nodes import Arithmetic, Call, Comparison, Joined, Name, Node, Not, OneOf


@dataclass(frozen=True)
class Range:
    """All numbers from ``low`` to ``high``."""

    low: float
    high: float

    @property
    def is_one(self) -> bool:
        return self.low == self.high


#: The range of a name; None: it may be anything, or nothing.
Ranges = Callable[[tuple[str, ...]], Range | None]
_NEVER_FALLING: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "log2": math.log2, "log10": math.log10, "round": round,
    "floor": math.floor, "ceil": math.ceil}


def may_be_true(tree: Node, ranges: Ranges) -> bool:
    """False only where no values in these ranges make it true, or leave it without a say."""
    return _possible(tree, ranges)[0]


def _possible(node: Node, ranges: Ranges) -> tuple[bool, bool]:
    """Whether it may be true, and whether it may be false."""
    match node:
        case Joined(all_of=all_of, parts=parts):
            true, false = zip(*(_possible(part, ranges) for part in parts), strict=True)
            return (all(true), any(false)) if all_of else (any(true), all(false))
        case Not(inner=inner):
            return _possible(inner, ranges)[::-1]
        case Comparison(operator=operator, left=left, right=right):
            return _compared(operator, _range(left, ranges), _range(right, ranges))
        case OneOf(left=left, values=values):
            one = _range(left, ranges)
            outcomes = [_compared("=", one, _range(value, ranges)) for value in values]
            return any(true for true, _ in outcomes), all(false for _, false in outcomes)
    return True, True


def _compared(operator: str, one: Range | None, other: Range | None) -> tuple[bool, bool]:
    if one is None or other is None:
        return True, True
    match operator:
        case "=":
            return one.low <= other.high and other.low <= one.high, not (one == other and one.is_one)
        case "!=":
            return _compared("=", one, other)[::-1]
        case "<":
            return one.low < other.high, one.high >= other.low
        case "<=":
            return one.low <= other.high, one.high > other.low
    return _compared({">": "<", ">=": "<="}[operator], other, one)


def _range(node: Node, ranges: Ranges) -> Range | None:
    match node:
        case Name(parts=parts):
            return ranges(parts)
        case Arithmetic(first=first, rest=rest):
            found = _range(first, ranges)
            for operator, operand in rest:
                found = _joined(operator, found, _range(operand, ranges))
            return found
        case Call(function=function, arguments=arguments):
            return _called(function, [_range(one, ranges) for one in arguments])
    number = constant(node)
    return None if number is None else Range(number, number)


def _joined(operator: str, one: Range | None, other: Range | None) -> Range | None:
    if one is None or other is None:
        return None
    match operator:
        case "+":
            ends = [one.low + other.low, one.high + other.high]
        case "-":
            ends = [one.low - other.high, one.high - other.low]
        case "*":
            ends = [first * second for first in (one.low, one.high) for second in (other.low, other.high)]
        case "/" if other.low > 0 or other.high < 0:
            ends = [first / second for first in (one.low, one.high) for second in (other.low, other.high)]
        case "**" if one.low >= 0 and other.is_one and other.low > 0:
            return _powers(one, other.low)
        case _:
            return None
    return _between(ends)


def _powers(base: Range, exponent: float) -> Range | None:
    try:
        return _between([math.pow(base.low, exponent), math.pow(base.high, exponent)])
    except OverflowError:
        return None


def _called(function: str, arguments: list[Range | None]) -> Range | None:
    known = [one for one in arguments if one is not None]
    if len(known) < len(arguments):
        return None
    if function in ("min", "max"):
        of = min if function == "min" else max
        return _between([of(one.low for one in known), of(one.high for one in known)])
    only = known[0]
    if function == "abs":
        return _between([max(only.low, -only.high, 0.0), max(abs(only.low), abs(only.high))])
    try:
        return _between([float(_NEVER_FALLING[function](end)) for end in (only.low, only.high)])
    except (ArithmeticError, ValueError):  # it has no value at one end, and may have one inside
        return None


def _between(ends: list[float]) -> Range | None:
    low, high = min(ends), max(ends)
    return Range(low, high) if math.isfinite(low) and math.isfinite(high) else None
