"""A search space as Optuna sees it: one distribution for each parameter's coordinate."""

import json

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from nniweb.tuning.search_space.space import (
    Choice,
    NestedChoice,
    Numeric,
    Parameter,
    Parameters,
    Path,
    RandInt,
    SearchSpace,
)


def optuna_name(path: Path) -> str:
    """Optuna's name of a parameter; as JSON, because any character may be part of a name."""
    return json.dumps(path)


def distributions_of(space: SearchSpace) -> dict[Path, BaseDistribution]:
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


def suggested(space: SearchSpace, trial: optuna.Trial) -> Parameters:
    """The point that the trial's sampler chooses."""

    def pick(path: Path, parameter: Parameter) -> float | int:
        if isinstance(parameter, Numeric):
            return trial.suggest_float(optuna_name(path), 0.0, 1.0)
        if isinstance(parameter, RandInt):
            return trial.suggest_int(optuna_name(path), 0, parameter.size - 1)
        assert isinstance(parameter, Choice | NestedChoice)
        return int(trial.suggest_categorical(optuna_name(path), tuple(range(parameter.size))))

    return space.build(pick)
