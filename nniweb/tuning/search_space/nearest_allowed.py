"""The way from a point that constraints forbid to one that they allow."""

from collections.abc import Mapping, Sequence
from typing import Any

from nniweb.tuning.search_space.space import (
    Coordinates,
    Numeric,
    Parameter,
    Parameters,
    Path,
    RandInt,
    SearchSpace,
)

# Each halves what is left of the way. A small part of a space may be all that is allowed.
_STEPS = 40


def nearest_allowed(space: SearchSpace, forbidden: Parameters, allowed: Sequence[Parameters], part: float = 1.0
                    ) -> Parameters | None:
    """On the straight line from ``forbidden`` to the nearest of the ``allowed`` points the first point that the
    constraints allow, as far as halving finds it. None where that is the allowed point itself, or there is none.

    Numbers move by their coordinates; choices take the value of the allowed point at once. ``part``: how much of the
    way from the allowed point to the one that was found is gone, where that ends at a point that is allowed.
    """
    wanted = space.coordinates(forbidden)
    goals = [goal for point in allowed if space.contains(point) for goal in [space.coordinates(point)]]
    if not goals:
        return None
    goal = min(goals, key=lambda one: _distance(space, wanted, one))
    low, high, found = 0.0, 1.0, None  # of the way from the goal
    for _ in range(_STEPS):
        middle = (low + high) / 2
        point = _between(space, goal, wanted, middle)
        if space.allows(point):
            low, found = middle, point
        else:
            high = middle
    if found is not None and part < 1.0 and space.allows(inside := _between(space, goal, wanted, part * low)):
        return inside
    return found


def _between(space: SearchSpace, goal: Coordinates, wanted: Coordinates, part: float) -> Parameters:
    def pick(path: Path, parameter: Parameter) -> float | int:
        start, end = goal[path], wanted.get(path)
        if isinstance(parameter, Numeric):
            return float(start + part * ((start if end is None else end) - start))
        if isinstance(parameter, RandInt):
            return round(start + part * ((start if end is None else end) - start))
        return int(start)

    return space.build(pick)


def _distance(space: SearchSpace, one: Coordinates, other: Mapping[Path, Any]) -> float:
    """Choices that differ, and those inside them, count as a whole range each."""
    total = 0.0
    for path in {**one, **other}:
        if path not in one or path not in other:
            total += 1.0
        elif one[path] != other[path]:
            parameter = space.parameters.get(path[0]) if len(path) == 1 else None
            size = parameter.size if isinstance(parameter, RandInt) else 1
            total += min(abs(one[path] - other[path]) / size, 1.0)
    return total
