"""The server on a machine that gives no thread: what was asked for is done later, and nothing waits for ever."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from rest_framework.request import Request

from nniweb.dashboard.failure import page_failed
from nniweb.experiments.clusters.platform_calls import ask_platform
from nniweb.experiments.ingest.report_answers import Answer
from nniweb.experiments.pubsub.bell_between_processes import BellBetweenProcesses
from nniweb.http.error_form import answer_error
from nniweb.http.shortage import come_again_when_short
from nniweb.keeperapi.group_commit import GroupCommit
from nniweb.observability.probes import probe_application
from nniweb.tuning.process.tuner_client import TunerClient, TunerProcessDied
from nniweb.worker.cluster_host.call_threads import CallThreads
from nniweb.worker.cluster_host.service_host import ServiceHost
from tests.trialkeeper.keeper_run import wait_until
from trainingservice.errors import TemporaryError

NO_THREAD = "can't start new thread"


class NoThreads:
    """While ``for_names`` is not empty no thread can be started whose name begins with one of these."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.for_names: tuple[str, ...] = ()
        start = threading.Thread.start

        def start_if_there_is_one(thread: threading.Thread) -> None:
            if self.for_names and thread.name.startswith(self.for_names):
                raise RuntimeError(NO_THREAD)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_if_there_is_one)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[NoThreads]:
    found = NoThreads(monkeypatch)
    yield found
    found.for_names = ()


def until(condition: Callable[[], Any]) -> Any:
    return wait_until(condition, 30)


# --- what answers ----------------------------------------------------------------------------


def sent_by(application: Any, **scope: Any) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    asyncio.run(application({"type": "http", "method": "GET", "path": "/", "headers": [], **scope}, receive, send))
    return sent


def test_a_request_for_which_there_is_no_thread_is_to_come_again() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError(NO_THREAD)

    start, body = sent_by(come_again_when_short(application))
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"5")
    assert "Try again" in json.loads(body["body"])["errors"][0]["message"]


def test_an_answer_that_was_given_is_not_spoilt_by_what_follows_it() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"all"})
        raise RuntimeError(NO_THREAD)

    assert [message["type"] for message in sent_by(come_again_when_short(application))] == [
        "http.response.start", "http.response.body"]


