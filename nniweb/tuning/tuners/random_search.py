"""Random search: each parameter by its own distribution, no point twice while there are others."""

from nniweb.tuning.class_args import RandomArgs
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.remembering_tuner import RememberingTuner


class RandomSearch(RememberingTuner):
    """Draws by NNI's formulas. In a space without continuous parameters repeats are avoided, as in NNI 3.0, and the
    search ends when every point was tried. In one with continuous parameters no point comes twice, and none is
    remembered.
    """

    def note_asked(self, number: int, parameters: Parameters) -> None:
        if not self.space.is_endless():
            super().note_asked(number, parameters)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        if not self.space.is_endless():
            super().tell(number, parameters, value, status, violation)

    def propose(self, number: int) -> Parameters:
        return self.points.first_of((), self.rng(number))


def build(space: SearchSpace, seed: int, _optimize_mode: str, _args: RandomArgs) -> RandomSearch:
    return RandomSearch(space, seed)
