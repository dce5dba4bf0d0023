"""Whether a constraint can be true where only ranges of its names are known.

Interval arithmetic (Moore, Interval Analysis, 1966): a range of each part follows from the ranges of the parts in it.
What has no range (a text, a remainder, most powers) may be anything, so an answer of "cannot be true" is always right,
and the other answer is not.
"""

import math
from collections.abc import Callable, Sequence
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
#: The range of a part of a constraint, of those of the names.
RangeOf = Callable[[Ranges], Range | None]
#: Of the ranges of the names: whether it may be true, and whether it may be false.
Possible = Callable[[Ranges], tuple[bool, bool]]
#: Of the others' results nothing is known.
_WITH_RANGES = ("+", "-", "*", "/", "**")
_NEVER_FALLING: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "log2": math.log2, "log10": math.log10, "round": round,
    "floor": math.floor, "ceil": math.ceil}


def compiled(tree: Node) -> Possible:
    """Whether it may be true, and whether it may be false, for many ranges: the tree is looked through once. A walk
    through a grid asks ten thousands of times. What is known to have no range whatever the names have is not asked for.
    """
    match tree:
        case Joined(all_of=all_of, parts=parts):
            return _all_of([compiled(part) for part in parts]) if all_of else _any_of([compiled(one) for one in parts])
        case Not(inner=inner):
            possible = compiled(inner)
            return lambda ranges: possible(ranges)[::-1]
        case Comparison(operator=operator, left=left, right=right):
            one, other = _range(left), _range(right)
            if one is not None and other is not None:
                return _comparison(operator, one, other)
        case OneOf(left=left, values=values):
            return _any_of([compiled(Comparison(tree.start, tree.end, tree.depth, "=", left, value))
                            for value in values])
    return lambda _: (True, True)


def _all_of(parts: Sequence[Possible]) -> Possible:
    def possible(ranges: Ranges) -> tuple[bool, bool]:
        outcomes = [part(ranges) for part in parts]
        return all(true for true, _ in outcomes), any(false for _, false in outcomes)

    return possible


def _any_of(parts: Sequence[Possible]) -> Possible:
    def possible(ranges: Ranges) -> tuple[bool, bool]:
        outcomes = [part(ranges) for part in parts]
        return any(true for true, _ in outcomes), all(false for _, false in outcomes)

    return possible


def _comparison(operator: str, one: RangeOf, other: RangeOf) -> Possible:
    return lambda ranges: _compared(operator, one(ranges), other(ranges))


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


def _range(node: Node) -> RangeOf | None:
    """None: it has none, whatever the names have."""
    match node:
        case Name(parts=parts):
            return lambda ranges: ranges(parts)
        case Arithmetic(first=first, rest=rest):
            found = _range(first)
            for operator, operand in rest:
                found = _arithmetic(operator, found, _range(operand))
            return found
        case Call(function=function, arguments=arguments):
            each = [_range(one) for one in arguments]
            known = [one for one in each if one is not None]
            return None if len(known) < len(each) else lambda ranges: _called(
                function, [one(ranges) for one in known])
    number = constant(node)
    if number is None:
        return None
    only = Range(number, number)
    return lambda _: only


def _arithmetic(operator: str, one: RangeOf | None, other: RangeOf | None) -> RangeOf | None:
    if one is None or other is None or operator not in _WITH_RANGES:
        return None
    return lambda ranges: _joined(operator, one(ranges), other(ranges))


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
