"""The benchmark of earlier results: its variants are what they say, and a small one shows what it is to show."""

import statistics
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.search.objectives import OBJECTIVES
from benchmarks.start_from import (
    FUNCTIONS,
    MISLEADING,
    RELATED,
    Pair,
    chance_that_worse,
    earlier_results,
    run_all,
)
from nniweb.tuning.search_space.parser import parse_search_space


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("variant", {**RELATED, **MISLEADING})
def test_every_variant_has_a_value_at_each_point_of_its_space(function: str, variant: str) -> None:
    objective = OBJECTIVES[function]
    other = {**RELATED, **MISLEADING}[variant](objective, 1)
    space, chance = parse_search_space(other.space), np.random.default_rng(1)
    points = [space.sample(chance) for _ in range(30)]
    values = [other.value(point) for point in points]
    assert np.isfinite(values).all()
    if variant in ("inverted", "another scale"):
        order = np.argsort([objective.value(point) for point in points], kind="stable")
        steps = np.diff(np.array(values)[order])
        assert (steps <= 0 if variant == "inverted" else steps >= 0).all()
    assert (other.space == objective.space) == (variant != "without one parameter")


def test_trials_are_counted_until_the_cold_searchs_result() -> None:
    pair = Pair("sphere", "noisy", "TPE", 1, 0, cold=(5.0, 4.0, 2.0, 2.0), warm=(3.0, 2.0, 1.0, 1.0))
    assert pair.needed == (3, 2)
    assert pair.saved == pytest.approx(1 / 3)
    never = Pair("sphere", "noisy", "TPE", 1, 0, cold=(5.0, 4.0, 2.0, 2.0), warm=(9.0, 9.0, 9.0, 9.0))
    assert never.needed == (3, 5)
    assert chance_that_worse([replace(pair, seed=seed) for seed in range(8)]) > 0.9
    assert chance_that_worse([replace(never, seed=seed) for seed in range(8)]) < 0.01
    assert chance_that_worse([never] * 8) == 0.5, "one cold search is one pair"


def test_the_earlier_results_are_those_of_the_variant() -> None:
    found = earlier_results(OBJECTIVES["quantised"], MISLEADING["inverted"], 1)
    assert len(found) == 60
    assert all(value == -OBJECTIVES["quantised"].value(point) for point, value in found)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_related_results_save_trials_and_misleading_ones_cost_none() -> None:
    pairs = run_all(["sphere", "nested", "quantised"], 2, ["TPE"], [8])
    related = [pair.saved for pair in pairs if pair.variant in RELATED]
    assert statistics.median(related) >= 0.3
    assert chance_that_worse([pair for pair in pairs if pair.variant in MISLEADING]) > 0.1
