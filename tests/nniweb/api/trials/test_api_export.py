"""Trials as a file."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from rest_framework.test import APIClient

from nniweb.experiments.downloads import export
from nniweb.experiments.models import (
    Attempt,
    Experiment,
    Metric,
    MetricName,
    MetricNumber,
    Trial,
    TrialParameters,
    User,
)


@pytest.fixture
def seven(make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt],
          monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Seven trials, three of which failed, read three at a time."""
    monkeypatch.setattr(export, "_CHUNK", 3)
    experiment = make_experiment()
    for number in range(7):
        attempt = make_attempt(experiment, status="FAILED" if number % 3 == 0 else "SUCCEEDED", final_number=number / 4)
        attempt.trial.parameter_sets.update(value={"x": number, "deep": {"y": "a,\"b\"\n"}})
    return experiment


async def _read(answer: Any) -> bytes:
    return b"".join([piece async for piece in answer.streaming_content])


def exported(api: APIClient, experiment: Experiment, **query: Any) -> Any:
    from asgiref.sync import async_to_sync

    answer = api.get(f"/api/v1/experiments/{experiment.public_id}/export/", query)
    assert answer.status_code == 200, answer.content
    assert "attachment" in answer["Content-Disposition"]
    text = async_to_sync(_read)(answer).decode()
    return list(csv.DictReader(io.StringIO(text))) if query.get("format") == "csv" else json.loads(text)


def test_all_trials_come_as_json_or_csv(api: APIClient, seven: Experiment) -> None:
    found = exported(api, seven, format="json")
    assert found["experiment"]["id"] == seven.public_id
    assert [trial["sequence_id"] for trial in found["trials"]] == list(range(7))
    rows = exported(api, seven, format="csv")
    assert [row["parameters.x"] for row in rows] == [str(number) for number in range(7)]
    assert {row["parameters.deep.y"] for row in rows} == {"a,\"b\"\n"}
    assert exported(api, seven)["trials"] == found["trials"]


def test_those_that_fit_or_were_chosen_come_alone(api: APIClient, seven: Experiment) -> None:
    rows = exported(api, seven, format="csv", filter="status = FAILED and x > 0")
    assert [row["sequence_id"] for row in rows] == ["3", "6"]
    chosen = list(Trial.objects.filter(sequence_id__in=[5, 2]).values_list("public_id", flat=True))
    assert [trial["sequence_id"] for trial in exported(api, seven, trials=",".join(chosen))["trials"]] == [2, 5]
    assert exported(api, seven, filter="number > 100")["trials"] == []
    assert exported(api, seven, format="csv", filter="number > 100") == []


@pytest.mark.parametrize(("query", "field"), [({"format": "xml"}, "format"), ({"filter": "x >"}, "filter"),
                                              ({"order": "status"}, "order"),
                                              ({"trials": ",".join(["t"] * 501)}, "trials")])
def test_a_wrong_wish_is_refused_by_name(api: APIClient, seven: Experiment, query: dict[str, str], field: str) -> None:
    answer = api.get(f"/api/v1/experiments/{seven.public_id}/export/", query)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


def test_a_stranger_gets_no_file(as_user: Callable[[User], APIClient], charlie: User, seven: Experiment) -> None:
    assert as_user(charlie).get(f"/api/v1/experiments/{seven.public_id}/export/").status_code == 404


FORMULAS = ["=cmd|' /C calc'!A0", "+1+cmd()", "-2+3+cmd()", "@SUM(1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "=", "-",
            "-1 =x"]
