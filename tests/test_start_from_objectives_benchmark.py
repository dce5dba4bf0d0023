"""The benchmark of earlier results with two objectives: its parts are what they say, and a small one shows a saving."""

import statistics

import numpy as np
import pytest

from benchmarks.start_from_objectives import (
    MISLEADING,
    PROBLEMS,
    RELATED,
    Pair,
    chance_that_worse,
    hypervolumes,
    run_all,
)
from nniweb.tuning.search_space.parser import parse_search_space


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("variant", {**RELATED, **MISLEADING})
def test_every_variant_has_two_values_at_each_point_of_its_space(problem: str, variant: str) -> None:
    space, of = PROBLEMS[problem]
    other = {**RELATED, **MISLEADING}[variant](of, space, (1.0, 1.0))
    parsed, chance = parse_search_space(space), np.random.default_rng(1)
    values = np.array([other(parsed.sample(chance)) for _ in range(30)])
    assert values.shape == (30, 2)
    assert np.isfinite(values).all()
    assert (np.ptp(values, axis=0) > 0).all()


def test_a_hypervolume_is_what_the_front_dominates() -> None:
    assert hypervolumes([(1.0, 1.0), (0.5, 5.0), (0.0, 10.0), (1.5, 2.0), (0.25, 2.5)], (2.0, 10.0)) == pytest.approx(
        [0.45, 0.45 + 0.25 * 0.5, 0.45 + 0.25 * 0.5, 0.45 + 0.25 * 0.5, 0.45 + 0.375 * 0.75])


def test_a_pair_counts_trials_until_the_cold_searchs_hypervolume() -> None:
    pair = Pair("bowls", "noisy", 1, 0, cold=(0.1, 0.4, 0.4, 0.6), warm=(0.2, 0.6, 0.7, 0.7))
    assert pair.saved == 0.5
    worse = [Pair("bowls", "noisy", 1, seed, cold=pair.warm, warm=pair.cold) for seed in range(8)]
    assert chance_that_worse(worse) < 0.01


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_results_of_the_same_functions_save_trials() -> None:
    pairs = run_all(1, (1,), ["the same functions", "other scales"])
    assert len(pairs) == 2 * len(PROBLEMS)
    assert statistics.median(pair.saved for pair in pairs) >= 0.3
