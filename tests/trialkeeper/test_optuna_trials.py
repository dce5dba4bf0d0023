"""Trials of a script that searches with Optuna: ``nni.optuna`` runs it up to its call of ``Study.optimize``."""

from __future__ import annotations

import json
from typing import Any

import optuna
import pytest

from tests.trialkeeper.test_nni_module import Trial
from tests.trialkeeper.test_nni_module import for_trials as for_trials
from tests.trialkeeper.test_nni_module import trial as trial

SEARCH = """
import optuna, sys
from optuna import create_study

def objective(trial):
    print("number", trial.number)
    kind = trial.suggest_categorical("kind", ["line", None, "square"])
    x = trial.suggest_float("x", -5, 5)
    if kind == "square":
        layers = trial.suggest_int("layers", 1, 3)
    trial.set_user_attr("sum", x + 1)
    for step in (10, 20, 20):
        trial.report(x + step, step)
    return x

if __name__ == "__main__":
    study = create_study(study_name="s", storage="sqlite:///none/at/all.db", load_if_exists=True)
    study.optimize(objective, n_trials=100, timeout=5)
    print("after")
"""


def run(trial: Trial, text: str, call: int = 0, check: bool = True) -> Any:
    (trial.folder / "search.py").write_text(text)
    return trial.run(f"from nni.optuna import main; main({call}, ['search.py', '--fast'])", check=check)


def results(trial: Trial) -> tuple[list[Any], list[Any]]:
    found = trial.metrics()
    return tuple([json.loads(metric["value"]) for metric in found if metric["kind"] == kind]  # type: ignore[return-value]
                 for kind in ("PERIODICAL", "FINAL"))


def test_the_objective_gets_what_was_proposed_and_the_result_says_what_it_used(trial: Trial) -> None:
    trial.give({"optuna.number": 7, "kind": "null", "x": 1, "layers": 2})
    done = run(trial, SEARCH)
    assert "number 7" in done.stdout
    assert "after" not in done.stdout
    intermediate, [final] = results(trial)
    assert intermediate == [11.0, 21.0]
    about = final.pop("optuna")
    assert final == {"default": 1.0}
    assert {name: optuna.distributions.json_to_distribution(text) for name, (_, text) in about["params"].items()} == {
        "kind": optuna.distributions.CategoricalDistribution(["line", None, "square"]),
        "x": optuna.distributions.FloatDistribution(-5, 5)}, "not what the script did not ask for"
    assert {name: value for name, (value, _) in about["params"].items()} == {"kind": 1, "x": 1.0}
    assert (about["user_attrs"], about["is_pruned"]) == ({"sum": 2.0}, False)


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"kind": "cube", "x": 7}, {"kind": 3, "x": "much"}, {"kind": True, "x": None}])
def test_what_was_not_proposed_or_cannot_be_is_chosen_among_what_the_script_allows(trial: Trial, given) -> None:
    trial.give({"optuna.number": 0, **given})
    run(trial, SEARCH)
    _, [final] = results(trial)
    assert -5 <= final["default"] <= 5
    assert {"kind", "x"} <= set(final["optuna"]["params"])


def test_of_several_searches_of_a_script_one_is_run(trial: Trial) -> None:
    trial.give({"x": 2})
    text = ("import optuna\nfor sign in (1, -1):\n    study = optuna.create_study(directions=['minimize'] * 2)\n"
            "    study.optimize(lambda trial: (sign * trial.suggest_float('x', -5, 5), 7), n_trials=3)\n")
    run(trial, text, call=1)
    assert {name: value for name, value in results(trial)[1][0].items() if name != "optuna"} == {
        "default": -2.0, "value_1": 7.0}


def test_a_trial_that_prunes_itself_has_its_last_value(trial: Trial) -> None:
    trial.give({})
    run(trial, SEARCH.replace("    return x", "    raise optuna.TrialPruned()"))
    _, [final] = results(trial)
    assert final["optuna"]["is_pruned"] is True
    assert final["default"] == pytest.approx(final["optuna"]["user_attrs"]["sum"] + 19)


def test_an_objective_that_raises_fails_its_trial(trial: Trial) -> None:
    trial.give({})
    done = run(trial, SEARCH.replace("return x", "raise OSError('the disk')"), check=False)
    assert done.returncode == 1
    assert "OSError: the disk" in done.stderr
    assert results(trial)[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("value", ["float('nan')", "None", "'much'", "[]"])
def test_an_objective_that_returns_no_number_has_no_result(trial: Trial, value: str) -> None:
    trial.give({})
    done = run(trial, SEARCH.replace("return x", f"return {value}"))
    assert "so this trial has no result" in done.stderr
    assert results(trial)[1] == []


def test_a_script_without_a_search_says_so(trial: Trial) -> None:
    trial.give({})
    done = run(trial, "print('hello')", check=False)
    assert done.returncode == 1
    assert "search.py did not call Study.optimize 1 times, so there is nothing to try" in done.stderr
