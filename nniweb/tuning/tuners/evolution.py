"""NNI's Evolution tuner: of two members of a population the better one is changed in one parameter."""

import numpy as np

from nniweb.tuning.class_args import EvolutionArgs
from nniweb.tuning.search_space.space import Parameter, Parameters, Path, SearchSpace
from nniweb.tuning.tuner_base.learning_tuner import LearningTuner, TrialRecord

_LOOKS = 20


class Evolution(LearningTuner):
    """The first ``population_size`` proposals are random. After that the population are the so many best results; NNI
    removes the loser of each tournament instead, which comes to nearly the same but depends on what the process did
    since it started.
    """

    def __init__(self, space: SearchSpace, seed: int, optimize_mode: str, population_size: int) -> None:
        super().__init__(space, seed, optimize_mode)
        self._population_size = population_size

    def propose(self, number: int) -> Parameters:
        rng = self.rng(number)
        if number < self._population_size or self.told == 0:
            return self.points.first_of((), rng)
        population = self.best(self._population_size)
        return self.points.first_of((self._child(population, rng) for _ in range(_LOOKS)), rng)

    def _child(self, population: list[TrialRecord], rng: np.random.Generator) -> Parameters:
        """The population is sorted, the best first: the smaller of two random places has won."""
        parent = population[int(rng.integers(len(population), size=2).min())]
        genes = parent.coordinates
        changed = list(genes)[int(rng.integers(len(genes)))] if genes else None

        def pick(path: Path, parameter: Parameter) -> float | int:
            if path in genes and path != changed:
                return genes[path]
            size: int = getattr(parameter, "size", 0)
            if not size:
                return float(rng.random())
            if path in genes and size > 1:
                return int((int(genes[path]) + 1 + rng.integers(size - 1)) % size)
            return int(rng.integers(size))

        return self.space.build(pick)


def build(space: SearchSpace, seed: int, optimize_mode: str, args: EvolutionArgs) -> Evolution:
    return Evolution(space, seed, optimize_mode, args.population_size)