NUMBERS = ["-1", "-0.5", "+3", "-1.5e-07", "1e5", "-.5", "-Infinity", "Infinity", "NaN"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_a_csv_file_is_a_formula_to_a_spreadsheet(
        api: APIClient, make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt],
        text: str) -> None:
    experiment = make_experiment()
    attempt = make_attempt(experiment, status="SUCCEEDED", final_value=text)
    attempt.trial.parameter_sets.update(value={"x": text, text: 1})
    metric = MetricName.objects.create(experiment=experiment, name=text)
    MetricNumber.objects.create(metric=metric, trial=attempt.trial, final=-0.5)
    [row] = exported(api, experiment, format="csv")
    assert (row["final_value"], row["parameters.x"], row[f"metrics.{text}"]) == ("'" + text, "'" + text, "-0.5")
    assert not any(str(cell).startswith(tuple("=+@\t\r\n\uff1d")) for cell in (*row, *row.values()))
    [row] = exported(api, experiment, format="csv", raw=True)
    assert (row["final_value"], row["parameters.x"]) == (text, text)


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_in_a_csv_file_stay_numbers_whatever_their_sign(
        api: APIClient, make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt],
        text: str) -> None:
    experiment = make_experiment()
    attempt = make_attempt(experiment, status="SUCCEEDED", final_value=text, final_number=-0.25)
    attempt.trial.parameter_sets.update(value={"x": -3, "y": -1e-9, "z": text})
    [row] = exported(api, experiment, format="csv")
    assert (row["final_value"], row["final_number"], row["parameters.z"]) == (text, "-0.25", text)
    assert (float(row["parameters.x"]), float(row["parameters.y"])) == (-3, -1e-9)


def test_halves_of_characters_do_not_break_a_csv_file_off(
        api: APIClient, make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt]) -> None:
    experiment = make_experiment()
    trial = make_attempt(experiment, status="SUCCEEDED", final_value='"\ud800"').trial
    if connection.vendor == "sqlite":  # PostgreSQL takes none into JSON
        trial.parameter_sets.update(value={"\ud800": "\ud800"})
    [row] = exported(api, experiment, format="csv")
    assert row["final_value"] == '"\\ud800"'
    if connection.vendor == "sqlite":
        assert row["parameters.\\ud800"] == "\\ud800"


def test_each_parameter_set_of_a_multi_phase_trial_is_exported_with_its_result(
        api: APIClient, make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt]) -> None:
    experiment = make_experiment(multi_phase=True)
    trial = make_attempt(experiment, status="SUCCEEDED", final_value="0.25", final_number=0.25, result_index=1,
                         parameter_set_count=2).trial
    trial.parameter_sets.update(final_value="0.5", final_number=0.5)
    TrialParameters.objects.create(trial=trial, index=1, parameter_id=1, value={"x": 1, "y": 2}, final_value="0.25",
                                   final_number=0.25)
    TrialParameters.objects.create(trial=trial, index=2, value=None)
    rows = exported(api, experiment, format="csv")
    assert [(row["parameter_set"], row["parameters.x"], row["parameters.y"], row["final_number"]) for row in rows] == [
        ("0", "0.5", "", "0.5"), ("1", "1", "2", "0.25")]
    [document] = exported(api, experiment)["trials"]
    assert (document["parameters"], document["final_number"], document["result_index"]) == ({"x": 1, "y": 2}, 0.25, 1)
    assert [(one["index"], one["parameters"], one["final_value"]) for one in document["parameter_sets"]] == [
        (0, {"x": 0.5}, "0.5"), (1, {"x": 1, "y": 2}, "0.25")]


def test_no_more_intermediate_results_are_held_than_a_trial_has_or_some_thousands(
        seven: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_CHUNK", 100)
    monkeypatch.setattr(export, "_MOST_VALUES", 10)
    now, counts = seven.created_at, [4, 4, 4, 25, 1, 0, 2]
    for attempt, count in zip(Attempt.objects.order_by("pk"), counts, strict=True):
        Metric.objects.bulk_create(
            Metric(attempt=attempt, n=n, kind="PERIODICAL", sequence=n // 2, value=str(n), number=n, recorded_at=now,
                   received_at=now) for n in range(2 * count))
        Trial.objects.filter(pk=attempt.trial_id).update(intermediate_count=count)
    pieces = list(export.json_pieces(seven, Trial.objects.all(), intermediate=True))
    trials = json.loads("".join(pieces))["trials"]
    assert [trial["intermediate"] for trial in trials] == [[str(2 * n + 1) for n in range(count)] for count in counts]
    together = [[len(trial["intermediate"]) for trial in json.loads(f"[{piece.strip().strip(',')}]")]
                for piece in pieces[1:-1]]
    assert together == [[4, 4], [4], [25], [1, 0, 2]]


def test_members_of_an_object_with_a_very_long_name_do_not_repeat_it() -> None:
    long = "k" * 100_000
    assert export.flat({"a": {"b": 1}, long: {"c": {"d": 1}}}) == {"a.b": 1, long: '{"c": {"d": 1}}'}
