"""The class arguments of the algorithms, by NNI's names, with NNI's defaults where the text says no other."""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

OptimizeMode = Literal["minimize", "maximize"]
Lie = Literal["best", "worst", "mean"]


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _lower_or_none(value: Any) -> Any:
    value = _lower(value)
    return None if value == "none" else value


def _none_for_auto(value: Any) -> Any:
    return None if _lower(value) == "auto" else value


class ClassArgs(BaseModel):
    """``optimize_mode`` None: not given, see ``algorithms.resolve_optimize_mode``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    optimize_mode: OptimizeMode | None = None


class RandomArgs(ClassArgs):
    """``seed`` None: the experiment's seed. The largest one is what a column of the database can hold."""

    seed: Annotated[int | None, Field(ge=0, le=2**63 - 1)] = None


class AutoArgs(RandomArgs):
    """All else is Auto's own choice."""


class GridSearchArgs(ClassArgs):
    """NNI's grid search takes no arguments; ``optimize_mode`` only says which trial is shown as the best."""


class TpeOptions(BaseModel):
    """``tpe_args``.

    ``gamma``: of n results ``gamma * sqrt(n)``, at most ``linear_forgetting``, count as good. None, our default, is
    Optuna's rule (a tenth, at most 25): NNI's 0.25 suits NNI's own estimator and makes Optuna's much weaker.
    ``constant_liar_type``: what running trials are taken for. ``running``, our default, is Optuna's rule: points that
    are not good. NNI's ``best`` fills the good results with points that have none, as soon as several trials run.
    ``n_startup_jobs``: NNI's default is 20, of which a search of 50 trials has not enough left.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    constant_liar_type: Annotated[Lie | Literal["running"] | None, BeforeValidator(_lower_or_none)] = "running"
    n_startup_jobs: Annotated[int, Field(ge=0)] = 10
    n_ei_candidates: Annotated[int, Field(ge=1)] = 24
    linear_forgetting: Annotated[int, Field(ge=1)] = 25
    prior_weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    gamma: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None


class TpeArgs(RandomArgs):
    """The form of NNI 3.0 (``tpe_args``), and the older one (``parallel_optimize``, ``constant_liar_type``)."""

    tpe_args: TpeOptions | None = None
    parallel_optimize: bool | None = None
    constant_liar_type: Annotated[Literal["min", "max", "mean"] | None, BeforeValidator(_lower)] = None

    def options(self, optimize_mode: str) -> TpeOptions:
        """What both forms come to. In the older form running trials count only with ``parallel_optimize``, as having
        the numerically lowest, highest or mean result.
        """
        options = self.tpe_args or TpeOptions()
        if self.parallel_optimize is None and self.constant_liar_type is None:
            return options
        lie: Lie | None = None
        if self.parallel_optimize:
            kind = self.constant_liar_type or "min"
            if kind == "mean":
                lie = "mean"
            else:
                lie = "best" if (kind == "min") == (optimize_mode == "minimize") else "worst"
        return options.model_copy(update={"constant_liar_type": lie})


class Nsga2Args(RandomArgs):
    """Arguments of Optuna's NSGAIISampler, by its names. ``mutation_prob`` None: one over the number of parameters."""

    population_size: Annotated[int, Field(ge=2, le=1000)] = 50
    mutation_prob: Annotated[float | None, Field(ge=0, le=1, allow_inf_nan=False)] = None
    crossover_prob: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.9
    swapping_prob: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5


class MedianstopArgs(ClassArgs):
    """``start_step``: no trial is judged before it has reported so many results; None, written ``auto``: half as many
    as the longest trial that succeeded.
    """

    start_step: Annotated[Annotated[int, Field(ge=0, le=9999)] | None, BeforeValidator(_none_for_auto)] = 0


class CurvefittingArgs(ClassArgs):
    """``epoch_num``: how many results a whole trial has. A trial is not judged before ``start_step`` results, then
    after every ``gap``; it is stopped when its predicted last result is worse than ``threshold`` of the best. Above 1
    it must be better than the best.
    """

    epoch_num: Annotated[int, Field(ge=1, le=999_999)] = 20
    start_step: Annotated[int, Field(ge=0, le=999_999)] = 6
    threshold: Annotated[float, Field(ge=0, le=9999, allow_inf_nan=False)] = 0.95
    gap: Annotated[int, Field(ge=1, le=999_999)] = 1


class PercentileArgs(ClassArgs):
    """Arguments of Optuna's PercentilePruner, by its names."""

    percentile: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 25.0
    n_startup_trials: Annotated[int, Field(ge=0)] = 5
    n_warmup_steps: Annotated[int, Field(ge=0)] = 0
    interval_steps: Annotated[int, Field(ge=1)] = 1


class SuccessiveHalvingArgs(ClassArgs):
    """Arguments of Optuna's SuccessiveHalvingPruner, by its names."""

    min_resource: Annotated[int, Field(ge=1)] = 1
    reduction_factor: Annotated[int, Field(ge=2)] = 4
    min_early_stopping_rate: Annotated[int, Field(ge=0)] = 0


class WilcoxonArgs(ClassArgs):
    """Arguments of Optuna's WilcoxonPruner, by its names."""

    p_threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.1
    n_startup_steps: Annotated[int, Field(ge=0)] = 2


