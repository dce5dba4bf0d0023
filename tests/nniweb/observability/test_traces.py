"""Traces of launches and reports: what is recorded, in which trace, and what is left out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from nniweb.experiments.models import Attempt, Cluster, Experiment, User
from nniweb.keeperapi.application import KeeperApplication
from tests.recorded_spans import RecordedSpans, attributes_of, ids_of, recorded
from tests.trialkeeper.keeper_run import wait_until
from trainingservice import tracing
from trialkeeper import contract

CONFIG = """
experimentName: a plan of Ada's
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: python3 train.py --password hunter2
trialConcurrency: 1
maxTrialNumber: 1
tuner: {name: Random}
trainingService: {platform: local}
"""
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def spans() -> Iterator[RecordedSpans]:
    with recorded() as spans:
        yield spans


@pytest.fixture
def launch(admin: User, with_token: Callable[..., APIClient], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    (tmp_path / "train.py").touch()

    def launch(**headers: str) -> dict[str, Any]:
        answer = with_token(admin).post("/api/v1/experiments/", {
            "config": CONFIG, "base_directory": str(tmp_path)}, **headers)
        assert answer.status_code == 201, answer.data
        return dict(answer.data)

    return launch


def test_a_launch_is_the_first_span_of_its_experiments_trace(launch: Callable[..., dict[str, Any]],
                                                            spans: RecordedSpans) -> None:
    experiment = launch()
    [span] = spans.named("launch")
    assert span.parent is None
    assert attributes_of(span) == {"nniweb.experiment.id": experiment["id"], "nniweb.platform": "local"}
    assert not any(word in span.to_json() for word in ("Ada", "hunter2", "train.py"))
    tracing.passed("trial", 1.0, is_first=True, experiment=experiment["id"], trial="abc123def456")
    [trial] = spans.named("trial")
    assert [(link.context.trace_id, link.context.span_id) for link in trial.links] == [ids_of(span)]


def test_a_launch_stands_in_the_trace_of_who_asked_too_and_both_lead_to_each_other(
        launch: Callable[..., dict[str, Any]], spans: RecordedSpans) -> None:
    launch(HTTP_TRACEPARENT=f"00-{TRACE}-{SPAN}-01")
    asked, own = spans.named("launch")
    assert ids_of(asked)[0] == int(TRACE, 16)
    assert asked.parent is not None
    assert asked.parent.span_id == int(SPAN, 16)
    assert own.parent is None
    assert [(link.context.trace_id, link.context.span_id) for link in asked.links] == [ids_of(own)]
    assert [(link.context.trace_id, link.context.span_id) for link in own.links] == [(int(TRACE, 16), int(SPAN, 16))]


@pytest.mark.parametrize("header", ["", "nonsense", "00-" + "0" * 32 + f"-{SPAN}-01", "x" * 5000])
def test_a_context_that_is_none_is_passed_over(header: str, launch: Callable[..., dict[str, Any]],
                                               spans: RecordedSpans) -> None:
    launch(HTTP_TRACEPARENT=header)
    [span] = spans.named("launch")
    assert (span.parent, list(span.links)) == (None, [])


def test_a_refused_launch_is_an_error_without_its_words(admin: User, with_token: Callable[..., APIClient],
                                                        tmp_path: Path, spans: RecordedSpans) -> None:
    answer = with_token(admin).post("/api/v1/experiments/", {
        "config": CONFIG.replace("platform: local", "platform: local, gpuIndices: [90]"),
        "base_directory": str(tmp_path / "nowhere")})
    assert answer.status_code == 400
    assert Experiment.objects.count() == 0
    assert all("hunter2" not in span.to_json() and "nowhere" not in span.to_json() for span in spans.all())


def test_two_processes_put_a_trial_into_the_same_trace_and_two_installations_do_not() -> None:
    found = []
    for installation in ("here", "here", "there"):
        with recorded(installation) as spans:
            tracing.passed("submit", 1.0, experiment="exp", trial="abc")
            [span] = spans.all()
            found.append(ids_of(span)[0])
    assert found[0] == found[1] != found[2]


# --- reports ---------------------------------------------------------------------------------------


@pytest.fixture
def application() -> Iterator[KeeperApplication]:
    application = KeeperApplication()
    yield application
    application.group_commit.close()


async def send_report(application: KeeperApplication, job: str, token: str = "token") -> int:
    body = json.dumps({"keeper": {"version": 1, "journal_id": "j1"}, "entries": [
        {"n": 1, "at": 1.0, "type": "started", "pid": 7, "host": "box of Ada"}]}).encode()
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await application({"type": "http", "method": "POST", "path": f"{contract.URL_PREFIX}trials/{job}/reports",
                       "headers": [(b"authorization", f"Bearer {token}".encode())]}, receive, send)
    return int(sent[0]["status"])


def wait_for(spans: RecordedSpans, name: str, count: int) -> list[Any]:
    """Spans of reports are recorded after the answer."""
    wait_until(lambda: len(spans.named(name)) >= count, 60)
    return spans.named(name)


@pytest.mark.django_db(transaction=True)
def test_reports_of_many_keepers_on_one_loop_are_spans_of_their_trials(
        application: KeeperApplication, make_attempt: Callable[..., Attempt], spans: RecordedSpans) -> None:
    attempts = {attempt.job_name: attempt for attempt in (make_attempt() for _ in range(10))}

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(send_report(application, job) for job in [*attempts, *attempts]))

    assert set(asyncio.run(all_at_once())) == {200}
    found = wait_for(spans, "report", 20)
    traces = set()
    for span in found:
        known = attributes_of(span)
        attempt = attempts[str(known["nniweb.job"])]
        assert known["nniweb.trial.id"] == attempt.trial.public_id
        assert known["nniweb.experiment.id"] == attempt.trial.experiment.public_id
        assert (known["nniweb.platform"], known["http.response.status_code"]) == ("local", 200)
        assert span.end_time > span.start_time
        traces.add(ids_of(span)[0])
    assert len(traces) == 10
    assert all("Ada" not in span.to_json() for span in found)


@pytest.mark.django_db(transaction=True)
def test_strangers_have_no_spans(application: KeeperApplication, make_attempt: Callable[..., Attempt],
                                 spans: RecordedSpans) -> None:
    attempt = make_attempt()

    async def three() -> list[int]:
        return [await send_report(application, attempt.job_name, "wrong"), await send_report(application, "nobody"),
                await send_report(application, attempt.job_name)]

    assert asyncio.run(three()) == [401, 404, 200]
    [span] = wait_for(spans, "report", 1)
    assert attributes_of(span)["http.response.status_code"] == 200
    assert Cluster.objects.count() == 1
