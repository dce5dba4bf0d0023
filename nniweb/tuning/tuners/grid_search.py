"""Tries every point of the grid, coarse ones first; ends when a finite space is exhausted."""

from nniweb.tuning.class_args import GridSearchArgs
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.remembering_tuner import RememberingTuner


class GridSearch(RememberingTuner):
    """The order is fixed (see grid.py); points that a person submitted already are left out."""

    def propose(self, number: int) -> Parameters:
        return self.points.first_of_grid()


def build(space: SearchSpace, seed: int, _optimize_mode: str, _args: GridSearchArgs) -> GridSearch:
    return GridSearch(space, seed)