class HyperoptArgs(ClassArgs):
    """What NNI's tuners on hyperopt take. ``parallel_optimize`` and ``constant_liar_type`` have no effect on Anneal."""

    parallel_optimize: bool | None = None
    constant_liar_type: Annotated[Literal["min", "max", "mean"] | None, BeforeValidator(_lower)] = None


class EvolutionArgs(ClassArgs):
    """``population_size``: so many random points first. NNI's default is 32, of which a search of 50 trials is hardly
    better than random.
    """

    population_size: Annotated[int, Field(ge=1, le=100_000)] = 8


class BatchArgs(ClassArgs):
    """NNI's BatchTuner takes no arguments; ``optimize_mode`` only says which trial is shown as the best."""


class SmacArgs(ClassArgs):
    """``config_dedup`` is accepted: no point is proposed twice either way."""

    config_dedup: bool = False


class GpArgs(ClassArgs):
    """``utility``: expected improvement, upper confidence bound (``kappa``), probability of improvement (``xi``).
    ``nu`` is the kernel's smoothness, ``alpha`` the noise of results; None, our default: it is fitted (NNI: 1e-6).
    """

    utility: Literal["ei", "ucb", "poi"] = "ei"
    kappa: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5.0
    xi: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    nu: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.5
    alpha: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    cold_start_num: Annotated[int, Field(ge=1)] = 10
    selection_num_warm_up: Annotated[int, Field(ge=1)] = 100_000
    selection_num_starting_points: Annotated[int, Field(ge=1)] = 250


class MetisArgs(ClassArgs):
    """See metis.py. ``selection_num_starting_points``: so many random candidates."""

    no_resampling: bool = True
    no_candidates: bool = False
    selection_num_starting_points: Annotated[int, Field(ge=1, le=100_000)] = 600
    cold_start_num: Annotated[int, Field(ge=1)] = 10


class DngoArgs(ClassArgs):
    """``sample_size`` candidates for each proposal; the network is trained anew after ``trials_per_update`` results.
    NNI's default for these is 20.
    """

    sample_size: Annotated[int, Field(ge=1, le=100_000)] = 1000
    trials_per_update: Annotated[int, Field(ge=2)] = 10
    num_epochs_per_training: Annotated[int, Field(ge=1, le=100_000)] = 500


class HyperbandArgs(ClassArgs):
    """``R``: the largest budget; ``eta``: of so many one goes on. ``exec_mode`` serial: one bracket at a time."""

    R: Annotated[int, Field(ge=1, le=1_000_000)] = 60
    eta: Annotated[int, Field(ge=2)] = 3
    exec_mode: Literal["serial", "parallelism"] = "parallelism"


class AshaArgs(ClassArgs):
    """The budgets lie between ``min_budget`` and ``max_budget``; ``eta``: of so many one goes on."""

    min_budget: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    max_budget: Annotated[int, Field(ge=1, le=1_000_000)] = 81
    eta: Annotated[int, Field(ge=2)] = 3

    @model_validator(mode="after")
    def _budgets_are_in_order(self) -> "AshaArgs":
        _must_be_in_order(self.min_budget, self.max_budget)
        return self


class BohbArgs(ClassArgs):
    """The budgets lie between ``min_budget`` and ``max_budget``. ``bandwidth_factor`` and ``min_bandwidth`` are
    accepted and without effect: Optuna's estimator chooses its own widths. So is ``config_space`` (a file of the
    package ConfigSpace, which NNI 3.0 takes): the experiment's own search space counts.
    """

    min_budget: Annotated[int, Field(ge=1)] = 1
    max_budget: Annotated[int, Field(ge=1)] = 3
    eta: Annotated[int, Field(ge=2)] = 3
    min_points_in_model: Annotated[int | None, Field(ge=1)] = None
    top_n_percent: Annotated[float, Field(gt=0, lt=100, allow_inf_nan=False)] = 15
    num_samples: Annotated[int, Field(ge=1)] = 64
    random_fraction: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1 / 3
    bandwidth_factor: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3
    min_bandwidth: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.001
    config_space: str | None = None

    @model_validator(mode="after")
    def _budgets_are_in_order(self) -> "BohbArgs":
        _must_be_in_order(self.min_budget, self.max_budget)
        return self


def _must_be_in_order(min_budget: int, max_budget: int) -> None:
    if max_budget < min_budget:
        raise ValueError(f"max_budget ({max_budget}) must not be less than min_budget ({min_budget})")


class PbtArgs(ClassArgs):
    """``all_checkpoint_dir``: the folder for checkpoints, on storage that all trials share. Without it keepers carry
    them from trial to trial. NNI's code says ``factor``, its validator ``factors``: both are taken.
    """

    all_checkpoint_dir: str | None = None
    population_size: Annotated[int, Field(ge=1, le=10_000)] = 10
    factor: Annotated[float, Field(gt=0, lt=1, validation_alias=AliasChoices("factor", "factors"))] = 0.2
    resample_probability: Annotated[float, Field(ge=0, le=1)] = 0.25
    fraction: Annotated[float, Field(gt=0, le=0.5)] = 0.2
