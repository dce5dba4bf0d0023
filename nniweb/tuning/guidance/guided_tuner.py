"""A tuner whose first proposals come from somewhere else than from its algorithm."""

import contextlib
import copy
from collections.abc import Mapping, Sequence
from typing import Any

from nniweb.tuning.guidance.earlier_objectives import EarlierObjectivesSearch
from nniweb.tuning.guidance.earlier_search import Agreement, EarlierSearch
from nniweb.tuning.search_space.given_points import problems_of_point
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.tuner import Tuner


class GuidedTuner(Tuner):
    """Any built-in tuner with points that a person wants tried first, and with results of earlier experiments.

    Proposal ``n`` is ``start_points[n]``. A point that does not fit (any more: the search space may have been changed)
    is left out, and the tuner proposes in its place. After them ``earlier`` proposes where it wants to, else the
    tuner. ``is_list``: the search space is a list of parameter sets.

    The tuner is told of such a point as of its own proposal, so it counts as running, and is not proposed again. Which
    proposals those are follows from their numbers and from the results so far alone, as with every tuner.
    """

    def __init__(self, tuner: Tuner, start_points: Sequence[Parameters],
                 earlier: EarlierSearch | EarlierObjectivesSearch | None = None, *, is_list: bool = False) -> None:
        super().__init__(tuner.space, tuner.seed)
        self._earlier = earlier
        self._tuner = tuner
        self._start_points = start_points
        self._is_list = is_list

    def propose(self, number: int) -> Parameters:
        if number < len(self._start_points):
            point = self._start_points[number]
            if next(problems_of_point(point, self.space, is_list=self._is_list), None) is None:
                return copy.deepcopy(point)
        elif self._earlier is not None and self._earlier.wants(number - len(self._start_points)):
            return self._earlier.propose(number - len(self._start_points))
        return self._tuner.propose(number)

    def agreements(self) -> list[Agreement]:
        """Of each earlier experiment, in their order."""
        return self._earlier.agreements() if self._earlier is not None else []

    def continues(self, number: int) -> int | None:
        return self._tuner.continues(number)

    def chosen(self) -> dict[str, Any] | None:
        return self._tuner.chosen()

    def note_asked(self, number: int, parameters: Parameters) -> None:
        self._tuner.note_asked(number, parameters)
        if self._earlier is not None:
            self._earlier.note_asked(number, parameters)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        self._tuner.tell(number, parameters, value, status, violation)
        if self._earlier is not None:
            self._earlier.tell(number, parameters, value, status, violation)

    def allow_repeats(self) -> None:
        self._tuner.allow_repeats()

    def note_ask_event(self, event: Mapping[str, Any]) -> None:
        self._tuner.note_ask_event(event)
        if self._earlier is not None:
            self._earlier.note_ask_event(event)

    def tell_event(self, event: Mapping[str, Any]) -> None:
        self._tuner.tell_event(event)
        if self._earlier is not None:
            self._earlier.tell_event(event)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._tuner.update_search_space(space)
        if self._earlier is not None:
            self._earlier.update_search_space(space)

    def replay(self) -> contextlib.AbstractContextManager[None]:
        return self._tuner.replay()
