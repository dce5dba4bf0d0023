"""The part that the tuners share which learn from results: a record of every proposal and what came of it."""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from nniweb.tuning.search_space.space import Coordinates, Parameters, SearchSpace
from nniweb.tuning.tuner_base.remembering_tuner import RememberingTuner

# What a running trial is assumed to have, from the losses so far.
LIES: dict[str, Callable[[list[float]], float]] = {
    "best": min,
    "worst": max,
    "mean": lambda losses: math.fsum(loss / len(losses) for loss in losses),  # divided first: 1e308 twice overflows
}


@dataclass
class TrialRecord:
    """One proposal, or one point that a person submitted. ``loss`` is less for better, None while there is none; that
    of a result which violates constraints on outcomes is more than all losses of feasible results.
    """

    parameters: Parameters
    is_running: bool
    loss: float | None = None
    #: How far the result is from satisfying the constraints on outcomes.
    violation: float = 0.0
    coordinates: Coordinates = field(default_factory=dict)


def infeasible_loss(violation: float, feasible: tuple[float, float] | None) -> float:
    """What a result counts as that violates constraints on outcomes so far; ``feasible``: the least and the greatest
    loss of the feasible results. More than all of these, by one to two times their range and more, growing with the
    violation; without a feasible one the violation itself.
    """
    if feasible is None:
        return violation
    least, worst = feasible
    # halved first: the range of 1e308 and -1e308 is no float
    reach = min(max((worst / 2 - least / 2) * 2, abs(worst) * 1e-3, 1e-3), 1e300)
    return min(worst + reach * (1.0 + violation), 1.7e308)


class LearningTuner(RememberingTuner):
    """Keeps ``records`` in the order of proposal, which a replay repeats; what a subclass computes depends on that
    order and on nothing else, so that it does not matter whether a result was recorded before or after a proposal.
    ``told`` counts the records with a result.
    """

    def __init__(self, space: SearchSpace, seed: int, optimize_mode: str) -> None:
        super().__init__(space, seed)
        self._sign = -1.0 if optimize_mode == "maximize" else 1.0
        self.records: list[TrialRecord] = []
        self.told = 0
        #: The place of the record that got a result last; -1 before the first.
        self.newest_told = -1
        #: Results that violate constraints on outcomes; the least and the greatest loss of the others.
        self._infeasible: list[TrialRecord] = []
        self._feasible: tuple[float, float] | None = None
        self._by_number: dict[int, int] = {}
        self._running: set[int] = set()
        #: Losses and places in ``records``, the best first.
        self._ranked: list[tuple[float, int]] = []

    def note_asked(self, number: int, parameters: Parameters) -> None:
        place = self._by_number[number] = self._add(TrialRecord(parameters, is_running=True))
        self._running.add(place)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        place = self._by_number.get(number) if number is not None else None
        if place is None:
            place = self._add(TrialRecord(parameters, is_running=False))
            if number is not None:
                self._by_number[number] = place
        record = self.records[place]
        record.is_running = False
        self._running.discard(place)
        if record.loss is None and value is not None and math.isfinite(value):
            record.violation = violation
            self.told += 1
            self.newest_told = place
            self._put_feasible_first(place, self._sign * value)

    def _put_feasible_first(self, place: int, loss: float) -> None:
        """Give the record its loss, and others another one where the range of feasible results has grown."""
        record = self.records[place]
        record.loss = loss if record.violation == 0 else infeasible_loss(record.violation, self._feasible)
        bisect.insort(self._ranked, (record.loss, place))
        if record.violation > 0:
            self._infeasible.append(record)
            return
        least, worst = self._feasible or (loss, loss)
        if self._feasible is None or not least <= loss <= worst:
            self._feasible = min(least, loss), max(worst, loss)
            for other in self._infeasible:
                other.loss = infeasible_loss(other.violation, self._feasible)
            if self._infeasible:
                self._ranked = sorted((one.loss, place) for place, one in enumerate(self.records)
                                      if one.loss is not None)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        for record in self.records:
            record.coordinates = space.coordinates(record.parameters)

    def best(self, count: int) -> list[TrialRecord]:
        """The records with the best results, the best first; of equal ones the earlier."""
        return [self.records[place] for _, place in self._ranked[:count]]

    def results(self, good: int, most: int) -> dict[int, float]:
        """Losses to model, by their places in ``records``, in that order: the ``good`` best and the newest, ``most`` in
        all.
        """
        losses = {place: loss for loss, place in self._ranked[:good]}
        for place in range(len(self.records) - 1, -1, -1):
            if len(losses) >= most:
                break
            if (loss := self.records[place].loss) is not None:
                losses[place] = loss
        return dict(sorted(losses.items()))

    @property
    def running_count(self) -> int:
        return len(self._running)

    def running(self, most: int) -> list[int]:
        """Places of the newest running trials, in the order of proposal."""
        return sorted(self._running)[-most:]

    def without_result(self, most: int) -> list[int]:
        """Places of the newest trials that ended without a result, in the order of proposal."""
        found: list[int] = []
        for place in range(len(self.records) - 1, -1, -1):
            if len(found) >= most:
                break
            record = self.records[place]
            if record.loss is None and not record.is_running:
                found.append(place)
        return found[::-1]

    def lie(self, kind: str) -> float:
        """The loss that this lie (see LIES) assumes. Needs a result."""
        return LIES[kind]([loss for loss, _ in self._ranked])

    def _add(self, record: TrialRecord) -> int:
        record.coordinates = self.space.coordinates(record.parameters)
        self.records.append(record)
        self.points.add(record.parameters)
        return len(self.records) - 1
