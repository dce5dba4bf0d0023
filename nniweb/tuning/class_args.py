"""The class arguments of the algorithms, by NNI's names, with NNI's defaults."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

OptimizeMode = Literal["minimize", "maximize"]
Lie = Literal["best", "worst", "mean"]


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _lower_or_none(value: Any) -> Any:
    value = _lower(value)
    return None if value == "none" else value


class ClassArgs(BaseModel):
    """``optimize_mode`` None: not given, see ``algorithms.resolve_optimize_mode``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    optimize_mode: OptimizeMode | None = None


class RandomArgs(ClassArgs):
    """``seed`` None: the experiment's seed."""

    seed: Annotated[int | None, Field(ge=0)] = None


class GridSearchArgs(ClassArgs):
    """NNI's grid search takes no arguments; ``optimize_mode`` only says which trial is shown as the best."""


class TpeOptions(BaseModel):
    """``tpe_args``.

    ``gamma``: of n results ``gamma * sqrt(n)``, at most ``linear_forgetting``, count as good. None, our default, is
    Optuna's rule (a tenth, at most 25): NNI's 0.25 suits NNI's own estimator and makes Optuna's much weaker.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    constant_liar_type: Annotated[Lie | None, BeforeValidator(_lower_or_none)] = "best"
    n_startup_jobs: Annotated[int, Field(ge=0)] = 20
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


class MedianstopArgs(ClassArgs):
    """``start_step``: no trial is judged before it has reported so many results."""

    start_step: Annotated[int, Field(ge=0, le=9999)] = 0
