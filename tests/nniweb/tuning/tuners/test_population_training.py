"""PBT's generations: who goes on from whose checkpoint, with which parameters."""

from typing import Any

import pytest

from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.tuner_base.tuner import ResultsNeeded, Tuner
from nniweb.tuning.tuners.population_training import LOAD_KEY, SAVE_KEY
from tests.nniweb.tuning.tuners.test_tuners import MIXED, QUADRATIC, as_stored, make

ARGS = {"all_checkpoint_dir": "/shared/run-1", "population_size": 5, "optimize_mode": "maximize"}


def plain(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name not in (LOAD_KEY, SAVE_KEY)}


def generation(tuner: Tuner, first: int) -> list[dict[str, Any]]:
    asked = [tuner.ask(first + place) for place in range(5)]
    with pytest.raises(ResultsNeeded):
        tuner.ask(first + 5)
    return asked


def end(tuner: Tuner, first: int, asked: list[dict[str, Any]], values: list[float | None]) -> None:
    for place, value in enumerate(values):
        tuner.tell(first + place, asked[place], value, "SUCCEEDED" if value is not None else "FAILED")


def test_each_trial_saves_where_its_successor_loads() -> None:
    tuner = make("PBT", ARGS, QUADRATIC)
    first = generation(tuner, 0)
    assert [asked[SAVE_KEY] for asked in first] == [f"/shared/run-1/1/{place}" for place in range(5)]
    assert len({asked[LOAD_KEY] for asked in first}) == 5
    end(tuner, 0, first, [5, 4, 3, 2, 1])
    second = generation(tuner, 5)
    assert [asked[LOAD_KEY] for asked in second[:4]] == [asked[SAVE_KEY] for asked in first[:4]]
    assert [plain(asked) for asked in second[:4]] == [plain(asked) for asked in first[:4]]
    assert second[4][LOAD_KEY] == first[0][SAVE_KEY]
    assert plain(second[4]) != plain(first[4])
    assert [asked[SAVE_KEY] for asked in second] == [f"/shared/run-1/2/{place}" for place in range(5)]


def test_a_population_of_one_goes_on_from_its_own_checkpoint() -> None:
    tuner = make("PBT", {**ARGS, "population_size": 1}, QUADRATIC)
    first = tuner.ask(0)
    with pytest.raises(ResultsNeeded):
        tuner.ask(1)
    tuner.tell(0, first, 1.0, "SUCCEEDED")
    second = tuner.ask(1)
    assert (second[LOAD_KEY], plain(second)) == (first[SAVE_KEY], plain(first))


def test_the_direction_decides_who_is_worst() -> None:
    tuner = make("PBT", {**ARGS, "optimize_mode": "minimize"}, QUADRATIC)
    first = generation(tuner, 0)
    end(tuner, 0, first, [5, 4, 3, 2, 1])
    second = generation(tuner, 5)
    assert second[0][LOAD_KEY] == first[4][SAVE_KEY]
    assert [asked[LOAD_KEY] for asked in second[1:]] == [asked[SAVE_KEY] for asked in first[1:]]


def test_changed_parameters_stay_in_the_space_and_near_their_model() -> None:
    space = parse_search_space(MIXED)
    for seed in range(20):
        tuner = make("PBT", {**ARGS, "resample_probability": 0.0}, MIXED, seed)
        first = generation(tuner, 0)
        end(tuner, 0, first, [1, 2, 3, 4, 5])
        changed, model = plain(generation(tuner, 5)[0]), plain(first[4])
        assert space.contains(changed)
        assert abs(changed["n"] - model["n"]) <= 1
        assert changed["layer"]["_name"] == model["layer"]["_name"]
        assert abs(changed["x"] - model["x"]) <= 0.2 * abs(model["x"]) + 0.5


def test_who_failed_goes_on_from_a_good_one_and_a_generation_of_failures_starts_afresh() -> None:
    tuner = make("PBT", ARGS, QUADRATIC)
    first = generation(tuner, 0)
    end(tuner, 0, first, [None, 2, None, float("nan"), 1])
    second = generation(tuner, 5)
    assert [second[place][LOAD_KEY] for place in (0, 2, 3)] == [first[1][SAVE_KEY]] * 3
    end(tuner, 5, second, [None] * 5)
    third = generation(tuner, 10)
    assert not set(map(str, map(plain, third))) & set(map(str, map(plain, second)))


def test_who_failed_is_no_model_whatever_it_counts_as() -> None:
    tuner = make("PBT", ARGS, QUADRATIC)
    first = generation(tuner, 0)
    tuner.tell(0, first[0], -9.0, "FAILED")
    for number in range(1, 5):
        tuner.tell(number, first[number], float(number), "SUCCEEDED")
    assert first[0][SAVE_KEY] not in [parameters[LOAD_KEY] for parameters in generation(tuner, 5)]


def test_doubles_and_unknown_results_change_nothing() -> None:
    tuner = make("PBT", ARGS, QUADRATIC)
    first = generation(tuner, 0)
    tuner.tell(0, first[0], 9.0, "SUCCEEDED")
    tuner.tell(0, first[0], -9.0, "SUCCEEDED")
    tuner.tell(77, first[0], -9.0, "SUCCEEDED")
    end(tuner, 0, first, [-9, 1, 2, 3, 4])
    assert generation(tuner, 5)[0][LOAD_KEY] == first[0][SAVE_KEY]


@pytest.mark.parametrize("ended", range(5))
def test_a_restart_in_the_middle_changes_nothing(ended: int) -> None:
    tuner, events = make("PBT", ARGS, MIXED), []
    for first in (0, 5, 10):
        asked = generation(tuner, first)
        events += [{"event": "ask", "number": first + place, "parameters": parameters}
                   for place, parameters in enumerate(asked)]  # fmt: skip
        for place, parameters in enumerate(asked):
            value = float((first + place) * 7 % 11)
            if first == 10 and place == ended:
                break
            tuner.tell(first + place, parameters, value, "SUCCEEDED")
            events.append({"event": "tell", "number": first + place, "parameters": parameters, "value": value,
                           "status": "SUCCEEDED"})  # fmt: skip
    rebuilt = make("PBT", ARGS, MIXED)
    rebuilt.restore(as_stored(events))
    for place in range(ended, 5):
        for each in (tuner, rebuilt):
            each.tell(10 + place, asked[place], float(place), "SUCCEEDED")
    assert generation(tuner, 15) == generation(rebuilt, 15)


def test_without_a_shared_folder_the_names_are_below_one_that_keepers_give() -> None:
    assert make("PBT", {}, QUADRATIC).ask(0)[SAVE_KEY] == "checkpoints/1/0"
