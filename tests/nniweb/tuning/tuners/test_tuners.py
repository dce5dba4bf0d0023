"""What every tuner owes: good proposals, no repeats, and the same ones after a restart."""

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import optuna
import pytest

from nniweb.tuning.algorithms import build_tuner
from nniweb.tuning.class_args import TpeOptions
from nniweb.tuning.search_space.coordinate_table import CoordinateTable
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.space import point_key
from nniweb.tuning.tuner_base.gaussian_process import GaussianProcess
from nniweb.tuning.tuner_base.optuna_study import study_of
from nniweb.tuning.tuner_base.surrogate_search import scaled
from nniweb.tuning.tuner_base.tuner import NoMoreParameters, Tuner
from nniweb.tuning.tuners import gaussian_process, tpe
from nniweb.tuning.tuners.random_search import RandomSearch
from nniweb.tuning.tuners.tpe import MODELLED_TRIALS, Tpe

QUADRATIC = {"x": {"_type": "uniform", "_value": [-5, 5]}, "y": {"_type": "uniform", "_value": [-5, 5]}}
MIXED = {
    "x": {"_type": "quniform", "_value": [-5, 5, 0.5]},
    "n": {"_type": "randint", "_value": [0, 20]},
    "layer": {
        "_type": "choice",
        "_value": [
            {"_name": "Empty"},
            {"_name": "Conv", "rate": {"_type": "loguniform", "_value": [1e-4, 1]},
             "noise": {"_type": "qnormal", "_value": [0, 1, 0.5]},
             "kind": {"_type": "choice", "_value": ["a", "b"]}},
        ],
    },
}  # fmt: skip
FINITE = {
    "a": {"_type": "choice", "_value": ["p", "q", None]},
    "n": {"_type": "quniform", "_value": [0, 2, 1]},
    "c": {"_type": "choice", "_value": [{"_name": "one"}, {"_name": "two", "k": {"_type": "randint",
                                                                                 "_value": [0, 2]}}]},
}  # fmt: skip
TUNERS: list[tuple[str, dict[str, Any]]] = [
    ("Random", {}),
    ("GridSearch", {}),
    ("TPE", {"tpe_args": {"n_startup_jobs": 4}}),
    ("TPE", {"tpe_args": {"n_startup_jobs": 4, "constant_liar_type": "mean", "gamma": 0.5, "prior_weight": 0.5,
                          "linear_forgetting": 6}}),
    ("TPE", {"optimize_mode": "maximize", "tpe_args": {"n_startup_jobs": 0, "constant_liar_type": None}}),
    ("Anneal", {"optimize_mode": "minimize"}),
    ("Auto", {"optimize_mode": "minimize"}),
    ("Evolution", {"population_size": 6}),
    ("GP", {"cold_start_num": 4, "selection_num_warm_up": 200}),
    ("GP", {"cold_start_num": 4, "selection_num_warm_up": 200, "utility": "ucb", "optimize_mode": "minimize"}),
    ("SMAC", {"optimize_mode": "minimize"}),
    ("Metis", {"cold_start_num": 12, "selection_num_starting_points": 100, "no_resampling": False}),
    ("DNGO", {"trials_per_update": 8, "sample_size": 60, "num_epochs_per_training": 100}),
]  # fmt: skip
#: The dearest ones, whose kin is tried in the fast suite.
DEAR = [("GP", "ucb"), ("Metis", None), ("Auto", None)]
TRIED = [pytest.param(name, args, marks=[pytest.mark.slow] if (name, args.get("utility")) in DEAR else [])
         for name, args in TUNERS]
Events = list[dict[str, Any]]


def make(name: str, args: dict[str, Any], raw: Any, seed: int = 11) -> Tuner:
    return build_tuner(name, args, parse_search_space(raw), "minimize", seed)


def quadratic(point: dict[str, Any]) -> float:
    return (point["x"] - 2) ** 2 + (point["y"] + 1) ** 2


