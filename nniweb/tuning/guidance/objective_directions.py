"""Directions in which points with several objectives are compared, so that the best of all directions are the front.

A direction weighs the objectives. What counts of a point is its worst weighted objective, and a little of all together
(the augmented Chebyshev function: Steuer and Choo, Mathematical Programming, 1983): each point of the front is the best
one of some direction, also where the front is not convex.
"""

import numpy as np

from nniweb.tuning.search_space.coordinate_table import Table

# How much all objectives together count beside the worst one (as in ParEGO).
_ALL_TOGETHER = 0.05
# Directions beside the one in which all objectives count alike, and those in which one alone does.
_BETWEEN = 8


def along(losses: Table, direction: Table) -> Table:
    """How bad each row of ``losses`` (one column for each objective, of about the same range) is in this direction."""
    weighted = losses * direction
    result: Table = weighted.max(axis=1) + _ALL_TOGETHER * weighted.sum(axis=1)
    return result


def best_of_all_directions(losses: Table) -> list[int]:
    """All rows, the best first: in turn the best of each direction. Only the order of losses counts in an objective."""
    count, objectives = losses.shape
    order = np.sort(losses, axis=0)
    ranks = np.stack([np.searchsorted(order[:, column], losses[:, column]) / max(count - 1, 1)
                      for column in range(objectives)], axis=1)
    between = np.random.default_rng(0).dirichlet(np.ones(objectives), _BETWEEN)
    places = []
    for direction in [np.full(objectives, 1 / objectives), *np.eye(objectives), *between]:
        place = np.empty(count, dtype=int)
        place[np.argsort(along(ranks, direction), kind="stable")] = np.arange(count)
        places.append(place)
    of_each = np.stack(places, axis=1)
    return [int(row) for row in np.lexsort((of_each.argmin(axis=1), of_each.min(axis=1)))]
