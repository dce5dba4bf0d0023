"""Assessors that are Optuna's pruners: percentile, successive halving, Wilcoxon."""

import warnings

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, PercentilePruner, SuccessiveHalvingPruner, WilcoxonPruner
from optuna.trial import FrozenTrial, TrialState

from nniweb.tuning.assessors.assessor import Assessor
from nniweb.tuning.class_args import ClassArgs, OptimizeMode, PercentileArgs, SuccessiveHalvingArgs, WilcoxonArgs

optuna.logging.set_verbosity(optuna.logging.WARNING)
_NO_PARAMETERS: dict[str, BaseDistribution] = {}


class OptunaAssessor(Assessor):
    """Keeps a study in memory that holds the curves, and asks a pruner about them. The first result of a trial is its
    step 0. Trials that failed are no standard for others.
    """

    def __init__(self, pruner: BasePruner, optimize_mode: OptimizeMode) -> None:
        self._study = optuna.create_study(direction=optimize_mode, pruner=pruner)
        self._trials: dict[str, optuna.Trial] = {}

    def should_stop(self, trial: str, values: list[float]) -> bool:
        asked = self._trials.get(trial)
        if asked is None:
            asked = self._trials[trial] = self._study.ask(_NO_PARAMETERS)
        asked.report(values[-1], step=len(values) - 1)
        return asked.should_prune()

    def trial_end(self, trial: str, values: list[float], succeeded: bool) -> None:
        asked = self._trials.pop(trial, None)
        if asked is None:
            if values and succeeded:
                self._study.add_trial(_finished(values))
        elif succeeded and values:
            self._study.tell(asked, values[-1])
        else:
            self._study.tell(asked, state=TrialState.FAIL)


def _finished(values: list[float]) -> FrozenTrial:
    """A trial that was not judged while it ran."""
    return optuna.trial.create_trial(value=values[-1], intermediate_values=dict(enumerate(values)))


def build(optimize_mode: OptimizeMode, args: ClassArgs) -> OptunaAssessor:
    """The assessor around the pruner that the arguments are those of."""
    pruner: BasePruner
    if isinstance(args, PercentileArgs):
        pruner = PercentilePruner(args.percentile, n_startup_trials=args.n_startup_trials,
                                  n_warmup_steps=args.n_warmup_steps, interval_steps=args.interval_steps)  # fmt: skip
    elif isinstance(args, SuccessiveHalvingArgs):
        pruner = SuccessiveHalvingPruner(args.min_resource, args.reduction_factor, args.min_early_stopping_rate)
    elif isinstance(args, WilcoxonArgs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            pruner = WilcoxonPruner(p_threshold=args.p_threshold, n_startup_steps=args.n_startup_steps)
    else:
        raise TypeError(f"no pruner takes {type(args).__name__}")
    return OptunaAssessor(pruner, optimize_mode)
