"""Metrics that a service told its listener are stored as a keeper's are; doubles are recognized, whoever told them."""

import json
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from nniweb.experiments.ingest.heard_metrics import HeardMetric, store_heard
from nniweb.experiments.models import Attempt, Metric, Trial
from nniweb.experiments.pubsub import doorbell
from tests.nniweb.experiments.ingest.test_ingest import deliver, ended, metric, started
from trainingservice.receiver.metric_objects import read_metric_object
from trainingservice.receiver.report_reading import WrongEntry

pytestmark = pytest.mark.django_db


def said(value: Any, sequence: int | None = 0, kind: str = "PERIODICAL", parameter_id: Any = 0, **more: Any) -> str:
    """NNI's metric object, as its SDK writes it."""
    document = {"parameter_id": parameter_id, "type": kind, "sequence": sequence, "value": json.dumps(value), **more}
    return json.dumps({key: item for key, item in document.items() if item is not None})


def hear(attempt: Attempt, *texts: str) -> set[str]:
    with transaction.atomic():
        return store_heard([HeardMetric(attempt.job_name, read_metric_object(text, 5.0)) for text in texts],
                           attempt.trial.experiment.cluster_id, timezone.now())


def values(attempt: Attempt) -> list[tuple[str, int, str]]:
    return list(Metric.objects.filter(attempt=attempt).order_by("n").values_list("kind", "sequence", "value"))


def test_what_a_service_emits_is_shown_on_its_trial_and_ends_nothing(make_attempt) -> None:
    attempt = make_attempt()
    assert hear(attempt, said(0.1), said(0.2, 1), said({"default": 0.3, "loss": 7}, 0, "FINAL")) == set()
    trial = Trial.objects.get()
    assert (trial.status, trial.intermediate_count, trial.latest_number) == ("WAITING", 2, 0.2)
    assert (trial.final_number, json.loads(trial.final_value or "")) == (0.3, {"default": 0.3, "loss": 7})
    assert Attempt.objects.get().stage == "submitted"
    assert values(attempt) == [("PERIODICAL", 0, "0.1"), ("PERIODICAL", 1, "0.2"),
                               ("FINAL", 0, '{"default": 0.3, "loss": 7}')]
    numbers = list(Metric.objects.order_by("n").values_list("n", flat=True))
    assert numbers == [2**52 + 1, 2**52 + 2, 2**52 + 3], "no keeper's numbers, and exact in JavaScript"


def test_what_is_emitted_once_more_is_stored_once(make_attempt) -> None:
    attempt = make_attempt()
    hear(attempt, said(0.1), said(0.2, 1), said(0.2, 2), said(0.5, 0, "FINAL"))
    before = values(attempt)
    hear(attempt, said(0.1), said(0.2, 1), said(0.2, 2), said(0.4, 3), said(0.4, 3), said(0.5, 0, "FINAL"))
    assert values(attempt) == [*before, ("PERIODICAL", 3, "0.4")]
    assert Trial.objects.get().intermediate_count == 4


@pytest.mark.parametrize("keeper_is_first", [True, False])
def test_what_keeper_and_service_both_tell_is_stored_once(make_attempt, keeper_is_first: bool) -> None:
    attempt = make_attempt()

    def by_keeper() -> None:
        answer = deliver(attempt, started(), metric(2, "0.1"), metric(3, "0.2", sequence=1), metric(4, "0.9", "FINAL"))
        assert (answer.status, answer.body["accepted"]) == (200, 4)

    def by_service() -> None:
        hear(attempt, said(0.1), said(0.2, 1), said(0.9, 0, "FINAL"))

    for tell in (by_keeper, by_service) if keeper_is_first else (by_service, by_keeper):
        tell()
    assert values(attempt) == [("PERIODICAL", 0, "0.1"), ("PERIODICAL", 1, "0.2"), ("FINAL", 0, "0.9")]
    trial = Trial.objects.get()
    assert (trial.status, trial.intermediate_count, trial.final_number) == ("RUNNING", 2, 0.9)
    assert deliver(attempt, ended(5)).status == 200
    assert Trial.objects.get().status == "SUCCEEDED"


def test_intermediate_results_without_a_sequence_number_get_the_next_one(make_attempt) -> None:
    attempt = make_attempt()
    hear(attempt, said(0.1, 4), said(0.2, None), said(0.2, None))
    hear(attempt, said(0.2, None), said(1, None, "FINAL"))
    hear(attempt, said(1, None, "FINAL"))
    assert values(attempt) == [("PERIODICAL", 4, "0.1"), ("PERIODICAL", 5, "0.2"), ("PERIODICAL", 6, "0.2"),
                               ("PERIODICAL", 7, "0.2"), ("FINAL", 0, "1")]


