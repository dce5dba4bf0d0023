"""Tree-structured Parzen estimator: Optuna's sampler behind NNI's arguments."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial

from nniweb.tuning.class_args import TpeArgs, TpeOptions
from nniweb.tuning.search_space.optuna_space import suggested
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.learning_tuner import LearningTuner
from nniweb.tuning.tuner_base.optuna_study import OptunaTrials, shared_distributions, study_of
from nniweb.tuning.tuners.tpe_objectives import TpeForObjectives

optuna.logging.set_verbosity(optuna.logging.WARNING)

# An ask builds its model afresh from at most so many results, so that its time does not grow with the experiment.
MODELLED_TRIALS = 300
# Points of the model that are looked at for one that the constraints allow; then the first is moved to the nearest one,
# which finds an optimum on the border better than further looks do.
_LOOKS = 3


class _Sampler(optuna.samplers.TPESampler):
    """Optuna's, told which parameters it models together: all trials have them. It would compare each trial's
    distributions with the next one's for that, which takes a third of its time.
    """

    def __init__(self, shared: dict[str, BaseDistribution], **options: Any) -> None:
        super().__init__(constant_liar=True, **options)
        self._shared = shared

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._shared


class Tpe(LearningTuner):
    """Random until ``n_startup_jobs`` results are in, then modelled. Failed trials are not modelled. Running ones are,
    so that concurrent proposals spread out: as points that are not good (Optuna's rule), or with an assumed result
    where ``constant_liar_type`` says which. The best results (as many as the model counts as good) and the newest are
    modelled, MODELLED_TRIALS in all. ``good_share``: this share of the results counts as good, whatever ``gamma`` says.
    """

    def __init__(
        self, space: SearchSpace, seed: int, optimize_mode: str, options: TpeOptions, *, good_share: float | None = None
    ) -> None:
        super().__init__(space, seed, optimize_mode)
        self._options = options
        self._good_share = good_share
        self._trials = OptunaTrials(space)

    def propose(self, number: int) -> Parameters:
        rng = self.rng(number)
        looks = (_LOOKS if self.space.constraints else 1) if self.can_model else 0
        return self.points.first_of(self.likely(rng, looks), rng)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._trials.update_search_space(space)

    @property
    def can_model(self) -> bool:
        return self.told > 0 and self.told >= self._options.n_startup_jobs

    def likely(self, rng: np.random.Generator, count: int) -> Iterator[Parameters]:
        """So many points that the model takes for good, tried or not. Needs ``can_model`` where there are any."""
        if count == 0:
            return
        shown = self._shown()
        study = study_of(shown, self._sampler(int(rng.integers(2**32)), shared_distributions(shown)))
        for _ in range(count):
            yield suggested(self.space, study.ask())

    def _shown(self) -> list[FrozenTrial]:
        losses: dict[int, tuple[float, ...] | None] = {
            place: (loss,) for place, loss in self.results(self._good_trials(self.told), MODELLED_TRIALS).items()}
        kind = self._options.constant_liar_type
        if kind is not None:
            assumed = None if kind == "running" else (self.lie(kind),)
            losses |= dict.fromkeys(self.running(MODELLED_TRIALS), assumed)
        return [self._trials.of(place, self.records[place].coordinates, losses[place]) for place in sorted(losses)]

    def _good_trials(self, told: int) -> int:
        if self._good_share is not None:
            return max(1, math.ceil(self._good_share * told))
        gamma = self._options.gamma
        if gamma is None:
            return min(math.ceil(0.1 * told), 25)
        return min(math.ceil(gamma * math.sqrt(told)), self._options.linear_forgetting)

    def _sampler(self, seed: int, shared: dict[str, BaseDistribution]) -> optuna.samplers.TPESampler:
        options, told = self._options, self.told
        # Optuna 5 still takes these but means to drop them: they are passed only where a person set them.
        rules: dict[str, Any] = {}
        if options.gamma is not None or self._good_share is not None:
            rules["gamma"] = lambda count: min(self._good_trials(told), count)
        if options.linear_forgetting != TpeOptions().linear_forgetting:
            rules["weights"] = _forgetting(options.linear_forgetting)
        if options.prior_weight != TpeOptions().prior_weight:
            rules["prior_weight"] = options.prior_weight
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return _Sampler(
                shared, seed=seed, n_startup_trials=1, n_ei_candidates=options.n_ei_candidates, **rules
            )


def build(space: SearchSpace, seed: int, optimize_mode: str, args: TpeArgs) -> Tpe:
    return Tpe(space, seed, optimize_mode, args.options(optimize_mode))


def build_for_objectives(space: SearchSpace, seed: int, modes: Sequence[str], args: TpeArgs) -> TpeForObjectives:
    return TpeForObjectives(space, seed, modes, args.options(modes[0]))


def _forgetting(newest: int) -> Callable[[int], npt.NDArray[np.float64]]:
    """NNI's weights: the newest ones count fully, older ones less and less."""

    def weights(count: int) -> npt.NDArray[np.float64]:
        if count <= newest:
            return np.ones(count)
        return np.concatenate([np.linspace(1.0 / count, 1.0, count - newest), np.ones(newest)])

    return weights
