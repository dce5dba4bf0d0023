"""The tuner that chooses among the others: what it chooses, that it says why, and that a restart changes nothing."""

import sys
from typing import Any

import pytest

from nniweb.tuning.algorithms import build_tuner
from nniweb.tuning.process.experiment_tuning import ExperimentTuning
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.tuner_base.tuner import Tuner
from nniweb.tuning.tuners import auto_rule
from nniweb.tuning.tuners.auto_rule import Rule
from tests.nniweb.tuning.tuners.test_tuners import MIXED, QUADRATIC, Driver, as_stored, mixed, quadratic
from trainingservice.reasons import CODES

SPACE = parse_search_space(QUADRATIC)


def chosen_by(tuner: Tuner) -> tuple[str, str]:
    found = tuner.chosen()
    assert found is not None
    return found["tuner"], found["reason"]["code"]


def after(results: int, *, space: Any = QUADRATIC, running: int = 0, modes: tuple[str, ...] = ()) -> Tuner:
    """Auto, with so many results and running trials before the proposal that it has just made."""
    parsed = parse_search_space(space)
    tuner = build_tuner("Auto", {}, parsed, "minimize", 3, modes)
    for number in range(results + running):
        point = parsed.sample(tuner.rng(number))
        tuner.note_asked(number, point)
        if number < results:
            tuner.tell_event({"number": number, "parameters": point, "value": float(number % 7),
                              "values": [float(number % 7)] * max(1, len(modes)), "status": "SUCCEEDED"})
    tuner.ask(results + running)
    return tuner


def test_few_results_are_modelled_as_a_whole_and_many_are_not() -> None:
    assert chosen_by(after(0)) == ("GP", "auto_model")
    assert chosen_by(after(30)) == ("GP", "auto_model")
    assert chosen_by(after(auto_rule.MOST_RESULTS_OF_GP + 1)) == ("TPE", "auto_many_results")


def test_its_proposals_are_those_of_the_tuner_that_it_chooses() -> None:
    auto, gp, tpe = (build_tuner(name, {}, SPACE, "minimize", 8) for name in ("Auto", "GP", "TPE"))
    for number in range(auto_rule.MOST_RESULTS_OF_GP + 2):
        asks = number in (3, 20, auto_rule.MOST_RESULTS_OF_GP + 1)
        parameters = auto.propose(number) if asks else SPACE.sample(auto.rng(number))
        if asks:
            assert parameters == (tpe if number > auto_rule.MOST_RESULTS_OF_GP else gp).propose(number)
        for tuner in (auto, gp, tpe):
            tuner.note_asked(number, parameters)
            tuner.tell(number, parameters, quadratic(parameters), "SUCCEEDED")


def test_many_trials_at_once_get_a_tuner_with_quick_proposals() -> None:
    assert chosen_by(after(12, running=auto_rule.MOST_RUNNING_OF_GP)) == ("GP", "auto_model")
    assert chosen_by(after(12, running=auto_rule.MOST_RUNNING_OF_GP + 1)) == ("TPE", "auto_many_running")


def test_a_space_with_very_many_options_is_not_modelled() -> None:
    options = {"_type": "choice", "_value": [f"option {place}" for place in range(auto_rule.MOST_COLUMNS_OF_GP + 1)]}
    tuner = after(12, space={"kind": options, "x": {"_type": "uniform", "_value": [0, 1]}})
    assert chosen_by(tuner) == ("TPE", "auto_large_space")
    assert tuner.chosen()["reason"]["columns"] == auto_rule.MOST_COLUMNS_OF_GP + 2  # type: ignore[index]


def test_several_objectives_go_to_a_model_and_then_to_a_population() -> None:
    modes = ("minimize", "maximize")
    assert chosen_by(after(20, modes=modes)) == ("TPE", "auto_objectives")
    assert chosen_by(after(auto_rule.MOST_RESULTS_OF_TPE + 1, modes=modes)) == ("NSGAII", "auto_objectives")


def test_without_the_packages_of_gp_it_says_so_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    tuner = after(12)
    assert tuner.chosen() == {"tuner": "Anneal", "reason": {"code": "auto_not_installed", "wanted": "GP",
                                                            "missing": ["sklearn"]}}


@pytest.mark.parametrize("rule", [Rule(1, 5), Rule(1, 500), Rule(1, 5, ("sklearn",)), Rule(2, 5)])
def test_it_has_every_tuner_that_it_chooses(rule: Rule) -> None:
    for results in (0, 10, 200, 5000):
        for running in (0, 8, 500):
            choice = rule.choice(results, running)
            assert choice.tuner in rule.tuners
            assert choice.reason.code in CODES
            assert str(choice.reason).endswith(".")


@pytest.mark.parametrize(("space", "value"), [(QUADRATIC, quadratic), (MIXED, mixed)])
def test_a_restart_changes_nothing_before_and_after_the_switch(
    space: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_rule, "MOST_RESULTS_OF_GP", 14)
    parsed = parse_search_space(space)
    driver = Driver(build_tuner("Auto", {}, parsed, "minimize", 5), value)
    for _ in range(24):
        rebuilt = build_tuner("Auto", {}, parsed, "minimize", 5)
        rebuilt.restore(as_stored(driver.events))
        proposed = rebuilt.propose(len(driver.asked))
        driver.step()
        assert driver.asked[-1]["parameters"] == proposed
        assert driver.tuner.chosen() == rebuilt.chosen()
    assert chosen_by(driver.tuner) == ("TPE", "auto_many_results")


def test_the_answer_to_a_question_says_by_which_tuner_it_was_made() -> None:
    def spec(name: str) -> dict[str, Any]:
        return {"search_space": QUADRATIC, "optimize_mode": "minimize", "seed": 1, "tuner": {"name": name}}

    assert ExperimentTuning(spec("Auto")).ask(0, 2)["chosen"] == {
        "tuner": "GP", "reason": {"code": "auto_model", "most": auto_rule.MOST_RESULTS_OF_GP}}
    assert "chosen" not in ExperimentTuning(spec("TPE")).ask(0, 2)
