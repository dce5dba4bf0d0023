"""Tries every point of the grid, coarse ones first; ends when a finite space is exhausted."""

from nniweb.tuning.class_args import GridSearchArgs
from nniweb.tuning.search_space.grid import GridTooLarge
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.remembering_tuner import RememberingTuner


class GridSearch(RememberingTuner):
    """The order is fixed (see grid.py); points that a person submitted already are left out. Where constraints leave so
    little of a grid that its next allowed point is not found in a few seconds, allowed points at random places are
    tried as long as there are new ones.
    """

    def propose(self, number: int) -> Parameters:
        try:
            return self.points.first_of_grid()
        except GridTooLarge:
            return self.points.first_of((), self.rng(number))


def build(space: SearchSpace, seed: int, _optimize_mode: str, _args: GridSearchArgs) -> GridSearch:
    return GridSearch(space, seed)
