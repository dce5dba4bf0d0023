"""How good the best result of 50 and of 100 trials is: our tuners, Optuna's samplers and NNI 3.0's tuners.

    .venv/bin/python benchmarks/search_quality.py [--nni PYTHON]          # all, 45 minutes on two cores
    .venv/bin/python benchmarks/search_quality.py --seeds 2 --at-once 8 --objectives sphere svc --searchers TPE Random
    .venv/bin/python benchmarks/search_quality.py --keep FILE                         # each result, as it comes
    .venv/bin/python benchmarks/search_quality.py --table FILE                        # from there, without searching

With ``--keep`` each result is written as a line of FILE when its search ends. If FILE exists, only what is missing in
it is run; delete FILE when a tuner has changed. Seeds run one after another, so an interrupted run has whole seeds.
Figures become the record of this benchmark only if all functions, searchers, seeds and numbers at once were run.

Sixteen functions (``search/objectives.py``) are searched in simulated time with 1, 8 and 32 trials at once. PYTHON is
the interpreter of a virtual environment in which NNI 3.0 is installed (``pip install 'nni[anneal]==3.0' 'numpy<1.24'
'scipy<1.11' 'scikit-learn<1.4' setuptools``, and torch, emcee and pybnn for DNGO); without it NNI's are left out. Of
Optuna's samplers CMA-ES needs the package cmaes. GPSampler (which needs torch) and NNI's GP, Metis and DNGO are slow
and run only where they are named.

A rank is the share of all runs of the same function, so many trials and so many at once, that were better: 0 is the
best, 0.5 the middle. Two searchers are compared by Wilcoxon's signed-rank test on the pairs with the same function and
seed.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import statistics
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # each search is a process of its own

from scipy.stats import rankdata, wilcoxon  # noqa: E402

from benchmarks.reporting import Report, in_short  # noqa: E402
from benchmarks.search.curves import BEST, lost_and_saved  # noqa: E402
from benchmarks.search.kept_results import Result, keep_each, kept_results  # noqa: E402
from benchmarks.search.objectives import OBJECTIVES  # noqa: E402
from benchmarks.search.runs import NotPossible, search  # noqa: E402
from benchmarks.search.searchers import NNI_TUNERS, SLOW, TUNERS, VERY_SLOW, searchers  # noqa: E402

BUDGETS = (50, 100)
AT_ONCE = (1, 8, 32)
SEEDS = 4
SEEDS_OF_SLOW_ONES = 1
PROCESSES = 2
#: So improbable by chance that it counts.
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Task:
    searcher: str
    objective: str
    at_once: int
    seed: int
    nni: Path | None = None

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.searcher, self.objective, self.at_once, self.seed


def run(task: Task) -> Result:
    warnings.simplefilter("ignore")
    try:
        found = search(OBJECTIVES[task.objective], searchers(task.nni)[task.searcher], task.seed, task.at_once, BUDGETS)
        return Result(*task.key, found.best, found.repeats)
    except NotPossible as reason:
        return Result(*task.key, None, problem=str(reason))


def run_all(tasks: list[Task], processes: int) -> Iterator[Result]:
    """Seed by seed, the slow ones first."""
    tasks = sorted(tasks, key=lambda task: (task.seed, task.searcher not in VERY_SLOW, task.searcher not in SLOW))
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for count, result in enumerate(pool.imap_unordered(run, tasks), 1):
            if sys.stderr.isatty():
                print(f"\r{count} of {len(tasks)}", end="", file=sys.stderr, flush=True)
            yield result


def all_tasks(names: Iterable[str], objectives: Sequence[str], at_once: Sequence[int], seeds: int,
              nni: Path | None) -> list[Task]:
    return [Task(name, objective, count, seed, nni) for objective in objectives for name in names for count in at_once
            for seed in range(min(seeds, SEEDS_OF_SLOW_ONES) if name in SLOW | VERY_SLOW else seeds)]


def there_or_run(tasks: list[Task], processes: int, path: Path | None) -> list[Result]:
    """The results of these tasks, of those that are not in the file by running them."""
    wanted = {task.key for task in tasks}
    there = [] if path is None or not path.exists() else kept_results(path)
    found = {result.key: result for result in there if result.key in wanted}
    new = run_all([task for task in tasks if task.key not in found], processes)
    return [*found.values(), *(new if path is None else keep_each(path, new))]


class Comparison:
    """All results of one run of this program, with their ranks."""

    def __init__(self, results: Iterable[Result]) -> None:
        self.results = [result for result in results if result.best is not None]
        #: Of searcher, number at once and budget: by objective and seed.
        self.ranks: dict[tuple[str, int, int], dict[tuple[str, int], float]] = {}
        self.values: dict[tuple[str, int, int], dict[str, list[float]]] = {}
        by_function = lambda result: (result.objective, result.at_once)  # noqa: E731
        for (objective, at_once), group in itertools.groupby(sorted(self.results, key=by_function), by_function):
            runs = list(group)
            for place, budget in enumerate(BUDGETS):
                best = [result.best[place] for result in runs if result.best is not None]
                # equal but for rounding is equal
                ranks = rankdata([float(f"{value:.9g}") for value in best], "average")
                for result, value, rank in zip(runs, best, ranks, strict=True):
                    key = result.searcher, at_once, budget
                    share = float(rank - 0.5) / len(best)
                    self.ranks.setdefault(key, {})[objective, result.seed] = share
                    self.values.setdefault(key, {}).setdefault(objective, []).append(value)

    def names(self) -> list[str]:
        found = {result.searcher for result in self.results}
        order = [*TUNERS, *sorted(found)]
        return sorted(found, key=order.index)

    def rank(self, searcher: str, at_once: int, budget: int) -> float | None:
        """The mean over the objectives of the mean over the seeds."""
        ranks = self.ranks.get((searcher, at_once, budget))
        if not ranks:
            return None
        by_objective: dict[str, list[float]] = {}
        for (objective, _), rank in ranks.items():
            by_objective.setdefault(objective, []).append(rank)
        return statistics.mean(statistics.mean(each) for each in by_objective.values())

    def worse(self, one: str, other: str, at_once: int, budget: int) -> tuple[float, int] | None:
        """How probable it is that chance alone makes ``one`` so much worse than ``other``, and of how many pairs."""
        mine, theirs = (self.ranks.get((name, at_once, budget), {}) for name in (one, other))
        pairs = sorted(mine.keys() & theirs.keys())
        differences = [mine[pair] - theirs[pair] for pair in pairs]
        if len(pairs) < 6:
            return None
        if not any(differences):
            return 1.0, len(pairs)
        return float(wilcoxon(differences, alternative="greater").pvalue), len(pairs)

    def table(self) -> str:
        """Markdown: ranks of all, then medians of each function."""
        used = sorted({(result.at_once) for result in self.results})
        columns = [(at_once, budget) for at_once in used for budget in BUDGETS]
        lines = ["| mean rank | " + " | ".join(f"{at_once} at once, {budget}" for at_once, budget in columns) + " |",
                 "|---" * (len(columns) + 1) + "|"]
        for name in self.names():
            ranks = [self.rank(name, *column) for column in columns]
            lines.append(f"| {name} | " + " | ".join("" if rank is None else f"{rank:.2f}" for rank in ranks) + " |")
        for at_once in used:
            lines += ["", f"Median of the best of {BUDGETS[-1]} trials, {at_once} at once:", ""]
            objectives = [name for name in OBJECTIVES if any(result.objective == name for result in self.results)]
            lines += ["| | " + " | ".join(objectives) + " |", "|---" * (len(objectives) + 1) + "|"]
            for name in self.names():
                values = self.values.get((name, at_once, BUDGETS[-1]), {})
                lines.append(f"| {name} | " + " | ".join(
                    in_short(statistics.median(values[each])) if each in values else "" for each in objectives) + " |")
        return "\n".join(lines)


def tell(report: Report, comparison: Comparison) -> None:
    """The figures: ranks, and what is compared."""
    used = sorted({result.at_once for result in comparison.results})
    for at_once, budget in itertools.product(used, BUDGETS):
        where = f"{at_once} at once, {budget} trials"
        for name in comparison.names():
            if name in TUNERS and (rank := comparison.rank(name, at_once, budget)) is not None:
                report.add(f"{name}, {where}: mean rank", rank, "")
        for one, other in [("TPE", "Optuna TPE"), *((name, f"NNI {name}") for name in NNI_TUNERS)]:
            if (test := comparison.worse(one, other, at_once, budget)) is not None:
                report.add(f"{one} is worse than {other}, {where}: p", test[0], "",
                           limit=0.1 if other == "Optuna TPE" else SIGNIFICANT, at_least=True,
                           beside=f"{test[1]} pairs")
    for at_once, budget in itertools.product(used, BUDGETS):
        ranks = {name: rank for name in TUNERS if (rank := comparison.rank(name, at_once, budget)) is not None}
        mine = ranks.pop("Auto", None)
        if mine is not None and ranks:
            best = min(ranks, key=lambda name: ranks[name])
            report.add(f"Auto, {at_once} at once, {budget} trials: mean rank above that of the best single tuner",
                       mine - ranks[best], "", limit=0.0, beside=best)
    if {1, 8} <= set(used):
        alone, together = comparison.rank("GP", 1, 100), comparison.rank("GP", 8, 100)
        if alone and together:
            report.add("GP, 100 trials: mean rank with 8 at once", together / alone, "times", beside="one at a time")
    for name in comparison.names():
        if name in TUNERS:
            runs = [result for result in comparison.results if result.searcher == name]
            share = 100 * sum(result.repeats for result in runs) / (len(runs) * max(BUDGETS))
            report.add(f"{name}: proposals that were proposed before", share, "%", limit=1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nni", type=Path, metavar="PYTHON", help="with it NNI's own tuners run, too")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--at-once", type=int, nargs="+", default=list(AT_ONCE))
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES), metavar="NAME")
    parser.add_argument("--searchers", nargs="+", metavar="NAME", help="default: all but those that take very long")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="searches that run at the same time")
    parser.add_argument("--keep", type=Path, metavar="FILE",
                        help="write every single result there; what is there is not run again")
    parser.add_argument("--table", type=Path, metavar="FILE", nargs="+", help="results that were kept; runs nothing")
    options = parser.parse_args()
    if options.table:
        print(Comparison(result for path in options.table for result in kept_results(path)).table())
        return 0
    known = searchers(options.nni)
    names = options.searchers or [name for name in known if name not in VERY_SLOW]
    if unknown := set(names) - known.keys():
        parser.error(f"cannot run {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    report = Report(__file__)
    if options.nni is None:
        print("NNI's tuners are left out: --nni names no Python that has them.")
    tasks = all_tasks(names, options.objectives, options.at_once, options.seeds, options.nni)
    results = there_or_run(tasks, options.processes, options.keep)
    for start_step in (0, "auto"):
        found = [lost_and_saved("Medianstop", {"start_step": start_step}, seed) for seed in range(5)]
        report.add(f"Medianstop, start_step {start_step}: lost of the {BEST} best trials, at most",
                   max(lost for lost, _ in found), "trials", limit=0 if start_step == "auto" else None,
                   beside=f"{100 * statistics.mean(saved for _, saved in found):.0f} % of the steps saved")
    comparison = Comparison(results)
    tell(report, comparison)
    print(f"\n{comparison.table()}\n")
    for name, objective, problem in sorted({(result.searcher, result.objective, result.problem)
                                            for result in results if result.best is None}):
        print(f"{name} cannot search {objective}: {problem}")
    whole = all_tasks([name for name in known if name not in VERY_SLOW], list(OBJECTIVES), AT_ONCE, SEEDS, options.nni)
    return report.finish(is_whole={task.key for task in whole} <= {result.key for result in results})


if __name__ == "__main__":
    sys.exit(main())
