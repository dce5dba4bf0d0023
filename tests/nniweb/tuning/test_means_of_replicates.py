"""The mean that stands for a proposal, the seeds of its runs, and what a race finds where results are noisy."""

import math
import statistics
import sys
from collections.abc import Sequence

import pytest
from scipy.stats import wilcoxon

from benchmarks.replicates import ONCE, Task, Way, by_mean, search
from nniweb.tuning.replicates import may_be_better, mean_and_error, replicate_seed


def test_a_mean_has_a_standard_error_from_two_values_on() -> None:
    assert mean_and_error([]) == (None, None)
    assert mean_and_error([2.5]) == (2.5, None)
    mean, error = mean_and_error([1.0, 2.0, 6.0])
    assert mean == 3.0
    assert error == pytest.approx(statistics.stdev([1.0, 2.0, 6.0]) / math.sqrt(3))
    assert mean_and_error([4.0, 4.0]) == (4.0, 0.0)


@pytest.mark.parametrize(("values", "mean"), [([1e308, 1e308], 1e308), ([-1e308, 1e308], 0.0)])
def test_very_large_values_do_not_overflow(values: Sequence[float], mean: float) -> None:
    found, error = mean_and_error(values)
    assert found == mean
    assert error is None or math.isfinite(error)


def test_seeds_differ_between_replicates_and_experiments_and_fit_into_31_bits() -> None:
    seeds = {replicate_seed(experiment, replicate) for experiment in range(50) for replicate in range(20)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2 ** 31 for seed in seeds)


def test_a_proposal_is_worth_another_run_while_it_is_not_worse_than_the_best() -> None:
    assert may_be_better(1.0, None, maximize=False)
    assert may_be_better(1.0, 1.0, maximize=False)
    assert may_be_better(0.9, 1.0, maximize=False)
    assert not may_be_better(1.1, 1.0, maximize=False)
    assert may_be_better(1.1, 1.0, maximize=True)
    assert not may_be_better(0.9, 1.0, maximize=True)


def test_with_noise_a_race_finds_better_parameters_than_single_runs_in_as_many_trials() -> None:
    """Of the benchmark the part that is done in seconds: the true values of what is chosen, by the same 40 seeds."""
    ways = ONCE, Way("3, racing", 3, by_mean)
    once, raced = ([search(Task("Random", function, noise, 8, seed, way)).true for function, noise in (
        ("branin", 10.0), ("training", 0.06)) for seed in range(40)] for way in ways)
    assert statistics.median(raced[:40]) < statistics.median(once[:40])
    assert statistics.median(raced[40:]) < statistics.median(once[40:])
    assert wilcoxon(raced, once, alternative="less").pvalue < 0.05


def test_a_search_of_the_benchmark_is_repeatable() -> None:
    task = Task("Anneal", "hartmann", 0.2, 8, 3, Way("3, racing", 3, by_mean))
    assert search(task, 30) == search(task, 30)


def test_the_greatest_number_is_its_own_mean() -> None:
    """People report it where a training has come to nothing."""
    greatest = sys.float_info.max
    for count in range(1, 101):
        assert mean_and_error([greatest] * count) == (greatest, None if count == 1 else 0.0)
        assert mean_and_error([-greatest] * count)[0] == -greatest
    assert mean_and_error([greatest, -greatest]) == (0.0, None)
    assert mean_and_error([greatest, math.inf]) == mean_and_error([math.nan]) == (None, None)
