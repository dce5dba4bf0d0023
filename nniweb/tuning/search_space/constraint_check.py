"""Whether the constraints of an experiment fit its search space: the names in them, and whether any point is left."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from nniweb.tuning.constraints.constraint import Constraint, is_allowed, read_constraint, sentence
from nniweb.tuning.constraints.evaluation import UNDEFINED
from nniweb.tuning.constraints.nodes import ExpressionInvalid
from nniweb.tuning.search_space.grid import Grid
from nniweb.tuning.search_space.parameter_list import list_problems, sets_of
from nniweb.tuning.search_space.problem import did_you_mean
from nniweb.tuning.search_space.space import NAME_KEY, Choice, NestedChoice, Parameters, SearchSpace

#: Random points that are looked at; of a space with no more points all of them.
LOOKED_AT = 10_000
#: Names, values and operators in all constraints of one kind: what one point costs.
MOST_PARTS = 1_000
#: Parts times points that are looked at, where that allows no LOOKED_AT points: some seconds.
_MOST_WORK = 1_000_000
#: After so many allowed points enough is known.
_ENOUGH = 200
#: Below this share people are told.
_FEW = 0.01
_UNDEFINED = "a division by zero, a number that is compared with nothing, a text that is compared by <, or the like"
_MOST_NAMES = 5_000
#: Unknown names that are told: each is compared with all that are known.
_MOST_UNKNOWN = 20

Names = tuple[str, ...]


@dataclass
class ConstraintCheck:
    """``problems``: place of the constraint (None: all of them together) and a sentence; ``notes``: sentences."""

    problems: list[tuple[int | None, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_texts(texts: Sequence[str]) -> tuple[list[Constraint], list[tuple[int | None, str]]]:
    """The constraints that can be read, and what is wrong with the others."""
    found: list[Constraint] = []
    problems: list[tuple[int | None, str]] = []
    parts = 0
    for place, text in enumerate(texts):
        try:
            constraint = read_constraint(text)
        except ExpressionInvalid as error:
            problems.append((place, sentence(error, text)))
            continue
        found.append(constraint)
        parts += constraint.size
        if parts > MOST_PARTS:
            problems.append((place, f"with this one the constraints have more than {MOST_PARTS:,} names, numbers and "
                                    "operators in all"))
            break
    return found, problems


def check_constraints(texts: Sequence[str], space: SearchSpace, *, is_list: bool = False) -> ConstraintCheck:
    """``is_list``: the space is a list of parameter sets (BatchTuner's); nothing is said where it is none."""
    check = ConstraintCheck()
    constraints, check.problems = check_texts(texts)
    if check.problems or (is_list and list_problems(space)):
        return check
    known = list(dict.fromkeys(_names_of_list(space) if is_list else _names_of(space, ())))
    for place, constraint in enumerate(constraints):
        unknown = islice(_unknown_names(constraint, known), _MOST_UNKNOWN - len(check.problems))
        check.problems += [(place, problem) for problem in unknown]
    if not check.problems and space.parameters:
        _look_for_points(constraints, space, is_list, check)
    return check


def _unknown_names(constraint: Constraint, known: Sequence[Names]) -> Iterator[str]:
    for name in constraint.names:
        if name.parts in known or (name.parts[-1] == NAME_KEY and name.parts[:-1] in known):
            continue
        spelled = [_spelled(parts) for parts in known]
        hint = did_you_mean(str(name), spelled)
        some = f"{', '.join(spelled[:20])}{', ...' if len(spelled) > 20 else ''}"
        error = ExpressionInvalid(f"is no parameter of the search space.{hint} Its parameters: {some or 'none'}. A "
                                  "text is written in quotes", name.start, name.end)
        yield sentence(error, constraint.text)


def _spelled(parts: Names) -> str:
    return ".".join(part if part.isidentifier() else f"`{part}`" for part in parts)


def _names_of(space: SearchSpace, prefix: Names) -> Iterator[Names]:
    for name, parameter in space.parameters.items():
        parts = (*prefix, name)
        yield parts
        if isinstance(parameter, NestedChoice):
            for option in parameter.options:
                yield from _names_of(option.space, parts)
        elif isinstance(parameter, Choice):
            for option in parameter.options:
                yield from _names_inside(option, parts)


def _names_inside(value: Any, prefix: Names) -> Iterator[Names]:
    """Of an option that is an object."""
    left: list[tuple[Any, Names]] = [(value, prefix)]
    count = 0
    while left and count < _MOST_NAMES:
        inner, parts = left.pop()
        if isinstance(inner, Mapping):
            for key, item in inner.items():
                count += 1
                yield (*parts, str(key))
                left.append((item, (*parts, str(key))))


def _names_of_list(space: SearchSpace) -> Iterator[Names]:
    for parameters in sets_of(space):
        yield from _names_inside(parameters, ())


def _look_for_points(constraints: Sequence[Constraint], space: SearchSpace, is_list: bool, check: ConstraintCheck
                     ) -> None:
    size = sum(constraint.size for constraint in constraints)
    points, what, are_random = _points(space, is_list, min(LOOKED_AT, _MOST_WORK // size))
    seen = allowed = 0
    held, undefined = [0] * len(constraints), [0] * len(constraints)
    for point in points:
        seen += 1
        holds_all = True
        for place, constraint in enumerate(constraints):
            outcome = constraint.outcome(point)
            if is_allowed(outcome):
                held[place] += 1
            else:
                holds_all = False
                undefined[place] += outcome is UNDEFINED
        allowed += holds_all
        if allowed >= _ENOUGH and are_random:
            break
    if seen == 0:
        return
    counted = f"none of {seen:,} {what}"
    for place, (holds, cannot) in enumerate(zip(held, undefined, strict=True)):
        if holds == 0:
            why = f" It cannot be computed for any of them: {_UNDEFINED}." if cannot == seen else ""
            check.problems.append((place, f"{counted} satisfies it.{why} Widen it, or the search space"))
        elif cannot:
            check.notes.append(f"constraints[{place}]: cannot be computed for {cannot:,} of {seen:,} {what} "
                               f"({_UNDEFINED}); such points are left out.")
    if allowed == 0 and not check.problems:
        check.problems.append((None, f"{counted} satisfies all of them at once. Widen them, or the search space"))
    elif is_list and allowed < seen:
        check.notes.append(f"constraints: {seen - allowed} of {seen} parameter sets break a constraint and are left "
                           "out.")
    elif 0 < allowed < _FEW * seen:
        check.notes.append(f"constraints: only about {allowed / seen:.2%} of the search space satisfies them. Narrow "
                           "the search space where you can: tuners learn more slowly in such a space.")


def _points(space: SearchSpace, is_list: bool, most: int) -> tuple[Iterable[Parameters], str, bool]:
    """What is looked at, what to call it, and whether that is a sample."""
    if is_list:
        return sets_of(space), "parameter sets", False
    grid = Grid(space)
    if grid.size is not None and grid.size <= most:
        return _all_of(grid), "points of the search space", False
    return space.drawn_by(random.Random(0), most), "random points", True  # noqa: S311  # no secret


def _all_of(grid: Grid) -> Iterator[Parameters]:
    index = 0
    while (point := grid.point(index)) is not None:
        yield point
        index += 1
