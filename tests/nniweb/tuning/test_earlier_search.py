"""Results of earlier experiments behind every tuner: what is proposed, for how long, and what a restart changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from nniweb.tuning.algorithms import TUNERS, start_from_problem
from nniweb.tuning.guidance.earlier_search import FEWEST_COMPARED, OPENING, kendall
from nniweb.tuning.guidance.smooth_model import SmoothModel
from nniweb.tuning.process.experiment_tuning import ExperimentTuning
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.space import point_key

SPACE: dict[str, Any] = {
    "lr": {"_type": "loguniform", "_value": [1e-5, 1]}, "layers": {"_type": "randint", "_value": [1, 9]},
    "act": {"_type": "choice", "_value": ["relu", "tanh"]}}
Point = dict[str, Any]
NAMES = [tuner.name for tuner in TUNERS if not start_from_problem(tuner)]
ARGUMENTS: dict[str, dict[str, Any]] = {
    "DNGO": {"num_epochs_per_training": 20}, "GP": {"selection_num_warm_up": 200}, "NSGAII": {"population_size": 4}}


def loss(point: Point) -> float:
    return float((np.log10(point["lr"]) + 2) ** 2 + (point["layers"] - 6) ** 2 / 4 + (point["act"] == "relu"))


def results(of: Callable[[Point], float] = loss, count: int = 40, space: dict[str, Any] = SPACE) -> list[Any]:
    chance, parsed = np.random.default_rng(2), parse_search_space(space)
    points = [parsed.sample(chance) for _ in range(count)]
    return [[point, of(point)] for point in points]


def tuning(name: str = "TPE", earlier: Sequence[Any] = (), space: dict[str, Any] = SPACE, **more: Any
           ) -> ExperimentTuning:
    return ExperimentTuning({
        "search_space": space, "tuner": {"name": name, "class_args": ARGUMENTS.get(name, {})}, "assessor": None,
        "optimize_mode": "minimize", "seed": 5, "earlier": earlier, **more})


def ask(experiment: ExperimentTuning, number: int) -> Point:
    [point] = experiment.ask(number, 1)["parameters"]
    return dict(point)


def tell(experiment: ExperimentTuning, number: int, point: Point, value: float) -> dict[str, Any]:
    event = {"number": number, "parameters": point, "value": value, "status": "SUCCEEDED"}
    experiment.tell(**event)
    return {"event": "tell", **event}


def run(experiment: ExperimentTuning, count: int, of: Callable[[Point], float] = loss) -> list[Point]:
    points = []
    for number in range(count):
        points.append(ask(experiment, number))
        tell(experiment, number, points[-1], of(points[-1]))
    return points


def weights(experiment: ExperimentTuning, number: int) -> list[float]:
    return [one["weight"] for one in experiment.ask(number, 1)["agreements"]]


@pytest.mark.parametrize("name", NAMES)
def test_every_tuner_that_learns_begins_with_the_best_and_a_restart_changes_nothing(name: str) -> None:
    earlier = [results()]
    experiment, history = tuning(name, earlier), []
    running: list[tuple[int, Point]] = []
    for number in range(16):
        point = ask(experiment, number)
        history.append({"event": "ask", "number": number, "parameters": point})
        running.append((number, point))
        if len(running) == 4:  # four at a time; the second one ends first
            ended, its = running.pop(1)
            history.append(tell(experiment, ended, its, loss(its)))
        restarted = tuning(name, earlier)
        restarted.restore(history)
        assert ask(restarted, number + 1) == ask(experiment, number + 1)
    points = [event["parameters"] for event in history if event["event"] == "ask"]
    assert points[0] == min(earlier[0], key=lambda one: one[1])[0]
    assert len({point_key(point) for point in points}) == len(points)


@pytest.mark.parametrize(("name", "count"), [("TPE", 15), ("GP", 11), ("Auto", 11)])
def test_agreement_leads_most_proposals_and_finds_a_better_point_sooner(name: str, count: int) -> None:
    led, alone = tuning(name, earlier=[results()]), tuning(name)
    best = [min(loss(point) for point in run(one, count)) for one in (led, alone)]
    assert weights(led, count)[0] > 0.7
    assert best[0] < 0.3 * best[1]


@pytest.mark.parametrize("name", ["TPE", "GP", "Auto"])
def test_after_misleading_results_the_tuner_proposes_by_itself(name: str) -> None:
    misled, alone = tuning(name, earlier=[results(lambda point: -loss(point))]), tuning(name)
    points = run(misled, 12)
    assert weights(misled, 12) == [0.0]
    first = {point_key(point) for point, _ in results()}
    assert sum(point_key(point) in first for point in points) == 1  # the first result ended the opening
    assert [point for number, point in enumerate(run(alone, 10)) if number] == points[1:10]


def test_with_a_gaussian_process_results_that_agree_lead_all_proposals() -> None:
    led, alone = tuning("GP", earlier=[results()]), tuning("GP")
    history: list[dict[str, Any]] = []
    for number in range(14):
        point = ask(led, number)
        if number >= 6:
            alone = tuning("GP")
            alone.restore(history)
            assert ask(alone, number) != point
        history += [{"event": "ask", "number": number, "parameters": point}, tell(led, number, point, loss(point))]
    assert weights(led, 14)[0] > 0.9


def test_auto_says_by_which_tuner_it_proposes_while_earlier_results_lead() -> None:
    led = tuning("Auto", earlier=[results()])
    assert led.ask(0, 1)["chosen"]["tuner"] == "GP"


def test_without_the_packages_of_gp_auto_takes_turns_with_the_earlier_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    led = tuning("Auto", earlier=[results()])
    run(led, 12)
    answer = led.ask(12, 1)
    assert answer["chosen"]["tuner"] == "Anneal"
    assert answer["agreements"][0]["weight"] > 0.5


def test_results_that_mislead_do_not_spoil_those_that_agree() -> None:
    both = tuning(earlier=[results(lambda point: -loss(point)), results()])
    run(both, 12)
    misleading, good = weights(both, 12)
    assert misleading == 0
    assert good > 0.7


def test_a_few_best_points_that_are_apart_open_the_search() -> None:
    experiment = tuning(earlier=[results()])
    points = experiment.ask(0, 12)["parameters"]
    given = {point_key(point) for point, _ in results()}
    opening = [number for number, point in enumerate(points) if point_key(point) in given]
    assert opening == [0, 2, 4, 6][:OPENING]


@pytest.mark.parametrize("mode", ["minimize", "maximize"])
def test_both_directions_begin_with_their_best(mode: str) -> None:
    experiment = tuning(earlier=[results()], optimize_mode=mode)
    best = (min if mode == "minimize" else max)(results(), key=lambda one: one[1])[0]
    assert ask(experiment, 0) == best


def test_nothing_is_compared_before_there_are_enough_results() -> None:
    experiment = tuning(earlier=[results()])
    run(experiment, FEWEST_COMPARED - 1)
    [one] = experiment.ask(FEWEST_COMPARED - 1, 1)["agreements"]
    assert one == {"compared": FEWEST_COMPARED - 1, "correlation": None, "weight": 0.0}


def test_parameters_that_the_earlier_experiment_did_not_have_are_searched_all_the_same() -> None:
    space = {**SPACE, "dropout": {"_type": "uniform", "_value": [0, 1]}}
    experiment = tuning(earlier=[results()], space=space)
    points = run(experiment, 30, lambda point: loss(point) + 4 * (point["dropout"] - 0.8) ** 2)
    assert len({point["dropout"] for point in points}) > 15
    assert min(loss(point) + 4 * (point["dropout"] - 0.8) ** 2 for point in points) < 0.3


def test_constraints_hold_for_what_follows_from_earlier_results() -> None:
    experiment = tuning(earlier=[results()], constraints=["layers < 5"])
    assert all(point["layers"] < 5 for point in run(experiment, 25))


def test_a_new_search_space_leaves_out_what_does_not_fit_it() -> None:
    experiment = tuning(earlier=[results()])
    run(experiment, 8)
    experiment.update_search_space({**SPACE, "layers": {"_type": "randint", "_value": [1, 4]}})
    assert all(1 <= ask(experiment, number)["layers"] < 4 for number in range(8, 20))


def test_a_tuner_chosen_since_the_launch_that_does_not_learn_proposes_by_itself() -> None:
    assert "agreements" not in tuning("Random", [results()]).ask(0, 1)


def test_kendalls_correlation_counts_pairs() -> None:
    ranked = np.array([1.0, 2.0, 3.0, 4.0])
    assert kendall(ranked, ranked**3) == 1
    assert kendall(ranked, -ranked) == -1
    assert kendall(ranked, np.array([1.0, 1.0, 1.0, 1.0])) == 0
    assert kendall(ranked, np.array([2.0, 1.0, 3.0, 4.0])) == pytest.approx(2 / 3)


def test_the_model_learns_which_features_matter_and_how_noisy_results_are() -> None:
    chance = np.random.default_rng(1)
    features = chance.random((60, 3))
    truth = np.sin(5 * features[:, 0])
    model = SmoothModel()
    model.fit(features, truth + 0.1 * chance.normal(size=60), by_feature=True)
    assert model.lengths[0] < model.lengths[1:].min()
    further = chance.random((50, 3))
    means, deviations = model.predict(further)
    assert float(np.abs(means - np.sin(5 * further[:, 0])).max()) < 0.3
    assert model.noise > 1e-4
    assert model.predict(np.array([[0.5, 0.5, 9.0]]))[1][0] >= deviations.mean()
