"""Metrics beside "default" are kept as numbers: shown, sorted, filtered, charted, exported."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.documents.trial_query import in_order
from nniweb.experiments.charts.intermediate_series import series_of_these
from nniweb.experiments.charts.result_chart import chart_of
from nniweb.experiments.ingest import reports
from nniweb.experiments.ingest.one_report import Delivery
from nniweb.experiments.models import Attempt, Experiment, MetricName, MetricNumber, Trial
from nniweb.experiments.queries.export import write_csv
from nniweb.experiments.results import other_metrics
from nniweb.experiments.trial_filter import FilterInvalid, fitting_trials
from trainingservice.receiver.report_reading import read_report

pytestmark = pytest.mark.django_db


def deliver(attempt: Attempt, *entries: dict[str, Any]) -> None:
    report = read_report({"keeper": {"version": 1, "journal_id": attempt.job_name}, "entries": list(entries),
                          "sent_at": None})
    answer = reports.store([Delivery(attempt.job_name, None, report, timezone.now())])[0]
    assert (answer.status, answer.body["rejected"]) == (200, [])


def started() -> dict[str, Any]:
    return {"n": 1, "at": 1.0, "type": "started", "pid": 7, "host": "box", "working_directory": "/w"}


def metric(n: int, value: str, kind: str = "PERIODICAL", sequence: int = 0) -> dict[str, Any]:
    return {"n": n, "at": 1.0, "type": "metric", "kind": kind, "parameter_id": 0, "sequence": sequence, "value": value}


def ended(n: int, exit_code: int = 0) -> dict[str, Any]:
    return {"n": n, "at": 1.0, "type": "ended", "exit_code": exit_code, "signal": None, "reason": "exited",
            "message": "", "duration": 2.5}


def numbers(trial: Trial) -> dict[str, tuple[float | None, float | None]]:
    return {row.metric.name: (row.final, row.latest) for row in
            MetricNumber.objects.filter(trial=trial).select_related("metric")}


def test_the_other_members_of_a_result_are_kept_as_numbers(make_attempt: Callable[..., Attempt]) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), metric(2, '{"default": 0.1, "loss": 3, "note": "x", "flag": true, "nan": NaN}'),
            metric(3, '{"default": 0.2, "loss": 2}', sequence=1), metric(4, "0.3", sequence=2),
            metric(5, '{"default": 0.9, "loss": 1.5, "latency": 12}', "FINAL"),
            metric(6, '{"default": 0.8, "loss": 9, "size": 4}', "FINAL"), ended(7))
    trial = Trial.objects.get()
    assert (trial.final_number, trial.latest_number) == (0.9, 0.3)
    assert numbers(trial) == {"loss": (1.5, 2.0), "latency": (12.0, None)}  # the first final result counts


def test_a_second_final_result_of_the_same_trial_changes_nothing(make_attempt: Callable[..., Attempt]) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), metric(2, '{"default": 1, "loss": 1}', "FINAL"))
    deliver(attempt, metric(3, '{"default": 2, "loss": 2, "size": 1}', "FINAL"), ended(4))
    assert numbers(Trial.objects.get()) == {"loss": (1.0, None)}


def test_the_first_objective_is_the_result_where_the_experiment_names_one(
        make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt]) -> None:
    experiment = make_experiment(objectives=[{"metric": "accuracy", "optimize_mode": "maximize"},
                                             {"metric": "default", "optimize_mode": "minimize"}])
    attempt = make_attempt(experiment)
    deliver(attempt, started(), metric(2, "0.5"), metric(3, '{"default": 7, "accuracy": 0.75}', "FINAL"), ended(4))
    trial = Trial.objects.get()
    assert (trial.latest_number, trial.final_number, numbers(trial)) == (0.5, 0.75, {"default": (7.0, None)})


def test_a_trial_that_is_tried_again_begins_without_numbers(
        make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt]) -> None:
    attempt = make_attempt(make_experiment(retry={"onFailure": 1}))
    deliver(attempt, started(), metric(2, '{"default": 1, "loss": 1}'), ended(3, exit_code=1))
    assert (Trial.objects.get().status, MetricNumber.objects.count()) == ("WAITING", 0)


def test_names_that_are_no_names_and_too_many_of_them_stay_in_the_text(
        make_attempt: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_metrics, "MOST_NAMES", 2)
    attempt = make_attempt()
    value = {"": 1, " ": 1, "\0": 1, "x" * 101: 1, "\udc80": 1, "a": 1, "b": 2, "c": 3}
    deliver(attempt, started(), metric(2, json.dumps(value), "FINAL"), ended(3))
    assert numbers(Trial.objects.get()) == {"a": (1.0, None), "b": (2.0, None)}
    assert Trial.objects.get().status == "SUCCEEDED"


@pytest.fixture
def three(make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt]) -> Experiment:
    """Losses 3, 1 and none; the second has a curve."""
    experiment = make_experiment()
    for value in ('{"default": 0.1, "loss": 3, "val.acc": 0.5}', '{"default": 0.2, "loss": 1}', "0.3"):
        curve = [metric(2, '{"default": 5, "loss": 50}'), metric(3, '{"default": 4, "loss": 40}', sequence=1)] \
            if "1}" in value else []
        deliver(make_attempt(experiment), started(), *curve, metric(len(curve) + 2, value, "FINAL"),
                ended(len(curve) + 3))
    return experiment


@pytest.mark.parametrize(("text", "expected"), [
    ("loss > 2", [0]), ("loss <= 3", [0, 1]), ("metrics.loss = 1", [1]), ("latest.loss = 40", [1]),
    ("loss = none", [2]), ("loss != none", [0, 1]), ("not loss = 1", [0, 2]), ("val.acc = 0.5", [0]),
    ("loss in (1, 3) and result > 0.1", [1]), ("loss != 3", [1]), ("front = yes", []), ("front = no", [0, 1, 2]),
])
def test_a_metric_is_filtered_by_its_name(three: Experiment, text: str, expected: list[int]) -> None:
    found = fitting_trials(Trial.objects.filter(experiment=three), text, three, datetime(2026, 1, 1, tzinfo=UTC))
    assert sorted(found.values_list("sequence_id", flat=True)) == expected


@pytest.mark.parametrize("text", ["loss ~ 3", "loss = high", "losss > 2", "front ~ yes", "front = maybe"])
def test_what_cannot_be_asked_of_a_metric_is_refused(three: Experiment, text: str) -> None:
    with pytest.raises(FilterInvalid):
        fitting_trials(Trial.objects.filter(experiment=three), text, three, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(("order", "expected"), [
    ("metrics.loss", [1, 0, 2]), ("-metrics.loss", [0, 1, 2]), ("-latest.loss", [1, 0, 2]),
])
def test_trials_are_sorted_by_a_metric(three: Experiment, order: str, expected: list[int]) -> None:
    trials = in_order(Trial.objects.filter(experiment=three), order)
    assert list(trials.values_list("sequence_id", flat=True)) == expected


def test_a_chart_of_a_metric_has_its_values_and_no_best_where_none_is_wanted(three: Experiment) -> None:
    chart = chart_of(three, metric="loss")
    assert [(point.sequence_id, point.value) for point in chart.points] == [(0, 3.0), (1, 1.0)]
    assert (chart.mode, chart_of(three).mode) == (None, "minimize")


def test_curves_of_a_metric_are_read_of_the_chosen_trials(three: Experiment) -> None:
    found = series_of_these(three, ["1", "2"], 100, "loss").series
    assert [(one.steps, one.values, one.final) for one in found] == [([0, 1], [50.0, 40.0], 1.0), ([], [], None)]


def test_exports_and_documents_have_the_metrics(three: Experiment, client: Any, admin: Any) -> None:
    out = StringIO()
    write_csv(three, out)
    head, first, *_ = out.getvalue().splitlines()
    assert "metrics.loss,metrics.val.acc" in head
    assert ",3.0,0.5," in first
    client.force_login(admin)
    address = f"/api/v1/experiments/{three.public_id}"
    documents = client.get(f"{address}/trials/?order=-metrics.loss").json()["results"]
    assert documents[0]["metrics"] == {"loss": {"final": 3.0, "latest": None},
                                       "val.acc": {"final": 0.5, "latest": None}}
    assert client.get(f"{address}/chart/?metric=loss").json()["value"] == [3.0, 1.0]
    assert client.get(f"{address}/series/?metric=loss&which=latest").json()["trials"][0]["values"] == [50.0, 40.0]
    page = client.get(f"/experiments/{three.public_id}/trials/?columns=metrics.loss,latest.loss").content.decode()
    assert page.index('data-metric="loss" data-part="final"') < page.index('data-metric="loss" data-part="latest"')


def test_tables_and_filters_read_the_rows_of_a_page_and_no_history(three: Experiment) -> None:
    """The statements, whatever they find: none reads what trials reported."""
    with CaptureQueriesContext(connection) as asked:
        trials = in_order(fitting_trials(Trial.objects.filter(experiment=three), "loss > 2", three, timezone.now()),
                          "metrics.loss")
        assert [trial.sequence_id for trial in trials] == [0]
    statements = [query["sql"] for query in asked.captured_queries]
    assert any("experiments_metricnumber\"" in statement for statement in statements)
    assert [statement for statement in statements if "experiments_metric\"" in statement] == []


def test_an_upgrade_keeps_the_numbers_of_earlier_results(three: Experiment) -> None:
    before = sorted(MetricNumber.objects.values_list("trial", "metric__name", "final"))
    assert [(name, final) for _, name, final in before] == [("loss", 3.0), ("val.acc", 0.5), ("loss", 1.0)]
    MetricName.objects.all().delete()
    assert not MetricNumber.objects.exists()
    import_module("nniweb.experiments.migrations.0018_earlier_metrics").keep_numbers(apps, None)
    assert sorted(MetricNumber.objects.values_list("trial", "metric__name", "final")) == before