def mixed(point: dict[str, Any]) -> float:
    layer = point["layer"]
    inner = 4.0 if layer["_name"] == "Empty" else (math.log10(layer["rate"]) + 3) ** 2 + (layer["kind"] == "a")
    return float((point["x"] - 1) ** 2 + abs(point["n"] - 7) / 4 + inner)


class Driver:
    """Runs a tuner as an experiment does, three trials at a time, and records what a database would hold."""

    def __init__(self, tuner: Tuner, value: Callable[[dict[str, Any]], float]) -> None:
        self.tuner = tuner
        self.events: Events = []
        self.asked: Events = []
        self.running: Events = []
        self._value = value

    def step(self) -> None:
        number = len(self.asked)
        event = {"event": "ask", "number": number, "parameters": self.tuner.ask(number)}
        self.asked.append(event)
        self.events.append(event)
        self.running.append(event)
        if len(self.running) > 3:
            # The newest but one ends first, so that results come out of order; each fifth gives no number.
            ended = self.running.pop(-2 if number % 2 else 0)
            value = None if ended["number"] % 5 == 3 else self._value(ended["parameters"])
            self.tell(ended["number"], ended["parameters"], value, "FAILED" if value is None else "SUCCEEDED")

    def tell(self, number: int | None, parameters: dict[str, Any], value: float | None, status: str) -> None:
        self.events.append(
            {"event": "tell", "number": number, "parameters": parameters, "value": value, "status": status}
        )
        self.tuner.tell(number, parameters, value, status)

    def run_until_exhausted(self) -> None:
        for _ in range(200):
            try:
                self.step()
            except NoMoreParameters:
                return
        raise AssertionError("200 proposals and no end")

    def change_space(self, raw: Any) -> None:
        self.events.append({"event": "search_space", "search_space": parse_search_space(raw)})
        self.tuner.update_search_space(parse_search_space(raw))


def as_stored(events: Iterable[dict[str, Any]]) -> Events:
    """Events as a database gives them back: through JSON, with whole floats as integers."""

    def stored(value: Any) -> Any:
        text = json.dumps(value)
        return json.loads(text, parse_float=lambda number: int(float(number)) if float(number) % 1 == 0
                          else float(number))  # fmt: skip

    return [
        event if event["event"] == "search_space" else {**event, "parameters": stored(event["parameters"])}
        for event in events
    ]


@pytest.mark.parametrize(("name", "args"), TRIED)
def test_a_tuner_rebuilt_from_its_events_goes_on_like_one_that_never_died(name: str, args: dict[str, Any]) -> None:
    narrower = {**MIXED, "x": {"_type": "quniform", "_value": [-1, 5, 0.5]}}
    driver = Driver(make(name, args, MIXED), mixed)
    for step in range(36):
        if step in (0, 5, 21, 30):
            rebuilt = make(name, args, MIXED)
            rebuilt.restore(as_stored(driver.events))
            ahead = [rebuilt.ask(step), rebuilt.ask(step + 1)]
            twin = make(name, args, MIXED)
            twin.restore(driver.events)
            assert ahead == [twin.ask(step), twin.ask(step + 1)]
            driver.step()
            assert driver.asked[-1]["parameters"] == ahead[0]
            continue
        if step == 15:
            picked = {"x": 0.0, "n": 7, "layer": {"_name": "Empty"}}
            driver.tell(None, picked, mixed(picked), "SUCCEEDED")
        if step == 25:
            driver.change_space(narrower)
        driver.step()
    assert all(event["parameters"]["x"] >= -1 for event in driver.asked[25:])


@pytest.mark.parametrize(("name", "args"), TRIED)
def test_a_finite_space_is_tried_completely_without_repeats_and_then_ends(name: str, args: dict[str, Any]) -> None:
    driver = Driver(make(name, args, FINITE), lambda point: float(point["n"]))
    driver.tell(None, {"a": "p", "n": 1, "c": {"_name": "one"}}, 0.5, "SUCCEEDED")
    driver.run_until_exhausted()
    keys = {point_key(event["parameters"]) for event in driver.asked}
    assert len(keys) == len(driver.asked) == 3 * 3 * 3 - 1
    wider = {**FINITE, "n": {"_type": "quniform", "_value": [0, 3, 1]}}
    driver.change_space(wider)
    driver.run_until_exhausted()
    assert len(driver.asked) == 4 * 3 * 3 - 1