def test_each_attempt_is_numbered_by_itself(make_attempt) -> None:
    first, second = make_attempt(), make_attempt()
    hear(first, said(0.1), said(0.2, 1))
    hear(second, said(0.3))
    assert list(Metric.objects.order_by("attempt", "n").values_list("attempt", "n")) == [
        (first.pk, 2**52 + 1), (first.pk, 2**52 + 2), (second.pk, 2**52 + 1)]
    assert list(Attempt.objects.order_by("pk").values_list("listened", flat=True)) == [2, 1]


def test_a_keeper_whose_report_was_prepared_before_the_service_spoke_comes_again(make_attempt, monkeypatch) -> None:
    from nniweb.experiments.ingest import reports

    attempt = make_attempt()
    found = reports.reporting_attempts([attempt.job_name])
    hear(attempt, said(0.1))
    with monkeypatch.context() as patch:
        patch.setattr(reports, "reporting_attempts", lambda names: found)
        assert deliver(attempt, started(), metric(2, "0.1")).status == 503
    assert deliver(attempt, started(), metric(2, "0.1")).status == 200
    assert values(attempt) == [("PERIODICAL", 0, "0.1")]


def test_jobs_of_other_clusters_and_unknown_ones_are_named_and_not_stored(make_attempt) -> None:
    attempt = make_attempt()
    with transaction.atomic():
        heard = [HeardMetric(name, read_metric_object(said(0.1), 5.0)) for name in (attempt.job_name, "nobody")]
        assert store_heard(heard, attempt.trial.experiment.cluster_id + 1, timezone.now()) == {
            attempt.job_name, "nobody"}
    assert not Metric.objects.exists()


def test_an_attempt_keeps_no_more_of_its_service_than_of_a_keeper(make_attempt, settings) -> None:
    attempt = make_attempt()
    settings.TRIAL_BYTES = 1000
    hear(attempt, *[said(index, index) for index in range(100)], said(1, 0, "FINAL"))
    assert 5 < Metric.objects.filter(kind="PERIODICAL").count() < 20
    assert Trial.objects.get().final_number == 1


def test_a_trial_of_which_nothing_was_known_runs_where_its_metrics_arrive(make_attempt) -> None:
    attempt = make_attempt(status="UNKNOWN", message="?")
    Attempt.objects.update(unseen_since=timezone.now())
    hear(attempt, said(0.1))
    assert (Trial.objects.get().status, Attempt.objects.get().unseen_since) == ("RUNNING", None)


@pytest.mark.django_db(transaction=True)
def test_pages_hear_of_it_and_the_worker_where_something_follows(make_attempt, make_experiment) -> None:
    plain, assessed = make_attempt(), make_attempt(make_experiment(assessor={"name": "Medianstop"}))
    with doorbell.listening(rounds_only=True) as worker, doorbell.listening() as page:
        for attempt in (plain, assessed):
            hear(attempt, said(0.1))
            assert page.take() == {attempt.trial.experiment_id}
        assert worker.take() == {assessed.trial.experiment_id}


@pytest.mark.parametrize(("text", "field", "part"), [
    ("not JSON", "", 'not JSON: "not JSON"'), ("[1]", "", "not a JSON object"), (7, "", "type int"),
    ("[" * 100_000, "", "not JSON"), (" " * 5_000_000, "", "5000000 characters"),
    ('{"value": "1"}', "type", "must be one of PERIODICAL"), ('{"type": "BEST", "value": "1"}', "type", "must be one"),
    ('{"type": "FINAL"}', "value", "is missing"), (said("x" * 1_000_000, 0, "FINAL"), "value", "must have fewer than"),
    (said(1, 2**40), "sequence", "whole number"), (said(1, parameter_id="p" * 300), "parameter_id", "255"),
])
def test_what_is_no_metric_names_its_field(text: Any, field: str, part: str) -> None:
    with pytest.raises(WrongEntry, match=part) as raised:
        read_metric_object(text, 5.0)
    assert raised.value.field == field


@pytest.mark.parametrize("value", ["NaN", "[1, 2]", '"text \\u0000 and \\ud800"', "null"])
def test_values_are_stored_as_they_were_given(make_attempt, value: str) -> None:
    attempt = make_attempt()
    hear(attempt, json.dumps({"type": "FINAL", "value": value, "parameter_id": None}))
    assert Trial.objects.get().final_value == value
