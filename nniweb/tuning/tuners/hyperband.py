"""NNI's Hyperband: many configurations with a small budget, the best of them again with a larger one, and so on.

A trial learns its budget from the parameter TRIAL_BUDGET; what it means (epochs, minutes) is the trial's affair. A
configuration that goes on is a new trial that continues the one before: where that saved a checkpoint, it trains only
what its budget is larger by.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nniweb.tuning.class_args import HyperbandArgs
from nniweb.tuning.search_space.space import Parameters, SearchSpace, point_key
from nniweb.tuning.tuner_base.tuner import ResultsNeeded, Tuner

BUDGET_KEY = "TRIAL_BUDGET"


@dataclass(frozen=True)
class Rung:
    """So many configurations run with this budget."""

    configurations: int
    budget: int


@dataclass
class _Entry:
    """One trial: a configuration with one budget. ``number`` None: not proposed yet. ``parent``: the number of the
    trial that had the same configuration in the rung before.
    """

    configuration: Parameters
    number: int | None = None
    parent: int | None = None
    has_ended: bool = False
    loss: float | None = None
    #: How far the result is from satisfying the constraints on outcomes.
    violation: float = 0.0


@dataclass
class _Bracket:
    rungs: list[Rung]
    #: Trials by rung; those of the first are made as they are proposed, those of a later one when the last is over.
    entries: list[list[_Entry]] = field(default_factory=lambda: [[]])

    @property
    def is_full(self) -> bool:
        """Whether the first rung has all its configurations."""
        return len(self.entries[0]) >= self.rungs[0].configurations

    @property
    def is_over(self) -> bool:
        is_last = len(self.entries) == len(self.rungs) or not self.entries[-1]
        return self.is_full and is_last and all(entry.has_ended for entry in self.entries[-1])

    def promote(self) -> None:
        """Open the next rung when the newest is over: its best go on. Those without a result never do."""
        newest = self.entries[-1]
        if not self.is_full or len(self.entries) == len(self.rungs) or not newest:
            return
        if all(entry.has_ended for entry in newest):
            results = [entry for entry in newest if entry.loss is not None]
            results.sort(key=lambda entry: (entry.violation, entry.loss or 0.0))
            room = self.rungs[len(self.entries)].configurations
            self.entries.append([_Entry(entry.configuration, parent=entry.number) for entry in results[:room]])


def brackets(largest: int, smallest: float, eta: int) -> list[list[Rung]]:
    """The brackets of one round, the widest first: of each a list of rungs."""
    halvings = math.floor(math.log(largest / smallest) / math.log(eta) + 1e-9)
    made = []
    for s in range(halvings, -1, -1):
        configurations = math.ceil((halvings + 1) / (s + 1) * eta**s - 1e-9)
        rungs = [Rung(max(1, math.floor(configurations / eta**i + 1e-9)),
                      max(1, math.floor(largest / eta ** (s - i) + 1e-9))) for i in range(s + 1)]  # fmt: skip
        made.append(rungs)
    return made


class Hyperband(Tuner):
    """Brackets one after another, endlessly. With ``is_serial`` the next one waits for the end of the last; else it
    begins when nothing else can be run, so that no slot stays empty. A failed trial leaves its bracket.
    """

    def __init__(
        self, space: SearchSpace, seed: int, optimize_mode: str, round_of_brackets: list[list[Rung]], is_serial: bool
    ) -> None:
        super().__init__(space, seed)
        self._sign = -1.0 if optimize_mode == "maximize" else 1.0
        self._round = round_of_brackets
        self._is_serial = is_serial
        #: Those that are not over, and the newest; how many there were.
        self._brackets: list[_Bracket] = []
        self._begun = 0
        self._by_number: dict[int, _Entry] = {}

    def propose(self, number: int) -> Parameters:
        for entry, rung in self._promoted():
            return {**entry.configuration, BUDGET_KEY: rung.budget}
        bracket = self._filling()
        if bracket is None:
            raise ResultsNeeded("the next trials depend on the results of those that run")
        return {**self.new_configuration(number), BUDGET_KEY: bracket.rungs[0].budget}

    def new_configuration(self, number: int) -> Parameters:
        """One that starts in the first rung of a bracket."""
        return self.space.sample(self.rng(number))

    def note_asked(self, number: int, parameters: Parameters) -> None:
        self._place(number, parameters)

    def note_ask_event(self, event: Mapping[str, Any]) -> None:
        self._place(event["number"], event["parameters"], event.get("continues"))

    def continues(self, number: int) -> int | None:
        entry = self._by_number.get(number)
        return None if entry is None else entry.parent

    def _place(self, number: int, parameters: Parameters, parent: int | None = None) -> None:
        """Finds the trial's place by what it was given: a promoted configuration, else a new one. So it is the same
        place when a recorded history has results a little earlier than they came. Two trials may have the same
        configuration: then ``parent``, where the history has it, says which of them goes on.
        """
        budget = parameters.get(BUDGET_KEY)
        configuration = {name: value for name, value in parameters.items() if name != BUDGET_KEY}
        key = point_key(configuration)
        for entry, rung in self._promoted():
            if rung.budget == budget and point_key(entry.configuration) == key and parent in (None, entry.parent):
                break
        else:
            bracket = self._filling(even_if_serial=True)
            assert bracket is not None
            entry = _Entry(configuration)
            bracket.entries[0].append(entry)
        entry.number = number
        self._by_number[number] = entry

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        entry = self._by_number.get(number) if number is not None else None
        if entry is None or (entry.has_ended and entry.loss is not None):
            return
        if value is not None and math.isfinite(value) and status != "FAILED":  # whatever it counts as elsewhere
            entry.loss, entry.violation = self._sign * value, violation
        entry.has_ended = True
        for bracket in self._brackets:
            if not bracket.is_over:
                bracket.promote()
        self._brackets = [bracket for bracket in self._brackets if not bracket.is_over or bracket is self._brackets[-1]]

    def _promoted(self) -> Iterator[tuple[_Entry, Rung]]:
        """Trials of later rungs that wait to be proposed, those of the oldest bracket first."""
        for bracket in self._brackets:
            if len(bracket.entries) > 1:
                for entry in bracket.entries[-1]:
                    if entry.number is None:
                        yield entry, bracket.rungs[len(bracket.entries) - 1]

    def _filling(self, even_if_serial: bool = False) -> _Bracket | None:
        """The bracket that takes new configurations; None where it must be waited for."""
        newest = self._brackets[-1] if self._brackets else None
        if newest is not None and not newest.is_full:
            return newest
        if newest is not None and self._is_serial and not newest.is_over and not even_if_serial:
            return None
        self._brackets.append(_Bracket(self._round[self._begun % len(self._round)]))
        self._begun += 1
        return self._brackets[-1]


def build(space: SearchSpace, seed: int, optimize_mode: str, args: HyperbandArgs) -> Hyperband:
    return Hyperband(space, seed, optimize_mode, brackets(args.R, 1, args.eta), args.exec_mode == "serial")
