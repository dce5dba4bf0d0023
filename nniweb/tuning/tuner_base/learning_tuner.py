"""The part that the tuners share which learn from results: a record of every proposal and what came of it."""

import heapq
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
    """One proposal, or one point that a person submitted. ``loss`` is less for better, None while there is none."""

    parameters: Parameters
    is_running: bool
    loss: float | None = None
    coordinates: Coordinates = field(default_factory=dict)


class LearningTuner(RememberingTuner):
    """Keeps ``records`` in the order of proposal, which a replay repeats; what a subclass computes depends on that
    order and on nothing else, so that it does not matter whether a result was recorded before or after a proposal.
    ``told`` counts the records with a result.
    """

    def __init__(self, space: SearchSpace, seed: int, optimize_mode: str) -> None:
        super().__init__(space, seed)
        self._sign = -1.0 if optimize_mode == "maximize" else 1.0
        self.records: list[TrialRecord] = []
        self._by_number: dict[int, TrialRecord] = {}
        self.told = 0

    def note_asked(self, number: int, parameters: Parameters) -> None:
        self._by_number[number] = self._add(TrialRecord(parameters, is_running=True))

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str) -> None:
        record = self._by_number.get(number) if number is not None else None
        if record is None:
            record = self._add(TrialRecord(parameters, is_running=False))
            if number is not None:
                self._by_number[number] = record
        record.is_running = False
        if record.loss is None and value is not None and math.isfinite(value):
            record.loss = self._sign * value
            self.told += 1

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        for record in self.records:
            record.coordinates = space.coordinates(record.parameters)

    def best(self, count: int) -> list[TrialRecord]:
        """The records with the best results, the best first; of equal ones the earlier."""
        told = [index for index, record in enumerate(self.records) if record.loss is not None]
        chosen = heapq.nsmallest(count, told, key=lambda index: (self._loss(index), index))
        return [self.records[index] for index in chosen]

    def observations(self, good: int, most: int, lie: str | None) -> list[tuple[Coordinates, float]]:
        """Points and losses to model, in the order of proposal: the ``good`` best and the newest, ``most`` in all, and
        up to as many running ones with the loss that ``lie`` (see LIES) assumes. Needs a result.
        """
        told = {index: self._loss(index) for index, record in enumerate(self.records) if record.loss is not None}
        best = heapq.nsmallest(good, told, key=lambda index: (told[index], index))
        chosen = set(best)
        newest = [index for index in reversed(told) if index not in chosen][: max(most - len(best), 0)]
        losses = {index: told[index] for index in (*best, *newest)}
        if lie is not None:
            running = [index for index, record in enumerate(self.records) if record.is_running]
            losses |= dict.fromkeys(running[-most:], LIES[lie](list(told.values())))
        return [(self.records[index].coordinates, losses[index]) for index in sorted(losses)]

    def _loss(self, index: int) -> float:
        loss = self.records[index].loss
        assert loss is not None
        return loss

    def _add(self, record: TrialRecord) -> TrialRecord:
        record.coordinates = self.space.coordinates(record.parameters)
        self.records.append(record)
        self.points.add(record.parameters)
        return record
