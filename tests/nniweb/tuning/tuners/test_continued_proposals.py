"""Which earlier trial a proposal goes on with, so that no epoch is trained twice."""

from __future__ import annotations

from typing import Any

import pytest

from nniweb.tuning.process.experiment_tuning import ExperimentTuning
from nniweb.tuning.search_space.space import point_key
from nniweb.tuning.tuner_base.tuner import Tuner
from nniweb.tuning.tuners.hyperband import BUDGET_KEY
from nniweb.tuning.tuners.population_training import LOAD_KEY, SAVE_KEY
from tests.nniweb.tuning.tuners.test_tuners import QUADRATIC, as_stored, make, quadratic

TUNERS = [("Hyperband", {"R": 9, "eta": 3, "exec_mode": "serial", "optimize_mode": "minimize"}),
          ("Hyperband", {"R": 9, "eta": 3, "optimize_mode": "minimize"}),
          ("BOHB", {"min_budget": 1, "max_budget": 9, "optimize_mode": "minimize"}),
          ("ASHA", {"max_budget": 9, "optimize_mode": "minimize"})]
#: Nearly all configurations are equal.
COIN = {"x": {"_type": "choice", "_value": [0, 1]}}


def plain(parameters: dict[str, Any]) -> str:
    return point_key({name: value for name, value in parameters.items() if name != BUDGET_KEY})


def search(tuner: Tuner, count: int, value: Any = quadratic, first: int = 0) -> list[dict[str, Any]]:
    """The history of so many trials, one at a time, as it is stored."""
    events = []
    for number in range(first, first + count):
        parameters, continues = tuner.ask(number), tuner.continues(number)
        tuner.tell(number, parameters, value(parameters), "SUCCEEDED")
        events += [{"event": "ask", "number": number, "parameters": parameters,
                    **({} if continues is None else {"continues": continues})},
                   {"event": "tell", "number": number, "parameters": parameters, "value": value(parameters),
                    "status": "SUCCEEDED"}]
    return events


@pytest.mark.parametrize(("name", "args"), TUNERS)
def test_a_configuration_that_goes_on_continues_its_trial_of_the_rung_before(name: str, args: dict[str, Any]) -> None:
    events = search(make(name, args, QUADRATIC), 60)
    given = {event["number"]: event["parameters"] for event in events}
    asked = [event for event in events if event["event"] == "ask"]
    assert {event["parameters"][BUDGET_KEY] for event in asked} == {1, 3, 9}
    begun = {}
    for event in asked:
        budget, before = event["parameters"][BUDGET_KEY], event.get("continues")
        if before is None:
            begun[plain(event["parameters"])] = event["number"]
        else:
            assert plain(given[before]) == plain(event["parameters"])
            assert given[before][BUDGET_KEY] == budget // 3
    continued = [event["continues"] for event in asked if "continues" in event]
    assert len(continued) == len(set(continued)) > 10
    assert len(begun) + len(continued) == 60


@pytest.mark.parametrize(("name", "args"), TUNERS)
def test_a_tuner_that_is_rebuilt_continues_the_same_trials_also_where_all_are_alike(name: str, args: dict[str, Any]
                                                                                   ) -> None:
    def value(parameters: dict[str, Any]) -> float:
        return float(parameters["x"])

    tuner = make(name, args, COIN)
    events = search(tuner, 37, value)
    rebuilt = make(name, args, COIN)
    rebuilt.restore(as_stored(events))
    assert [rebuilt.continues(number) for number in range(37)] == [tuner.continues(number) for number in range(37)]
    assert search(rebuilt, 20, value, 37) == search(tuner, 20, value, 37)


def test_the_trial_that_the_record_names_goes_on_where_several_have_the_same_configuration() -> None:
    tuner = make("ASHA", {"max_budget": 3, "optimize_mode": "minimize"}, COIN)
    same = {"x": 0, BUDGET_KEY: 1}
    for number in range(6):
        tuner.note_asked(number, same)
        tuner.tell(number, same, 1.0, "SUCCEEDED")
    tuner.restore([{"event": "ask", "number": 6, "parameters": {"x": 0, BUDGET_KEY: 3}, "continues": 4}])
    assert tuner.continues(6) == 4
    assert tuner.ask(7)[BUDGET_KEY] == 3
    assert tuner.continues(7) == 0


