"""Launching from the results of earlier experiments over REST: who may, what fits, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.earlier.source_results import BEST_TAKEN, MOST_TAKEN
from nniweb.experiments.earlier.start_from import earlier_of, take_results
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import (
    EarlierExperiment,
    Experiment,
    ExperimentEvent,
    MetricName,
    MetricNumber,
    Proposal,
    Trial,
    TrialParameters,
    User,
)

CONFIG: dict[str, Any] = {
    "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}, "n": {"_type": "randint", "_value": [0, 10]}},
    "trialCommand": "true", "trialConcurrency": 1, "maxTrialNumber": 5,
    "tuner": {"name": "TPE", "classArgs": {"optimize_mode": "minimize"}}, "trainingService": {"platform": "local"}}


@pytest.fixture
def earlier(make_experiment: Callable[..., Experiment]) -> Experiment:
    made: Experiment = make_experiment(name="last week", status="DONE")
    add_results(made, [{"x": number / 4, "n": number} for number in range(5)])
    return made


def add_results(experiment: Experiment, points: list[dict[str, Any]], **fields: Any) -> list[Trial]:
    trials = []
    for number, point in enumerate(points):
        trials.append(Trial.objects.create(experiment=experiment, sequence_id=number, **{
            "status": "SUCCEEDED", "created_at": timezone.now(), "final_number": float(number), **fields}))
        TrialParameters.objects.create(trial=trials[-1], parameter_id=number, value=point)
    return trials


@pytest.fixture
def send(api: APIClient, code_folder: Any) -> Callable[..., Any]:
    def sent(end: str = "", client: APIClient = api, **fields: Any) -> Any:
        return client.post(f"/api/v1/experiments/{end}", {"config": {**CONFIG, **fields},
                                                          "base_directory": str(code_folder)}, format="json")

    return sent


def errors(answer: Any) -> dict[str, str]:
    assert answer.status_code == 400, answer.content
    return {error["field"]: error["message"] for error in answer.json()["errors"]}


def test_a_launch_copies_the_results_and_tells_of_them(send: Callable[..., Any], earlier: Experiment) -> None:
    checked = send("check/", startFrom=[earlier.public_id]).json()
    said = f"startFrom: experiment {earlier.public_id} (last week): 5 of its 5 results are taken."
    assert said in checked["notes"]
    assert not EarlierExperiment.objects.exists()
    launched = send(startFrom=[earlier.public_id])
    assert launched.status_code == 201, launched.content
    body = launched.json()
    [shown] = body["started_from"]
    assert (shown["id"], shown["available"], shown["taken"], shown["misfits"]) == (earlier.public_id, 5, 5, {})
    assert shown["reason"] == {"code": "earlier_not_compared", "compared": 0}
    assert (said in body["notes"], body["config"]["startFrom"]) == (True, [earlier.public_id])
    made = Experiment.objects.get(public_id=body["id"])
    assert EarlierExperiment.objects.get(experiment=made).results == [
        [{"x": number / 4, "n": number}, number] for number in range(5)]
    assert said in ExperimentEvent.objects.get(experiment=made, kind="started from").message


def test_one_that_a_person_may_not_see_is_refused_like_one_that_is_not_there(
        charlie: User, send: Callable[..., Any], earlier: Experiment) -> None:
    said = "There is no experiment \"{}\" that you may see. Give the id of one, as its page shows it."
    assert errors(send(startFrom=[earlier.public_id, "nonesuch"])) == {"startFrom[1]": said.format("nonesuch")}
    parsed = parse_experiment_config({**CONFIG, "startFrom": [earlier.public_id, "nonesuch"]})
    with pytest.raises(Refused) as refused:
        take_results(parsed.settings, charlie)
    assert refused.value.errors == [("startFrom.0", said.format(earlier.public_id)),
                                    ("startFrom.1", said.format("nonesuch"))]


def test_what_does_not_fit_is_named(send: Callable[..., Any], earlier: Experiment) -> None:
    space = {"x": {"_type": "uniform", "_value": [0, 0.6]}, "lr": {"_type": "loguniform", "_value": [0.1, 1]}}
    body = send(startFrom=[earlier.public_id], searchSpace=space).json()
    of = f"startFrom: experiment {earlier.public_id} (last week): "
    assert [note.removeprefix(of) for note in body["notes"] if note.startswith(of)] == [
        "3 of its 5 results are taken.",
        "lr: the earlier experiment does not have it (5 results), so its results say nothing of it.",
        "n: is not in this search space (5 results), so it is left out of them.",
        "x: 2 results are outside this range and are not used."]
    assert body["started_from"][0]["misfits"] == {"x": {"outside": 2}, "lr": {"missing": 5}, "n": {"unknown": 5}}


@pytest.mark.parametrize(("fields", "said"), [
    ({"searchSpace": {"x": {"_type": "uniform", "_value": [7, 8]}}}, "None of the 5 results of the experiment"),
    ({"tuner": {"name": "TPE", "classArgs": {"optimize_mode": "maximize"}}}, "the objective to minimize default, and "
                                                                             "this one to maximize default"),
    ({"objectives": [{"metric": "loss", "optimizeMode": "minimize"}]}, "this one to minimize loss"),
    ({"tuner": {"name": "Random"}}, "Random, which does not learn from results"),
    ({"tuner": {"name": "Hyperband", "classArgs": {"R": 4, "eta": 2}}}, "cannot be used with Hyperband"),
    ({"objectives": [{"metric": name, "optimizeMode": "minimize"} for name in "ab"]},
     "has the objective to minimize default, and this one to minimize a and to minimize b. Its results cannot be "
     "compared; name an experiment with these objectives."),
])
def test_what_cannot_be_compared_is_refused(send: Callable[..., Any], earlier: Experiment, fields: dict[str, Any],
                                            said: str) -> None:
    found = errors(send(startFrom=[earlier.public_id], **fields))
    assert [said in message for field, message in found.items() if field.startswith("startFrom")] == [True]
    assert Experiment.objects.count() == 1


@pytest.mark.parametrize("given", [
    "nonesuch", 7, None, {}, [7], [None], [[]], [{}], [""], ["../../etc/passwd"], ["x" * 100_000],
    ["' OR 1=1 --"], [f"id{number}" for number in range(100)], ["nonesuch"] * 5])
def test_what_is_no_id_is_refused_by_the_name_of_its_field(send: Callable[..., Any], earlier: Experiment, given: Any
                                                           ) -> None:
    answer = send(startFrom=given) if given is not None else send(startFrom=[earlier.public_id, None])
    found = errors(answer)
    assert found, answer.content
    assert all(field.startswith("startFrom") for field in found)
    assert len(answer.content) < 5000
    assert Experiment.objects.count() == 1


def test_a_hundred_earlier_experiments_are_more_than_five(
        send: Callable[..., Any], make_experiment: Callable[..., Experiment]) -> None:
    many = [make_experiment(status="DONE") for _ in range(6)]
    for one in many:
        add_results(one, [{"x": 0.5, "n": 1}])
    [message] = errors(send(startFrom=[one.public_id for one in many])).values()
    assert "5" in message
    assert send(startFrom=[one.public_id for one in many[:5]]).status_code == 201
    same = send(startFrom=[many[0].public_id] * 5)
    assert same.status_code == 201
    assert len(same.json()["started_from"]) == 1


def test_two_experiments_may_start_from_each_other_in_turn(send: Callable[..., Any], earlier: Experiment) -> None:
    second = Experiment.objects.get(public_id=send(startFrom=[earlier.public_id]).json()["id"])
    add_results(second, [{"x": 0.25, "n": 3}])
    third = send(startFrom=[second.public_id, earlier.public_id])
    assert third.status_code == 201, third.content
    assert [(one["id"], one["taken"]) for one in third.json()["started_from"]] == [
        (second.public_id, 1), (earlier.public_id, 5)]  # its own results, not those that it was given


BOTH = [{"metric": "acc", "optimizeMode": "maximize"}, {"metric": "ms", "optimizeMode": "minimize"}]
STORED = [{"metric": one["metric"], "optimize_mode": one["optimizeMode"]} for one in BOTH]


@pytest.fixture
def of_two(make_experiment: Callable[..., Experiment]) -> Experiment:
    """With the objectives ms and acc, in this order; one trial has not reported acc."""
    made: Experiment = make_experiment(name="two", status="DONE", objectives=STORED[::-1])
    metric = MetricName.objects.create(experiment=made, name="acc")
    for number, trial in enumerate(add_results(made, [{"x": number / 8, "n": number} for number in range(8)])):
        if number != 5:
            MetricNumber.objects.create(trial=trial, metric=metric, final=(number % 4) / 10)
    return made


def test_results_of_several_objectives_are_taken_by_the_names_of_their_metrics(
        send: Callable[..., Any], of_two: Experiment) -> None:
    launched = send(startFrom=[of_two.public_id], objectives=BOTH, tuner={"name": "TPE"})
    assert launched.status_code == 201, launched.content
    row = EarlierExperiment.objects.get(experiment__public_id=launched.json()["id"])
    assert (row.available, row.taken) == (7, 7)
    # acc and ms of each, those of the front before all others
    assert sorted(row.results, key=lambda one: one[0]["n"]) == [
        [{"x": number / 8, "n": number}, [(number % 4) / 10, float(number)]] for number in range(8) if number != 5]
    assert {point["n"] for point, _ in row.results[:4]} == {0, 1, 2, 3}


def test_one_of_several_objectives_may_be_the_only_one_now(send: Callable[..., Any], of_two: Experiment) -> None:
    launched = send(startFrom=[of_two.public_id], objectives=BOTH[:1], tuner={"name": "TPE"})
    assert launched.status_code == 201, launched.content
    row = EarlierExperiment.objects.get(experiment__public_id=launched.json()["id"])
    assert [value for _, value in row.results] == [0.3, 0.3, 0.2, 0.2, 0.1, 0.0, 0.0]


def test_an_objective_in_the_other_direction_is_refused(send: Callable[..., Any], of_two: Experiment) -> None:
    turned = [BOTH[0], {**BOTH[1], "optimizeMode": "maximize"}]
    assert "to minimize ms and to maximize acc, and this one to maximize acc and to maximize ms" in errors(
        send(startFrom=[of_two.public_id], objectives=turned, tuner={"name": "TPE"}))["startFrom[0]"]


def test_an_experiment_without_results_is_refused(send: Callable[..., Any], earlier: Experiment) -> None:
    Trial.objects.update(feasible=False)
    assert "has no results yet" in errors(send(startFrom=[earlier.public_id]))["startFrom[0]"]


def test_the_best_and_a_spread_of_the_others_are_taken(
        send: Callable[..., Any], make_experiment: Callable[..., Experiment]) -> None:
    many = make_experiment(status="DONE")
    add_results(many, [{"x": number / 1000, "n": 1} for number in range(900)])
    made = Experiment.objects.get(public_id=send(startFrom=[many.public_id]).json()["id"])
    row = EarlierExperiment.objects.get(experiment=made)
    values = [value for _, value in row.results]
    assert (row.available, row.taken, len(values)) == (900, MOST_TAKEN, MOST_TAKEN)
    assert values[:BEST_TAKEN] == list(range(BEST_TAKEN))
    assert values[-1] == 899
    assert max(after - before for before, after in zip(values, values[1:], strict=False)) < 30


def test_equal_parameters_with_the_greatest_numbers_have_a_mean(
        send: Callable[..., Any], make_experiment: Callable[..., Experiment]) -> None:
    source = make_experiment(status="DONE")
    add_results(source, [{"x": 0.5, "n": 1}] * 4, final_number=1.7e308)
    made = Experiment.objects.get(public_id=send(startFrom=[source.public_id]).json()["id"])
    [[[parameters, value]]] = earlier_of(made)
    assert (parameters, value, type(value)) == ({"x": 0.5, "n": 1}, 1.7e308, float), "on PostgreSQL, too"


def test_replicates_count_as_their_mean(send: Callable[..., Any], make_experiment: Callable[..., Experiment]) -> None:
    noisy = make_experiment(status="DONE", replicates={"n": 2})
    for trial in add_results(noisy, [{"x": 0.1, "n": 1}, {"x": 0.2, "n": 2}]):
        trial.proposal = Proposal.objects.create(experiment=noisy, first_sequence_id=trial.sequence_id,
                                                 state="complete", mean=10.0 - trial.sequence_id)
        trial.save()
    made = Experiment.objects.get(public_id=send(startFrom=[noisy.public_id]).json()["id"])
    assert EarlierExperiment.objects.get(experiment=made).results == [
        [{"x": 0.2, "n": 2}, 9.0], [{"x": 0.1, "n": 1}, 10.0]]


def test_a_clone_starts_from_the_same_experiments_while_they_are_there(
        api: APIClient, send: Callable[..., Any], earlier: Experiment) -> None:
    first = send(startFrom=[earlier.public_id]).json()
    cloned = api.get(f"/api/v1/experiments/{first['id']}/clone/").json()
    assert earlier.public_id in cloned["config"]
    earlier.deleted_at = timezone.now()
    earlier.save()
    assert "There is no experiment" in errors(send(startFrom=[earlier.public_id]))["startFrom[0]"]
    assert api.get(f"/api/v1/experiments/{first['id']}/").json()["started_from"][0]["id"] == earlier.public_id
