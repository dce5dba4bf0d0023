"""How many trials the results of an earlier experiment save, and what misleading ones cost.

    .venv/bin/python benchmarks/start_from.py                  # the table of docs/performance.md, half an hour
    .venv/bin/python benchmarks/start_from.py --seeds 1 --tuners TPE --at-once 1 --functions sphere nested

Each search has 50 trials in simulated time. The earlier experiment is a search with TPE of 60 trials: of a related
function (``RELATED``) or of one whose results mislead (``MISLEADING``). Counted are the trials until the real value of
the best by what was measured is as good as that of the cold search after all its trials; 51 where it never is. For the
final values searches are compared by their ranks among all of the same function, by Wilcoxon's signed-rank test.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # each search is a process of its own

import numpy as np  # noqa: E402
from scipy.stats import rankdata, wilcoxon  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from benchmarks.search.objectives import OBJECTIVES, Objective, Parameters  # noqa: E402
from benchmarks.search.runs import Maker, search  # noqa: E402
from benchmarks.search.searchers import Ours, ours  # noqa: E402
from nniweb.tuning.search_space.parser import parse_search_space  # noqa: E402
from nniweb.tuning.search_space.space import Coordinates, Numeric, Parameter, RandInt  # noqa: E402
from nniweb.tuning.search_space.space import Path as Place  # noqa: E402

TRIALS, EARLIER_TRIALS = 50, 60
SEEDS = 8
TUNERS = ("TPE", "Anneal")
AT_ONCE = (1, 8)
PROCESSES = 2
FUNCTIONS = ("sphere", "rosenbrock", "log-scaled", "noisy", "nested", "quantised", "categorical", "hartmann")

Result = list[Any]
Variant = Callable[[Objective, int], Objective]


def _same(objective: Objective, _seed: int) -> Objective:
    return objective


def _moved(objective: Objective, seed: int) -> Objective:
    """The best point lies elsewhere, by a tenth of each parameter's range."""
    signs: dict[Place, int] = {}

    def change(path: Place, parameter: Parameter, at: float) -> float:
        sign = signs.setdefault(path, int(np.random.default_rng([seed, len(signs)]).choice([-1, 1])))
        if isinstance(parameter, Numeric):
            return min(max(at + 0.1 * sign, 0.0), 1.0)
        return min(max(at + round(0.1 * parameter.size) * sign, 0), parameter.size - 1) \
            if isinstance(parameter, RandInt) else at

    return replace(objective, value=_through(objective, change))


def _rescaled(objective: Objective, _seed: int) -> Objective:
    """Another scale, and not a linear one: as the error on another data set."""
    return replace(objective, value=lambda point: 50 + 3 * math.copysign(math.sqrt(abs(objective.value(point))),
                                                                         objective.value(point)))


def _noisy(objective: Objective, _seed: int) -> Objective:
    """As on a tenth of the data: each result off by a fifth of what random points vary by."""
    return replace(objective, noise=0.2 * _deviation(objective))