def test_members_of_a_population_continue_whom_they_load() -> None:
    tuner = make("PBT", {"population_size": 5, "optimize_mode": "maximize"}, QUADRATIC)
    saved: dict[str, int] = {}
    for generation in range(4):
        asked = [tuner.ask(5 * generation + place) for place in range(5)]
        for place, parameters in enumerate(asked):
            number = 5 * generation + place
            assert tuner.continues(number) == saved.get(parameters[LOAD_KEY])
            saved[parameters[SAVE_KEY]] = number
        for place, parameters in enumerate(asked):
            value = None if (generation, place) == (1, 2) else float(place * 7 % 5)
            tuner.tell(5 * generation + place, parameters, value, "FAILED" if value is None else "SUCCEEDED")
    assert tuner.continues(0) is None
    assert None not in [tuner.continues(number) for number in range(5, 20)]


def test_asha_lets_the_best_third_go_on_and_never_waits() -> None:
    """As in the paper: the highest rung that has one first."""
    tuner = make("ASHA", {"max_budget": 9, "optimize_mode": "maximize"}, QUADRATIC)
    first = [tuner.ask(number) for number in range(9)]
    assert {parameters[BUDGET_KEY] for parameters in first} == {1}
    tuner.tell(0, first[0], 5.0, "SUCCEEDED")
    tuner.tell(1, first[1], 7.0, "SUCCEEDED")
    assert tuner.ask(9)[BUDGET_KEY] == 1, "one of two is no third"
    tuner.tell(2, first[2], 6.0, "SUCCEEDED")
    tuner.tell(3, first[3], None, "FAILED")
    going_on = tuner.ask(10)
    assert (going_on[BUDGET_KEY], tuner.continues(10)) == (3, 1)
    assert tuner.ask(11)[BUDGET_KEY] == 1, "the best third went on, and the failed trial does not count"
    for number, value in ((4, 8.0), (5, 9.0), (6, 1.0)):
        tuner.tell(number, first[number], value, "SUCCEEDED")
    assert [(tuner.ask(number)[BUDGET_KEY], tuner.continues(number)) for number in (12, 13)] == [(3, 5), (3, 4)]
    for number, value in ((10, 3.0), (12, 2.0), (13, 4.0)):
        tuner.tell(number, going_on, value, "SUCCEEDED")
    assert (tuner.ask(14)[BUDGET_KEY], tuner.continues(14)) == (9, 13)
    assert tuner.ask(15)[BUDGET_KEY] == 1


def test_asha_counts_a_result_once_and_late_ones_of_failed_trials() -> None:
    tuner = make("ASHA", {"max_budget": 3, "optimize_mode": "maximize"}, QUADRATIC)
    asked = [tuner.ask(number) for number in range(3)]
    for number in (0, 1, 2):
        tuner.tell(number, asked[number], None if number == 2 else float(number), "FAILED" if number == 2 else
                   "SUCCEEDED")
        tuner.tell(number, asked[number], None if number == 2 else 99.0, "SUCCEEDED")
    tuner.tell(2, asked[2], 0.5, "SUCCEEDED")  # of its rerun
    tuner.tell(None, {"x": 1.0, "y": 1.0}, 100.0, "SUCCEEDED")
    assert (tuner.ask(3)[BUDGET_KEY], tuner.continues(3)) == (3, 1)


def test_answers_say_what_goes_on_only_where_something_does() -> None:
    tuning = ExperimentTuning({
        "search_space": QUADRATIC, "tuner": {"name": "ASHA", "class_args": {"max_budget": 3}}, "seed": 1,
        "optimize_mode": "maximize"})
    answer = tuning.ask(0, 3)
    assert "continues" not in answer
    for number, parameters in enumerate(answer["parameters"]):
        tuning.tell(number=number, parameters=parameters, value=float(number), status="SUCCEEDED")
    assert tuning.ask(3, 2)["continues"] == [2, None]
    assert tuning.ask(3, 2)["continues"] == [2, None], "asked again, after an answer that was not used"


def test_tuners_without_budgets_continue_nothing() -> None:
    tuner = make("TPE", {}, QUADRATIC)
    for number in range(5):
        tuner.tell(number, tuner.ask(number), 1.0, "SUCCEEDED")
        assert tuner.continues(number) is None
