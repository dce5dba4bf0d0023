"""BatchTuner runs a list: each entry once, in order, and then it ends."""

from typing import Any

import pytest

from nniweb.tuning.search_space.parameter_list import as_the_trial_gets_it
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.problem import InvalidInput
from nniweb.tuning.tuner_base.tuner import NoMoreParameters, Tuner
from tests.nniweb.tuning.tuners.test_tuners import QUADRATIC, make

LIST = [{"lr": 0.1, "layers": 3}, {"lr": 0.2}, {"lr": 0.1, "layers": 3}, {"lr": 0.3, "deep": {"er": [1]}}]


def space(options: list[Any]) -> dict[str, Any]:
    return {"combine": {"_type": "choice", "_value": options}}


def run(tuner: Tuner, first: int = 0) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []
    try:
        while True:
            asked.append(tuner.ask(first + len(asked)))
            tuner.tell(first + len(asked) - 1, asked[-1], None, "FAILED")
    except NoMoreParameters:
        return asked


def test_every_entry_is_run_once_in_order_whatever_becomes_of_it() -> None:
    assert run(make("BatchTuner", {}, space(LIST))) == LIST
    assert run(make("Batch", {"optimize_mode": "minimize"}, space(LIST))) == LIST


def test_a_restart_and_a_longer_list_run_what_is_left() -> None:
    tuner = make("BatchTuner", {}, space(LIST))
    tell = {"event": "tell", "value": 1, "status": "SUCCEEDED"}
    tuner.restore([{"event": "ask", "number": 0, "parameters": LIST[0]},
                   {**tell, "number": 0, "parameters": LIST[0]},
                   {**tell, "number": None, "parameters": {"lr": 0.2}}])  # fmt: skip
    assert tuner.ask(1) == LIST[2]
    tuner.update_search_space(parse_search_space(space([*LIST, {"lr": 9}])))
    assert run(tuner, 2) == [{"lr": 0.2}, LIST[3], {"lr": 9}]


def test_plain_options_are_sets_of_the_only_parameter_and_reach_the_trial_without_its_name() -> None:
    plain = [1, 100, "a", True, None, [2, 3]]
    asked = run(make("BatchTuner", {}, space(plain)))
    assert asked == [{"combine": option} for option in plain]
    assert [as_the_trial_gets_it(parameters, space(plain)) for parameters in asked] == plain
    # an object is a whole set, also where it looks like one of those; so is what a person put together
    assert as_the_trial_gets_it({"combine": 1}, space([{"combine": 1}, {"combine": 2}])) == {"combine": 1}
    assert as_the_trial_gets_it({"other": 1}, space(plain)) == {"other": 1}


def test_what_a_trial_does_with_its_parameters_does_not_change_the_list() -> None:
    tuner = make("BatchTuner", {}, space(LIST[3:] * 2))
    tuner.ask(0)["deep"].clear()
    assert tuner.ask(1) == LIST[3]


@pytest.mark.parametrize(("raw", "words"), [
    (QUADRATIC, "exactly one parameter"),
    (space([{"lr": 1}, 2]), "options are all plain"),
    ({"x": {"_type": "uniform", "_value": [0, 1]}}, "options are objects"),
    (space([{"_name": "a"}, {"_name": "b"}]), "options are objects"),
])  # fmt: skip
def test_a_space_that_is_no_list_is_refused_with_the_form_it_should_have(raw: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make("BatchTuner", {}, raw)
