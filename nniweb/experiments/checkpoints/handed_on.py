"""Tuners such as PBT, whose trials hand checkpoints on in folders that their parameters name.

Where the experiment has a folder that all trials share, the trials do that themselves. Elsewhere keepers do: what a
trial has saved is a checkpoint of the name SAVED, and is put in place for the trial that loads it.
"""

from __future__ import annotations

from nniweb.experiments.models import Experiment
from nniweb.tuning.algorithms import find_tuner

#: The tuner's argument with the shared folder.
ARGUMENT = "all_checkpoint_dir"


def hands_on(experiment: Experiment) -> bool:
    """Whether its trials load what others have saved by their parameters, and not by ``nni.load_checkpoint``."""
    name = experiment.tuner.get("name")
    return bool(name) and find_tuner(name).shares_checkpoints


def keepers_hand_on(experiment: Experiment) -> bool:
    """Whether keepers carry what its trials hand on."""
    return hands_on(experiment) and not (experiment.tuner.get("class_args") or {}).get(ARGUMENT)
