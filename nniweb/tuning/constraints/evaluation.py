"""What a constraint says of given values.

Beside true and false there are two more outcomes. *Absent*: it names something that the values do not have, such as a
parameter of an option that was not chosen; it says nothing of them then. *Undefined*: it cannot be computed (a division
by zero, a text compared by ``<``). ``and``, ``or`` and ``not`` follow Kleene's logic, in which an unknown part counts
only where the known parts do not decide; of the two unknown outcomes undefined is the stronger one.
"""

import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from nniweb.tuning.constraints.nodes import (
    Arithmetic,
    Call,
    Comparison,
    Joined,
    Literal,
    Name,
    Node,
    Not,
    OneOf,
)


class Unknown(Enum):
    ABSENT = "absent"
    UNDEFINED = "undefined"


ABSENT: Final = Unknown.ABSENT
UNDEFINED: Final = Unknown.UNDEFINED
#: What a name stands for, ABSENT where there is nothing.
Lookup = Callable[[tuple[str, ...]], Any]
#: What a constraint says of what names stand for.
Truth = Callable[[Lookup], "bool | Unknown"]
#: Larger violations than this there are not.
MOST_VIOLATED = 1.0


def value_in(point: Mapping[str, Any], parts: Sequence[str]) -> Any:
    """What a point has under a dotted name; of an option with parameters of its own the option's name."""
    found: Any = point
    for part in parts:
        # asked thousands of times for one proposal: the kind of mapping that it nearly always is comes first
        if not isinstance(found, dict) and not isinstance(found, Mapping):
            return ABSENT
        if part not in found:
            return ABSENT
        found = found[part]
    if isinstance(found, float | int | str):
        return found
    return found.get("_name", found) if isinstance(found, Mapping) else found


def constant(node: Node) -> float | None:
    """The number that it is whatever the names stand for; None where it names something, or is no number."""
    return _number(_value(node, lambda _: ABSENT))


def truth(tree: Node, lookup: Lookup) -> bool | Unknown:
    """Whether the constraint is true of what the names stand for."""
    return compiled(tree)(lookup)


def compiled(tree: Node) -> Truth:
    """The same as ``truth`` of this tree, for many lookups: the tree is looked through once. A search asks thousands
    of times for one proposal.
    """
    match tree:
        case Joined(all_of=all_of, parts=parts):
            return _joined(all_of, [compiled(part) for part in parts])
        case Not(inner=inner):
            return _opposite(compiled(inner))
        case Comparison(operator=symbol, left=left, right=right):
            return _comparison(symbol, left, right)
        case OneOf(left=left, values=values):
            one, others = _compiled_value(left), [_compiled_value(value) for value in values]
            return lambda lookup: _is_one_of(one(lookup), [other(lookup) for other in others])
    value_of = _compiled_value(tree)

    def of_value(lookup: Lookup) -> bool | Unknown:
        value = value_of(lookup)
        return value if isinstance(value, bool | Unknown) else UNDEFINED

    return of_value


def _joined(all_of: bool, parts: Sequence[Truth]) -> Truth:
    def joined(lookup: Lookup) -> bool | Unknown:
        unknown: Unknown | None = None
        for part in parts:
            outcome = part(lookup)
            if outcome is (not all_of):
                return outcome
            if isinstance(outcome, Unknown) and unknown is not UNDEFINED:
                unknown = outcome
        return all_of if unknown is None else unknown

    return joined


def _opposite(inner: Truth) -> Truth:
    def opposite(lookup: Lookup) -> bool | Unknown:
        outcome = inner(lookup)
        return outcome if isinstance(outcome, Unknown) else not outcome

    return opposite


def violation(tree: Node, lookup: Lookup) -> float:
    """How far the values are from satisfying the constraint: 0 where it is true, else more, at most MOST_VIOLATED.

    Of a comparison of numbers the distance of its sides, relative to their sizes, so that constraints in different
    units count alike. What is unknown is violated as much as possible.
    """
    return _violation(tree, lookup, wanted=True)


def _violation(tree: Node, lookup: Lookup, *, wanted: bool) -> float:
    match tree:
        case Joined(all_of=all_of, parts=parts):
            each = [_violation(part, lookup, wanted=wanted) for part in parts]
            return max(each) if all_of is wanted else min(each)
        case Not(inner=inner):
            return _violation(inner, lookup, wanted=not wanted)
    outcome = truth(tree, lookup)
    if outcome is wanted:
        return 0.0
    if isinstance(tree, Comparison) and not isinstance(outcome, Unknown):
        left, right = _number(_value(tree.left, lookup)), _number(_value(tree.right, lookup))
        if left is not None and right is not None:
            return _relative_distance(left, right)
    return MOST_VIOLATED


def _relative_distance(one: float, other: float) -> float:
    """From a hair above 0 to 1."""
    half = abs(one / 2 - other / 2)
    size = abs(one) / 2 + abs(other) / 2
    return min(max(half / size, 1e-12), MOST_VIOLATED) if size > 0 else 1e-12


