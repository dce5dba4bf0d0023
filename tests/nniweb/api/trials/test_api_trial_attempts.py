"""A trial's attempts, what they used of their machines, and running it again with other parameters."""

from datetime import timedelta

import pytest
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.ingest.resource_samples import MAX_READINGS, store_readings
from nniweb.experiments.models import Attempt, ResourceReading, Trial, TrialEvent


@pytest.fixture
def ended(make_experiment, make_attempt) -> Trial:
    """A failed trial of two parameters."""
    space = {"x": {"_type": "uniform", "_value": [0, 1]}, "act": {"_type": "choice", "_value": ["relu", "tanh"]}}
    trial = make_attempt(make_experiment(search_space=space), status="FAILED").trial
    trial.parameter_sets.update(value={"x": 0.5, "act": "relu"})
    return trial


def test_attempts_are_listed_in_order(api, ended) -> None:
    Attempt.objects.filter(trial=ended).update(stage="ended", exit_code=3, end_reason="exited", machine_name="box",
                                               gpu_indices=[1], duration=2.5)
    Attempt.objects.create(trial=ended, number=2, job_name="second", created_at=timezone.now())
    rows = api.get(f"/api/v1/trials/{ended.public_id}/attempts/").json()["results"]
    assert [row["number"] for row in rows] == [1, 2]
    assert (rows[0]["machine"], rows[0]["gpu_indices"], rows[0]["exit_code"], rows[0]["end_reason"],
            rows[0]["duration"]) == ("box", [1], 3, "exited", 2.5)
    assert rows[1]["stage"] == "submitting"


def test_readings_come_in_order_with_every_field(api, ended) -> None:
    attempt = ended.attempts.get()
    now = timezone.now()
    ResourceReading.objects.create(attempt=attempt, at=now, data={"memory_bytes": 5.0, "gpus": [{"index": 0}]})
    ResourceReading.objects.create(attempt=attempt, at=now - timedelta(seconds=10), data={"cpu_percent": 12.5})
    body = api.get(f"/api/v1/trials/{ended.public_id}/resources/").json()
    assert body["attempt"] == 1
    assert [(row["cpu_percent"], row["memory_bytes"], row["gpus"]) for row in body["readings"]] == [
        (12.5, None, []), (None, 5.0, [{"index": 0, "utilization": None, "memory_bytes": None, "own_bytes": None}])]


