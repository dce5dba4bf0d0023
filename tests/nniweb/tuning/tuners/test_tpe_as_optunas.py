"""TPE proposes what Optuna's own sampler would: the model is the same, only the history is kept here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import optuna
import pytest

from nniweb.tuning.class_args import TpeArgs
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.tuners.tpe import Tpe, build

SPACE: dict[str, Any] = {
    "act": {"_type": "choice", "_value": ["relu", "tanh", "gelu"]}, "layers": {"_type": "randint", "_value": [1, 9]},
    "lr": {"_type": "loguniform", "_value": [1e-5, 1]}, "momentum": {"_type": "uniform", "_value": [-5, 10]}}


def loss(point: dict[str, Any]) -> float:
    return float((math.log10(point["lr"]) + 2) ** 2 + abs(point["layers"] - 6) + point["momentum"] ** 2 / 9
                 + (point["act"] == "relu"))


def suggest(trial: optuna.Trial) -> dict[str, Any]:
    return {"act": trial.suggest_categorical("act", ["relu", "tanh", "gelu"]),
            "layers": trial.suggest_int("layers", 1, 8),
            "lr": trial.suggest_float("lr", 1e-5, 1, log=True), "momentum": trial.suggest_float("momentum", -5, 10)}


@pytest.mark.parametrize("running", [0, 7])
@pytest.mark.parametrize("count", [10, 11, 26, 60, 150])
def test_after_the_same_results_it_proposes_what_optunas_sampler_proposes(count: int, running: int) -> None:
    space = parse_search_space(SPACE)
    tuner: Tpe = build(space, 3, "minimize", TpeArgs())
    seed = int(np.random.default_rng(8).integers(2**32))
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    chance = np.random.default_rng(1)
    distributions = {
        "act": optuna.distributions.CategoricalDistribution(["relu", "tanh", "gelu"]),
        "layers": optuna.distributions.IntDistribution(1, 8),
        "lr": optuna.distributions.FloatDistribution(1e-5, 1, log=True),
        "momentum": optuna.distributions.FloatDistribution(-5, 10)}
    for number in range(count + running):
        point = space.sample(chance)
        tuner.note_asked(number, point)
        if number < count:
            tuner.tell(number, point, loss(point), "SUCCEEDED")
        study.add_trial(optuna.trial.create_trial(
            params=point, distributions=distributions, value=loss(point) if number < count else None,
            state=optuna.trial.TrialState.COMPLETE if number < count else optuna.trial.TrialState.RUNNING))
    theirs = suggest(study.ask())
    [ours] = tuner.likely(np.random.default_rng(8), 1)
    assert (ours["act"], ours["layers"]) == (theirs["act"], theirs["layers"])
    assert ours["lr"] == pytest.approx(theirs["lr"], rel=1e-6)
    assert ours["momentum"] == pytest.approx(theirs["momentum"], rel=1e-6, abs=1e-6)
