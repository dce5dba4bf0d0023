"""Two processes store reports, or one and a worker: they take rows in one order and never wait in a circle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from nniweb.experiments.ingest import reports
from nniweb.experiments.ingest.one_report import Delivery
from nniweb.experiments.models import Attempt, Experiment, Metric
from nniweb.experiments.pubsub.revisions import next_revision
from tests.nniweb.at_once import at_once
from trainingservice.receiver.report_reading import read_report

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 20


def metric(attempt: Attempt, n: int) -> Delivery:
    entry: dict[str, Any] = {"n": n, "at": 1.0, "type": "metric", "kind": "PERIODICAL", "parameter_id": 0,
                             "sequence": n, "value": "1"}
    return Delivery(attempt.job_name, None, read_report(
        {"keeper": {"version": 1, "journal_id": f"of {attempt.pk}"}, "entries": [entry]}), timezone.now())


def test_groups_of_reports_about_the_same_experiments_in_other_orders_are_all_stored(
        make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt]) -> None:
    experiments = [make_experiment(name=name) for name in ("one", "two")]
    here, there = ([make_attempt(experiment) for experiment in experiments] for _ in range(2))

    def store(attempts: list[Attempt]) -> Callable[[int], None]:
        def work(number: int) -> None:
            answers = reports.store([metric(attempt, number) for attempt in attempts])
            assert [answer.status for answer in answers] == [200, 200], answers

        return work

    at_once(store(here), store(there[::-1]), rounds=ROUNDS)
    assert Metric.objects.count() == 4 * ROUNDS


def test_a_worker_that_writes_about_the_trial_of_a_report_does_not_get_into_its_way(
        make_attempt: Callable[..., Attempt]) -> None:
    attempt = make_attempt()

    def store(number: int) -> None:
        [answer] = reports.store([metric(attempt, number)])
        assert answer.status == 200, answer

    def observe(number: int) -> None:
        with transaction.atomic():
            next_revision(attempt.trial.experiment_id)
            Attempt.objects.filter(pk=attempt.pk).update(url=f"round {number}")

    at_once(store, observe, rounds=ROUNDS)
    assert Metric.objects.count() == ROUNDS
