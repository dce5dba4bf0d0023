"""Every class argument that a release of NNI takes is taken here, with the value that NNI has for a default."""

from collections.abc import Mapping
from typing import Any

import pytest

from nniweb.tuning.algorithms import check_class_args, find_assessor, find_tuner

HYPEROPT = {"optimize_mode": "minimize", "parallel_optimize": False, "constant_liar_type": "min"}
TPE_3 = {"optimize_mode": "minimize", "seed": 1, "tpe_args": {
    "constant_liar_type": "best", "n_startup_jobs": 20, "n_ei_candidates": 24, "linear_forgetting": 25,
    "prior_weight": 1.0, "gamma": 0.25}}
TUNERS: list[tuple[str, dict[str, Any]]] = [
    ("TPE", HYPEROPT), ("TPE", TPE_3), ("TPE", {"tpe_args": {"constant_liar_type": None}}), ("TPE_legacy", HYPEROPT),
    ("Random", {"seed": 1, "optimize_mode": "maximize"}), ("Anneal", HYPEROPT), ("BatchTuner", {}), ("Batch", {}),
    ("GridSearch", {}), ("Evolution", {"optimize_mode": "maximize", "population_size": 32}),
    ("Metis", {"optimize_mode": "maximize", "no_resampling": True, "no_candidates": False,
               "selection_num_starting_points": 600, "cold_start_num": 10}),
    ("GP", {"optimize_mode": "maximize", "utility": "ei", "kappa": 5, "xi": 0, "nu": 2.5, "alpha": 1e-6,
            "cold_start_num": 10, "selection_num_warm_up": 100000, "selection_num_starting_points": 250}),
    ("PBT", {"optimize_mode": "maximize", "all_checkpoint_dir": "/checkpoints", "population_size": 10, "factor": 0.2,
             "resample_probability": 0.25, "fraction": 0.2}), ("PBTTuner", {"factors": 0.2}),
    ("SMAC", {"optimize_mode": "maximize", "config_dedup": False}),
    ("DNGO", {"optimize_mode": "maximize", "sample_size": 1000, "trials_per_update": 20,
              "num_epochs_per_training": 500}),
    ("Hyperband", {"optimize_mode": "maximize", "R": 60, "eta": 3, "exec_mode": "parallelism"}),
    ("Hyperband", {"exec_mode": "serial"}),
    ("BOHB", {"optimize_mode": "maximize", "min_budget": 1, "max_budget": 3, "eta": 3, "min_points_in_model": 7,
              "top_n_percent": 15, "num_samples": 64, "random_fraction": 1 / 3, "bandwidth_factor": 3.0,
              "min_bandwidth": 0.001, "config_space": "space.pcs"}),
]
ASSESSORS: list[tuple[str, dict[str, Any]]] = [
    ("Medianstop", {"optimize_mode": "maximize", "start_step": 0}),
    ("Curvefitting", {"epoch_num": 20, "start_step": 6, "threshold": 0.95, "gap": 1}),
    ("Curvefitting", {"optimize_mode": "maximize", "epoch_num": 20}),
]


def taken(checked: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What became of what was given, as far as the algorithm has a use for it."""
    return {key: taken(checked[key], value) if isinstance(value, dict) else checked[key]
            for key, value in given.items() if key in checked}


def used(checked: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, as far as the algorithm has a use for it."""
    return {key: used(checked[key], value) if isinstance(value, dict) else value
            for key, value in given.items() if key in checked}


@pytest.mark.parametrize(("name", "args"), TUNERS)
def test_a_tuner_takes_what_it_takes_in_nni(name: str, args: dict[str, Any]) -> None:
    checked = check_class_args(find_tuner(name), args).model_dump()
    assert taken(checked, args) == used(checked, args)


@pytest.mark.parametrize(("name", "args"), ASSESSORS)
def test_an_assessor_takes_what_it_takes_in_nni(name: str, args: dict[str, Any]) -> None:
    checked = check_class_args(find_assessor(name), args).model_dump()
    assert taken(checked, args) == used(checked, args) != {}
