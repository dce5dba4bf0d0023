"""The tree of a constraint, and the error where a text is none. Who has a tree needs no parser."""

from collections.abc import Iterator
from dataclasses import dataclass


class ExpressionInvalid(ValueError):
    """A constraint that cannot be understood; its text is a sentence. ``start`` to ``end``: characters from 0."""

    def __init__(self, sentence: str, start: int, end: int) -> None:
        super().__init__(sentence)
        self.start, self.end = start, end


@dataclass(frozen=True)
class Node:
    """A part of the tree, and where it stands in the text; ``depth``: of what is below it, itself included."""

    start: int
    end: int
    depth: int


@dataclass(frozen=True)
class Literal(Node):
    """A number (always a float), a text, true, false or none."""

    value: float | str | bool | None


@dataclass(frozen=True)
class Name(Node):
    """A parameter or a metric; the parts between its dots."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Arithmetic(Node):
    """``first``, then operators (+ - * / // % **) with their operands, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True)
class Call(Node):
    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Comparison(Node):
    """``= != < <= > >=``; a chain such as ``0 < a < 1`` is several of them joined by and."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class OneOf(Node):
    """Equal to one of the values."""

    left: Node
    values: tuple[Node, ...]


@dataclass(frozen=True)
class Not(Node):
    inner: Node


@dataclass(frozen=True)
class Joined(Node):
    """All of them, or any of them."""

    all_of: bool
    parts: tuple[Node, ...]


def nodes_of(tree: Node) -> Iterator[Node]:
    """All parts of a tree, itself included."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        match node:
            case Arithmetic(first=first, rest=rest):
                left += [first, *(operand for _, operand in rest)]
            case Call(arguments=parts) | Joined(parts=parts):
                left += parts
            case Comparison(left=one, right=other):
                left += [one, other]
            case OneOf(left=one, values=values):
                left += [one, *values]
            case Not(inner=inner):
                left.append(inner)
