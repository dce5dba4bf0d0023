"""NNI's Anneal tuner: steps around good points, smaller and smaller ones."""

import numpy as np

from nniweb.tuning.class_args import HyperoptArgs
from nniweb.tuning.search_space.space import Numeric, Parameter, Parameters, Path, SearchSpace
from nniweb.tuning.tuner_base.learning_tuner import LearningTuner, TrialRecord

# The rank of the good point is geometric with this mean (1 would be: always the best).
_MEAN_RANK = 2.0
# How fast the steps shrink with the number of results.
_SHRINK = 0.1
_LOOKS = 20


class Anneal(LearningTuner):
    """Each parameter takes a good earlier point of its own choice and moves within a window around it (a choice: is
    drawn anew with a probability) that shrinks like 1 / (1 + results / 10), so that early proposals are nearly random
    and late ones nearly repeat the best.
    """

    def propose(self, number: int) -> Parameters:
        rng = self.rng(number)
        if self.told == 0:
            return self.points.first_of((), rng)
        ranked = self.best(self.told)
        shrink = 1.0 / (1.0 + _SHRINK * self.told)
        return self.points.first_of((self._near_the_best(ranked, shrink, rng) for _ in range(_LOOKS)), rng)

    def _near_the_best(self, ranked: list[TrialRecord], shrink: float, rng: np.random.Generator) -> Parameters:
        def pick(path: Path, parameter: Parameter) -> float | int:
            knowing = [record.coordinates[path] for record in ranked if path in record.coordinates]
            size: int = getattr(parameter, "size", 0)
            if not knowing:
                return int(rng.integers(size)) if size else float(rng.random())
            centre = knowing[min(int(rng.geometric(1.0 / _MEAN_RANK)), len(knowing)) - 1]
            if isinstance(parameter, Numeric):
                return _in_window(float(centre), shrink, rng)
            if parameter.type_name == "randint":
                middle = (int(centre) + 0.5) / size
                return min(int(_in_window(middle, max(shrink, 2.0 / size), rng) * size), size - 1)
            return int(rng.integers(size)) if rng.random() < shrink else int(centre)

        return self.space.build(pick)


def _in_window(centre: float, width: float, rng: np.random.Generator) -> float:
    """Even within a window of this width around the centre, moved where it would stand out of [0, 1]."""
    width = min(width, 1.0)
    middle = min(max(centre, width / 2), 1 - width / 2)
    return float(middle + width * (rng.random() - 0.5))


def build(space: SearchSpace, seed: int, optimize_mode: str, _args: HyperoptArgs) -> Anneal:
    return Anneal(space, seed, optimize_mode)