def _without_one(objective: Objective, _seed: int) -> Objective:
    """The earlier experiment did not have the last parameter: it was fixed, in the middle."""
    name = list(objective.space)[-1]
    fixed = parse_search_space({name: objective.space[name]}).build(
        lambda path, parameter: getattr(parameter, "size", 0) // 2 if hasattr(parameter, "size") else 0.5)
    return replace(objective, space={other: one for other, one in objective.space.items() if other != name},
                   value=lambda point: objective.value({**point, **fixed}))


def _inverted(objective: Objective, _seed: int) -> Objective:
    """What is good here was bad there."""
    return replace(objective, value=lambda point: -objective.value(point))


def _mirrored(objective: Objective, _seed: int) -> Objective:
    """The best point lies on the other side of every parameter's range."""
    def change(_path: Place, parameter: Parameter, at: float) -> float:
        return 1.0 - at if isinstance(parameter, Numeric) else getattr(parameter, "size", 1) - 1 - at

    return replace(objective, value=_through(objective, change))


def _unrelated(objective: Objective, _seed: int) -> Objective:
    """Results that depend on nothing."""
    return replace(objective, value=lambda point: 0.0, noise=1.0, fails=None)


def _through(objective: Objective, change: Callable[[Place, Parameter, float], float]
             ) -> Callable[[Parameters], float]:
    space = parse_search_space(objective.space)

    def value(point: Parameters) -> float:
        coordinates: Coordinates = space.coordinates(point)
        # another option of a choice has other parameters inside: it stays
        nests = {path[0] for path in coordinates if len(path) > 1}
        return objective.value(space.build(
            lambda path, parameter: coordinates[path] if path[-1] in nests and len(path) == 1
            else change(path, parameter, coordinates[path])))

    return value


def _deviation(objective: Objective) -> float:
    space, chance = parse_search_space(objective.space), np.random.default_rng(5)
    return float(np.std([objective.value(space.sample(chance)) for _ in range(200)]))


RELATED: dict[str, Variant] = {"the same function": _same, "moved by a tenth": _moved, "another scale": _rescaled,
                               "noisy": _noisy, "without one parameter": _without_one}
MISLEADING: dict[str, Variant] = {"inverted": _inverted, "mirrored": _mirrored, "unrelated": _unrelated}


class _Recorded(Ours):
    """Keeps what it was told."""

    def __init__(self, objective: Objective, seed: int) -> None:
        super().__init__("TPE", {}, objective, seed)
        self.results: list[Result] = []

    def tell(self, number: int, parameters: Parameters, value: float | None) -> None:
        if value is not None:
            self.results.append([parameters, value])
        super().tell(number, parameters, value)


def earlier_results(objective: Objective, variant: Variant, seed: int) -> list[Result]:
    """What an experiment with this variant of the objective left."""
    related = variant(objective, seed)
    recorded = _Recorded(related, seed + 1000)
    search(related, lambda *_: recorded, seed + 1000, 1, (EARLIER_TRIALS,))
    return recorded.results


@dataclass(frozen=True)
class Pair:
    """The best real values after 1, 2, ... trials without and with earlier results."""

    function: str
    variant: str
    tuner: str
    at_once: int
    seed: int
    cold: tuple[float, ...]
    warm: tuple[float, ...]

    @property
    def needed(self) -> tuple[int, int]:
        """Trials until the cold search's final value, for both."""
        goal = self.cold[-1]
        cold, warm = (next((count for count, value in enumerate(curve, 1) if value <= goal), len(curve) + 1)
                      for curve in (self.cold, self.warm))
        return cold, warm

    @property
    def saved(self) -> float:
        """The share of trials; negative where it took more."""
        cold, warm = self.needed
        return 1 - warm / cold


def pairs_of(job: tuple[str, int, tuple[str, ...], tuple[int, ...]]) -> list[Pair]:
    """All variants for one function and seed."""
    function, seed, tuners, at_once = job
    objective, budgets = OBJECTIVES[function], tuple(range(1, TRIALS + 1))
    cold = {(tuner, running): search(objective, ours(tuner), seed, running, budgets).best
            for tuner in tuners for running in at_once}
    found = []
    for name, variant in {**RELATED, **MISLEADING}.items():
        results = earlier_results(objective, variant, seed)
        for (tuner, running), without in cold.items():
            started = search(objective, _started(tuner, results), seed, running, budgets)
            found.append(Pair(function, name, tuner, running, seed, without, started.best))
    return found


def _started(tuner: str, results: list[Result]) -> Maker:
    return lambda objective, seed, _: Ours(tuner, {}, objective, seed, earlier=[results])


def run_all(functions: Sequence[str], seeds: int, tuners: Sequence[str], at_once: Sequence[int]) -> list[Pair]:
    jobs = [(function, seed, tuple(tuners), tuple(at_once)) for seed in range(seeds) for function in functions]
    found: list[Pair] = []
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        for number, pairs in enumerate(pool.imap_unordered(pairs_of, jobs), 1):
            found += pairs
            print(f"{number} of {len(jobs)} searches of a function and seed have ended", file=sys.stderr, flush=True)
    return found


def chance_that_worse(pairs: Sequence[Pair]) -> float:
    """How probable it is by chance that the final values are so much worse with earlier results than without. Variants
    that are compared with the same cold search are not independent: their mean counts as one.
    """
    differences: dict[Any, list[float]] = {}
    for function in sorted({pair.function for pair in pairs}):
        own = [pair for pair in pairs if pair.function == function]
        ranks = rankdata([pair.cold[-1] for pair in own] + [pair.warm[-1] for pair in own]) / len(own)
        for pair, cold, warm in zip(own, ranks, ranks[len(own):], strict=False):
            differences.setdefault((function, pair.tuner, pair.at_once, pair.seed), []).append(float(warm - cold))
    means = [statistics.fmean(one) for one in differences.values()]
    return float(wilcoxon(means, alternative="greater").pvalue) if np.any(means) else 1.0


def lines(pairs: Sequence[Pair]) -> Iterator[tuple[str, str, list[Pair]]]:
    """Name of a kind, of a variant ("": all of the kind), and their pairs."""
    for kind, variants in (("related", RELATED), ("misleading", MISLEADING)):
        for variant in ("", *variants):
            yield kind, variant, [pair for pair in pairs if pair.variant in ((variant,) if variant else variants)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--tuners", nargs="+", default=TUNERS)
    parser.add_argument("--at-once", nargs="+", type=int, default=AT_ONCE)
    parser.add_argument("--functions", nargs="+", default=FUNCTIONS, choices=list(OBJECTIVES))
    given = parser.parse_args()
    pairs = run_all(given.functions, given.seeds, given.tuners, given.at_once)
    report = Report(__file__)
    for tuner in given.tuners:
        for running in given.at_once:
            of_them = [pair for pair in pairs if (pair.tuner, pair.at_once) == (tuner, running)]
            for kind, variant, own in lines(of_them):
                needed = [pair.needed for pair in own]
                beside = (f"trials, median: {statistics.median(cold for cold, _ in needed):g} cold, "
                          f"{statistics.median(warm for _, warm in needed):g} with earlier results; mean share saved "
                          f"{statistics.fmean(pair.saved for pair in own):.2f}; final value better in "
                          f"{sum(pair.warm[-1] < pair.cold[-1] for pair in own)}, worse in "
                          f"{sum(pair.warm[-1] > pair.cold[-1] for pair in own)} of {len(own)}; worse by chance: "
                          f"p = {chance_that_worse(own):.2g}")
                name = f"{tuner}, {running} at a time, {variant or f'all {kind}'}"
                report.add(f"{name}: share of trials saved, median", statistics.median(pair.saved for pair in own), "",
                           beside=beside, **({"limit": 0.3, "at_least": True} if kind == "related" and not variant
                                             else {}))
                if kind == "misleading" and not variant:
                    report.add(f"{name}: p that it is worse", chance_that_worse(own), "", limit=0.1, at_least=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
