"""ASHA, asynchronous successive halving (Li and others, 2020): Hyperband's rungs without waiting for a rung to be over.

Budgets and checkpoints are as with Hyperband: the parameter TRIAL_BUDGET, and a trial that continues the one before.
"""

import math
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nniweb.tuning.class_args import AshaArgs
from nniweb.tuning.search_space.space import Parameters, SearchSpace, point_key
from nniweb.tuning.tuner_base.tuner import Tuner
from nniweb.tuning.tuners.hyperband import BUDGET_KEY, brackets


@dataclass
class _Run:
    """One trial: a configuration in a rung. ``parent``: its trial in the rung below."""

    configuration: Parameters
    rung: int
    number: int
    parent: int | None = None
    loss: float | None = None
    violation: float = 0.0
    is_promoted: bool = False

    @property
    def rank(self) -> tuple[float, float, int]:
        """Less for better; of equal ones the earlier first."""
        return self.violation, self.loss or 0.0, self.number


class Asha(Tuner):
    """Whenever it is asked: of the highest rung in which one of the best 1/``eta`` of those with a result has not gone
    on yet, the best such one, with the next budget; else a new configuration with the smallest. It never waits. A trial
    without a result does not count. ``budgets``: of the rungs, the smallest first.
    """

    def __init__(self, space: SearchSpace, seed: int, optimize_mode: str, budgets: list[int], eta: int) -> None:
        super().__init__(space, seed)
        self._sign = -1.0 if optimize_mode == "maximize" else 1.0
        self._budgets, self._eta = budgets, eta
        #: Those with a result, by rung, the best first.
        self._ended: list[list[_Run]] = [[] for _ in budgets]
        self._by_number: dict[int, _Run] = {}

    def propose(self, number: int) -> Parameters:
        for rung in range(len(self._budgets) - 2, -1, -1):
            best = self._ended[rung][:len(self._ended[rung]) // self._eta]
            if (run := next((run for run in best if not run.is_promoted), None)) is not None:
                return {**run.configuration, BUDGET_KEY: self._budgets[rung + 1]}
        return {**self.space.sample(self.rng(number)), BUDGET_KEY: self._budgets[0]}

    def note_asked(self, number: int, parameters: Parameters) -> None:
        self._place(number, parameters)

    def note_ask_event(self, event: Mapping[str, Any]) -> None:
        self._place(event["number"], event["parameters"], event.get("continues"))

    def continues(self, number: int) -> int | None:
        run = self._by_number.get(number)
        return None if run is None else run.parent

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        run = self._by_number.get(number) if number is not None else None
        if run is None or run.loss is not None or value is None or not math.isfinite(value) or status == "FAILED":
            return
        run.loss, run.violation = self._sign * value, violation
        insort(self._ended[run.rung], run, key=lambda one: one.rank)

    def _place(self, number: int, parameters: Parameters, parent: int | None = None) -> None:
        """The trial's place follows from its budget and its configuration; of several trials with that configuration
        the best goes on, unless the history says which one did (``parent``).
        """
        budget = parameters.get(BUDGET_KEY)
        configuration = {name: value for name, value in parameters.items() if name != BUDGET_KEY}
        rung = self._budgets.index(budget) if budget in self._budgets else 0
        run = _Run(configuration, rung, number)
        if rung > 0:
            key = point_key(configuration)
            promoted = next((one for one in self._ended[rung - 1] if not one.is_promoted and parent in (
                None, one.number) and point_key(one.configuration) == key), None)
            if promoted is not None:
                promoted.is_promoted, run.parent = True, promoted.number
        self._by_number[number] = run


def build(space: SearchSpace, seed: int, optimize_mode: str, args: AshaArgs) -> Asha:
    budgets = [rung.budget for rung in brackets(args.max_budget, args.min_budget, args.eta)[0]]
    return Asha(space, seed, optimize_mode, budgets, args.eta)
