"""The part that the tuners share which search by several objectives: a record of proposals and of all their results."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import optuna
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from nniweb.tuning.search_space.optuna_space import suggested
from nniweb.tuning.search_space.space import Coordinates, Parameters, SearchSpace
from nniweb.tuning.tuner_base.optuna_study import OptunaTrials, study_of
from nniweb.tuning.tuner_base.pareto_front import ParetoFront, losses_of
from nniweb.tuning.tuner_base.remembering_tuner import RememberingTuner

optuna.logging.set_verbosity(optuna.logging.WARNING)

#: Points that one proposal looks for that was not tried before.
_LOOKS = 5
#: The same where constraints forbid some of them.
_CONSTRAINED_LOOKS = 10


@dataclass
class Record:
    """One proposal, or one point that a person submitted; ``losses``: less is better, None while there are none."""

    parameters: Parameters
    is_running: bool
    losses: tuple[float, ...] | None = None
    #: How far its result is from satisfying the constraints on outcomes.
    violation: float = 0.0
    coordinates: Coordinates = field(default_factory=dict)


class ObjectivesTuner(RememberingTuner):
    """Puts what was told into a study of Optuna's, anew for each proposal, and asks a sampler; a subclass says which
    and what it is shown. As with one objective, a proposal depends on the records in the order of proposal and on its
    own randomness alone.
    """

    #: System attributes that the sampler finds at each trial.
    attributes: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, space: SearchSpace, seed: int, modes: Sequence[str]) -> None:
        super().__init__(space, seed)
        self.modes = tuple(modes)
        self.records: list[Record] = []
        #: Places in ``records``.
        self.front: ParetoFront[int] = ParetoFront()
        self.told = 0
        #: Whether a result has violated constraints on outcomes.
        self._is_constrained = False
        self._by_number: dict[int, int] = {}
        self._trials = OptunaTrials(space, **self.attributes)

    @property
    def running_count(self) -> int:
        return sum(record.is_running for record in self.records)

    @property
    @abstractmethod
    def can_model(self) -> bool:
        """Whether there is enough to go by; random points until then."""

    @abstractmethod
    def sampler(self, seed: int) -> BaseSampler:
        """A new one with this seed."""

    @abstractmethod
    def shown(self) -> list[FrozenTrial]:
        """What it is to know, made by ``complete`` and ``running``."""

    def propose(self, number: int) -> Parameters:
        rng = self.rng(number)
        return self.points.first_of(self._sampled(rng) if self.can_model else (), rng)

    def _sampled(self, rng: np.random.Generator) -> Iterator[Parameters]:
        study = study_of(self.shown(), self.sampler(int(rng.integers(2**32))), len(self.modes))
        for _ in range(_CONSTRAINED_LOOKS if self.space.constraints else _LOOKS):
            yield suggested(self.space, study.ask())

    def note_asked(self, number: int, parameters: Parameters) -> None:
        self._by_number[number] = self._add(Record(parameters, is_running=True))

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        self._tell(number, parameters, None if value is None or len(self.modes) > 1 else [value], violation)

    def tell_event(self, event: Mapping[str, Any]) -> None:
        values = event.get("values")
        if values is None and event["value"] is not None and len(self.modes) == 1:
            values = [event["value"]]
        self._tell(event["number"], event["parameters"], values, event.get("violation", 0.0))

    def _tell(self, number: int | None, parameters: Parameters, values: Sequence[float] | None,
              violation: float) -> None:
        place = self._by_number.get(number) if number is not None else None
        if place is None:
            place = self._add(Record(parameters, is_running=False))
            if number is not None:
                self._by_number[number] = place
        record = self.records[place]
        record.is_running = False
        if record.losses is None and values is not None and all(math.isfinite(value) for value in values):
            record.losses = losses_of(values, self.modes)
            record.violation = violation
            self._is_constrained |= violation > 0
            self.told += 1
            if violation == 0:
                self.front.add(place, record.losses)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._trials.update_search_space(space)
        for record in self.records:
            record.coordinates = space.coordinates(record.parameters)

    def telling(self, most: int) -> list[int]:
        """Places of at most so many records with results, in the order of proposal: the front, then the newest."""
        front = sorted(self.front.points)[-most:]
        others: list[int] = []
        for place in range(len(self.records) - 1, -1, -1):
            if len(front) + len(others) >= most:
                break
            if self.records[place].losses is not None and place not in self.front:
                others.append(place)
        return sorted([*front, *others])

    def complete(self, place: int) -> FrozenTrial:
        """A record that has results, for the sampler."""
        record = self.records[place]
        assert record.losses is not None
        violation = record.violation if self._is_constrained else None
        return self._trials.of(place, record.coordinates, record.losses, violation)

    def running(self, place: int) -> FrozenTrial:
        """A record as one that runs, for the sampler."""
        return self._trials.of(place, self.records[place].coordinates, None)

    def _add(self, record: Record) -> int:
        record.coordinates = self.space.coordinates(record.parameters)
        self.records.append(record)
        self.points.add(record.parameters)
        return len(self.records) - 1
