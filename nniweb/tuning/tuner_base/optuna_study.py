"""What Optuna's samplers are shown: trials that are kept here, without a copy of them for each proposal.

``Study.add_trial`` copies and checks each trial, which for some hundreds of them takes longer than the proposal itself.
"""

import copy
from collections.abc import Container, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from nniweb.tuning.search_space.optuna_space import distributions_of, optuna_name
from nniweb.tuning.search_space.space import Coordinates, SearchSpace

# Trials that a sampler is asked for have the numbers from 0.
_FIRST_NUMBER = 1_000

#: Losses and violation that a trial was made with.
_Known = tuple[tuple[float, ...] | None, float | None]


class OptunaTrials:
    """Records in Optuna's form, each made once for what is known of it. ``attributes``: system attributes of all."""

    def __init__(self, space: SearchSpace, **attributes: Any) -> None:
        self._attributes = attributes
        self.update_search_space(space)

    def update_search_space(self, space: SearchSpace) -> None:
        """From now on with these distributions."""
        self._distributions = distributions_of(space)
        self._made: dict[int, tuple[_Known, FrozenTrial]] = {}

    def of(self, place: int, coordinates: Coordinates, losses: tuple[float, ...] | None,
           violation: float | None = None) -> FrozenTrial:
        """The record at this place, in the order of proposal; without losses as a running trial. Not to be changed.
        ``violation``: how far it is from satisfying constraints; None where there are none.
        """
        made = self._made.get(place)
        known = losses, violation
        if made is None or made[0] != known:
            made = self._made[place] = known, self._new(_FIRST_NUMBER + place, coordinates, losses, violation)
        return made[1]

    def _new(self, number: int, coordinates: Coordinates, losses: tuple[float, ...] | None, violation: float | None
             ) -> FrozenTrial:
        constraints = {} if violation is None or losses is None else create_trial(
            values=losses, constraints={"outcome": violation}).system_attrs
        return FrozenTrial(
            number=number, trial_id=number, state=TrialState.RUNNING if losses is None else TrialState.COMPLETE,
            value=None, values=losses, datetime_start=None, datetime_complete=None,
            params={optuna_name(path): value for path, value in coordinates.items()},
            distributions={optuna_name(path): self._distributions[path] for path in coordinates},
            user_attrs={}, system_attrs={**self._attributes, **constraints}, intermediate_values={})


class _ShownTrials(InMemoryStorage):
    """Has these trials, and those that it is asked for."""

    def __init__(self, shown: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._shown = shown

    def get_all_trials(self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
                       ) -> list[FrozenTrial]:
        asked = super().get_all_trials(study_id, deepcopy=False, states=states)
        found = [*(trial for trial in self._shown if states is None or trial.state in states), *asked]
        return copy.deepcopy(found) if deepcopy else found


def shared_distributions(shown: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Of the parameters that all trials with a result have and that have more than one value, by name."""
    complete = [trial.distributions for trial in shown if trial.state == TrialState.COMPLETE]
    if not complete:
        return {}
    names = set(complete[0]).intersection(*complete)
    return {name: complete[0][name] for name in sorted(names) if not complete[0][name].single()}


def study_of(shown: Sequence[FrozenTrial], sampler: BaseSampler, objectives: int = 1) -> optuna.Study:
    """A study to ask, in which less is better. ``shown`` are as from ``OptunaTrials``, in the order of proposal."""
    return optuna.create_study(storage=_ShownTrials(shown), sampler=sampler, directions=["minimize"] * objectives)