def test_an_answer_that_has_begun_and_a_defect_are_not_made_something_else() -> None:
    async def halfway(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise MemoryError

    async def defect(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("something else")

    with pytest.raises(MemoryError):
        sent_by(come_again_when_short(halfway))
    with pytest.raises(RuntimeError, match="something else"):
        sent_by(come_again_when_short(defect))


@pytest.mark.parametrize("error", [RuntimeError(NO_THREAD), MemoryError(),
                                   BlockingIOError(11, "Resource temporarily unavailable")])
def test_rest_and_pages_say_503_and_not_500(error: Exception, rf: RequestFactory) -> None:
    request = rf.get("/api/v1/experiments/")
    answer = answer_error(error, {"request": Request(request)})
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    page = HttpResponse()
    try:
        raise error
    except Exception:
        page = page_failed(request)
    assert (page.status_code, page["Retry-After"]) == (503, "5")


def test_the_probe_says_that_there_is_no_thread(no_threads: NoThreads) -> None:
    no_threads.for_names = ("asyncio_",)
    start, body = sent_by(probe_application, path="/readyz")
    assert start["status"] == 503
    assert json.loads(body["body"])["checks"][0]["name"] == "threads"
    assert sent_by(probe_application, path="/healthz")[0]["status"] == 200


def test_a_platform_that_cannot_be_asked_for_want_of_a_thread_is_no_defect_of_it(no_threads: NoThreads) -> None:
    no_threads.for_names = ("call of",)
    with pytest.raises(TemporaryError, match="no thread, process or memory to spare"):
        ask_platform("local", lambda: 1, 5.0)

    def forks() -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    no_threads.for_names = ()
    with pytest.raises(TemporaryError, match="no thread, process or memory to spare"):
        ask_platform("local", forks, 5.0)
    assert ask_platform("local", lambda: 1, 5.0) == 1


# --- reports ---------------------------------------------------------------------------------


def reported(commit: GroupCommit) -> Answer:
    """What the sender of one report hears."""
    async def report() -> Answer:
        return await asyncio.wait_for(commit.submit("job", "hash", b"no report", ""), 20)

    return asyncio.run(report())


def test_reports_are_refused_for_now_while_no_thread_can_store_them(no_threads: NoThreads) -> None:
    commit = GroupCommit("installation")
    no_threads.for_names = ("group-commit",)
    answer = reported(commit)
    assert (answer.status, answer.body["error"], answer.retry_after) == (503, "busy", 5)
    no_threads.for_names = ()
    assert reported(commit).status == 400, "it was read, by a thread that has started"
    commit.close()


@pytest.mark.parametrize("fault", [MemoryError(), SystemExit(), ZeroDivisionError()],
                         ids=lambda fault: type(fault).__name__)
def test_reports_are_answered_and_the_next_ones_stored_where_the_thread_that_stores_them_fails(
        monkeypatch: pytest.MonkeyPatch, fault: BaseException) -> None:
    commit, faults = GroupCommit("installation"), [fault]

    def store(group: Any) -> list[Answer]:
        if faults:
            raise faults.pop()
        return [Answer(200, {})] * len(group)

    monkeypatch.setattr(commit, "_store", store)
    assert reported(commit).status == 503
    assert reported(commit).status == 200
    commit.close()


# --- the worker ------------------------------------------------------------------------------


def test_calls_wait_for_the_threads_there_are_and_are_refused_where_there_is_none(no_threads: NoThreads) -> None:
    done: list[int] = []
    threads, is_free = CallThreads("calls", 4), threading.Event()
    no_threads.for_names = ("calls",)
    with pytest.raises(RuntimeError, match=NO_THREAD):
        threads.submit(lambda: done.append(1))
    no_threads.for_names = ()
    assert threads.submit(lambda: is_free.wait(60) and done.append(2))
    no_threads.for_names = ("calls",)
    assert threads.submit(lambda: done.append(3)), "behind the one that is going on"
    is_free.set()
    until(lambda: done == [2, 3])
    threads.close()
    threads.join(60)


def test_a_call_that_raises_takes_no_thread_from_those_behind_it() -> None:
    threads, done = CallThreads("calls", 1), threading.Event()
    assert threads.submit(lambda: 1 / 0)
    assert threads.submit(done.set)
    assert done.wait(90)
    threads.close()
    threads.join(60)


class Host:
    """A service's host without a database, whose rounds the test makes."""

    def __init__(self) -> None:
        self.now = 0.0
        build: Any = lambda _: _Service()  # noqa: E731
        self.host = ServiceHost("one", build, list, lambda _: None, lambda _: None, monotonic=lambda: self.now)

    def round(self) -> None:
        self.host.look_after()
        self.host.collect()

    def round_later(self) -> bool:
        self.now += 60.0
        self.round()
        return self.host.service is not None


class _Service:
    """As much of a service as a host needs."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.cleaned = 0

    def add_trial_job_metric_listener(self, listener: Any) -> None: ...

    def remove_trial_job_metric_listener(self, listener: Any) -> None: ...

    def resume_trial_jobs(self, jobs: Any) -> None:
        assert jobs == []

    def run(self) -> None:
        self.closed.wait(30)

    def clean_up(self) -> None:
        self.cleaned += 1
        self.closed.set()


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.host.close()
    made.host.join(60)


def test_a_submission_for_which_there_is_no_thread_is_told_as_one_to_be_made_later(
        host: Host, no_threads: NoThreads) -> None:
    failures: list[Exception] = []
    no_threads.for_names = ("calls-one",)
    host.host.call("submission of trial 1", "submit_trial_job", lambda: 1, lambda _: None, failures.append)
    host.round()
    assert isinstance(failures[0], TemporaryError)
    assert "no thread to spare" in str(failures[0])
    assert host.host.slow_calls() == []
    assert "no thread to spare" in host.host.message
    assert not host.host.needs_person
    no_threads.for_names = ()
    until(host.round_later)


def test_a_service_whose_thread_cannot_be_started_is_built_anew_later(host: Host, no_threads: NoThreads) -> None:
    no_threads.for_names = ("service-one",)
    until(lambda: host.round() or host.host.message and "no thread to spare" in host.host.message)
    assert host.host.service is None
    no_threads.for_names = ()
    until(host.round_later)
    assert host.host.message == ""


def test_whoever_rings_is_not_disturbed_where_the_bells_thread_cannot_be_started(no_threads: NoThreads) -> None:
    asked = threading.Event()

    def layer() -> Any:
        asked.set()
        raise ConnectionError("Redis is away")

    bell = BellBetweenProcesses(layer, lambda *_: None)
    no_threads.for_names = ("bell",)
    bell.ring(1)
    bell.ring(2)
    assert not asked.is_set()
    no_threads.for_names = ()
    bell.ring(3)
    assert asked.wait(90)
    bell.close()


@pytest.mark.usefixtures("tuners_by_their_command")
def test_a_tuner_whose_threads_cannot_be_started_fails_for_now_and_leaves_no_process(no_threads: NoThreads) -> None:
    client = TunerClient()
    spec = {"search_space": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "tuner": {"name": "Random", "class_args": {}}, "assessor": None, "optimize_mode": "maximize", "seed": 1}
    no_threads.for_names = ("tuner read",)
    client.prepare()
    assert client.pid is None
    with pytest.raises(TunerProcessDied, match="could not be started"):
        client.open("e", spec, []).result(30)
    assert client.pid is None
    no_threads.for_names = ()
    assert client.open("e", spec, []).result(60) is not None
    client.shutdown()
