"""The chart's columns, the text of a stream, and finding trials by text."""

from collections.abc import Callable
from typing import Any

from rest_framework.test import APIClient

from nniweb.experiments.models import Attempt, Trial, TrialOutput, User


def test_a_chart_comes_in_columns(api: APIClient, make_attempt: Callable[..., Attempt]) -> None:
    trial = make_attempt(status="SUCCEEDED", final_number=0.5).trial
    make_attempt(trial.experiment, status="FAILED")
    chart = api.get(f"/api/v1/experiments/{trial.experiment.public_id}/chart/").json()
    assert chart["id"][0] == trial.public_id
    assert (chart["sequence_id"], chart["value"], chart["final"], chart["left_out"]) == ([0, 1], [0.5, None], [1, 0], 0)
    assert [chart["statuses"][number] for number in chart["status"]] == ["SUCCEEDED", "FAILED"]


def test_a_stranger_gets_no_chart(as_user: Callable[[User], APIClient], charlie: User,
                                  make_experiment: Callable[..., Any]) -> None:
    assert as_user(charlie).get(f"/api/v1/experiments/{make_experiment().public_id}/chart/").status_code == 404


def test_a_stream_is_downloaded_as_text_with_its_gaps(api: APIClient, make_attempt: Callable[..., Attempt]) -> None:
    attempt = make_attempt()
    TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=0, data=b"begin\n")
    TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=106, data=b"end \xff\n", skipped=100)
    answer = api.get(f"/api/v1/trials/{attempt.trial.public_id}/output/text/?stream=stdout")
    assert answer.content == b"begin\n\n[100 bytes stayed on the trial machine]\nend \xff\n"
    assert "attachment" in answer["Content-Disposition"]
    assert "sandbox" in answer["Content-Security-Policy"]
    missing = api.get(f"/api/v1/trials/{attempt.trial.public_id}/output/text/?attempt=9")
    assert (missing.status_code, missing.json()["errors"][0]["message"]) == (404, "The trial has no attempt 9.")


def test_trials_are_found_by_text_in_message_or_parameters(api: APIClient,
                                                           make_attempt: Callable[..., Attempt]) -> None:
    first = make_attempt(message="No such data set.").trial
    second = make_attempt(first.experiment).trial
    second.parameter_sets.update(value={"activation": "tanh"})

    def found(text: str) -> list[str]:
        answer = api.get(f"/api/v1/experiments/{first.experiment.public_id}/trials/", {"q": text})
        return [trial["id"] for trial in answer.json()["results"]]

    assert found("data set") == [first.public_id]
    assert found("tanh") == [second.public_id]
    assert found("1") == [second.public_id]
    assert found("nothing like it") == []
    assert Trial.objects.count() == 2