@pytest.mark.parametrize(("name", "args"), TUNERS)
def test_results_without_a_number_extreme_ones_and_doubles_do_no_harm(name: str, args: dict[str, Any]) -> None:
    tuner = make(name, args, MIXED)
    values = [None, float("nan"), float("inf"), 1e308, -1e308, 0.0, 1e308, 5e-324]
    for number in range(24):
        parameters = tuner.ask(number)
        tuner.tell(number, parameters, values[number % len(values)], "SUCCEEDED")
        tuner.tell(number, parameters, 1.0, "SUCCEEDED")
    tuner.tell(500, {"x": 1, "n": 2, "layer": {"_name": "Empty"}}, 1.0, "SUCCEEDED")
    tuner.tell(None, {"nothing": "known"}, 1.0, "SUCCEEDED")
    assert parse_search_space(MIXED).contains(tuner.ask(24))


@pytest.mark.parametrize("losses", [
    [1.7e308] * 8 + [1e308, 0.4], [-1.7e308, 1.7e308] * 6, [-1.7e308] * 7 + [1.7e308],
    [1e308, 1.1e308, 1.2e308, 1.7e308], [0.1, 0.2, 0.3, 0.4, 1.7e308]])
def test_losses_near_the_largest_number_are_modelled_as_others(losses: list[float]) -> None:
    found = scaled(np.array(losses))
    assert np.isfinite(found).all()
    assert (found.mean(), found.std()) == pytest.approx((0, 1))
    in_order = found[np.argsort(losses, kind="stable")]
    assert (np.diff(in_order) >= 0).all()
    assert [found[losses.index(loss)] for loss in sorted(set(losses))] == sorted(set(found))


@pytest.mark.parametrize(("name", "args"), TUNERS)
def test_the_seed_alone_decides(name: str, args: dict[str, Any]) -> None:
    def proposals(seed: int) -> list[dict[str, Any]]:
        driver = Driver(make(name, args, MIXED, seed), mixed)
        for _ in range(12):
            driver.step()
        return [event["parameters"] for event in driver.asked]

    assert proposals(1) == proposals(1)
    assert (proposals(1) != proposals(2)) == (name != "GridSearch")


@pytest.mark.parametrize("lie", ["running", "best", "worst", "mean"])
def test_concurrent_proposals_of_tpe_take_the_running_trials_into_account(lie: str) -> None:
    def next_after(is_told: bool) -> dict[str, Any]:
        tuner = make("TPE", {"tpe_args": {"constant_liar_type": lie}}, QUADRATIC)
        for number in range(30):
            parameters = tuner.ask(number)
            tuner.tell(number, parameters, quadratic(parameters), "SUCCEEDED")
        for number in range(30, 40):
            parameters = {"x": 2.0, "y": -1.0}
            tuner.note_asked(number, parameters)
            if is_told:
                tuner.tell(number, parameters, None, "FAILED")
        return tuner.ask(40)

    assert next_after(is_told=False) != next_after(is_told=True)


def test_a_value_that_arrives_after_the_end_still_counts_and_a_second_one_does_not() -> None:
    def proposal(*values: float | None) -> dict[str, Any]:
        tuner = make("TPE", {"tpe_args": {"n_startup_jobs": 5}}, QUADRATIC)
        for number in range(12):
            parameters = tuner.ask(number)
            for value in values if number == 11 else (quadratic(parameters),):
                tuner.tell(number, parameters, value, "SUCCEEDED")
        return tuner.ask(12)

    assert proposal(None, -9.0) == proposal(-9.0)
    assert proposal(-9.0, 50.0) == proposal(-9.0)


