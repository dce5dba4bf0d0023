"""Whether running proposals several times finds better parameters on noisy functions, at an equal number of trials.

    .venv/bin/python benchmarks/replicates.py                    # the table of docs/performance.md, ten minutes
    .venv/bin/python benchmarks/replicates.py --seeds 2 --tuners Random --at-once 1
    .venv/bin/python benchmarks/replicates.py --rules            # what a race may ask of a proposal

Each search has 100 trials in simulated time. What counts is the true value, without noise, of the parameters that are
best by what was measured: the best single result, or the best mean of proposals that were run in full. The functions
are two, three and six parameters of known test functions, and the validation error of a training that depends on
learning rate, layers and dropout; each with noise of a middle and of a great size. Ways are compared by ranks over all
runs of the same function, noise, tuner and seed, and with single runs by Wilcoxon's signed-rank test.
"""

from __future__ import annotations

import argparse
import heapq
import math
import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # each search is a process of its own

import numpy as np  # noqa: E402
from scipy.stats import rankdata, wilcoxon  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from nniweb.tuning.algorithms import build_tuner  # noqa: E402
from nniweb.tuning.replicates import may_be_better  # noqa: E402
from nniweb.tuning.search_space.parser import parse_search_space  # noqa: E402

Point = dict[str, Any]
TRIALS = 100
SEEDS = 10
TUNERS = ("TPE", "Anneal", "Random")
AT_ONCE = (1, 8)
PROCESSES = 2


def _cube(count: int, low: float, high: float) -> dict[str, Any]:
    return {f"x{number}": {"_type": "uniform", "_value": [low, high]} for number in range(count)}


def _at(point: Point) -> list[float]:
    return [point[f"x{number}"] for number in range(len(point))]


def sphere(point: Point) -> float:
    return sum(value * value for value in _at(point))


def branin(point: Point) -> float:
    x, y = (value * 15 for value in _at(point))
    x -= 5
    return (y - 5.1 / (4 * math.pi ** 2) * x * x + 5 / math.pi * x - 6) ** 2 \
        + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def rosenbrock(point: Point) -> float:
    x = _at(point)
    return sum(100 * (after - before ** 2) ** 2 + (1 - before) ** 2 for before, after in zip(x, x[1:], strict=False))


_HARTMANN = (
    (1.0, (10, 3, 17, 3.5, 1.7, 8), (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886)),
    (1.2, (0.05, 10, 17, 0.1, 8, 14), (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991)),
    (3.0, (3, 3.5, 1.7, 10, 17, 8), (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650)),
    (3.2, (17, 8, 0.05, 10, 0.1, 14), (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381)))


def hartmann(point: Point) -> float:
    return -sum(height * math.exp(-sum(wide * (value - centre) ** 2 for value, wide, centre in zip(
        _at(point), widths, centres, strict=True))) for height, widths, centres in _HARTMANN)


def training(point: Point) -> float:
    return 0.05 + 0.08 * (math.log10(point["lr"]) + 2.7) ** 2 + 0.03 * abs(point["layers"] - 3) \
        + 0.2 * (point["dropout"] - 0.3) ** 2


_TRAINING = {"lr": {"_type": "loguniform", "_value": [1e-5, 1]}, "layers": {"_type": "randint", "_value": [1, 7]},
             "dropout": {"_type": "uniform", "_value": [0, 0.9]}}

#: Name -> search space, value, standard deviations of the noise.
FUNCTIONS: dict[str, tuple[dict[str, Any], Callable[[Point], float], tuple[float, ...]]] = {
    "sphere": (_cube(3, -5, 5), sphere, (2, 8)),
    "branin": (_cube(2, 0, 1), branin, (2, 10)),
    "rosenbrock": (_cube(3, -2, 2), rosenbrock, (5, 30)),
    "hartmann": (_cube(6, 0, 1), hartmann, (0.2, 0.6)),
    "training": (_TRAINING, training, (0.02, 0.06))}


@dataclass
class Proposal:
    point: Point
    values: list[float] = field(default_factory=list)
    begun: int = 0
    wanted: int = 1

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)


#: Whether a proposal is run once more: of it, of the best one (None: none was run in full yet), and of all.
Rule = Callable[[Proposal, Proposal | None, Sequence[Proposal]], bool]


def by_mean(one: Proposal, best: Proposal | None, proposals: Sequence[Proposal]) -> bool:
    """The server's rule."""
    means = [other.mean for other in proposals if other is not one and other.values] if best is None else [best.mean]
    return may_be_better(one.mean, min(means, default=None), maximize=False)


@dataclass(frozen=True)
class WithMargin:
    """A proposal may be worse by so many standard errors of the difference, by the spread that all have in common."""

    margin: float

    def __call__(self, one: Proposal, best: Proposal | None, proposals: Sequence[Proposal]) -> bool:
        repeated = [other.values for other in proposals if len(other.values) > 1]
        if best is None or not repeated:
            return by_mean(one, best, proposals)
        variance = sum(statistics.variance(values) * (len(values) - 1) for values in repeated) \
            / sum(len(values) - 1 for values in repeated)
        error = math.sqrt(variance * (1 / len(one.values) + 1 / len(best.values)))
        return one.mean - best.mean <= self.margin * error


def by_wilcoxon(one: Proposal, best: Proposal | None, proposals: Sequence[Proposal]) -> bool:
    """As Optuna's pruner of this name: replicates of equal seeds are pairs, given up at p < 0.1 where worse."""
    if best is None:
        return by_mean(one, best, proposals)
    pairs = np.array(one.values) - np.array(best.values[:len(one.values)])
    return len(pairs) < 2 or bool(one.mean <= best.mean or not np.any(pairs)
                                  or wilcoxon(pairs, alternative="greater").pvalue >= 0.1)


