"""One search from its first trial to its last, so many at a time, in simulated time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from benchmarks.search.objectives import Objective, Parameters


class NotPossible(Exception):
    """This searcher cannot search this space; what it says is the reason."""


class Searcher(Protocol):
    """Whatever proposes points: a tuner of this project, a sampler of Optuna's, a tuner of NNI's."""

    def ask(self, number: int) -> Parameters | None:
        """Parameters for this trial; None: it wants results first. Raises NotPossible."""

    def tell(self, number: int, parameters: Parameters, value: float | None) -> None:
        """How it ended; None: it failed."""

    def close(self) -> None:
        """It is needed no more."""


#: Of an objective, a seed and how many trials run at once: a new one.
Maker = Callable[[Objective, int, int], Searcher]


@dataclass(frozen=True)
class Found:
    """``best``: at each of the budgets, the real value of the trial that had reported the best result; infinite where
    none had reported any. ``repeats``: proposals that were proposed before, of those at the largest budget.
    """

    best: tuple[float, ...]
    repeats: int


def search(objective: Objective, maker: Maker, seed: int, concurrency: int, budgets: tuple[int, ...]) -> Found:
    """Run it. How long a trial takes, what noise its result has and whether it fails depend on the seed and on the
    trial's number, so they are the same for every searcher. A search of fewer trials is the beginning of one of more:
    which trials there are does not depend on how many will follow.
    """
    most = max(budgets)
    searcher = maker(objective, seed, concurrency)
    results: dict[int, tuple[float, Parameters]] = {}
    running: list[tuple[float, int, Parameters]] = []
    seen: set[str] = set()
    now, launched, repeats = 0.0, 0, 0
    try:
        while launched < most or running:
            while launched < most and len(running) < concurrency:
                parameters = searcher.ask(launched)
                if parameters is None:
                    break
                key = repr(sorted(_flat(parameters)))
                repeats += key in seen
                seen.add(key)
                length = float(np.random.default_rng([seed, launched, 1]).lognormal(0.0, 0.5))
                heapq.heappush(running, (now + length, launched, parameters))
                launched += 1
            if not running:
                raise NotPossible("it wants results, and no trial is running")
            now, number, parameters = heapq.heappop(running)
            value = objective.reported(parameters, np.random.default_rng([seed, number, 2]))
            if value is not None:
                results[number] = value, parameters
            searcher.tell(number, parameters, value)
    finally:
        searcher.close()
    return Found(tuple(_really(objective, [results[number] for number in sorted(results) if number < budget])
                       for budget in budgets), repeats)


def _really(objective: Objective, results: list[tuple[float, Parameters]]) -> float:
    if not results:
        return math.inf
    return objective.value(min(results, key=lambda result: result[0])[1])


def _flat(parameters: Parameters, prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in parameters.items():
        found += _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
    return found
