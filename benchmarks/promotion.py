"""How many epochs a search needs to a target where configurations that go on resume from their checkpoints, and where
they begin anew.

    .venv/bin/python benchmarks/promotion.py                    # the table of docs/performance.md, some minutes
    .venv/bin/python benchmarks/promotion.py --seeds 2 --tuners ASHA --at-once 1

Each search is of synthetic learning curves, in simulated time: three parameters set to which loss a training falls, and
how fast; each measured value has noise. The target is the loss of the best fiftieth of random configurations after
81 epochs. Counted are all epochs, also those of trials that still run, until a trial of 81 epochs has reached it. A
search that has not after 12,000 epochs counts as that many. Both ways have the same seeds. Where several trials run at
once, results come in another order if trials are shorter, so the tuner proposes something else later.
"""

from __future__ import annotations

import argparse
import heapq
import math
import multiprocessing
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # each search is a process of its own

import numpy as np  # noqa: E402
from scipy.stats import wilcoxon  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from nniweb.tuning.algorithms import build_tuner  # noqa: E402
from nniweb.tuning.search_space.parser import parse_search_space  # noqa: E402
from nniweb.tuning.tuner_base.tuner import ResultsNeeded  # noqa: E402
from nniweb.tuning.tuners.hyperband import BUDGET_KEY  # noqa: E402

Point = dict[str, Any]
EPOCHS = 81
MOST_EPOCHS = 12_000
SEEDS = 100
TUNERS: dict[str, dict[str, Any]] = {
    "Hyperband": {"R": EPOCHS}, "BOHB": {"max_budget": EPOCHS}, "ASHA": {"max_budget": EPOCHS}}
AT_ONCE = (1, 8)
PROCESSES = 2
SPACE = {"lr": {"_type": "loguniform", "_value": [1e-4, 1]}, "layers": {"_type": "randint", "_value": [1, 7]},
         "dropout": {"_type": "uniform", "_value": [0, 0.9]}}
NOISE = 0.005
#: Of this many random configurations the best fiftieth reaches the target.
RANDOM_POINTS = 10_000


def loss_after(point: Point, epochs: int) -> float:
    """The true loss. A low learning rate falls slowly and ends lower than a high one that diverges early."""
    end = 0.05 + 0.08 * (math.log10(point["lr"]) + 2.2) ** 2 + 0.03 * abs(point["layers"] - 3) \
        + 0.2 * (point["dropout"] - 0.3) ** 2
    pace = 0.06 + 0.1 * point["lr"] ** 0.25 / (1 + 0.1 * point["layers"])
    return end + max(0.0, 1.0 - end) * math.exp(-pace * epochs)


def target() -> float:
    """What the best fiftieth of random configurations reaches after all epochs."""
    space, chance = parse_search_space(SPACE), np.random.default_rng(0)
    return float(np.quantile([loss_after(space.sample(chance), EPOCHS) for _ in range(RANDOM_POINTS)], 0.02))


@dataclass(frozen=True)
class Task:
    tuner: str
    at_once: int
    seed: int
    resumes: bool


@dataclass
class Running:
    """``trained``: epochs that it trains itself; ``seconds``: that it needs for one."""

    number: int
    point: Point
    trained: int
    began: float
    seconds: float

    @property
    def ends(self) -> float:
        return self.began + self.trained * self.seconds

    def epochs_until(self, now: float) -> float:
        return min(float(self.trained), (now - self.began) / self.seconds)


def search(task: Task) -> float:
    """Epochs until the target is reached."""
    tuner = build_tuner(task.tuner, TUNERS[task.tuner], parse_search_space(SPACE), "minimize", task.seed)
    goal, chance = target(), np.random.default_rng([task.seed, 5])
    running: list[tuple[float, int, Running]] = []
    given: dict[int, Point] = {}
    now, ended, number = 0.0, 0, 0
    while ended < MOST_EPOCHS:
        while len(running) < task.at_once:
            try:
                point = tuner.ask(number)
            except ResultsNeeded:
                break
            before = tuner.continues(number) if task.resumes else None
            trained = point[BUDGET_KEY] - (0 if before is None else given[before][BUDGET_KEY])
            given[number] = point
            one = Running(number, point, trained, now, float(chance.uniform(0.8, 1.2)))
            heapq.heappush(running, (one.ends, number, one))
            number += 1
        now, _, one = heapq.heappop(running)
        ended += one.trained
        loss = loss_after(one.point, one.point[BUDGET_KEY])
        if one.point[BUDGET_KEY] == EPOCHS and loss <= goal:
            return min(MOST_EPOCHS, ended + sum(other.epochs_until(now) for _, _, other in running))
        measured = loss + NOISE * float(np.random.default_rng([task.seed, 6, one.number]).normal())
        tuner.tell(one.number, one.point, measured, "SUCCEEDED")
    return MOST_EPOCHS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--tuners", nargs="+", default=list(TUNERS), choices=list(TUNERS))
    parser.add_argument("--at-once", nargs="+", type=int, default=AT_ONCE)
    asked = parser.parse_args()
    report = Report(__file__)
    tasks = [Task(tuner, at_once, seed, resumes) for tuner in asked.tuners for at_once in asked.at_once
             for seed in range(asked.seeds) for resumes in (False, True)]
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        found = dict(zip(tasks, pool.imap(search, tasks), strict=True))
    for tuner in asked.tuners:
        for at_once in asked.at_once:
            add(report, f"{tuner}, {at_once} at once", [
                task for task in tasks if (task.tuner, task.at_once, task.resumes) == (tuner, at_once, True)], found)
    return report.finish()


def add(report: Report, which: str, tasks: Sequence[Task], found: dict[Task, float]) -> None:
    """The figures of searches that resume, beside those with the same seeds that begin anew."""
    resumed = [found[task] for task in tasks]
    anew = [found[replace(task, resumes=False)] for task in tasks]
    for name, epochs in (("begun anew", anew), ("resumed", resumed)):
        missed = sum(count >= MOST_EPOCHS for count in epochs)
        report.add(f"{which}: epochs to the target, {name}", statistics.median(epochs), "epochs",
                   beside=f"median of {len(epochs)}; {missed} have not reached it")
    share = sum(resumed) / sum(anew)
    chance = 1.0 if resumed == anew else float(wilcoxon(resumed, anew, alternative="less").pvalue)
    report.add(f"{which}: of the epochs where they begin anew", share, "", limit=0.85,
               beside=f"all searches together; no fewer by chance: p = {chance:.2g}")


if __name__ == "__main__":
    sys.exit(main())
