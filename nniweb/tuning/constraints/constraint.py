"""Constraints as an experiment has them: on its parameters, and on what its trials report."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nniweb.tuning.constraints import ranges
from nniweb.tuning.constraints.evaluation import ABSENT, Truth, compiled, value_in, violation
from nniweb.tuning.constraints.nodes import ExpressionInvalid, Name, Node, nodes_of

#: Of one kind in an experiment.
MOST_CONSTRAINTS = 50


@dataclass(frozen=True)
class Constraint:
    """One expression. Equal when its text is; may be shared between threads."""

    text: str
    tree: Node = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    @functools.cached_property
    def names(self) -> tuple[Name, ...]:
        """Every name in it, in the order of the text."""
        found = [node for node in nodes_of(self.tree) if isinstance(node, Name)]
        return tuple(sorted(found, key=lambda name: name.start))

    @functools.cached_property
    def size(self) -> int:
        """How many parts it has: names, values, operators."""
        return sum(1 for _ in nodes_of(self.tree))

    def allows(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a trial may have these parameters: the constraint is true of them, or about what they do not have."""
        return is_allowed(self.outcome(parameters))

    def may_allow(self, known: ranges.Ranges) -> bool:
        """Whether it may allow parameters with values in these ranges; False only where it allows none of them."""
        return self._possible(known)[0]

    def outcome(self, parameters: Mapping[str, Any]) -> Any:
        """True, False, or one of ``evaluation.Unknown``."""
        return self._truth(functools.partial(value_in, parameters))

    @functools.cached_property
    def _truth(self) -> Truth:
        return compiled(self.tree)

    @functools.cached_property
    def _possible(self) -> ranges.Possible:
        return ranges.compiled(self.tree)

    def judge(self, metrics: Mapping[str, float]) -> "Judgement":
        """What it says of a result. A metric that was not reported is not known to satisfy it."""

        def lookup(parts: tuple[str, ...]) -> Any:
            return metrics.get(".".join(parts), ABSENT)

        outcome = self._truth(lookup)
        metric_names = dict.fromkeys(str(name) for name in self.names)
        return Judgement(self.text, 0.0 if outcome is True else violation(self.tree, lookup),
                         tuple(name for name in metric_names if name not in metrics),
                         {name: metrics[name] for name in metric_names if name in metrics})


@dataclass(frozen=True)
class Judgement:
    """One constraint on outcomes and one result. ``violation``: 0 where it is satisfied, else up to 1."""

    constraint: str
    violation: float
    #: Metrics in it that the result does not have, and the values of those that it has.
    missing: tuple[str, ...]
    values: Mapping[str, float]


def is_allowed(outcome: object) -> bool:
    """Whether a trial may have parameters of which a constraint says this."""
    return outcome is True or outcome is ABSENT


def read_constraint(text: str) -> Constraint:
    """Raises ExpressionInvalid."""
    # not at the top: tuners of experiments without constraints need no parser
    from nniweb.tuning.constraints.language import parse

    if not text.strip():
        raise ExpressionInvalid("is empty; write a condition, such as layers * units <= 4096", 0, 0)
    constraint = Constraint(text, parse(text))
    if not constraint.names:
        raise ExpressionInvalid("contains no name; write what shall be limited, such as layers * units <= 4096", 0,
                                len(text))
    return constraint


@functools.lru_cache(maxsize=256)
def _read(texts: tuple[str, ...]) -> tuple[Constraint, ...]:
    return tuple(read_constraint(text) for text in texts)


def read_constraints(texts: Sequence[str]) -> tuple[Constraint, ...]:
    """Texts that were checked before. Raises ExpressionInvalid where they were not."""
    return _read(tuple(texts))


def first_broken(constraints: Iterable[Constraint], parameters: Mapping[str, Any]) -> Constraint | None:
    """The first of the constraints that does not allow these parameters."""
    return next((constraint for constraint in constraints if not constraint.allows(parameters)), None)


def judge_all(texts: Sequence[str], metrics: Mapping[str, float]) -> list[Judgement]:
    """What each of the constraints on outcomes says of a result."""
    return [constraint.judge(metrics) for constraint in read_constraints(texts)]


def sentence(error: ExpressionInvalid, text: str) -> str:
    """The error with its place in the text, from 1, for the author of the constraint."""
    part = text[error.start:error.end]
    shown = f" ({part})" if 0 < len(part) <= 40 else ""
    return f"character {error.start + 1}{shown}: {error}"
