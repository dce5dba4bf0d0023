"""Columns of hyper-parameters and their importance over REST."""

import random
from collections.abc import Callable
from typing import Any

from rest_framework.test import APIClient

from nniweb.experiments.models import Experiment, MetricName, MetricNumber, Trial, User
from tests.nniweb.experiments.charts.test_parameter_columns import NESTED, add_results

Make = Callable[..., Experiment]


def test_parameters_come_in_columns_with_the_place_among_all(api: APIClient, make_experiment: Make) -> None:
    experiment = make_experiment(optimize_mode="maximize", search_space=NESTED)
    add_results(experiment, [({"lr": 0.01, "units": 32, "layer": {"_name": "Empty"}}, 0.5),
                             ({"lr": 0.0012345678, "units": 64, "layer": {"_name": "Conv", "kernel": 2}}, 0.75)])
    answer = api.get(f"/api/v1/experiments/{experiment.public_id}/parameters/").json()
    assert (answer["sequence_id"], answer["value"], answer["rank"]) == ([0, 1], [0.5, 0.75], [1, 0])
    assert (answer["trials"], answer["left_out"]) == (2, 0)
    columns = {column["name"]: column for column in answer["columns"]}
    assert columns["lr"]["values"] == [0.01, 0.00123457]
    assert columns["layer.Conv.kernel"]["values"] == [None, 2]
    assert (columns["layer.Conv.kernel"]["choice"], columns["layer"]["options"]) == ("layer", ["Conv", "Empty"])


def test_importance_says_how_many_trials_it_needs_and_had(api: APIClient, make_experiment: Make) -> None:
    experiment = make_experiment()
    address = f"/api/v1/experiments/{experiment.public_id}/parameters/importance/"
    chance = random.Random(4)
    add_results(experiment, [({"x": 0.5}, 0.25)] * 9)
    few = api.get(address).json()
    assert (few["trials"], few["looked_at"], few["needed"], few["parameters"]) == (9, 0, 10, [])
    add_results(experiment, [({"x": value}, value) for value in (chance.random() for _ in range(31))])
    enough = api.get(address).json()
    assert (enough["trials"], enough["looked_at"]) == (40, 40)
    [parameter] = enough["parameters"]
    assert (parameter["name"], parameter["importance"], parameter["count"]) == ("x", 1.0, 40)
    assert parameter["correlation"] > 0.5


def add_metric(experiment: Experiment, name: str, finals: list[float | None]) -> None:
    metric = MetricName.objects.create(experiment=experiment, name=name)
    trials = Trial.objects.filter(experiment=experiment).order_by("sequence_id")
    MetricNumber.objects.bulk_create(MetricNumber(trial=trial, metric=metric, final=final)
                                     for trial, final in zip(trials, finals, strict=True))


def test_a_further_metric_is_compared_like_the_result_in_its_own_direction(api: APIClient, make_experiment: Make
                                                                           ) -> None:
    experiment = make_experiment(optimize_mode="maximize", objectives=[
        {"metric": "gain", "optimize_mode": "maximize"}, {"metric": "cost", "optimize_mode": "minimize"}])
    add_results(experiment, [({"x": 0.25}, 1.0), ({"x": 0.5}, 2.0), ({"x": 0.75}, 3.0)])
    add_metric(experiment, "cost", [7.0, 5.0, None])
    add_metric(experiment, "size", [40.0, 30.0, 50.0])
    address = f"/api/v1/experiments/{experiment.public_id}/parameters/"

    def found(**query: str) -> tuple[Any, ...]:
        answer = api.get(address, query).json()
        return answer["optimize_mode"], answer["value"], answer["rank"], answer["columns"][0]["values"]

    assert found() == found(metric="gain") == ("maximize", [1, 2, 3], [2, 1, 0], [0.25, 0.5, 0.75])
    assert found(metric="cost", optimize_mode="maximize") == ("minimize", [7, 5], [1, 0], [0.25, 0.5])
    assert found(metric="size") == ("minimize", [40, 30, 50], [1, 0, 2], [0.25, 0.5, 0.75])
    assert found(metric="size", optimize_mode="maximize")[:3] == ("maximize", [40, 30, 50], [1, 2, 0])
    assert found(metric="size")[0] == "minimize", "what was asked for another direction is no answer to this"
    assert found(metric="speed")[1] == []


def test_what_matters_is_told_for_each_metric(api: APIClient, make_experiment: Make) -> None:
    experiment = make_experiment(search_space={name: {"_type": "uniform", "_value": [0, 1]} for name in "xy"})
    chance = random.Random(4)
    points = [{"x": chance.random(), "y": chance.random()} for _ in range(40)]
    add_results(experiment, [(point, point["x"]) for point in points])
    add_metric(experiment, "latency", [point["y"] for point in points])
    address = f"/api/v1/experiments/{experiment.public_id}/parameters/importance/"
    for query, matters in (({}, "x"), ({"metric": "latency"}, "y")):
        answer = api.get(address, query).json()
        shares = {parameter["name"]: parameter["importance"] for parameter in answer["parameters"]}
        assert (answer["trials"], max(shares, key=lambda name: shares[name])) == (40, matters)


def test_a_stranger_gets_neither(as_user: Callable[[User], APIClient], charlie: User, make_experiment: Make) -> None:
    address = f"/api/v1/experiments/{make_experiment().public_id}/parameters/"
    client: Any = as_user(charlie)
    assert [client.get(path).status_code for path in (address, f"{address}importance/")] == [404, 404]
