"""An experiment's search space as Optuna's distributions, with the names and values that people know from NNI.

A parameter of a nested choice is called ``choice/option/parameter``. Options that are no plain values, or that Optuna
could not tell apart (1 and true), are their JSON text in a study.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.space import (
    NAME_KEY,
    Choice,
    NestedChoice,
    Numeric,
    Parameter,
    RandInt,
    SearchSpace,
    point_key,
)

#: Bounds that differ by less, relative to a step, are the same multiple of it.
_ROUNDING = 1e-9


class StudySpace:
    """Translates between the parameters of a trial and those of a study."""

    def __init__(self, search_space: Mapping[str, Any]) -> None:
        """``search_space``: as REST tells it, in NNI's form. Raises ValueError."""
        self._space: SearchSpace = parse_search_space(search_space)

    def must_be_sampled(self) -> None:
        """Raises ValueError where Optuna has nothing like a parameter's type."""
        wrong = [name for name, parameter in _leaves(self._space) if isinstance(parameter, Numeric)
                 and parameter.is_normal]
        if wrong:
            raise ValueError(f"Optuna has no normal distribution, which {', '.join(wrong)} has. Write a uniform or "
                             "loguniform one.")

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """Have the trial's sampler choose, and return what is to be proposed."""
        chosen: dict[str, Any] = {}
        for name, distribution in self._walk(self._space, "", chosen):
            chosen[name] = _suggested(trial, name, distribution)
        return self._built(self._space, "", chosen)

    def proposed(self, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """What was, or was to be, proposed for a trial of the study; None where its parameters are not complete."""
        try:
            return self._built(self._space, "", params)
        except KeyError:
            return None

    def of_trial(self, parameters: Mapping[str, Any]) -> dict[str, tuple[Any, BaseDistribution]]:
        """A trial's parameters for a study: by name the value, and a distribution that has it. Parameters that the
        search space does not have are left out: it was changed since.
        """
        return dict(self._placed(self._space, "", parameters))

    def _walk(self, space: SearchSpace, prefix: str, chosen: Mapping[str, Any]
              ) -> Iterator[tuple[str, BaseDistribution]]:
        """Names and distributions in order; what is below a choice when it was ``chosen``."""
        for key, parameter in space.parameters.items():
            name = prefix + key
            yield name, _distribution(parameter)
            if isinstance(parameter, NestedChoice):
                place = _options(parameter).index(chosen[name])
                yield from self._walk(parameter.options[place].space, f"{name}/{chosen[name]}/", chosen)

    def _built(self, space: SearchSpace, prefix: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Raises KeyError where one is missing, or is none of its options."""
        built: dict[str, Any] = {}
        for key, parameter in space.parameters.items():
            name = prefix + key
            value = params[name]
            if isinstance(parameter, Choice | NestedChoice):
                options = _options(parameter)
                if value not in options:
                    raise KeyError(name)
                place = options.index(value)
                if isinstance(parameter, Choice):
                    built[key] = parameter.options[place]
                else:
                    inner = parameter.options[place]
                    built[key] = {NAME_KEY: inner.name, **self._built(inner.space, f"{name}/{value}/", params)}
            else:
                built[key] = _on_step(parameter, value)
        return built

    def _placed(self, space: SearchSpace, prefix: str, parameters: Mapping[str, Any]
                ) -> Iterator[tuple[str, tuple[Any, BaseDistribution]]]:
        for key, parameter in space.parameters.items():
            name = prefix + key
            if key not in parameters:
                continue
            value, distribution = parameters[key], _distribution(parameter)
            if isinstance(parameter, NestedChoice):
                value = value.get(NAME_KEY) if isinstance(value, Mapping) else value
                place = _place(parameter, value)
                if place is not None:
                    option = _options(parameter)[place]
                    yield name, (option, distribution)
                    yield from self._placed(parameter.options[place].space, f"{name}/{option}/", parameters[key])
            elif isinstance(parameter, Choice):
                place = _place(parameter, value)
                if place is not None:
                    yield name, (_options(parameter)[place], distribution)
            elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                yield name, _with_value(distribution, value)


def _leaves(space: SearchSpace, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
    for key, parameter in space.parameters.items():
        yield prefix + key, parameter
        if isinstance(parameter, NestedChoice):
            for option in parameter.options:
                yield from _leaves(option.space, f"{prefix}{key}/{option.name}/")


def _distribution(parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter, Choice | NestedChoice):
        return CategoricalDistribution(_options(parameter))
    if isinstance(parameter, RandInt):
        return IntDistribution(parameter.low, parameter.high - 1)
    assert isinstance(parameter, Numeric)
    if parameter.is_normal:  # not sampled; the values of an export widen it
        middle = math.exp(parameter.first) if parameter.is_log else parameter.first
        return FloatDistribution(middle, middle, log=parameter.is_log)
    multiples = _multiples(parameter)
    if multiples is not None and parameter.q is not None:
        low, high = (_neat(multiple * parameter.q) for multiple in multiples)
        return FloatDistribution(low, high, step=parameter.q)
    return FloatDistribution(parameter.first, parameter.second, log=parameter.is_log)


def _suggested(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> Any:
    if isinstance(distribution, FloatDistribution):
        return trial.suggest_float(name, distribution.low, distribution.high, step=distribution.step,
                                   log=distribution.log)
    if isinstance(distribution, IntDistribution):
        return trial.suggest_int(name, distribution.low, distribution.high)
    assert isinstance(distribution, CategoricalDistribution)
    return trial.suggest_categorical(name, distribution.choices)


def _multiples(parameter: Numeric) -> tuple[int, int] | None:
    """Smallest and largest multiple of q within the bounds; None where Optuna's steps are of no use."""
    if parameter.q is None or parameter.is_log:
        return None
    low = math.ceil(parameter.first / parameter.q - _ROUNDING)
    high = math.floor(parameter.second / parameter.q + _ROUNDING)
    return (low, high) if low <= high else None


def _neat(number: float) -> float:
    """3 * 0.1 as 0.3: Optuna counts steps in decimals."""
    return float(f"{number:.15g}")


def _on_step(parameter: Parameter, value: Any) -> Any:
    """The value of a trial: a study with a logarithmic distribution has no steps."""
    if isinstance(parameter, Numeric) and parameter.q is not None:
        return parameter.grid_value(round(value / parameter.q))
    return value


def _with_value(distribution: BaseDistribution, value: float) -> tuple[float, BaseDistribution]:
    """The value, and the distribution that holds it: a wider one for what lies outside of the bounds or between steps.
    """
    if isinstance(distribution, IntDistribution):
        if value == int(value):
            return int(value), IntDistribution(min(distribution.low, int(value)), max(distribution.high, int(value)))
        return value, FloatDistribution(min(distribution.low, value), max(distribution.high, value))
    assert isinstance(distribution, FloatDistribution)
    is_log = distribution.log and value > 0
    step = distribution.step if distribution._contains(value) else None
    return float(value), FloatDistribution(min(distribution.low, value), max(distribution.high, value), log=is_log,
                                           step=step)


def _options(parameter: Choice | NestedChoice) -> tuple[Any, ...]:
    """The options in a study: the values themselves where they are plain and Optuna can tell them apart."""
    values = [option.name for option in parameter.options] if isinstance(parameter, NestedChoice) else \
        list(parameter.options)
    plain = all(value is None or isinstance(value, bool | int | float | str) for value in values)
    if plain and len(set(values)) == len({json.dumps(value) for value in values}):
        return tuple(values)
    return tuple(json.dumps(value) for value in values)


def _place(parameter: Choice | NestedChoice, value: Any) -> int | None:
    """Which option it is, as text: for == 1 and true are the same."""
    values = [option.name for option in parameter.options] if isinstance(parameter, NestedChoice) else \
        list(parameter.options)
    return next((place for place, option in enumerate(values) if point_key(option) == point_key(value)), None)
