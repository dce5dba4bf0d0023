"""Columns of hyper-parameters and their importance over REST."""

import random
from collections.abc import Callable
from typing import Any

from rest_framework.test import APIClient

from nniweb.experiments.models import Experiment, User
from tests.nniweb.experiments.test_parameter_columns import NESTED, add_results

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


def test_a_stranger_gets_neither(as_user: Callable[[User], APIClient], charlie: User, make_experiment: Make) -> None:
    address = f"/api/v1/experiments/{make_experiment().public_id}/parameters/"
    client: Any = as_user(charlie)
    assert [client.get(path).status_code for path in (address, f"{address}importance/")] == [404, 404]
