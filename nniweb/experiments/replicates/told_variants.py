"""Which results of trials with a variant of the code a tuner is told, and how."""

from __future__ import annotations

from collections.abc import Iterable

from nniweb.experiments.models import CodeVariant, Experiment, Trial


def is_told(experiment: Experiment, number: int | None, trial: Trial) -> bool:
    """Whether the tuner's history has the end of a proposal, whose first trial this is. ``number``: the tuner's, None
    where it did not propose it. A tuner learns what parameters are worth to one code;
    with another code they may be worth something else. The program behind External has made the variant, and knows it.
    """
    if trial.variant_id is not None:
        return experiment.has_external_tuner
    return number is not None or experiment.tells_all_ends


def hashes_of(trials: Iterable[Trial]) -> dict[int | None, str]:
    """Hashes of the variants of these trials, by primary key of the variant. No query where none has one."""
    keys = {trial.variant_id for trial in trials if trial.variant_id is not None}
    return dict(CodeVariant.objects.filter(pk__in=keys).values_list("pk", "sha256")) if keys else {}