@dataclass(frozen=True)
class Way:
    """How proposals are run; without a rule each in full."""

    name: str
    count: int
    rule: Rule | None = None


ONCE = Way("once", 1)
WAYS = (ONCE, Way("3, racing", 3, by_mean), Way("5, racing", 5, by_mean), Way("3, no race", 3))
RULES = (ONCE, Way("3, by mean", 3, by_mean), *(Way(f"3, margin {margin:g}", 3, WithMargin(margin))
                                                for margin in (0.25, 0.5, 1.0, 2.0)),
         Way("5, by mean", 5, by_mean), Way("5, Wilcoxon", 5, by_wilcoxon))


@dataclass(frozen=True)
class Task:
    tuner: str
    function: str
    noise: float
    at_once: int
    seed: int
    way: Way


@dataclass(frozen=True)
class Found:
    """The true value of what is best by what was measured, and that measured value."""

    true: float
    measured: float


def search(task: Task, trials: int = TRIALS) -> Found:
    """As a server does it: replicates come before new proposals, ends are counted in their order."""
    raw, value_of, _ = FUNCTIONS[task.function]
    space = parse_search_space(raw)
    tuner = build_tuner(task.tuner, {} if task.tuner == "Random" else {"optimize_mode": "minimize"}, space, "minimize",
                        task.seed)
    rng = np.random.default_rng([task.seed, 7])
    proposals: list[Proposal] = []
    running: list[tuple[float, int, int]] = []
    best: Proposal | None = None
    now, made = 0.0, 0
    while made < trials or running:
        while made < trials and len(running) < task.at_once:
            number = next((place for place, one in enumerate(proposals) if one.begun < one.wanted), len(proposals))
            if number == len(proposals):
                proposals.append(Proposal(tuner.ask(number), wanted=task.way.count if task.way.rule is None else 1))
            proposals[number].begun += 1
            heapq.heappush(running, (now + float(rng.uniform(0.5, 1.5)), made, number))
            made += 1
        now, _, number = heapq.heappop(running)
        one = proposals[number]
        one.values.append(value_of(one.point) + task.noise * float(rng.normal()))
        if task.way.rule is not None and one.begun < task.way.count:
            one.wanted = task.way.count if task.way.rule(one, best, proposals) else one.begun
        if len(one.values) >= max(one.begun, one.wanted):
            tuner.tell(number, one.point, one.mean, "SUCCEEDED")
            if len(one.values) == task.way.count and (best is None or one.mean < best.mean):
                best = one
    assert best is not None, "not one proposal was run in full"
    return Found(value_of(best.point), best.mean)


def tasks_of(ways: Sequence[Way], tuners: Sequence[str], at_once: Sequence[int], seeds: int) -> list[Task]:
    return [Task(tuner, function, noise, running, seed, way)
            for tuner in tuners for running in at_once for function, (_, _, sizes) in FUNCTIONS.items()
            for noise in sizes for seed in range(seeds) for way in ways]


def run_all(tasks: Sequence[Task]) -> dict[Task, Found]:
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        return dict(zip(tasks, pool.imap(search, tasks, chunksize=4), strict=True))


@dataclass(frozen=True)
class Line:
    """One way: its mean rank (0 the best of all ways, 1 the worst), how probable it is by chance that it is better than
    single runs, and the median by which the measured value of its best is better than the true one.
    """

    way: Way
    rank: float
    chance: float
    optimism: float


def compare(found: dict[Task, Found], ways: Sequence[Way]) -> Iterator[Line]:
    runs: dict[Way, list[Found]] = {way: [result for task, result in found.items() if task.way == way] for way in ways}
    table = np.array([[result.true for result in runs[way]] for way in ways])
    ranks = (rankdata(table, "average", axis=0) - 1) / max(1, len(ways) - 1)
    single = ranks[[way.count for way in ways].index(1)]
    noises = [task.noise for task in found if task.way == ways[0]]
    for way, own in zip(ways, ranks, strict=True):
        chance = 1.0 if np.all(own == single) else float(wilcoxon(own, single, alternative="less").pvalue)
        optimism = statistics.median((result.true - result.measured) / noise
                                     for result, noise in zip(runs[way], noises, strict=True))
        yield Line(way, float(own.mean()), chance, optimism)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--tuners", nargs="+", default=TUNERS, choices=["TPE", "Anneal", "Random", "GP", "Evolution"])
    parser.add_argument("--at-once", nargs="+", type=int, default=AT_ONCE)
    parser.add_argument("--rules", action="store_true")
    given = parser.parse_args()
    ways = RULES if given.rules else WAYS
    found = run_all(tasks_of(ways, given.tuners, given.at_once, given.seeds))
    report = Report(__file__)
    for tuner in (*given.tuners, None):
        of_tuner = {task: result for task, result in found.items() if tuner in (None, task.tuner)}
        for line in compare(of_tuner, ways):
            is_claimed = tuner is None and line.way.name == "3, racing"
            report.add(f"{tuner or 'all tuners'}, {line.way.name}: rank of the true value", line.rank, "",
                       beside=f"better than once by chance: p = {line.chance:.2g}; the measured value of the best is "
                              f"better than the true one by {line.optimism:.2f} of the noise")
            if is_claimed:
                report.add("all tuners, 3, racing: chance that it is no better than once", line.chance, "", limit=0.05)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
