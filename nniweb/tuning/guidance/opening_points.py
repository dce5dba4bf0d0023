"""The points of earlier experiments that a search begins with: the best distinct ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nniweb.tuning.search_space.coordinate_table import Table
from nniweb.tuning.search_space.space import Coordinates

# Points are distinct when they are so far apart, on the way through the cube of features.
_APART = 0.15


@dataclass(frozen=True)
class RankedPoints:
    """Of one experiment, the best first, with their features."""

    coordinates: Sequence[Coordinates]
    features: Table


def opening_points(experiments: Sequence[RankedPoints], most: int) -> list[Coordinates]:
    """The best distinct points, of each experiment in turn."""
    found: list[Coordinates] = []
    taken: list[Table] = []
    places = [0] * len(experiments)
    while len(found) < most and any(place < len(one.coordinates)
                                    for place, one in zip(places, experiments, strict=True)):
        for index, one in enumerate(experiments):
            apart = _APART * math.sqrt(one.features.shape[1])
            while places[index] < len(one.coordinates):
                row = one.features[places[index]]
                places[index] += 1
                if all(np.linalg.norm(row - other) > apart for other in taken):
                    taken.append(row)
                    found.append(one.coordinates[places[index] - 1])
                    break
    return found[:most]
