"""NNI's BatchTuner: runs a given list of parameter sets, in its order, and ends."""

import copy

from nniweb.tuning.class_args import BatchArgs
from nniweb.tuning.search_space.parameter_list import sets_of
from nniweb.tuning.search_space.space import Parameters, SearchSpace, point_key
from nniweb.tuning.tuner_base.tuner import NoMoreParameters, Tuner


class Batch(Tuner):
    """Each option of the only parameter is a trial's whole parameter set (see ``parameter_list``). Those that the
    constraints forbid are left out.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        super().__init__(space, seed)
        self._waiting = _allowed(space)
        self._proposed: list[str] = []

    def propose(self, number: int) -> Parameters:
        if not self._waiting:
            raise NoMoreParameters("every parameter set of the list was run")
        return copy.deepcopy(self._waiting[0])

    def note_asked(self, number: int, parameters: Parameters) -> None:
        key = point_key(parameters)
        self._proposed.append(key)
        self._mark_proposed(key)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        """A person ran one of the list by hand: it need not be run again."""
        if number is None:
            self._mark_proposed(point_key(parameters))

    def update_search_space(self, space: SearchSpace) -> None:
        """Another list: what it shares with the old one and was proposed already is not run again."""
        super().update_search_space(space)
        self._waiting = _allowed(space)
        for key in self._proposed:
            self._mark_proposed(key)

    def _mark_proposed(self, key: str) -> None:
        for index, option in enumerate(self._waiting):
            if point_key(option) == key:
                del self._waiting[index]
                return


def _allowed(space: SearchSpace) -> list[Parameters]:
    return [one for one in sets_of(space) if space.allows(one)]


def build(space: SearchSpace, seed: int, _optimize_mode: str, _args: BatchArgs) -> Batch:
    return Batch(space, seed)
