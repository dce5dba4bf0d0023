"""Tree-structured Parzen estimator: Optuna's sampler behind NNI's arguments."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import optuna
from optuna.trial import TrialState

from nniweb.tuning.class_args import TpeArgs, TpeOptions
from nniweb.tuning.search_space.optuna_space import distributions_of, optuna_name, suggested
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.learning_tuner import LearningTuner
from nniweb.tuning.tuners.tpe_objectives import TpeForObjectives

optuna.logging.set_verbosity(optuna.logging.WARNING)

# An ask builds its model afresh from at most so many results, so that its time does not grow with the experiment:
# about 60 ms on one core at 10,000 trials, where modelling all of them takes two seconds.
MODELLED_TRIALS = 300

class Tpe(LearningTuner):
    """Random until ``n_startup_jobs`` results are in, then modelled. Failed trials are not modelled; running ones are
    given an assumed result so that concurrent proposals spread out. The best results (as many as the model counts as
    good) and the newest are modelled, MODELLED_TRIALS in all. ``good_share``: this share of the results counts as good,
    whatever ``gamma`` says.
    """

    def __init__(
        self, space: SearchSpace, seed: int, optimize_mode: str, options: TpeOptions, *, good_share: float | None = None
    ) -> None:
        super().__init__(space, seed, optimize_mode)
        self._options = options
        self._good_share = good_share
        self._distributions = distributions_of(space)

    def propose(self, number: int) -> Parameters:
        rng = self.rng(number)
        return self.points.first_of([self.modelled(rng)] if self.can_model else [], rng)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._distributions = distributions_of(space)

    @property
    def can_model(self) -> bool:
        return self.told > 0 and self.told >= self._options.n_startup_jobs

    def modelled(self, rng: np.random.Generator) -> Parameters:
        """A point that the model takes for good, tried or not. Needs ``can_model``."""
        study = optuna.create_study(sampler=self._sampler(int(rng.integers(2**32))), direction="minimize")
        for coordinates, loss in self.observations(
            self._good_trials(self.told), MODELLED_TRIALS, self._options.constant_liar_type
        ):
            study.add_trial(
                optuna.trial.create_trial(
                    state=TrialState.COMPLETE,
                    value=loss,
                    params={optuna_name(path): value for path, value in coordinates.items()},
                    distributions={optuna_name(path): self._distributions[path] for path in coordinates},
                )
            )
        return suggested(self.space, study.ask())

    def _good_trials(self, told: int) -> int:
        if self._good_share is not None:
            return max(1, math.ceil(self._good_share * told))
        gamma = self._options.gamma
        if gamma is None:
            return min(math.ceil(0.1 * told), 25)
        return min(math.ceil(gamma * math.sqrt(told)), self._options.linear_forgetting)

    def _sampler(self, seed: int) -> optuna.samplers.TPESampler:
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
            return optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=1, n_ei_candidates=options.n_ei_candidates, constant_liar=False, **rules
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
