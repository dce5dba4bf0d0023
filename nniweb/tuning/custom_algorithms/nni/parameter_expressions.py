"""``nni.parameter_expressions``: one draw of each type of parameter; ``random_state`` is a numpy RandomState."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import RandomState


def choice(options: int | Sequence[Any], random_state: RandomState) -> Any:
    """One of the options, or an integer below the number given."""
    return random_state.choice(options)


def randint(lower: int, upper: int, random_state: RandomState) -> int:
    """An integer, ``upper`` excluded."""
    return random_state.randint(lower, upper)


def uniform(low: float, high: float, random_state: RandomState) -> float:
    """Raises ValueError where the bounds are the wrong way round."""
    if high < low:
        raise ValueError(f"the upper bound {high} is below the lower bound {low}")
    return random_state.uniform(low, high)


def quniform(low: float, high: float, q: float, random_state: RandomState) -> float:
    """A multiple of ``q``, or a bound."""
    return float(np.clip(_multiple(uniform(low, high, random_state), q), low, high))


def loguniform(low: float, high: float, random_state: RandomState) -> float:
    """Raises ValueError where a bound is not positive."""
    if low <= 0:
        raise ValueError(f"the lower bound must be positive, not {low}")
    return float(np.exp(uniform(float(np.log(low)), float(np.log(high)), random_state)))


def qloguniform(low: float, high: float, q: float, random_state: RandomState) -> float:
    """A multiple of ``q``, or a bound."""
    return float(np.clip(_multiple(loguniform(low, high, random_state), q), low, high))


def normal(mu: float, sigma: float, random_state: RandomState) -> float:
    """Without bounds."""
    return random_state.normal(mu, sigma)


def qnormal(mu: float, sigma: float, q: float, random_state: RandomState) -> float:
    """A multiple of ``q``, without bounds."""
    return _multiple(normal(mu, sigma, random_state), q)


def lognormal(mu: float, sigma: float, random_state: RandomState) -> float:
    """``mu`` and ``sigma`` are those of the logarithm."""
    return float(np.exp(normal(mu, sigma, random_state)))


def qlognormal(mu: float, sigma: float, q: float, random_state: RandomState) -> float:
    """A multiple of ``q``."""
    return _multiple(lognormal(mu, sigma, random_state), q)


def _multiple(value: float, q: float) -> float:
    return float(np.round(value / q) * q)
