"""Constraints on outcomes that no result can satisfy together.

Looked at is what compares a metric with a number: ``latency < 20``, alone or joined by ``and``. Everything else, such
as ``latency * size < 20``, is taken as possible.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from nniweb.tuning.constraints.constraint import Constraint
from nniweb.tuning.constraints.evaluation import constant
from nniweb.tuning.constraints.nodes import Comparison, Joined, Name, Node

#: An operator and a number: what is compared with the number.
_Bound = tuple[str, float]
#: Operators for the sides exchanged.
_EXCHANGED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def contradictions(constraints: Sequence[Constraint]) -> Iterator[tuple[int, str]]:
    """The place of the first constraint of each metric that leaves no value of it, and a sentence."""
    known: dict[str, list[tuple[int, _Bound]]] = {}
    left: dict[str, _Values] = {}
    closed: set[str] = set()
    for place, constraint in enumerate(constraints):
        for metric, bound in _bounds(constraint.tree):
            if metric in closed:
                continue
            known.setdefault(metric, []).append((place, bound))
            values = left.setdefault(metric, _Values())
            values.take(bound)
            if values.are_none:
                closed.add(metric)
                yield place, _sentence(metric, place, known[metric], constraints)


def _sentence(metric: str, place: int, bounds: Sequence[tuple[int, _Bound]], constraints: Sequence[Constraint]) -> str:
    def is_possible(places: set[int]) -> bool:
        return not _Values(bound for at, bound in bounds if at in places).are_none

    if not is_possible({place}):
        return f"no value of {metric} satisfies it; change it"
    other = next((at for at in dict.fromkeys(at for at, _ in bounds) if not is_possible({at, place})), None)
    against = "the constraints before it" if other is None else constraints[other].text
    return f"contradicts {against}: no value of {metric} satisfies both. Change one of them, or leave it out"


def _bounds(tree: Node) -> Iterator[tuple[str, _Bound]]:
    """The comparisons of a metric with a number that are true wherever the constraint is."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, Joined) and node.all_of:
            left += reversed(node.parts)
        elif isinstance(node, Comparison):
            for one, other, operator in ((node.left, node.right, node.operator),
                                         (node.right, node.left, _EXCHANGED[node.operator])):
                if isinstance(one, Name) and (number := constant(other)) is not None:
                    yield str(one), (operator, number)


class _Values:
    """The numbers that satisfy some comparisons. Each is looked at once."""

    def __init__(self, bounds: Iterable[_Bound] = ()) -> None:
        #: With whether the end itself is none of them, and whether it is one.
        self._low, self._high = (-math.inf, True), (math.inf, False)
        self._without: set[float] = set()
        for bound in bounds:
            self.take(bound)

    def take(self, bound: _Bound) -> None:
        operator, number = bound
        if operator in (">", ">=", "="):
            self._low = max(self._low, (number, operator == ">"))
        if operator in ("<", "<=", "="):
            self._high = min(self._high, (number, operator != "<"))
        if operator == "!=":
            self._without.add(number)

    @property
    def are_none(self) -> bool:
        (low, is_open), (high, is_closed) = self._low, self._high
        return low > high or (low == high and (is_open or not is_closed or low in self._without))
