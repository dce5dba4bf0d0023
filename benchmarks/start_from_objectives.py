"""How many trials earlier results save where two objectives are searched by, and what misleading ones cost.

    .venv/bin/python benchmarks/start_from_objectives.py               # the table of docs/performance.md, ten minutes
    .venv/bin/python benchmarks/start_from_objectives.py --seeds 1 --at-once 1

As ``start_from.py``, with the hypervolume of the front instead of the best value: the part of the box between the worst
values of random points and 0 that the front dominates. Searches have 40 trials, earlier ones 60, all with TPE.
"""

from __future__ import annotations

import argparse
import heapq
import math
import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # each search is a process of its own

import numpy as np  # noqa: E402
from scipy.stats import wilcoxon  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from nniweb.tuning.process.experiment_tuning import ExperimentTuning  # noqa: E402
from nniweb.tuning.search_space.parser import parse_search_space  # noqa: E402
from nniweb.tuning.tuner_base.pareto_front import ParetoFront  # noqa: E402

TRIALS, EARLIER_TRIALS = 40, 60
SEEDS = 6
AT_ONCE = (1, 8)
PROCESSES = 2

Parameters = dict[str, Any]
Values = tuple[float, float]
Function = Callable[[Parameters], Values]
Result = list[Any]
_CUBE = {f"x{index}": {"_type": "uniform", "_value": [0, 1]} for index in range(5)}
_NETWORK = {"lr": {"_type": "loguniform", "_value": [1e-5, 1]}, "layers": {"_type": "randint", "_value": [1, 11]},
            "units": {"_type": "qloguniform", "_value": [8, 512, 8]},
            "kind": {"_type": "choice", "_value": ["dense", "sparse", "mixed"]}}


def _x(parameters: Parameters) -> Any:
    return np.array([parameters[name] for name in _CUBE])


def _bowls(parameters: Parameters) -> Values:
    x = _x(parameters)
    return float(np.sum((x - 0.2) ** 2)), float(np.sum((x - [0.7, 0.3, 0.6, 0.1, 0.4]) ** 2))


def _curve(parameters: Parameters) -> Values:
    """As ZDT1 (Zitzler, Deb and Thiele, 2000), with the front away from the border."""
    x = _x(parameters)
    rest = 1 + 9 * float(np.mean(np.abs(x[1:] - 0.35)))
    return float(x[0]), rest * (1 - math.sqrt(x[0] / rest))


def _network(parameters: Parameters) -> Values:
    """What a network gets wrong, and how long it takes."""
    size = parameters["layers"] * parameters["units"] * {"dense": 1.0, "sparse": 0.5, "mixed": 0.7}[parameters["kind"]]
    off = (math.log10(parameters["lr"]) + 2.5) ** 2
    return 0.1 * off + 2 / (1 + size / 200) + 0.3 * (parameters["kind"] == "sparse"), size / 5120


PROBLEMS: dict[str, tuple[dict[str, Any], Function]] = {
    "bowls": (_CUBE, _bowls), "curve": (_CUBE, _curve), "network": (_NETWORK, _network)}


def _moved(of: Function, space: dict[str, Any], _scales: Values) -> Function:
    """Each number lies a tenth of its range further."""
    parsed = parse_search_space(space)

    def value(point: Parameters) -> Values:
        at = parsed.coordinates(point)
        return of(parsed.build(lambda path, parameter: min(at[path] + 0.1, 1.0) if isinstance(at[path], float)
                               else at[path]))

    return value


def _mirrored(of: Function, space: dict[str, Any], _scales: Values) -> Function:
    parsed = parse_search_space(space)

    def value(point: Parameters) -> Values:
        at = parsed.coordinates(point)
        return of(parsed.build(lambda path, parameter: 1 - at[path] if isinstance(at[path], float)
                               else getattr(parameter, "size", 1) - 1 - at[path]))

    return value


def _noisy(of: Function, _space: dict[str, Any], scales: Values) -> Function:
    chance = np.random.default_rng(7)
    return lambda point: tuple(value + 0.2 * scale * chance.normal()  # type: ignore[return-value]
                               for value, scale in zip(of(point), scales, strict=True))


def _changed(first: Callable[[float], float], second: Callable[[float], float]) -> Callable[..., Function]:
    return lambda of, *_: lambda point: (first(of(point)[0]), second(of(point)[1]))


def _unrelated(_of: Function, *_: Any) -> Function:
    chance = np.random.default_rng(7)
    return lambda point: (float(chance.normal()), float(chance.normal()))


RELATED: dict[str, Callable[..., Function]] = {
    "the same functions": lambda of, *_: of, "moved by a tenth": _moved,
    "other scales": _changed(lambda value: 50 + 3 * math.sqrt(abs(value)), lambda value: 1e4 * value), "noisy": _noisy}
MISLEADING: dict[str, Callable[..., Function]] = {
    "inverted": _changed(lambda value: -value, lambda value: -value),
    "one objective inverted": _changed(lambda value: value, lambda value: -value),
    "mirrored": _mirrored, "unrelated": _unrelated}


