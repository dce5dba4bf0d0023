"""How an experiment's proposals are repeated."""

from __future__ import annotations

from typing import Any

from nniweb.experiments.models import Experiment
from nniweb.tuning.replicates import replicate_seed

#: Keys of ``Experiment.replicates``, as files spell them.
N, SEEDS, RACING = "n", "seeds", "racing"
#: Variables of a trial's environment: its seed, and its index among the replicates of its proposal, from 0.
SEED_VARIABLE, REPLICATE_VARIABLE = "NNI_TRIAL_SEED", "NNI_REPLICATE"


def replicates_of_each(experiment: Experiment) -> int:
    """Trials of a proposal that is run in full; 1 where none is repeated."""
    return int(experiment.replicates.get(N, 1))


def is_raced(experiment: Experiment) -> bool:
    """Whether hopeless proposals are not repeated."""
    return bool(experiment.replicates.get(RACING, True))


def seed_of(experiment: Experiment, replicate: int) -> int:
    """The seed that trials with this index are given."""
    seeds: list[int] | None = experiment.replicates.get(SEEDS)
    return seeds[replicate] if seeds else replicate_seed(experiment.seed, replicate)


def stored_replicates(written: dict[str, Any]) -> dict[str, Any]:
    """``Experiment.replicates`` of what a file says: {} where each proposal is run once."""
    return dict(written) if written.get(N, 1) > 1 else {}
