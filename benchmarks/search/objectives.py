"""Functions to search, with what makes real searches hard: scales, noise, conditions, steps, failures.

All are minimized. None has its best point in the middle of its space, where a tuner might look first by chance.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Parameters = dict[str, Any]


@dataclass(frozen=True)
class Objective:
    """``space``: in NNI's language. ``value``: what a point is really worth. ``noise``: the deviation of what a trial
    reports from that. ``fails``: whether a trial of this point reports nothing; its second argument is a random number
    from 0 to 1.
    """

    name: str
    space: dict[str, Any]
    value: Callable[[Parameters], float]
    noise: float = 0.0
    fails: Callable[[Parameters, float], bool] | None = None

    def reported(self, parameters: Parameters, chance: np.random.Generator) -> float | None:
        """What a trial reports; None where it fails. Draws the same from ``chance`` for every point."""
        luck, noise = float(chance.random()), float(chance.normal())
        if self.fails is not None and self.fails(parameters, luck):
            return None
        return self.value(parameters) + self.noise * noise


def _uniform(low: float, high: float) -> dict[str, Any]:
    return {"_type": "uniform", "_value": [low, high]}


def _log(low: float, high: float) -> dict[str, Any]:
    return {"_type": "loguniform", "_value": [low, high]}


def _choice(*options: Any) -> dict[str, Any]:
    return {"_type": "choice", "_value": list(options)}


def _int(low: int, high: int) -> dict[str, Any]:
    return {"_type": "randint", "_value": [low, high]}


def _cube(count: int, low: float, high: float) -> dict[str, Any]:
    return {f"x{index}": _uniform(low, high) for index in range(count)}


def _x(parameters: Parameters) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([parameters[f"x{index}"] for index in range(len(parameters))], dtype=float)


_AWAY = np.array([1.3, -2.1, 0.7, 2.9, -1.6])


def _sphere(parameters: Parameters) -> float:
    return float(np.sum((_x(parameters) - _AWAY) ** 2))


def _rosenbrock(parameters: Parameters) -> float:
    x = _x(parameters)
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def _ackley(parameters: Parameters) -> float:
    x = _x(parameters) - 4 * _AWAY
    hollow, waves = math.exp(-0.2 * math.sqrt(np.mean(x**2))), math.exp(np.mean(np.cos(2 * math.pi * x)))
    return 20 + math.e - 20 * hollow - waves


def _training(parameters: Parameters) -> float:
    """As the loss of a network after a training: log-scaled rates that depend on the batch size."""
    rate = math.log10(parameters["lr"]) + 2.7 - 0.5 * math.log2(parameters["batch"] / 64) / math.log2(10)
    decay = math.log10(parameters["decay"]) + 4.2
    depth = (parameters["layers"] - 5) / 3
    form = {"relu": 0.0, "tanh": 0.12, "gelu": 0.03}[parameters["activation"]]
    return (0.1 + 0.35 * rate**2 + 0.02 * decay**2 + 0.6 * (parameters["momentum"] - 0.85) ** 2 + 0.05 * depth**2
            + form + 0.04 * rate * depth)


_HARTMANN_A = np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
                        [17, 8, 0.05, 10, 0.1, 14]])
_HARTMANN_P = np.array([[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                        [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]) / 1e4


def _hartmann(parameters: Parameters) -> float:
    x = _x(parameters)
    near = np.exp(-np.sum(_HARTMANN_A * (x - _HARTMANN_P) ** 2, axis=1))
    return 3.32237 - float(np.array([1.0, 1.2, 3.0, 3.2]) @ near)


def _branin(parameters: Parameters) -> float:
    x, y = parameters["x"], parameters["y"]
    return float((y - 5.1 * x**2 / (4 * math.pi**2) + 5 * x / math.pi - 6) ** 2
                 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10 - 0.397887)


def _nested(parameters: Parameters) -> float:
    """Which model is best depends on how well its own parameters are set; the best is not the easiest."""
    model = parameters["model"]
    common = 0.5 * (parameters["scale"] - 0.3) ** 2
    if model["_name"] == "linear":
        return 0.35 + common + 0.05 * math.log10(model["penalty"] / 0.01) ** 2
    if model["_name"] == "forest":
        return 0.2 + common + 0.0004 * (model["trees"] - 70) ** 2 / 10 + 0.03 * (model["depth"] - 9) ** 2 / 4
    rate = math.log10(model["lr"]) + (2.5 if model["_name"] == "adam" else 1.0)
    inertia = (model["momentum"] - 0.9) ** 2 if model["_name"] == "sgd" else 0.03
    return common + 0.25 * rate**2 + inertia + 0.4 * (model["dropout"] - 0.35) ** 2


_NESTED = {
    "scale": _uniform(0, 1),
    "model": _choice(
        {"_name": "linear", "penalty": _log(1e-5, 10)},
        {"_name": "forest", "trees": {"_type": "quniform", "_value": [10, 200, 10]}, "depth": _int(2, 20)},
        {"_name": "adam", "lr": _log(1e-5, 1), "dropout": _uniform(0, 0.8)},
        {"_name": "sgd", "lr": _log(1e-5, 1), "dropout": _uniform(0, 0.8), "momentum": _uniform(0, 0.99)},
    ),
}


def _quantised(parameters: Parameters) -> float:
    return float((parameters["a"] - 2.5) ** 2 / 4 + (parameters["b"] + 30) ** 2 / 400
                 + (math.log2(parameters["c"] / 64)) ** 2 / 2 + (parameters["d"] - 11) ** 2 / 10
                 + abs(parameters["a"] - 2.5) * abs(parameters["d"] - 11) / 10)


def _few_matter(parameters: Parameters) -> float:
    x = _x(parameters)
    rest = float(np.sum((x[3:] - 0.4) ** 2))
    return float((x[0] - 0.82) ** 2 + 2 * (x[1] - 0.15) ** 2 + 1.5 * (x[2] - 0.63 * x[0]) ** 2) + 1e-3 * rest


_GAINS = np.random.default_rng(20).random((7, 5))
_PAIRS = np.random.default_rng(21).random((7, 5, 5))


def _categorical(parameters: Parameters) -> float:
    """Seven choices of five; each counts for itself and together with the one before it."""
    at = ["abcde".index(parameters[f"c{index}"]) for index in range(7)]
    return float(sum(_GAINS[index, place] for index, place in enumerate(at))
                 + 0.8 * sum(_PAIRS[index, at[index - 1], place] for index, place in enumerate(at) if index))


def _diverges(parameters: Parameters, luck: float) -> bool:
    """A learning rate that is too high for the depth never gives a result, and a tenth of the others is lost."""
    return math.log10(parameters["lr"]) + 0.12 * parameters["layers"] > -1.2 or luck < 0.1


@functools.cache
def _digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return images[:240] / 16.0, labels[:240]


def _svc(parameters: Parameters) -> float:
    """The share of handwritten digits that a real classifier gets wrong, each half learned from the other."""
    from sklearn.svm import SVC

    images, labels = _digits()
    wrong = 0
    for learn, test in ((slice(0, 120), slice(120, 240)), (slice(120, 240), slice(0, 120))):
        model = SVC(kernel=parameters["kernel"], C=parameters["C"], gamma=parameters["gamma"], tol=parameters["tol"],
                    degree=2, max_iter=500)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one that does not converge is a bad one, which its error shows
            model.fit(images[learn], labels[learn])
        wrong += int(np.sum(model.predict(images[test]) != labels[test]))
    return wrong / len(images)


def _rastrigin(parameters: Parameters) -> float:
    x = _x(parameters) - np.array([0.9, -1.7, 1.2])
    return float(30 + np.sum(x**2 - 10 * np.cos(2 * math.pi * x)))


_TURNED = np.linalg.qr(np.random.default_rng(8).normal(size=(8, 8)))[0]


def _valley(parameters: Parameters) -> float:
    """An ellipse that lies across all axes, a thousand times steeper one way than another."""
    along = _TURNED @ (_x(parameters) - np.linspace(-2, 2.5, 8))
    return float(np.sum(10 ** np.linspace(0, 3, 8) * along**2))


def _explodes(parameters: Parameters) -> float:
    """Losses over many orders of magnitude, and all normal distributions."""
    away = ((parameters["bias"] - 1.2) ** 2 + (math.log(parameters["gain"]) - 0.9) ** 2
            + (parameters["steps"] - 6) ** 2 / 16 + (math.log(parameters["width"] / 40)) ** 2)
    return math.expm1(min(2.5 * away, 600.0))


def _stairs(parameters: Parameters) -> float:
    """Flat nearly everywhere, as an accuracy on few examples; the way down has a bend."""
    x = _x(parameters)
    return float(np.ceil(12 * (abs(x[0] - 0.21) + abs(x[1] - x[0] ** 2) + 0.5 * abs(x[2] - 0.77)) / 2)) / 12


OBJECTIVES = {each.name: each for each in (
    Objective("sphere", _cube(5, -5, 5), _sphere),
    Objective("rosenbrock", _cube(5, -2, 2), _rosenbrock),
    Objective("ackley", _cube(5, -32.768, 32.768), _ackley),
    Objective("log-scaled", {
        "lr": _log(1e-6, 1), "decay": _log(1e-8, 0.1), "momentum": _uniform(0, 1),
        "batch": _choice(16, 32, 64, 128, 256), "layers": _int(1, 12), "activation": _choice("relu", "tanh", "gelu"),
    }, _training),
    Objective("noisy", {"x": _uniform(-5, 10), "y": _uniform(0, 15)}, _branin, noise=3.0),
    Objective("nested", _NESTED, _nested),
    Objective("quantised", {
        "a": {"_type": "quniform", "_value": [-5, 5, 0.5]}, "b": {"_type": "quniform", "_value": [-100, 100, 5]},
        "c": {"_type": "qloguniform", "_value": [1, 1024, 1]}, "d": _int(0, 20),
    }, _quantised),
    Objective("three of twenty", _cube(20, 0, 1), _few_matter),
    Objective("categorical", {f"c{index}": _choice(*"abcde") for index in range(7)}, _categorical),
    Objective("failing", {"lr": _log(1e-6, 1), "layers": _int(1, 12), "decay": _log(1e-8, 0.1),
                          "momentum": _uniform(0, 1)},
              lambda parameters: _training({**parameters, "batch": 64, "activation": "relu"}), fails=_diverges),
    Objective("svc", {"kernel": _choice("linear", "poly", "rbf", "sigmoid"), "C": _log(1e-4, 1e4),
                      "gamma": _log(1e-6, 10), "tol": _log(1e-5, 0.1)}, _svc),
    Objective("hartmann", _cube(6, 0, 1), _hartmann),
    Objective("rastrigin", _cube(3, -5.12, 5.12), _rastrigin),
    Objective("valley", _cube(8, -5, 5), _valley),
    Objective("explodes", {
        "bias": {"_type": "normal", "_value": [0, 2]}, "gain": {"_type": "lognormal", "_value": [0, 1]},
        "steps": {"_type": "qnormal", "_value": [3, 4, 1]}, "width": {"_type": "qlognormal", "_value": [3, 1.5, 1]},
    }, lambda parameters: _explodes({**parameters, "width": max(parameters["width"], 0.5)})),
    Objective("stairs", _cube(3, 0, 1), _stairs),
)}
