"""The search space of an algorithm of the user's own: whatever its author made of it.

NNI's manager never looks into a search space; only the tuner does. So one of the user's own may need none, an empty
one, or parameters with types that only it knows, and gets what was written, unchanged.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nniweb.tuning.constraints.constraint import read_constraints
from nniweb.tuning.search_space.parser import SearchSpaceError, json_fault, kind_of, parse_search_space
from nniweb.tuning.search_space.problem import Problem
from nniweb.tuning.search_space.space import SearchSpace


@dataclass(frozen=True)
class UninterpretedSpace(SearchSpace):
    """Passed on as written. Nobody knows its parameters, so there are none to draw from it or to look for in it."""

    written: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return copy.deepcopy(dict(self.written))  # whoever gets it may change it


def read_space(raw: object, *, is_uninterpreted: bool, constraints: Sequence[str] = ()) -> SearchSpace:
    """The space as an experiment's tuner gets it; ``is_uninterpreted``: that is a class of the user's own.
    ``constraints``: texts that were checked before.

    Raises SearchSpaceError; for an uninterpreted one only where it is no object that JSON can hold.
    """
    if not is_uninterpreted:
        space = parse_search_space(raw)
        return replace(space, constraints=read_constraints(constraints)) if constraints else space
    if not isinstance(raw, Mapping):
        raise SearchSpaceError([Problem("", f"must be an object, not {kind_of(raw)}")])
    if fault := json_fault(dict(raw)):
        raise SearchSpaceError([Problem("", fault)])
    return UninterpretedSpace({}, written=raw)  # what its tuner proposes is checked afterwards
