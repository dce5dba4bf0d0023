"""Hyperband's and BOHB's bookkeeping: how many trials with which budget, and who goes on."""

from collections import Counter
from typing import Any

import pytest

from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.space import point_key
from nniweb.tuning.tuner_base.tuner import ResultsNeeded, Tuner
from nniweb.tuning.tuners.hyperband import BUDGET_KEY, Hyperband, Rung, brackets
from tests.nniweb.tuning.tuners.test_tuners import MIXED, QUADRATIC, as_stored, make, quadratic

SERIAL = {"R": 9, "eta": 3, "exec_mode": "serial", "optimize_mode": "minimize"}
PARALLEL = {**SERIAL, "exec_mode": "parallelism"}
BOHB = {"min_budget": 1, "max_budget": 9, "optimize_mode": "minimize"}


def plain(parameters: dict[str, Any]) -> str:
    return point_key({name: value for name, value in parameters.items() if name != BUDGET_KEY})


def test_the_brackets_are_those_of_the_paper() -> None:
    assert brackets(81, 1, 3) == [
        [Rung(81, 1), Rung(27, 3), Rung(9, 9), Rung(3, 27), Rung(1, 81)],
        [Rung(34, 3), Rung(11, 9), Rung(3, 27), Rung(1, 81)],
        [Rung(15, 9), Rung(5, 27), Rung(1, 81)],
        [Rung(8, 27), Rung(2, 81)],
        [Rung(5, 81)],
    ]
    assert brackets(60, 1, 3)[0] == [Rung(27, 2), Rung(9, 6), Rung(3, 20), Rung(1, 60)]
    assert brackets(3, 1, 3) == [[Rung(3, 1), Rung(1, 3)], [Rung(2, 3)]]


def ask_all(tuner: Tuner, first: int) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []
    while True:
        try:
            asked.append(tuner.ask(first + len(asked)))
        except ResultsNeeded:
            return asked


def test_a_serial_round_uses_exactly_its_budgets_and_the_best_go_on() -> None:
    tuner, number, spent = make("Hyperband", SERIAL, QUADRATIC), 0, Counter[int]()
    previous: list[dict[str, Any]] = []
    for rung in [rung for rungs in brackets(9, 1, 3) for rung in rungs]:
        asked = ask_all(tuner, number)
        assert len(asked) == rung.configurations
        assert {parameters[BUDGET_KEY] for parameters in asked} == {rung.budget}
        if previous and rung.configurations < len(previous) and plain(asked[0]) in map(plain, previous):
            best = sorted(previous, key=quadratic)[: rung.configurations]
            assert [plain(parameters) for parameters in asked] == [plain(parameters) for parameters in best]
        spent[rung.budget] += len(asked)
        for parameters in asked:
            tuner.tell(number, parameters, quadratic(parameters), "SUCCEEDED")
            number += 1
        previous = asked
    assert spent == {1: 9, 3: 3 + 5, 9: 1 + 1 + 3}
    assert ask_all(tuner, number)[0][BUDGET_KEY] == 1


def test_in_parallel_no_slot_stays_empty_and_promoted_ones_go_first() -> None:
    tuner = make("Hyperband", PARALLEL, QUADRATIC)
    first = [tuner.ask(number) for number in range(9)]
    following = tuner.ask(9)
    assert following[BUDGET_KEY] == 3
    for number, parameters in enumerate(first):
        tuner.tell(number, parameters, quadratic(parameters), "SUCCEEDED")
    promoted = [tuner.ask(number) for number in range(10, 13)]
    best = sorted(first, key=quadratic)[:3]
    assert list(map(plain, promoted)) == list(map(plain, best))
    assert {parameters[BUDGET_KEY] for parameters in promoted} == {3}
    assert plain(tuner.ask(13)) not in map(plain, first)


@pytest.mark.parametrize("how", [None, float("nan")])
def test_trials_without_a_result_never_go_on_and_a_bracket_without_any_ends(how: float | None) -> None:
    tuner = make("Hyperband", SERIAL, QUADRATIC)
    asked = ask_all(tuner, 0)
    for number, parameters in enumerate(asked):
        tuner.tell(number, parameters, 5.0 if number == 4 else how, "SUCCEEDED" if number == 4 else "FAILED")
    [promoted] = ask_all(tuner, 9)
    assert plain(promoted) == plain(asked[4])
    tuner.tell(9, promoted, how, "FAILED")
    assert [parameters[BUDGET_KEY] for parameters in ask_all(tuner, 10)] == [3] * 5