def _comparison(symbol: str, left: Node, right: Node) -> Truth:
    one_of, other_of = _compiled_value(left), _compiled_value(right)
    asks_for_a_value = symbol in ("=", "!=") and (_is_none(left) or _is_none(right))
    holds = _COMPARISONS[symbol]

    def comparison(lookup: Lookup) -> bool | Unknown:
        one, other = one_of(lookup), other_of(lookup)
        if type(one) is float and type(other) is float and math.isfinite(one) and math.isfinite(other):
            return holds(one, other)
        return _compared(symbol, one, other, asks_for_a_value)

    return comparison


def _compared(symbol: str, one: Any, other: Any, asks_for_a_value: bool) -> bool | Unknown:
    if asks_for_a_value:
        first, second = (None if value is ABSENT else value for value in (one, other))
        if UNDEFINED in (first, second):
            return UNDEFINED
        return (first is second) is (symbol == "=")
    if unknown := [value for value in (one, other) if isinstance(value, Unknown)]:
        return _strongest(unknown)
    if symbol in ("=", "!="):
        return _equal(one, other) is (symbol == "=")
    first_number, second_number = _number(one), _number(other)
    if first_number is None or second_number is None:
        return UNDEFINED
    return _COMPARISONS[symbol](first_number, second_number)


def _strongest(unknown: Sequence[Unknown]) -> Unknown:
    return UNDEFINED if UNDEFINED in unknown else ABSENT


def _is_one_of(one: Any, values: Sequence[Any]) -> bool | Unknown:
    if isinstance(one, Unknown):
        return one
    if any(not isinstance(value, Unknown) and _equal(one, value) for value in values):
        return True
    unknown = [value for value in values if isinstance(value, Unknown)]
    return _strongest(unknown) if unknown else False


def _is_none(node: Node) -> bool:
    return isinstance(node, Literal) and node.value is None


def _equal(one: Any, other: Any) -> bool:
    first, second = _number(one), _number(other)
    if first is not None and second is not None:
        return first == second
    if type(one) is not type(other):
        return False
    if isinstance(one, list | dict):
        return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    return bool(one == other)


def _number(value: Any) -> float | None:
    """The value as a finite float, None where it is no number. true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer of 309 digits
        return None
    return number if math.isfinite(number) else None


def _value(node: Node, lookup: Lookup) -> Any:
    """A number (as a float), a text, true, false, None, a list, an object, or an Unknown."""
    return _compiled_value(node)(lookup)


def _compiled_value(node: Node) -> Callable[[Lookup], Any]:
    """The same as ``_value`` of this node, for many lookups."""
    match node:
        case Literal(value=value):
            return lambda _: value
        case Name(parts=parts):
            return _named(parts)
        case Arithmetic(first=first, rest=rest):
            return _arithmetic([_compiled_value(part) for part in (first, *(operand for _, operand in rest))],
                               [_OPERATORS[symbol] for symbol, _ in rest])
        case Call(function=function, arguments=arguments):
            each = [_compiled_value(one) for one in arguments]
            return lambda lookup: _computed([one(lookup) for one in each], _FUNCTIONS[function])
    return compiled(node)


def _named(parts: tuple[str, ...]) -> Callable[[Lookup], Any]:
    def named(lookup: Lookup) -> Any:
        found = lookup(parts)
        if type(found) is float and math.isfinite(found):
            return found
        if isinstance(found, int | float) and not isinstance(found, bool):
            number = _number(found)
            return UNDEFINED if number is None else number
        return found

    return named


def _arithmetic(operands: Sequence[Callable[[Lookup], Any]], operators: Sequence[Callable[[float, float], float]]
                ) -> Callable[[Lookup], Any]:
    """From left to right."""

    def from_left(numbers: list[float]) -> float:
        others = iter(numbers)
        result = next(others)
        for compute in operators:
            result = compute(result, next(others))
        return result

    return lambda lookup: _computed([operand(lookup) for operand in operands], from_left)


def _computed(operands: list[Any], compute: Callable[[list[float]], float]) -> float | Unknown:
    for operand in operands:
        if type(operand) is not float or not math.isfinite(operand):
            return _not_all_numbers(operands, compute)
    try:
        result = compute(operands)
    except (ArithmeticError, ValueError):
        return UNDEFINED
    return result if math.isfinite(result) else UNDEFINED


def _not_all_numbers(operands: list[Any], compute: Callable[[list[float]], float]) -> float | Unknown:
    if UNDEFINED in operands:
        return UNDEFINED
    numbers = [operand if operand is ABSENT else _number(operand) for operand in operands]
    if None in numbers:
        return UNDEFINED
    return ABSENT if ABSENT in numbers else _computed(numbers, compute)


# floats alone, so that no result is large enough to take time
_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": math.pow,
}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FUNCTIONS: dict[str, Callable[[list[float]], float]] = {
    "min": min,
    "max": max,
    "abs": lambda numbers: abs(numbers[0]),
    "sqrt": lambda numbers: math.sqrt(numbers[0]),
    "exp": lambda numbers: math.exp(numbers[0]),
    "log": lambda numbers: math.log(numbers[0]),
    "log2": lambda numbers: math.log2(numbers[0]),
    "log10": lambda numbers: math.log10(numbers[0]),
    "round": lambda numbers: float(round(numbers[0])),
    "floor": lambda numbers: float(math.floor(numbers[0])),
    "ceil": lambda numbers: float(math.ceil(numbers[0])),
}
