"""No tuner proposes a point again while others are left, whatever the space and however many trials fail."""

from typing import Any

import pytest

from benchmarks.search.objectives import OBJECTIVES, Objective
from benchmarks.search.runs import search
from benchmarks.search.searchers import ours

TRIALS = 70
#: A part of the results is missing, and always the same points are promising.
FAILING = Objective("failing", OBJECTIVES["failing"].space, OBJECTIVES["failing"].value,
                    fails=lambda parameters, luck: parameters["layers"] > 8 or luck < 0.1)
#: Models that cost less to train, and as much as they need to repeat themselves.
TUNERS: list[tuple[str, dict[str, Any]]] = [
    ("TPE", {}), ("Anneal", {}), ("Evolution", {}), ("NSGAII", {"population_size": 10}), ("GridSearch", {}),
    ("SMAC", {}), ("DNGO", {"num_epochs_per_training": 60}),
    ("GP", {"selection_num_warm_up": 300}), ("Metis", {"selection_num_starting_points": 200}),
]
DEAR = ("SMAC", "GP", "Metis", "DNGO")


@pytest.mark.parametrize("objective", [FAILING, OBJECTIVES["nested"], OBJECTIVES["quantised"]],
                         ids=lambda each: each.name)
@pytest.mark.parametrize(("name", "args"), [
    pytest.param(name, args, id=name, marks=[pytest.mark.slow] if name in DEAR else []) for name, args in TUNERS])
def test_no_point_is_proposed_twice(name: str, args: dict[str, Any], objective: Objective) -> None:
    assert [search(objective, ours(name, **args), 5, at_once, (TRIALS,)).repeats for at_once in (1, 8)] == [0, 0]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "args"), [("GP", {"selection_num_warm_up": 1000}), ("DNGO", {}), ("SMAC", {})])
def test_a_model_learns_where_trials_fail(name: str, args: dict[str, Any]) -> None:
    """One that knows results alone proposes the region again and again where it expects the most and never hears."""
    failed = 0

    def fails(parameters: dict[str, Any], luck: float) -> bool:
        nonlocal failed
        is_failing = sum((value - 0.6) ** 2 for value in parameters.values()) < 0.04
        failed += is_failing
        return is_failing

    hole = Objective("hole", {name: {"_type": "uniform", "_value": [0, 1]} for name in "ab"},
                     lambda parameters: sum((value - 0.6) ** 2 for value in parameters.values()), fails=fails)
    search(hole, ours(name, **args), 1, 1, (60,))
    assert failed < 30
