"""A page of trials is read from an index in its order: not all trials of the experiment are sorted for it."""

from collections.abc import Callable

import pytest
from django.db import connection, transaction

from nniweb.documents.trial_query import in_order
from nniweb.experiments.models import Attempt, Trial


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
