"""Whose the jobs are that messages name: said to those who may see them."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import Group
from rest_framework.test import APIClient

from nniweb.experiments.models import Attempt, Experiment, User

NAMED = "/api/v1/trials/named/"


def test_jobs_are_named_for_those_who_may_see_their_trials(
        as_user: Callable[[User], APIClient], alice: User, bob: User, charlie: User, group: Group,
        make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt],
        django_assert_max_num_queries: Any) -> None:
    experiment = make_experiment(owner=alice, group=group, name="vision")
    make_attempt(experiment)
    trial = make_attempt(experiment).trial
    jobs = f"{trial.public_id}r2,{trial.public_id},zzzzzzzzzzzz,job0,"
    for reader in (alice, bob):
        client = as_user(reader)
        with django_assert_max_num_queries(4):
            found = client.get(NAMED, {"jobs": jobs})
        assert found.json() == [{"job": job, "id": trial.public_id, "sequence_id": 1,
                                 "experiment": experiment.public_id, "experiment_name": "vision"}
                                for job in (f"{trial.public_id}r2", trial.public_id)]
    assert as_user(charlie).get(NAMED, {"jobs": jobs}).json() == []


def test_a_question_without_names_or_with_too_many_is_refused(api: APIClient) -> None:
    for query in ({}, {"jobs": ",".join(["abcdefghijkl"] * 201)}):
        answer = api.get(NAMED, query)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "jobs")
