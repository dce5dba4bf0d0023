"""Tries every point of the grid, coarse ones first; ends when a finite space is exhausted."""

from nniweb.tuning.class_args import GridSearchArgs
from nniweb.tuning.search_space import Parameters, SearchSpace
from nniweb.tuning.tuner import Tuner
from nniweb.tuning.unseen_points import UnseenPoints


class GridSearch(Tuner):
    """The order is fixed (see grid.py); points that a person submitted already are left out."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        super().__init__(space, seed)
        self._points = UnseenPoints(space)

    def propose(self, number: int) -> Parameters:
        return self._points.first_of_grid()

    def note_asked(self, number: int, parameters: Parameters) -> None:
        self._points.add(parameters)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str) -> None:
        self._points.add(parameters)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._points.update_search_space(space)


def build(space: SearchSpace, seed: int, _optimize_mode: str, _args: GridSearchArgs) -> GridSearch:
    return GridSearch(space, seed)
