"""Random search: each parameter by its own distribution, no point twice while there are others."""

from nniweb.tuning.class_args import RandomArgs
from nniweb.tuning.search_space import Parameters, SearchSpace
from nniweb.tuning.tuner import Tuner
from nniweb.tuning.unseen_points import UnseenPoints


class RandomSearch(Tuner):
    """Draws by NNI's formulas. In a space without continuous parameters repeats are avoided, as in NNI 3.0, and the
    search ends when every point was tried.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        super().__init__(space, seed)
        self._points = UnseenPoints(space)

    def propose(self, number: int) -> Parameters:
        return self._points.first_of((), self.rng(number))

    def note_asked(self, number: int, parameters: Parameters) -> None:
        self._points.add(parameters)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str) -> None:
        self._points.add(parameters)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._points.update_search_space(space)


def build(space: SearchSpace, seed: int, _optimize_mode: str, _args: RandomArgs) -> RandomSearch:
    return RandomSearch(space, seed)
