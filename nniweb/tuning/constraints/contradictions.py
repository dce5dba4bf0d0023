"""Constraints on outcomes that no result can satisfy together.

Looked at is what compares a metric with a number: ``latency < 20``, alone or joined by ``and``. Everything else, such
as ``latency * size < 20``, is taken as possible.
"""

from collections.abc import Iterator, Sequence

from nniweb.tuning.constraints.constraint import Constraint
from nniweb.tuning.constraints.evaluation import ABSENT, constant, truth
from nniweb.tuning.constraints.nodes import Comparison, Joined, Name, Node


def contradictions(constraints: Sequence[Constraint]) -> Iterator[tuple[int, str]]:
    """The place of the first constraint of each metric that leaves no value of it, and a sentence."""
    known: dict[str, list[tuple[int, Comparison]]] = {}
    closed: set[str] = set()
    for place, constraint in enumerate(constraints):
        for metric, comparison in _bounds(constraint.tree):
            if metric in closed:
                continue
            before = known.setdefault(metric, [])
            before.append((place, comparison))
            if not _has_value(metric, [one for _, one in before]):
                closed.add(metric)
                yield place, _sentence(metric, place, before, constraints)


def _sentence(metric: str, place: int, bounds: Sequence[tuple[int, Comparison]], constraints: Sequence[Constraint]
              ) -> str:
    def is_possible(places: set[int]) -> bool:
        return _has_value(metric, [one for at, one in bounds if at in places])

    if not is_possible({place}):
        return f"no value of {metric} satisfies it; change it"
    other = next((at for at, _ in bounds if not is_possible({at, place})), None)
    against = "the constraints before it" if other is None else constraints[other].text
    return f"contradicts {against}: no value of {metric} satisfies both. Change one of them, or leave it out"


def _bounds(tree: Node) -> Iterator[tuple[str, Comparison]]:
    """The comparisons of a metric with a number that are true wherever the constraint is."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, Joined) and node.all_of:
            left += reversed(node.parts)
        elif isinstance(node, Comparison):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(one, Name) and constant(other) is not None:
                    yield str(one), node


def _has_value(metric: str, comparisons: Sequence[Comparison]) -> bool:
    """Whether one is true of all: at a number that is named, between two, or beyond all of them."""
    named = sorted({number for one in comparisons for side in (one.left, one.right)
                    if (number := constant(side)) is not None})
    if not named:
        return True
    reach = 1.0 + abs(named[0]) / 2 + abs(named[-1]) / 2
    between = [one / 2 + other / 2 for one, other in zip(named, named[1:], strict=False)]

    def satisfies_all(value: float) -> bool:
        return all(truth(one, lambda parts: value if ".".join(parts) == metric else ABSENT) is True
                   for one in comparisons)

    return any(map(satisfies_all, [named[0] - reach, *named, *between, named[-1] + reach]))
