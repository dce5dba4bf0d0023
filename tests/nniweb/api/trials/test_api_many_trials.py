"""One call for many trials: stopped, run again, tagged; told what was done and what was not."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from nniweb.api.trials import many_trials
from nniweb.experiments.models import Attempt, Experiment, Trial, TrialEvent, User

Make = Callable[..., Attempt]


@pytest.fixture
def five(make_experiment: Callable[..., Experiment], make_attempt: Make) -> Experiment:
    """Two ended trials, two that run, one that was never submitted."""
    experiment = make_experiment(max_trial_number=5)
    for status in ("SUCCEEDED", "FAILED", "RUNNING", "RUNNING", "WAITING"):
        make_attempt(experiment, status=status)
    Trial.objects.get(sequence_id=4).attempts.all().delete()
    Trial.objects.filter(sequence_id=0).update(tags=["good", "old"])
    return experiment


def call(api: APIClient, experiment: Experiment, action: str, body: Any, status: int = 200) -> Any:
    answer = api.post(f"/api/v1/experiments/{experiment.public_id}/trials/actions/{action}/", body)
    assert answer.status_code == status, answer.content
    return answer.json()


def ids(*numbers: int) -> list[str]:
    return [Trial.objects.get(sequence_id=number).public_id for number in numbers]


def test_many_are_stopped_and_a_second_call_changes_nothing(api: APIClient, five: Experiment) -> None:
    first = call(api, five, "stop", {"trials": [*ids(4, 0, 2), "t00000000000"]})
    assert (first["done"], first["trials"]) == (2, ids(2, 4))
    assert first["not_done"] == [
        {"reason": "The experiment has no such trial.", "count": 1, "trials": ["t00000000000"]},
        {"reason": "The trial had already ended.", "count": 1, "trials": ids(0)}]
    running, waiting = Trial.objects.get(sequence_id=2), Trial.objects.get(sequence_id=4)
    assert (running.status, running.target) == ("RUNNING", "USER_CANCELED")
    assert (waiting.status, waiting.ended_at is None) == ("USER_CANCELED", False), "nobody else would end it"
    assert Trial.objects.get(sequence_id=3).target == "RUN"
    events = TrialEvent.objects.filter(trial__in=[running, waiting]).values_list("kind", "actor__username")
    assert sorted(events) == [("USER_CANCELED", "ada")] + [("wanted USER_CANCELED", "ada")] * 2
    second = call(api, five, "stop", {"trials": ids(2, 4)})
    assert second["done"] == 0
    assert {one["reason"] for one in second["not_done"]} == {
        "The trial was already being ended.", "The trial had already ended."}
    assert TrialEvent.objects.count() == 3


def test_all_that_fit_are_stopped(api: APIClient, five: Experiment) -> None:
    outcome = call(api, five, "stop", {"fitting": {"filter": "number < 4", "status": "RUNNING,FAILED"}})
    assert (outcome["done"], outcome["trials"]) == (2, ids(2, 3))
    assert outcome["not_done"] == [{"reason": "The trial had already ended.", "count": 1, "trials": []}]


def test_many_run_again_once_and_the_limit_grows(api: APIClient, five: Experiment) -> None:
    outcome = call(api, five, "rerun", {"fitting": {}})
    assert outcome["done"] == 2
    assert outcome["not_done"] == [{"reason": "The trial has not ended.", "count": 3, "trials": ids(2, 3, 4)}]
    again = Trial.objects.filter(public_id__in=outcome["trials"]).order_by("sequence_id")
    assert [(trial.sequence_id, trial.rerun_of.sequence_id, trial.source) for trial in again if trial.rerun_of] == [
        (5, 0, "rerun"), (6, 1, "rerun")]
    assert again[0].parameter_sets.get().value == {"x": 0.5}
    five.refresh_from_db()
    assert (five.max_trial_number, five.next_sequence_id) == (7, 7)
    twice = call(api, five, "rerun", {"trials": ids(0, 1)})
    assert (twice["done"], twice["not_done"][0]["reason"]) == (0, "The trial is already being run again.")
    again.update(status="FAILED")
    assert call(api, five, "rerun", {"trials": ids(1)})["done"] == 1, "its rerun has ended"


def test_nothing_runs_again_in_an_experiment_that_was_stopped(api: APIClient, make_attempt: Make,
                                                              make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment(status="STOPPED")
    make_attempt(experiment, status="FAILED")
    refused = call(api, experiment, "rerun", {"fitting": {}}, 409)
    assert "resume it" in refused["errors"][0]["message"]
    assert Trial.objects.count() == 1


def test_many_are_tagged_and_keep_their_other_tags(api: APIClient, five: Experiment) -> None:
    outcome = call(api, five, "tag", {"trials": ids(0, 1), "add": ["checked", "good"], "remove": ["old"]})
    assert (outcome["done"], outcome["not_done"]) == (2, [])
    assert [Trial.objects.get(sequence_id=number).tags for number in range(3)] == [
        ["good", "checked"], ["checked", "good"], []]
    same = call(api, five, "tag", {"fitting": {"filter": "tag = checked"}, "add": ["checked"]})
    assert (same["done"], same["not_done"][0]["reason"]) == (0, "The trial already had these tags.")
    five.refresh_from_db()
    assert 0 < Trial.objects.get(sequence_id=0).revision < five.revision


@pytest.mark.parametrize(("action", "body", "field"), [
    ("stop", {}, "trials"), ("stop", {"trials": [], "fitting": {}}, "trials"), ("stop", {"trials": "all"}, "trials"),
    ("stop", {"fitting": {"filter": "statis = FAILED"}}, "filter"),
    ("stop", {"fitting": {"status": [3]}}, "fitting.status"),
    ("stop", {"fitting": {"colour": "red"}}, "fitting.colour"), ("tag", {"trials": ["t1"]}, "add"),
    ("tag", {"fitting": {}, "add": ["a"], "remove": ["a"]}, "add"), ("rerun", {"trial": ["t1"]}, "trial")])
def test_a_wrong_choice_is_refused_by_name_and_changes_nothing(api: APIClient, five: Experiment, action: str, body: Any,
                                                               field: str) -> None:
    assert call(api, five, action, body, 400)["errors"][0]["field"] == field
    assert Trial.objects.filter(target="RUN").count() == 5


def test_too_many_at_once_are_refused(api: APIClient, five: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_trials, "MOST", 2)
    refused = call(api, five, "stop", {"fitting": {}}, 409)
    assert "Narrow the filter" in refused["errors"][0]["message"]
    assert call(api, five, "stop", {"fitting": {"filter": "number < 4"}})["done"] == 2


def test_who_may_only_look_changes_nothing(as_user: Callable[[User], APIClient], vera: User, bob: User, charlie: User,
                                           group: Any, five: Experiment) -> None:
    Experiment.objects.filter(pk=five.pk).update(group=group)
    for action, body in [("stop", {"fitting": {}}), ("rerun", {"fitting": {}}), ("tag", {"fitting": {}, "add": ["a"]})]:
        call(as_user(vera), five, action, body, 403)
        call(as_user(charlie), five, action, body, 404)
    assert Trial.objects.filter(target="RUN").count() == 5
    call(as_user(bob), five, "stop", {"fitting": {}})


@pytest.mark.parametrize("action", ["stop", "rerun", "tag"])
def test_the_number_of_queries_does_not_grow_with_the_trials(api: APIClient, make_experiment: Callable[..., Experiment],
                                                             make_attempt: Make, action: str) -> None:
    def queries(count: int) -> int:
        experiment = make_experiment()
        for number in range(count):
            make_attempt(experiment, status="FAILED" if action == "rerun" else "RUNNING" if number else "WAITING")
        with CaptureQueriesContext(connection) as found:
            outcome = call(api, experiment, action, {"fitting": {}, **({"add": ["a"]} if action == "tag" else {})})
        assert outcome["done"] == count
        return len(found)

    queries(1)
    assert queries(3) == queries(25) <= 25