def search(space: dict[str, Any], of: Function, seed: int, at_once: int, trials: int, earlier: Sequence[Result] = ()
           ) -> list[tuple[Parameters, Values]]:
    """All trials in the order of their proposals. How long a trial takes depends on the seed and its number."""
    more = {"earlier": [earlier]} if earlier else {}
    tuning = ExperimentTuning({"search_space": space, "optimize_mode": "minimize", "seed": seed,
                               "objective_modes": ["minimize", "minimize"],
                               "tuner": {"name": "TPE", "class_args": {}}, **more})
    found: dict[int, tuple[Parameters, Values]] = {}
    running: list[tuple[float, int, Parameters]] = []
    now, launched = 0.0, 0
    while launched < trials or running:
        while launched < trials and len(running) < at_once:
            [parameters] = tuning.ask(launched, 1)["parameters"]
            length = float(np.random.default_rng([seed, launched, 1]).lognormal(0.0, 0.5))
            heapq.heappush(running, (now + length, launched, parameters))
            launched += 1
        now, number, parameters = heapq.heappop(running)
        found[number] = parameters, of(parameters)
        values = found[number][1]
        tuning.tell(number=number, parameters=parameters, value=values[0], values=list(values), status="SUCCEEDED")
    return [found[number] for number in sorted(found)]


def hypervolumes(of: Sequence[Values], worst: Values) -> list[float]:
    """After 1, 2, ... trials, as a share of the box from 0 to the worst values."""
    front: ParetoFront[int] = ParetoFront()
    found = []
    for number, (first, second) in enumerate(of):
        front.add(number, (min(first / worst[0], 1.0), min(second / worst[1], 1.0)))
        area, height = 0.0, 1.0
        for one, other in sorted(front.points.values()):
            area += (1.0 - one) * (height - other)
            height = other
        found.append(area)
    return found


@dataclass(frozen=True)
class Pair:
    """Hypervolumes after 1, 2, ... trials without and with earlier results."""

    problem: str
    variant: str
    at_once: int
    seed: int
    cold: tuple[float, ...]
    warm: tuple[float, ...]

    @property
    def saved(self) -> float:
        """The share of trials until the cold search's final hypervolume; negative where it took more."""
        cold, warm = (next((count for count, value in enumerate(curve, 1) if value >= self.cold[-1]), len(curve) + 1)
                      for curve in (self.cold, self.warm))
        return 1 - warm / cold


def pairs_of(job: tuple[str, int, tuple[int, ...], tuple[str, ...]]) -> list[Pair]:
    """All of these variants for one problem and seed."""
    name, seed, at_once, variants = job
    space, of = PROBLEMS[name]
    parsed, chance = parse_search_space(space), np.random.default_rng(5)
    sampled = np.array([of(parsed.sample(chance)) for _ in range(200)])
    worst: Values = (float(sampled[:, 0].max()), float(sampled[:, 1].max()))
    scales: Values = (float(sampled[:, 0].std()), float(sampled[:, 1].std()))

    def curve(running: int, earlier: Sequence[Result] = ()) -> tuple[float, ...]:
        return tuple(hypervolumes([values for _, values in search(space, of, seed, running, TRIALS, earlier)], worst))

    cold = {running: curve(running) for running in at_once}
    found = []
    for variant in variants:
        other = {**RELATED, **MISLEADING}[variant](of, space, scales)
        earlier = [[point, list(values)] for point, values in search(space, other, seed + 1000, 1, EARLIER_TRIALS)]
        found += [Pair(name, variant, running, seed, cold[running], curve(running, earlier)) for running in at_once]
    return found


def run_all(seeds: int, at_once: Sequence[int], variants: Sequence[str]) -> list[Pair]:
    jobs = [(name, seed, tuple(at_once), tuple(variants)) for seed in range(seeds) for name in PROBLEMS]
    found: list[Pair] = []
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        for number, pairs in enumerate(pool.imap_unordered(pairs_of, jobs), 1):
            found += pairs
            print(f"{number} of {len(jobs)} searches of a problem and seed have ended", file=sys.stderr, flush=True)
    return found


def chance_that_worse(pairs: Sequence[Pair]) -> float:
    """How probable it is by chance that the final hypervolumes are so much smaller with earlier results than without.
    Variants that are compared with the same cold search are not independent: their mean counts as one.
    """
    differences: dict[Any, list[float]] = {}
    for pair in pairs:
        differences.setdefault((pair.problem, pair.at_once, pair.seed), []).append(
            (pair.warm[-1] - pair.cold[-1]) / (1.0 - pair.cold[-1] + 1e-9))
    means = [statistics.fmean(one) for one in differences.values()]
    return float(wilcoxon(means, alternative="less").pvalue) if np.any(means) else 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--at-once", nargs="+", type=int, default=AT_ONCE)
    given = parser.parse_args()
    pairs = run_all(given.seeds, given.at_once, [*RELATED, *MISLEADING])
    report = Report(__file__)
    for running in given.at_once:
        for kind, variants in (("related", RELATED), ("misleading", MISLEADING)):
            for variant in ("", *variants):
                own = [pair for pair in pairs if pair.at_once == running
                       and pair.variant in ((variant,) if variant else variants)]
                name = f"{running} at a time, {variant or f'all {kind}'}"
                worse = chance_that_worse(own)
                beside = (f"final hypervolume larger in {sum(pair.warm[-1] > pair.cold[-1] for pair in own)}, smaller "
                          f"in {sum(pair.warm[-1] < pair.cold[-1] for pair in own)} of {len(own)}; smaller by chance: "
                          f"p = {worse:.2g}")
                report.add(f"{name}: share of trials saved, median", statistics.median(pair.saved for pair in own), "",
                           beside=beside, **({"limit": 0.3, "at_least": True} if kind == "related" and not variant
                                             else {}))
                if kind == "misleading" and not variant:
                    report.add(f"{name}: p that it is worse", worse, "", limit=0.1, at_least=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
