"""Which parameter set each trial of NNI really ran with.

NNI 3.0 hands a trial the oldest parameter set that no trial has asked for yet (``this.parameters.shift()`` in
``ts/nni_manager/training_service/v3/compat.ts``). Its table of trials keeps the planned set. Each metric names the set
that ran.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from nniweb.experiments.nni_import.archived_trial import ArchivedTrial
from trialkeeper import contract


def give_sets_that_ran(trials: Sequence[ArchivedTrial]) -> None:
    """Give trials that ran with another set than the planned one that set, and say so in ``about_parameters``.

    A trial without metrics keeps its planned set where no other trial ran it. Otherwise it gets the one that is left.
    Experiments of several phases stay as they are: NNI 1 kept their sets as they ran.
    """
    if any(len(trial.parameters) > 1 for trial in trials):
        return
    planned = {trial.id: _name(trial.parameters[0][0]) for trial in trials if trial.parameters}
    owners = _owners(trials, planned)
    ran = {trial.id: ran for trial in trials if trial.id in planned and (ran := _set_that_ran(trial)) in owners}
    user_of: dict[str, str] = {}
    for trial in trials:
        if trial.id in ran:
            user_of.setdefault(ran[trial.id], trial.id)
    given = {name: (owner.parameters, owner.is_customized) for name, owner in owners.items()}
    for trial in trials:
        own = planned.get(trial.id)
        if own not in owners:
            continue
        name = ran.get(trial.id) or _left_over(own, planned, user_of)
        if name == own or name not in given:
            continue
        trial.parameters, trial.is_customized = given[name]
        trial.about_parameters = (
            f"NNI planned parameter set {own} for it. Its metrics show that it ran with set {name}, shown here."
            if trial.id in ran else
            f"NNI planned parameter set {own} for it, with which trial {user_of[own]} ran. It reported no metrics, so "
            f"NNI has not kept its own set. Set {name} is shown, with which no other trial ran.")


def _owners(trials: Sequence[ArchivedTrial], planned: dict[str, str]) -> dict[str, ArchivedTrial]:
    """By the name of the set the trial for which it was planned; without names that mean several sets."""
    owners: dict[str, ArchivedTrial] = {}
    ambiguous = {_name(None)}
    for trial in trials:
        name = planned.get(trial.id)
        if name is not None and owners.setdefault(name, trial) is not trial:
            ambiguous.add(name)
    return {name: owner for name, owner in owners.items() if name not in ambiguous}


def _set_that_ran(trial: ArchivedTrial) -> str | None:
    """That of the result that counts; without one that of the last metric, because a resumed trial may be given
    another set. None without metrics.
    """
    finals = [metric for metric in trial.metrics if metric.kind == contract.FINAL]
    shown = finals[0] if finals else trial.metrics[-1] if trial.metrics else None
    return None if shown is None else _name(json.loads(shown.parameter_id))


def _left_over(own: str, planned: dict[str, str], user_of: dict[str, str]) -> str:
    """A set that no trial is known to have run with: the planned one, or that of the trial which took it, and so on."""
    name, seen = own, {own}
    while name in user_of:
        name = planned[user_of[name]]
        if name in seen:
            return own
        seen.add(name)
    return name


def _name(parameter_id: Any) -> str:
    """NNI keeps the same id as a number with a trial and as text with a metric."""
    return str(parameter_id)
