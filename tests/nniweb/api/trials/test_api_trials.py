"""Trials, what they reported and what happened to them."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.models import Attempt, Metric, Trial, TrialEvent, TrialParameters

#: As hostile as a trial's report can be.
HOSTILE = ['NaN', '1e308', '{"default": 0.5, "other": [1, null]}', '"text"', '"a\\u0000\\ud800b"', '\x00\ud800 raw',
           "[" + "1," * 40_000 + "1]", "-Infinity", ""]


def list_of(api, experiment, query: str = "") -> list[dict]:
    answer = api.get(f"/api/v1/experiments/{experiment.public_id}/trials/?{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def sequence(rows: list[dict]) -> list[int]:
    return [row["sequence_id"] for row in rows]


@pytest.fixture
def four(make_experiment, make_attempt):
    """Four trials: 0.3, 0.1, failed, running."""
    experiment = make_experiment()
    now = timezone.now()
    for index, (status, final, seconds) in enumerate([("SUCCEEDED", 0.3, 5.0), ("SUCCEEDED", 0.1, 9.0),
                                                      ("FAILED", None, 1.0), ("RUNNING", None, None)]):
        attempt = make_attempt(experiment, status=status, final_number=final, revision=index + 1,
                               final_value=None if final is None else str(final),
                               started_at=now - timedelta(seconds=20), source="rerun" if index == 1 else "tuner",
                               ended_at=now if seconds else None, tags=["good"] if index == 1 else [])
        Attempt.objects.filter(pk=attempt.pk).update(duration=seconds, machine_name="box", gpu_indices=[0, 1],
                                                     exit_code=0 if final else None)
    return experiment


def test_a_trial_shows_its_parameters_machine_and_times(api, four) -> None:
    row = list_of(api, four)[0]
    assert row["parameters"] == {"x": 0.5}
    assert (row["final_value"], row["final_number"]) == ("0.3", 0.3)
    assert (row["machine"], row["gpu_indices"], row["exit_code"], row["attempt"]) == ("box", [0, 1], 0, 1)
    assert row["duration"] == 5.0
    assert row["experiment"] == four.public_id
    assert api.get(f"/api/v1/trials/{row['id']}/").json() == {**row, "advice": [], "notes": "", "place": None}
    running = list_of(api, four)[3]
    assert running["duration"] == pytest.approx(20, abs=15)


def test_trials_are_filtered(api, four) -> None:
    first = Trial.objects.get(sequence_id=0)
    for query, expected in {"status=SUCCEEDED": [0, 1], "status=FAILED,RUNNING": [2, 3], "source=rerun": [1],
                            "min_final_value=0.2": [0], "max_final_value=0.2": [1], "tag=good": [1],
                            f"q={first.public_id[:9]}": [0], "q=3": [3], "since_revision=2": [2, 3],
                            "since_revision=4": [], "filter=x=0.5+and+result<0.2": [1],
                            "filter=not+status=failed&status=FAILED,RUNNING": [3]}.items():
        assert sequence(list_of(api, four, query)) == expected, query


def test_trials_are_ordered_with_what_is_missing_last(api, four) -> None:
    assert sequence(list_of(api, four, "order=-sequence_id")) == [3, 2, 1, 0]
    assert sequence(list_of(api, four, "order=final_value")) == [1, 0, 2, 3]
    assert sequence(list_of(api, four, "order=-final_value")) == [0, 1, 2, 3]
    assert sequence(list_of(api, four, "order=-duration")) == [1, 0, 2, 3]
    assert sequence(list_of(api, four, "order=duration")) == [2, 0, 1, 3]


@pytest.mark.parametrize(("column", "rising"), [
    ("parameters.x", [2, 0, 1, 3]), ("parameters.deep.y", [1, 0, 2, 3]), ("machine", [0, 1, 2, 3]),
    ("gpu", [0, 1, 2, 3]), ("exit_code", [0, 1, 2, 3]), ("tags", [1, 0, 2, 3]), ("message", [0, 1, 2, 3]),
    ("intermediates", [1, 0, 2, 3]), ("attempt", [0, 1, 2, 3]), ("source", [1, 0, 2, 3])])
def test_trials_are_ordered_by_every_column(api, four, column, rising) -> None:
    for number, value in {0: {"x": 5, "deep": {"y": "b"}}, 1: {"x": 10, "deep": {"y": "a"}}, 2: {"x": -1.5}}.items():
        TrialParameters.objects.filter(trial__sequence_id=number).update(value=value)
    TrialParameters.objects.filter(trial__sequence_id=3).update(value={"x": "text"})
    Trial.objects.filter(sequence_id__in=[0, 2, 3]).update(intermediate_count=2)
    Trial.objects.filter(sequence_id=1).update(source="customized", tags=["an earlier one"])
    assert sequence(list_of(api, four, f"order={column}")) == rising
    falling = sequence(list_of(api, four, f"order=-{column}"))
    assert sorted(falling) == [0, 1, 2, 3]
    if column == "parameters.x":
        assert falling == [1, 0, 2, 3], "what is no number comes last"


@pytest.mark.parametrize("query", [
    "status=DEAD", "min_final_value=low", "min_final_value=nan", "order=-colour", "order=parameters.", "filter=x+<",
    "filter=y=1", "since_revision=-1", "since_revision=99999999999999999999999", "source=me"])
def test_a_wrong_filter_is_refused_by_name(api, four, query) -> None:
    answer = api.get(f"/api/v1/experiments/{four.public_id}/trials/?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].startswith(query.partition("=")[0])


def test_the_number_of_queries_does_not_grow_with_the_trials(api, four, make_attempt) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            assert list_of(api, four, "page_size=1000")
        return len(found)

    list_of(api, four)
    few = queries()
    for _ in range(40):
        make_attempt(four)
    assert queries() == few <= 7


def test_a_trial_is_submitted_with_parameters(api, make_experiment) -> None:
    experiment = make_experiment()
    parameters = {"x": 5, "deep": {"y": []}}
    answer = api.post(f"/api/v1/experiments/{experiment.public_id}/trials/", {"parameters": parameters})
    assert answer.status_code == 201
    body = answer.json()
    assert (body["status"], body["source"], body["sequence_id"]) == ("WAITING", "customized", 0)
    assert body["parameters"] == parameters
    assert body["attempt"] == 0
    assert TrialEvent.objects.get(trial__public_id=body["id"]).actor.username == "ada"


@pytest.mark.parametrize("body", [{}, {"parameters": 3}, {"parameters": None}, {"parameters": {}, "extra": 1}, []])
def test_a_wrong_submission_creates_nothing(api, make_experiment, body) -> None:
    answer = api.post(f"/api/v1/experiments/{make_experiment().public_id}/trials/", body)
    assert answer.status_code == 400
    assert not Trial.objects.exists()


def test_beyond_the_limit_a_submission_is_a_conflict(api, make_experiment) -> None:
    experiment = make_experiment(max_trial_number=1, next_sequence_id=1)
    answer = api.post(f"/api/v1/experiments/{experiment.public_id}/trials/", {"parameters": {}})
    assert answer.status_code == 409
    assert "Raise the limit" in answer.json()["errors"][0]["message"]


def test_a_running_trial_is_canceled_and_an_ended_one_run_again(api, four) -> None:
    running, ended = Trial.objects.get(sequence_id=3), Trial.objects.get(sequence_id=0)
    assert api.post(f"/api/v1/trials/{running.public_id}/actions/cancel/").json()["target"] == "USER_CANCELED"
    assert api.post(f"/api/v1/trials/{ended.public_id}/actions/cancel/").json()["status"] == "SUCCEEDED"
    refused = api.post(f"/api/v1/trials/{running.public_id}/actions/rerun/")
    assert refused.status_code == 409
    again = api.post(f"/api/v1/trials/{ended.public_id}/actions/rerun/")
    assert again.status_code == 201
    assert (again.json()["source"], again.json()["parameters"]) == ("rerun", {"x": 0.5})


def test_a_refresh_is_due_until_a_worker_has_asked_the_platform(api, make_attempt) -> None:
    attempt = make_attempt()
    one = f"/api/v1/trials/{attempt.trial.public_id}/"
    assert api.get(one).json()["refresh"] == {"asked_at": None, "answered_at": None, "message": "", "reason": None}
    asked = api.post(f"{one}actions/refresh/")
    assert asked.status_code == 202
    assert asked.json()["refresh"]["asked_at"] is not None
    at = timezone.now()
    Attempt.objects.update(refresh_asked_at=None, refreshed_at=at, refresh_problem={
        "message": "It is away.", "reason": {"code": "unreachable", "said": "It is away."}})
    assert api.get(one).json()["refresh"] == {
        "asked_at": None, "answered_at": at.isoformat().replace("+00:00", "Z"), "message": "It is away.",
        "reason": {"code": "unreachable", "said": "It is away."}}


def test_a_trial_that_has_ended_is_not_refreshed(api, four) -> None:
    refused = api.post(f"/api/v1/trials/{Trial.objects.get(sequence_id=0).public_id}/actions/refresh/")
    assert refused.status_code == 409
    assert refused.json()["errors"][0]["reason"]["code"] == "no_job"


def test_tags_of_a_trial_are_replaced(api, four) -> None:
    trial = Trial.objects.get(sequence_id=0)
    body = api.patch(f"/api/v1/trials/{trial.public_id}/", {"tags": ["a", "b"]}).json()
    assert body["tags"] == ["a", "b"]
    four.refresh_from_db()
    assert body["revision"] == four.revision > 0
    assert api.patch(f"/api/v1/trials/{trial.public_id}/", {"status": "SUCCEEDED"}).status_code == 400


def test_metrics_come_out_exactly_as_they_were_reported(api, make_attempt) -> None:
    attempt = make_attempt(final_value=HOSTILE[5])
    now = timezone.now()
    for n, value in enumerate(HOSTILE):
        Metric.objects.create(attempt=attempt, n=n, kind="PERIODICAL", sequence=n, value=value, number=None,
                              parameter_id="3", recorded_at=now, received_at=now, revision=n)
    Metric.objects.create(attempt=attempt, n=100, kind="FINAL", sequence=0, value="0.5", number=0.5,
                          recorded_at=now, received_at=now, revision=50)
    base = f"/api/v1/trials/{attempt.trial.public_id}/"
    rows = api.get(f"{base}metrics/").json()["results"]
    assert [row["value"] for row in rows] == [*HOSTILE, "0.5"]
    assert rows[0]["parameter_id"] == 3
    assert rows[-1]["parameter_id"] is None
    assert [row["value"] for row in api.get(f"{base}metrics/?kind=FINAL").json()["results"]] == ["0.5"]
    assert len(api.get(f"{base}metrics/?since_revision=7").json()["results"]) == 2
    assert api.get(base).json()["final_value"] == HOSTILE[5]
    answer = api.get(f"{base}metrics/")
    assert answer.content.isascii()


def test_a_nan_in_a_number_goes_out_as_null(api, make_attempt) -> None:
    attempt = make_attempt()
    Attempt.objects.filter(pk=attempt.pk).update(duration=float("inf"))
    answer = api.get(f"/api/v1/trials/{attempt.trial.public_id}/")
    assert b"Infinity" not in answer.content
    assert answer.json()["duration"] is None


def test_histories_and_parameter_sets_are_listed(api, make_attempt, ada) -> None:
    trial = make_attempt().trial
    TrialEvent.objects.create(trial=trial, at=timezone.now(), kind="RUNNING", message="", actor=ada)
    TrialParameters.objects.create(trial=trial, index=1, parameter_id="p1", value={"x": 0.75})
    base = f"/api/v1/trials/{trial.public_id}/"
    events = api.get(f"{base}events/").json()["results"]
    assert [(event["kind"], event["actor"]) for event in events] == [("RUNNING", "ada")]
    assert api.get(f"{base}parameters/").json()["results"] == [
        {"index": 0, "parameter_id": None, "value": {"x": 0.5}, "final_value": None, "final_number": None},
        {"index": 1, "parameter_id": "p1", "value": {"x": 0.75}, "final_value": None, "final_number": None}]


def test_the_result_of_the_only_parameter_set_is_the_trials(api, make_attempt) -> None:
    trial = make_attempt(final_value="0.25", final_number=0.25).trial
    [row] = api.get(f"/api/v1/trials/{trial.public_id}/parameters/").json()["results"]
    assert (row["final_value"], row["final_number"]) == ("0.25", 0.25)


@pytest.fixture
def phases(make_experiment, make_attempt):
    """A trial that was given three sets and asked for one more, of which there was none; and one with one set."""
    experiment = make_experiment(multi_phase=True)
    trial = make_attempt(experiment, status="SUCCEEDED", ask_number=0, final_value="0.125", final_number=0.125,
                         result_index=2, parameter_set_count=3).trial
    trial.parameter_sets.update(final_value="0.5", final_number=0.5)
    for index, number in ((1, None), (2, 0.125)):
        TrialParameters.objects.create(trial=trial, index=index, parameter_id=index, value={"x": index}, taught=True,
                                       final_value=None if number is None else str(number), final_number=number)
    TrialParameters.objects.create(trial=trial, index=3, value=None)
    other = make_attempt(experiment, status="SUCCEEDED", ask_number=3, final_value="0.75", final_number=0.75).trial
    other.parameter_sets.update(value={"x": 3}, final_value="0.75", final_number=0.75)
    return experiment


def test_a_trial_with_several_parameter_sets_shows_the_best_one_and_lists_them_all(api, phases) -> None:
    trial, other = list_of(api, phases)
    assert (trial["parameters"], trial["final_number"], trial["result_index"], trial["parameter_set_count"]) == (
        {"x": 2}, 0.125, 2, 3)
    assert trial["parameter_sets"] == [{"index": 0, "parameters": {"x": 0.5}, "final_number": 0.5},
                                       {"index": 1, "parameters": {"x": 1}, "final_number": None},
                                       {"index": 2, "parameters": {"x": 2}, "final_number": 0.125}]
    assert (other["parameter_sets"], other["parameters"]) == ([], {"x": 3})
    rows = api.get(f"/api/v1/trials/{trial['id']}/parameters/").json()["results"]
    assert [(row["value"], row["final_number"]) for row in rows] == [
        ({"x": 0.5}, 0.5), ({"x": 1}, None), ({"x": 2}, 0.125), (None, None)]


def test_filters_and_orders_go_by_the_set_whose_result_is_the_trials(api, phases) -> None:
    assert sequence(list_of(api, phases, "filter=x%20%3D%202")) == [0]
    assert sequence(list_of(api, phases, "filter=x%20%3D%200.5")) == []
    assert sequence(list_of(api, phases, "order=-parameters.x")) == [1, 0]


def test_a_rerun_begins_with_the_set_that_gave_the_result(api, phases) -> None:
    again = api.post(f"/api/v1/trials/{Trial.objects.get(sequence_id=0).public_id}/actions/rerun/")
    assert (again.status_code, again.json()["parameters"]) == (201, {"x": 2})


def test_charts_of_parameters_have_a_point_for_each_set_with_a_result(api, phases) -> None:
    columns = api.get(f"/api/v1/experiments/{phases.public_id}/parameters/").json()
    assert list(zip(columns["sequence_id"], columns["value"], columns["columns"][0]["values"], strict=True)) == [
        (0, 0.5, 0.5), (0, 0.125, 2.0), (1, 0.75, 3.0)]
