"""Whether parameter sets that a person gives can be run: points of the search space that no constraint forbids."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nniweb.tuning.constraints.constraint import first_broken
from nniweb.tuning.search_space.parameter_list import list_problems, sets_of
from nniweb.tuning.search_space.problem import Problem
from nniweb.tuning.search_space.space import SearchSpace, point_key


def problems_of_points(points: Sequence[Mapping[str, Any]], space: SearchSpace, *, is_list: bool = False
                       ) -> Iterator[tuple[int, Problem]]:
    """What is wrong with which point, by its place. ``is_list``: the space is a list of parameter sets (BatchTuner's);
    nothing is said where it is none.
    """
    if is_list and list_problems(space):
        return
    first: dict[str, int] = {}
    for place, point in enumerate(points):
        problems = list(problems_of_point(point, space, is_list=is_list))
        yield from ((place, problem) for problem in problems)
        earlier = first.setdefault(point_key(point), place)
        if earlier != place and not problems:
            yield place, Problem("", f"is the same point as the one at {earlier}; remove one of them")


def problems_of_point(point: Mapping[str, Any], space: SearchSpace, *, is_list: bool = False) -> Iterator[Problem]:
    """What keeps a trial from running with this point. ``is_list``: as above, of a space that is one."""
    if is_list:
        if point_key(point) not in {point_key(one) for one in sets_of(space)}:
            yield Problem("", "is none of the parameter sets of the search space; give one of them with all its "
                              "parameters")
            return
    elif problems := space.problems_with(point):
        yield from problems
        return
    if (broken := first_broken(space.constraints, point)) is not None:
        yield Problem("", f"breaks the constraint {broken.text}; change the one or the other")
