"""A page of trials is read from an index in its order, or the keys alone are sorted for it."""

from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from nniweb.documents.trial_query import in_order
from nniweb.experiments.models import Attempt, Trial, User


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("order", ["sequence_id", "-sequence_id"])
def test_pages_in_order_of_number_need_no_sorting(make_attempt: Callable[..., Attempt], order: str) -> None:
    attempt = make_attempt()
    trials = Trial.objects.filter(experiment=attempt.trial.experiment_id)
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # few rows are sorted rather than looked up
            cursor.execute("SET LOCAL enable_sort = off")
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_bitmapscan = off")
        plan = in_order(trials, order)[:50].explain()
    assert "Sort" not in plan, plan
    assert "TEMP B-TREE" not in plan, plan


@pytest.mark.parametrize("order", ["-final_value", "duration", "status"])
def test_in_another_order_the_keys_alone_are_sorted(
        make_attempt: Callable[..., Attempt], as_user: Callable[[User], APIClient], admin: User, order: str) -> None:
    first = make_attempt()
    second = make_attempt(experiment=first.trial.experiment)
    with CaptureQueriesContext(connection) as queries:
        found = as_user(admin).get(
            f"/api/v1/experiments/{first.trial.experiment.public_id}/trials/?order={order}").json()
    assert {trial["id"] for trial in found["results"]} == {first.trial.public_id, second.trial.public_id}
    sorting = [query["sql"] for query in queries.captured_queries
               if "ORDER BY" in query["sql"] and "LIMIT 50" in query["sql"]]
    assert len(sorting) == 1
    assert '"message"' not in sorting[0].partition("FROM")[0]