def test_of_a_long_trial_they_are_thinned_and_keep_both_ends(api, ended) -> None:
    attempt = ended.attempts.get()
    begin = timezone.now() - timedelta(days=1)
    for number in range(3 * MAX_READINGS // 50):
        store_readings([(attempt.pk, begin + timedelta(seconds=50 * number + step), {"cpu_percent": 1.0})
                        for step in range(50)])
    rows = api.get(f"/api/v1/trials/{ended.public_id}/resources/?attempt=1").json()["readings"]
    assert len(rows) <= MAX_READINGS
    assert rows[0]["at"] < rows[-1]["at"]
    first, last = (ResourceReading.objects.order_by(order).first().at for order in ("at", "-at"))
    assert (first, last) == (begin, begin + timedelta(seconds=3 * MAX_READINGS - 1))


def test_before_the_first_attempt_there_is_nothing_and_no_error(api, make_experiment) -> None:
    experiment = make_experiment()
    trial = intents.submit_trial(experiment, {"x": 0.5})
    assert api.get(f"/api/v1/trials/{trial.public_id}/resources/").json() == {"attempt": 0, "readings": []}
    assert api.get(f"/api/v1/trials/{trial.public_id}/resources/?attempt=1").status_code == 404
    assert api.get(f"/api/v1/trials/{trial.public_id}/resources/?attempt=x").status_code == 400


def test_a_trial_is_run_again_with_changes_and_says_which(api, ended) -> None:
    answer = api.post(f"/api/v1/trials/{ended.public_id}/actions/rerun/", {"parameters": {"x": 0.25, "deep": [1]}})
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert body["parameters"] == {"x": 0.25, "deep": [1]}
    assert body["source"] == "rerun"
    again = Trial.objects.get(public_id=body["id"])
    assert again.rerun_of == ended
    assert TrialEvent.objects.get(trial=again).message == "Rerun of trial 0 with x = 0.25, no act, deep = [1]."


def test_with_changes_it_need_not_have_ended(api, ended) -> None:
    Trial.objects.update(status="RUNNING")
    address = f"/api/v1/trials/{ended.public_id}/actions/rerun/"
    assert api.post(address, {"parameters": {"x": 0.25, "act": "relu"}}).status_code == 201
    same = api.post(address, {"parameters": {"x": 0.5, "act": "relu"}})
    assert same.status_code == 409
    assert "when it has ended" in same.json()["errors"][0]["message"]


@pytest.mark.parametrize("body", [{"parameters": 3}, {"parameters": None}, {"parameter": {}}])
def test_a_wrong_rerun_creates_nothing(api, ended, body) -> None:
    assert api.post(f"/api/v1/trials/{ended.public_id}/actions/rerun/", body).status_code == 400
    assert Trial.objects.count() == 1


@pytest.mark.parametrize(("parameters", "fields"), [
    ({"x": 0.5, "act": "tanh"}, []), ({"x": 2, "act": "gelu"}, ["x", "act"]), ({"x": "half", "act": "relu"}, ["x"]),
    ({"act": "relu", "y": 1}, ["x", "y"])])
def test_what_lies_outside_the_search_space_is_noted(api, ended, parameters, fields) -> None:
    answer = api.post(f"/api/v1/trials/{ended.public_id}/actions/check-parameters/", {"parameters": parameters})
    assert answer.status_code == 200
    assert [note["field"] for note in answer.json()] == fields
    assert Trial.objects.count() == 1


def test_a_space_that_only_its_tuner_reads_is_not_held_against_anybody(api, ended) -> None:
    ended.experiment.search_space = {"net": {"_type": "graph"}}
    ended.experiment.tuner = {"class_name": "mine.Mine"}
    ended.experiment.save()
    answer = api.post(f"/api/v1/trials/{ended.public_id}/actions/check-parameters/", {"parameters": {"x": 5}})
    assert answer.json() == []


def test_a_trial_alone_says_what_to_do(api, ended) -> None:
    Attempt.objects.filter(trial=ended).update(stage="ended", end_reason="exited")
    advice = api.get(f"/api/v1/trials/{ended.public_id}/").json()["advice"]
    assert advice[0]["look_at"] == "output"
    listed = api.get(f"/api/v1/experiments/{ended.experiment.public_id}/trials/").json()["results"][0]
    assert "advice" not in listed


def test_others_trials_are_not_found(as_user, charlie, ended) -> None:
    stranger = as_user(charlie)
    for path in ("attempts/", "resources/"):
        assert stranger.get(f"/api/v1/trials/{ended.public_id}/{path}").status_code == 404
    for path in ("rerun/", "check-parameters/"):
        assert stranger.post(f"/api/v1/trials/{ended.public_id}/actions/{path}",
                             {"parameters": {}}).status_code == 404


@pytest.mark.parametrize("kind", ["experiments", "trials"])
def test_tags_are_few_and_short(api, ended, kind) -> None:
    thing = ended if kind == "trials" else ended.experiment
    address = f"/api/v1/{kind}/{thing.public_id}/"
    assert api.patch(address, {"tags": ["a", "b", "a"]}).json()["tags"] == ["a", "b"]
    for wrong in (["x" * 65], [str(number) for number in range(101)], [""], "text", [["a"]]):
        assert api.patch(address, {"tags": wrong}).status_code == 400, wrong
    assert api.get(address).json()["tags"] == ["a", "b"]
