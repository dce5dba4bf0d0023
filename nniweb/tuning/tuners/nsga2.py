"""NSGA-II: Optuna's genetic algorithm, for one objective or several."""

from collections.abc import Sequence
from types import MappingProxyType

from optuna.samplers import NSGAIISampler
from optuna.trial import FrozenTrial

from nniweb.tuning.class_args import Nsga2Args
from nniweb.tuning.search_space.space import SearchSpace
from nniweb.tuning.tuner_base.several_objectives import ObjectivesTuner

#: Results that the parents of one proposal are chosen from, at most; more where the population is larger.
MOST_CONSIDERED = 300
#: Where Optuna's sampler reads of which generation a trial is.
_GENERATION = "NSGAIISampler:generation"


class Nsga2(ObjectivesTuner):
    """Random until as many results are in as a population has. After that each proposal is a child of the elite among
    the front and the newest results: its parents are those that NSGA-II keeps of a generation, chosen anew at each
    proposal, so that no slot waits for a generation to be complete.
    """

    attributes = MappingProxyType({_GENERATION: 0})

    def __init__(self, space: SearchSpace, seed: int, modes: Sequence[str], args: Nsga2Args) -> None:
        super().__init__(space, seed, modes)
        self._args = args

    @property
    def can_model(self) -> bool:
        return self.told >= self._args.population_size

    def sampler(self, seed: int) -> NSGAIISampler:
        args = self._args
        return NSGAIISampler(population_size=args.population_size, mutation_prob=args.mutation_prob,
                             crossover_prob=args.crossover_prob, swapping_prob=args.swapping_prob, seed=seed)

    def shown(self) -> list[FrozenTrial]:
        return [self.complete(place)
                for place in self.telling(max(MOST_CONSIDERED, 2 * self._args.population_size))]


def build(space: SearchSpace, seed: int, optimize_mode: str, args: Nsga2Args) -> Nsga2:
    return build_for_objectives(space, seed, [optimize_mode], args)


def build_for_objectives(space: SearchSpace, seed: int, modes: Sequence[str], args: Nsga2Args) -> Nsga2:
    return Nsga2(space, seed, modes, args)
