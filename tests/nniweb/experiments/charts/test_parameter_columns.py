"""What charts of hyper-parameters get: axes from the search space, a value or "not used" for each trial."""

import random
from collections.abc import Callable
from typing import Any

from django.utils import timezone

from nniweb.experiments.charts.parameter_axes import Axis, Column, columns_of
from nniweb.experiments.charts.parameter_columns import BEST_DRAWN, FEWEST_DRAWN, MOST_DRAWN, Results, results_of
from nniweb.experiments.charts.parameter_importance import FEWEST_LOOKED_AT, MOST_TRIALS, most_looked_at
from nniweb.experiments.models import Experiment, Proposal, Trial, TrialParameters
from nniweb.experiments.models.proposal import ProposalState

Make = Callable[..., Experiment]

NESTED = {"lr": {"_type": "loguniform", "_value": [1e-4, 0.1]},
          "units": {"_type": "choice", "_value": [32, 64]},
          "layer": {"_type": "choice", "_value": [
              {"_name": "Conv", "kernel": {"_type": "randint", "_value": [1, 6]}}, {"_name": "Empty"}]}}


def add_results(experiment: Experiment, points: list[tuple[Any, float | None]], status: str = "SUCCEEDED") -> None:
    first = Trial.objects.filter(experiment=experiment).count()
    trials = Trial.objects.bulk_create(
        Trial(experiment=experiment, sequence_id=first + number, final_number=value, status=status, revision=first + 1,
              created_at=timezone.now(), ended_at=timezone.now()) for number, (_, value) in enumerate(points))
    TrialParameters.objects.bulk_create(TrialParameters(trial=trial, value=point)
                                        for trial, (point, _) in zip(trials, points, strict=True))


def test_a_nested_choice_gives_axes_that_are_used_where_their_option_was_taken() -> None:
    columns = columns_of(NESTED, [
        {"lr": 0.01, "units": 64, "layer": {"_name": "Conv", "kernel": 3}},
        {"lr": 0.001, "units": 32, "layer": {"_name": "Empty"}}])
    lr, units, layer, kernel = columns
    assert (lr.axis.name, lr.axis.logarithmic, lr.axis.low, lr.axis.high) == ("lr", True, 1e-4, 0.1)
    assert (units.axis.kind, units.axis.options, units.values) == ("category", (32, 64), [1, 0])
    assert (layer.axis.options, layer.values) == (("Conv", "Empty"), [0, 1])
    assert (kernel.axis.name, kernel.axis.choice, kernel.axis.option) == ("layer.Conv.kernel", "layer", 0)
    assert (kernel.axis.low, kernel.axis.high, kernel.axis.whole, kernel.values) == (1, 5, True, [3, None])


def test_values_of_an_earlier_search_space_have_their_place_too() -> None:
    lr, units = columns_of({name: NESTED[name] for name in ("lr", "units")},
                           [{"lr": 1.0, "units": 128}, {"lr": 0.001, "units": 32}, {"units": 64}, None])
    assert (lr.axis.low, lr.axis.high, lr.values) == (1e-4, 1.0, [1.0, 0.001, None, None])
    assert (units.axis.options, units.values) == ((32, 64, 128), [2, 0, 1, None])


def test_a_logarithmic_axis_without_room_for_zero_becomes_an_ordinary_one() -> None:
    [column] = columns_of({"q": {"_type": "qlognormal", "_value": [0, 1, 1]}}, [{"q": 0.0}, {"q": 3.0}])
    assert (column.axis.logarithmic, column.axis.low, column.axis.high) == (False, 0.0, 3.0)


def test_a_space_that_only_the_users_own_tuner_reads_is_guessed_from_what_trials_got() -> None:
    points = [{"depth": number, "act": "relu" if number % 2 else None, "name": f"run {number}"} for number in range(40)]
    depth, act = columns_of({"anything": [1, 2]}, points)
    assert (depth.axis.name, depth.axis.low, depth.axis.high, depth.axis.whole) == ("depth", 0, 39, True)
    assert (act.axis.name, act.axis.options, act.values[:2]) == ("act", (None, "relu"), [0, 1])


