"""The tree-structured Parzen estimator for several objectives: Optuna's, which rates points by the hypervolume."""

from collections.abc import Sequence

import optuna
from optuna.trial import FrozenTrial

from nniweb.tuning.class_args import TpeOptions
from nniweb.tuning.search_space.space import SearchSpace
from nniweb.tuning.tuner_base.several_objectives import ObjectivesTuner

#: An ask builds its model afresh from at most so many results: the front, and the newest.
MODELLED_TRIALS = 300


class TpeForObjectives(ObjectivesTuner):
    """Random until ``n_startup_jobs`` results are in. Of the options ``n_ei_candidates`` counts, and whether running
    trials do (``constant_liar_type``; as points that are not good, by Optuna's rule); the others have no meaning here.
    """

    def __init__(self, space: SearchSpace, seed: int, modes: Sequence[str], options: TpeOptions) -> None:
        super().__init__(space, seed, modes)
        self._options = options

    @property
    def can_model(self) -> bool:
        return self.told > 1 and self.told >= self._options.n_startup_jobs

    def sampler(self, seed: int) -> optuna.samplers.TPESampler:
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=1, constant_liar=True,
                                          n_ei_candidates=self._options.n_ei_candidates)

    def shown(self) -> list[FrozenTrial]:
        trials = [self.complete(place) for place in self.telling(MODELLED_TRIALS)]
        if self._options.constant_liar_type is not None:
            running = [place for place, record in enumerate(self.records) if record.is_running]
            trials += [self.running(place) for place in running[-MODELLED_TRIALS:]]
        return trials