def test_doubles_and_hand_picked_results_change_nothing() -> None:
    tuner, twin = make("Hyperband", SERIAL, QUADRATIC), make("Hyperband", SERIAL, QUADRATIC)
    for number, parameters in enumerate(ask_all(tuner, 0)):
        twin.ask(number)
        for each in (tuner, twin):
            each.tell(number, parameters, quadratic(parameters), "SUCCEEDED")
        twin.tell(number, parameters, -100.0, "SUCCEEDED")
        twin.tell(None, {"x": 1.0, "y": 1.0}, -100.0, "SUCCEEDED")
    assert ask_all(tuner, 9) == ask_all(twin, 9)


@pytest.mark.parametrize(("name", "args"), [("Hyperband", SERIAL), ("Hyperband", PARALLEL), ("BOHB", BOHB)])
def test_a_restart_in_the_middle_changes_nothing(name: str, args: dict[str, Any]) -> None:
    """Also where the record has a result before a proposal that was made without it."""
    tuner, events, running = make(name, args, MIXED), [], []
    number = 0
    for step in range(70):
        if step % 7 == 6:
            rebuilt = make(name, args, MIXED)
            rebuilt.restore(as_stored(events))
            expected, real = rebuilt, tuner
            if len(running) < 5:
                assert _or_none(expected, number) == _or_none(real, number)
        if len(running) < 5 and (parameters := _or_none(tuner, number)) is not None:
            tuner.note_asked(number, parameters)
            running.append((number, parameters))
            ask = {"event": "ask", "number": number, "parameters": parameters}
            if step % 3 == 0 and len(running) > 1:
                events.append(_end(tuner, running))
            events.append(ask)
            number += 1
        else:
            events.append(_end(tuner, running))
    assert number > 25
    assert len({event["parameters"][BUDGET_KEY] for event in events}) == 3


def _or_none(tuner: Tuner, number: int) -> dict[str, Any] | None:
    try:
        return tuner.propose(number)
    except ResultsNeeded:
        return None


def _end(tuner: Tuner, running: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    number, parameters = running.pop(0)
    value = None if number % 11 == 5 else float(number * 37 % 17)
    status = "FAILED" if value is None else "SUCCEEDED"
    tuner.tell(number, parameters, value, status)
    return {"event": "tell", "number": number, "parameters": parameters, "value": value, "status": status}


def test_new_configurations_come_from_a_changed_search_space_and_old_ones_go_on() -> None:
    tuner = make("Hyperband", SERIAL, QUADRATIC)
    asked = [tuner.ask(number) for number in range(8)]
    tuner.update_search_space(parse_search_space({"z": {"_type": "choice", "_value": ["a"]}}))
    asked.append(tuner.ask(8))
    assert asked[8] == {"z": "a", BUDGET_KEY: 1}
    for number, parameters in enumerate(asked):
        tuner.tell(number, parameters, float(number), "SUCCEEDED")
    assert [plain(parameters) for parameters in ask_all(tuner, 9)] == [plain(entry) for entry in asked[:3]]


def test_bohb_models_the_largest_budget_that_has_enough_results() -> None:
    tuner = make("BOHB", {**BOHB, "random_fraction": 0.0, "min_points_in_model": 3}, QUADRATIC)
    assert isinstance(tuner, Hyperband)
    for number in range(120):
        parameters = tuner.ask(number)
        tuner.tell(number, parameters, quadratic(parameters), "SUCCEEDED")
    late = [tuner.new_configuration(number) for number in range(120, 150)]
    assert sorted(map(quadratic, late))[15] < 4


def test_a_failed_trial_never_goes_on_whatever_it_counts_as() -> None:
    tuner = make("Hyperband", SERIAL, QUADRATIC)
    asked = ask_all(tuner, 0)
    for number, parameters in enumerate(asked):
        tuner.tell(number, parameters, -1.0 if number == 0 else 5.0, "FAILED" if number == 0 else "SUCCEEDED")
    assert plain(asked[0]) not in map(plain, ask_all(tuner, len(asked)))


def test_of_brackets_that_are_over_none_is_looked_at_again() -> None:
    tuner = make("Hyperband", {**PARALLEL, "R": 2}, QUADRATIC)
    for number in range(100):
        parameters = tuner.ask(number)
        tuner.tell(number, parameters, quadratic(parameters), "SUCCEEDED")
    assert isinstance(tuner, Hyperband)
    assert len(tuner._brackets) == 1
