"""Tree-structured Parzen estimator: Optuna's sampler behind NNI's arguments."""

import heapq
import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState

from nniweb.tuning.class_args import TpeArgs, TpeOptions
from nniweb.tuning.search_space import (
    Choice,
    Coordinates,
    NestedChoice,
    Numeric,
    Parameter,
    Parameters,
    Path,
    RandInt,
    SearchSpace,
)
from nniweb.tuning.tuner import Tuner
from nniweb.tuning.unseen_points import UnseenPoints

optuna.logging.set_verbosity(optuna.logging.WARNING)

# An ask builds its model afresh from at most so many results, so that its time does not grow with the experiment:
# about 60 ms on one core at 10,000 trials, where modelling all of them takes two seconds.
MODELLED_TRIALS = 300

# What a running trial is assumed to have, from the losses so far.
_LIES: dict[str, Callable[[list[float]], float]] = {
    "best": min,
    "worst": max,
    "mean": lambda losses: math.fsum(loss / len(losses) for loss in losses),  # divided first: 1e308 twice overflows
}


@dataclass
class _Record:
    """One proposal, or one point that a person submitted. ``loss`` is less for better, None while there is none."""

    parameters: Parameters
    is_running: bool
    loss: float | None = None
    coordinates: Coordinates = field(default_factory=dict)


class Tpe(Tuner):
    """Random until ``n_startup_jobs`` results are in, then modelled. Failed trials are not modelled; running ones are
    given an assumed result so that concurrent proposals spread out. The best results (as many as the model counts as
    good) and the newest are modelled, MODELLED_TRIALS in all.
    """

    def __init__(self, space: SearchSpace, seed: int, optimize_mode: str, options: TpeOptions) -> None:
        super().__init__(space, seed)
        self._sign = -1.0 if optimize_mode == "maximize" else 1.0
        self._options = options
        self._points = UnseenPoints(space)
        self._distributions = _distributions(space)
        # In the order of proposal, which a replay repeats; the model depends on it.
        self._records: list[_Record] = []
        self._by_number: dict[int, _Record] = {}
        self._told = 0

    def propose(self, number: int) -> Parameters:
        rng = self.rng(number)
        told = self._told
        candidates = [] if told < self._options.n_startup_jobs or told == 0 else [self._modelled(rng)]
        return self._points.first_of(candidates, rng)

    def note_asked(self, number: int, parameters: Parameters) -> None:
        self._by_number[number] = self._add(_Record(parameters, is_running=True))

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str) -> None:
        record = self._by_number.get(number) if number is not None else None
        if record is None:
            record = self._add(_Record(parameters, is_running=False))
            if number is not None:
                self._by_number[number] = record
        record.is_running = False
        if record.loss is None and value is not None and math.isfinite(value):
            record.loss = self._sign * value
            self._told += 1

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._points.update_search_space(space)
        self._distributions = _distributions(space)
        for record in self._records:
            record.coordinates = space.coordinates(record.parameters)

    def _add(self, record: _Record) -> _Record:
        record.coordinates = self.space.coordinates(record.parameters)
        self._records.append(record)
        self._points.add(record.parameters)
        return record

    def _modelled(self, rng: np.random.Generator) -> Parameters:
        study = optuna.create_study(sampler=self._sampler(int(rng.integers(2**32))), direction="minimize")
        for coordinates, loss in self._observations():
            study.add_trial(
                optuna.trial.create_trial(
                    state=TrialState.COMPLETE,
                    value=loss,
                    params={_name(path): value for path, value in coordinates.items()},
                    distributions={_name(path): self._distributions[path] for path in coordinates},
                )
            )
        trial = study.ask()

        def pick(path: Path, parameter: Parameter) -> float | int:
            if isinstance(parameter, Numeric):
                return trial.suggest_float(_name(path), 0.0, 1.0)
            if isinstance(parameter, RandInt):
                return trial.suggest_int(_name(path), 0, parameter.size - 1)
            assert isinstance(parameter, Choice | NestedChoice)
            return int(trial.suggest_categorical(_name(path), tuple(range(parameter.size))))

        return self.space.build(pick)

    def _observations(self) -> list[tuple[Coordinates, float]]:
        """What is modelled, in the order of proposal: the told trials of the window, and running ones with a lie."""
        told = {index: record.loss for index, record in enumerate(self._records) if record.loss is not None}
        best = heapq.nsmallest(self._good_trials(len(told)), told, key=lambda index: (told[index], index))
        chosen = set(best)
        newest = [index for index in reversed(told) if index not in chosen][: max(MODELLED_TRIALS - len(best), 0)]
        losses = {index: told[index] for index in (*best, *newest)}
        if self._options.constant_liar_type is not None:
            lie = _LIES[self._options.constant_liar_type](list(told.values()))
            running = [index for index, record in enumerate(self._records) if record.is_running]
            losses |= dict.fromkeys(running[-MODELLED_TRIALS:], lie)
        return [(self._records[index].coordinates, losses[index]) for index in sorted(losses)]

    def _good_trials(self, told: int) -> int:
        gamma = self._options.gamma
        if gamma is None:
            return min(math.ceil(0.1 * told), 25)
        return min(math.ceil(gamma * math.sqrt(told)), self._options.linear_forgetting)

    def _sampler(self, seed: int) -> optuna.samplers.TPESampler:
        options, told = self._options, self._told
        # Optuna 5 still takes these but means to drop them: they are passed only where a person set them.
        rules: dict[str, Any] = {}
        if options.gamma is not None:
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


def _name(path: Path) -> str:
    """Optuna's name of a parameter; as JSON, because any character may be part of a name."""
    return json.dumps(path)


def _distributions(space: SearchSpace) -> dict[Path, BaseDistribution]:
    """Optuna's view of every parameter's coordinate, also of those inside options."""
    found: dict[Path, BaseDistribution] = {}

    def visit(part: SearchSpace, prefix: Path) -> None:
        for name, parameter in part.parameters.items():
            path = (*prefix, name)
            if isinstance(parameter, Numeric):
                found[path] = FloatDistribution(0.0, 1.0)
            elif isinstance(parameter, RandInt):
                found[path] = IntDistribution(0, parameter.size - 1)
            elif isinstance(parameter, Choice):
                found[path] = CategoricalDistribution(tuple(range(parameter.size)))
            elif isinstance(parameter, NestedChoice):
                found[path] = CategoricalDistribution(tuple(range(parameter.size)))
                for index, option in enumerate(parameter.options):
                    visit(option.space, (*path, str(index)))

    visit(space, ())
    return found


def _forgetting(newest: int) -> Callable[[int], npt.NDArray[np.float64]]:
    """NNI's weights: the newest ones count fully, older ones less and less."""

    def weights(count: int) -> npt.NDArray[np.float64]:
        if count <= newest:
            return np.ones(count)
        return np.concatenate([np.linspace(1.0 / count, 1.0, count - newest), np.ones(newest)])

    return weights
