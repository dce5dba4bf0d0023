"""How well the memory of trials is predicted from that of others, and how much is added to be safe."""

import random
from typing import Any

import pytest

from nniweb.experiments.memory.predictor import CONTEXT, FEWEST, Seen, fit, flat

GB = 1024 ** 3


def needed(parameters: dict[str, Any]) -> int:
    """A constant share, and a product of some parameters."""
    factor = {"a": 1.0, "b": 1.6}[parameters["model"]["_name"]]
    return int(1.2 * GB + parameters["batch"] * parameters["width"] * parameters["depth"] * factor * 900)


def drawn(chance: random.Random) -> dict[str, Any]:
    return {"batch": chance.choice([16, 32, 64, 128, 256]), "width": chance.randint(64, 1024),
            "depth": chance.randint(2, 12), "model": {"_name": chance.choice("ab")}, "lr": 10 ** chance.uniform(-5, -1),
            "dropout": chance.random(), "augment": chance.random() < 0.5}


def history(count: int, chance: random.Random) -> list[Seen]:
    return [Seen(parameters, int(needed(parameters) * chance.uniform(0.98, 1.02)))
            for parameters in (drawn(chance) for _ in range(count))]


@pytest.mark.parametrize(("count", "most_short", "most_kept_free"), [(8, 0.07, 2.2), (20, 0.05, 2.0), (100, 0.05, 1.4)])
def test_nearly_no_trial_needs_more_than_is_said_and_with_more_trials_less_is_added(
        count: int, most_short: float, most_kept_free: float) -> None:
    ratios = []
    for seed in range(10):
        chance = random.Random(seed)
        model = fit(history(count, chance))
        assert model is not None
        for _ in range(30):
            parameters = drawn(chance)
            ratios.append(model.predict(parameters).upper / needed(parameters))
    ratios.sort()
    assert sum(ratio < 1 for ratio in ratios) / len(ratios) <= most_short
    assert ratios[len(ratios) // 2] <= most_kept_free


def test_of_too_few_trials_nothing_is_said() -> None:
    chance = random.Random(0)
    assert fit(history(FEWEST - 1, chance)) is None
    assert fit([]) is None
    assert fit([*history(FEWEST - 1, chance), Seen({}, 0)]) is None, "of one nothing was seen"


def test_trials_that_all_need_the_same_are_said_to_need_that() -> None:
    model = fit([Seen({"lr": 0.1 * number}, 3 * GB) for number in range(1, 9)])
    assert model is not None
    prediction = model.predict({"lr": 0.35})
    assert prediction.trials == 8
    assert abs(prediction.expected - 3 * GB) < 0.01 * GB
    assert 3 * GB < prediction.upper < 3.3 * GB + CONTEXT


def test_what_lies_outside_of_what_is_known_is_less_certain() -> None:
    chance = random.Random(1)
    model = fit([Seen({"batch": batch}, int((1 + batch / 32) * GB * chance.uniform(0.9, 1.1)))
                 for batch in (8, 16, 24, 32, 40, 48, 56, 64)])
    assert model is not None
    known, far = model.predict({"batch": 32}), model.predict({"batch": 4096})
    assert far.upper / far.expected > known.upper / known.expected
    assert far.expected > 30 * GB


def test_a_trial_that_ran_out_raises_what_is_said_of_its_like() -> None:
    seen = [Seen({"batch": 2 ** number}, (1 + number) * GB) for number in range(8)]
    before, after = fit(seen), fit([*seen, Seen({"batch": 256}, 20 * GB, ran_out=True)])
    assert before is not None
    assert after is not None
    assert after.predict({"batch": 256}).upper > max(20 * GB, before.predict({"batch": 256}).upper)


@pytest.mark.parametrize("parameters", [
    {}, {"batch": None}, {"batch": "many"}, {"batch": float("nan")}, {"batch": 0}, {"batch": -1}, {"batch": 10 ** 400},
    {"other": [1, {"a": 2}]}, {"batch": True}])
def test_whatever_parameters_are_it_says_a_number_of_bytes(parameters: dict[str, Any]) -> None:
    odd = [Seen(parameters, 2 * GB)]
    for model in (fit(history(8, random.Random(2))), fit(history(8, random.Random(2)) + odd),
                  fit([Seen({"batch": 2 ** number}, GB + number) for number in range(8)] + odd), fit(odd * 8)):
        assert model is not None
        prediction = model.predict(parameters)
        assert 0 <= prediction.expected <= prediction.upper < 10 ** 45


def test_parameters_of_a_choice_with_a_very_long_name_do_not_repeat_it() -> None:
    long = "k" * 100_000
    assert flat({"a": {"b": 1}, long: {"c": {"d": 1}}}) == {"a.b": 1, long: {"c": {"d": 1}}}


@pytest.mark.parametrize("odd", [1e200, -1e299, 10**400, float("nan"), float("inf")],
                         ids=["large", "small", "whole", "none", "endless"])
def test_a_number_whose_square_is_too_large_is_taken_for_an_option(odd: float) -> None:
    model = fit([Seen({"x": value}, (number + 1) * GB) for number, value in enumerate(
        [odd, -1.0, 1e99, -1e99, 2, 3])])
    assert model is not None
    assert model.predict({"x": odd}).upper > 0