def test_results_are_read_once_until_one_more_comes(make_experiment: Make,
                                                    django_assert_num_queries: Callable[..., Any]) -> None:
    experiment = make_experiment(optimize_mode="maximize")
    add_results(experiment, [({"x": 0.25}, 1.0), ({"x": 0.5}, 3.0)])
    add_results(experiment, [({"x": 0.75}, 9.0)], status="FAILED")
    add_results(experiment, [({"x": 0.75}, None)], status="RUNNING")
    with django_assert_num_queries(2):
        results = results_of(experiment)
    assert (results.sequence_ids, results.values, results.columns[0].values) == ([0, 1], [1.0, 3.0], [0.25, 0.5])
    assert results.best_first == [1, 0]
    with django_assert_num_queries(1):
        assert results_of(experiment) is results
    add_results(experiment, [({"x": 1.0}, 2.0)])
    assert results_of(experiment).values == [1.0, 3.0, 2.0]


def test_results_that_break_a_constraint_on_outcomes_come_after_all_others(make_experiment: Make) -> None:
    experiment = make_experiment(optimize_mode="maximize", outcome_constraints=["latency <= 20"])
    add_results(experiment, [({"x": 0.25}, 1.0), ({"x": 0.5}, 9.0), ({"x": 0.75}, 3.0)])
    Trial.objects.filter(experiment=experiment).update(feasible=True, revision=7)
    Trial.objects.filter(experiment=experiment, sequence_id=1).update(feasible=False)
    assert results_of(experiment).best_first == [2, 0, 1]


def test_a_proposal_that_was_not_run_in_full_comes_after_all_that_were(make_experiment: Make) -> None:
    experiment = make_experiment(optimize_mode="maximize", replicates={"n": 3})
    add_results(experiment, [({"x": 0.25}, 0.9), ({"x": 0.5}, 0.8)])
    for number, (mean, state) in enumerate([(0.7, ProposalState.COMPLETE), (0.8, ProposalState.DROPPED)]):
        proposal = Proposal.objects.create(experiment=experiment, first_sequence_id=number, mean=mean, state=state)
        Trial.objects.filter(experiment=experiment, sequence_id=number).update(proposal=proposal, revision=8)
    assert results_of(experiment).best_first == [0, 1]


def test_of_many_trials_the_best_and_an_even_choice_of_the_others_are_drawn(make_experiment: Make) -> None:
    experiment = make_experiment(optimize_mode="minimize")
    chance = random.Random(3)
    add_results(experiment, [({"x": 0.5}, chance.random()) for _ in range(2 * MOST_DRAWN)])
    results = results_of(experiment)
    assert len(results.drawn) == MOST_DRAWN
    assert results.drawn == sorted(set(results.drawn))
    assert set(results.best_first[:BEST_DRAWN]) < set(results.drawn)
    assert results.best_first[-1] in results.drawn, "the worst too, so that axes do not shrink"


def test_of_many_parameters_fewer_trials_are_drawn_and_looked_at() -> None:
    def drawn(parameters: int) -> Results:
        values = [float(number) for number in range(3000)]
        columns = [Column(Axis(f"p{number}", "number"), [0.5] * 3000) for number in range(parameters)]
        return Results(None, (0, 0, 0), 0, True, [str(number) for number in range(3000)], list(range(3000)), values,
                       columns)

    assert [len(drawn(parameters).drawn) for parameters in (0, 4, 24, 100, 1000)] == [
        MOST_DRAWN, MOST_DRAWN, MOST_DRAWN, 400, FEWEST_DRAWN]
    some = drawn(100)
    assert set(some.best_first[:133]) < set(some.drawn)
    assert {0, 2999} < set(some.drawn), "the worst and the best"
    assert [most_looked_at(parameters) for parameters in (1, 25, 100, 200)] == [
        MOST_TRIALS, MOST_TRIALS, 500, FEWEST_LOOKED_AT]