def test_an_ask_models_no_more_trials_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    space, rng = parse_search_space(QUADRATIC), np.random.default_rng(0)
    tuner = Tpe(space, 1, "minimize", TpeOptions())
    modelled: list[optuna.trial.FrozenTrial] = []

    def study_and_count(shown: list[optuna.trial.FrozenTrial], sampler: optuna.samplers.BaseSampler) -> optuna.Study:
        modelled.extend(shown)
        return study_of(shown, sampler)

    monkeypatch.setattr(tpe, "study_of", study_and_count)
    for number in range(3 * MODELLED_TRIALS):
        parameters = space.sample(rng)
        tuner.note_asked(number, parameters)
        tuner.tell(number, parameters, quadratic(parameters), "SUCCEEDED")
    tuner.propose(3 * MODELLED_TRIALS)
    assert len(modelled) == MODELLED_TRIALS


def test_a_trial_that_changes_its_parameters_does_not_change_the_tuners_options() -> None:
    raw = {"x": {"_type": "choice", "_value": [[1, 2], {"deep": [3]}]}, "u": {"_type": "uniform", "_value": [0, 1]}}
    space = parse_search_space(raw)
    for name, args in TUNERS:
        tuner = build_tuner(name, args, space, "minimize", 3)
        for number in range(8):
            tuner.ask(number)["x"].clear()
    assert space == parse_search_space(raw)


def test_random_search_remembers_only_points_that_could_come_again() -> None:
    endless = parse_search_space({"x": {"_type": "uniform", "_value": [0, 1]}})
    tuner = build_tuner("Random", {}, endless, "maximize", 1)
    assert isinstance(tuner, RandomSearch)
    for number in range(100):
        tuner.tell(number, tuner.ask(number), 0.5, "SUCCEEDED")
    assert not tuner.points._seen
    tuner.update_search_space(parse_search_space({"x": {"_type": "choice", "_value": [1, 2]}}))
    assert {tuner.ask(100)["x"], tuner.ask(101)["x"]} == {1, 2}
    with pytest.raises(NoMoreParameters):
        tuner.ask(102)


def test_metis_doubts_no_more_results_than_it_models(monkeypatch: pytest.MonkeyPatch) -> None:
    class Seen(Exception):
        pass

    def fit(self: GaussianProcess, features: Any, losses: Any, seed: int) -> float:
        raise Seen(len(features), len(losses))

    most = gaussian_process.MODELLED_TRIALS
    tuner = make("Metis", {"no_resampling": False}, QUADRATIC)
    for number in range(2 * most):
        parameters = tuner.space.sample(tuner.rng(number))
        tuner.note_asked(number, parameters)
        tuner.tell(number, parameters, quadratic(parameters), "SUCCEEDED")
    monkeypatch.setattr(GaussianProcess, "fit", fit)
    with pytest.raises(Seen) as seen:
        tuner.ask(2 * most)
    assert seen.value.args == (most, most)


def with_a_doubtful_result() -> tuple[Tuner, dict[str, Any]]:
    """Metis after ten results, of which one does not fit the others, and that point."""
    tuner = make("Metis", {"no_resampling": False, "optimize_mode": "minimize"}, {"x": QUADRATIC["x"]})
    points = [{"x": -4.5 + number} for number in range(10)]
    for point in points:
        tuner.tell(None, point, 100.0 if point is points[4] else point["x"] ** 2, "SUCCEEDED")
    return tuner, points[4]


def test_metis_tries_a_doubtful_point_again_once_however_many_trials_run() -> None:
    tuner, doubtful = with_a_doubtful_result()
    assert [tuner.ask(number) == doubtful for number in range(4)] == [True, False, False, False]


def test_metis_does_not_try_a_doubtful_point_again_that_a_changed_space_does_not_have() -> None:
    tuner, doubtful = with_a_doubtful_result()
    tuner.update_search_space(parse_search_space({"x": {"_type": "uniform", "_value": [doubtful["x"] + 0.1, 5]}}))
    assert tuner.space.contains(tuner.ask(0))


def test_the_upper_bound_of_the_widest_randint_is_not_proposed() -> None:
    space = parse_search_space({"n": {"_type": "randint", "_value": [-2**53, 2**53]}})
    table = CoordinateTable(space)
    last = table.rows([space.coordinates({"n": 2**53 - 1})])
    assert space.contains(table.parameters(last[0]))
