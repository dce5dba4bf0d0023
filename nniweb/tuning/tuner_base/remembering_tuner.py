"""The part that most tuners share: they remember which points were tried, so that none is proposed twice."""

from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.tuner import Tuner
from nniweb.tuning.tuner_base.unseen_points import UnseenPoints


class RememberingTuner(Tuner):
    """A subclass writes ``propose``, and asks ``points`` for what is left."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        super().__init__(space, seed)
        self.points = UnseenPoints(space)

    def allow_repeats(self) -> None:
        self.points.may_repeat = True

    def note_asked(self, number: int, parameters: Parameters) -> None:
        self.points.add(parameters)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        self.points.add(parameters)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self.points.update_search_space(space)
