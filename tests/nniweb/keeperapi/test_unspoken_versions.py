"""A keeper whose version is not understood is refused, its trial's page says so, and what it has is taken later."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nniweb.experiments.models import Attempt, Metric, Trial
from nniweb.keeperapi.application import KeeperApplication
from trainingservice.receiver import report_reading
from trialkeeper import contract

pytestmark = pytest.mark.django_db(transaction=True)
ENTRIES = [{"n": 1, "at": 1.0, "type": "started", "pid": 7, "host": "box"},
           {"n": 2, "at": 1.0, "type": "metric", "kind": "PERIODICAL", "sequence": 0, "value": "1"}]


@pytest.fixture
def report() -> Iterator[Callable[..., int]]:
    """``report(attempt, version)``: send both entries; the status of the answer."""
    application = KeeperApplication()

    def send_report(attempt: Attempt, version: Any, token: str = "token") -> int:
        body = json.dumps({"keeper": {"version": version, "journal_id": "j1"}, "entries": ENTRIES}).encode()
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"authorization", f"Bearer {token}".encode())]
        asyncio.run(application({"type": "http", "method": "POST", "headers": headers,
                                 "path": f"{contract.URL_PREFIX}trials/{attempt.job_name}/reports"}, receive, send))
        return int(sent[0]["status"])

    yield send_report
    application.group_commit.close()


def test_the_server_understands_its_own_version_and_the_one_before() -> None:
    own = contract.PROTOCOL_VERSION
    assert set(report_reading.VERSIONS) == {own} | {own - 1} - {0}


@pytest.mark.parametrize(("version", "words"), [
    (1, "was started by another NNI Web and uses version 1 of the keeper protocol. This server understands version 6 "),
    (8, "was started by a newer NNI Web and uses version 8 of the keeper protocol."), ("x\0", "was started by another"),
    (None, "was started by another")])
def test_a_version_that_is_not_understood_is_said_on_the_trial_until_a_report_is_taken(
        report: Callable[..., int], make_attempt: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch, version: Any,
        words: str) -> None:
    attempt = make_attempt()
    monkeypatch.setattr(contract, "PROTOCOL_VERSION", 7)
    for module in ("trainingservice.receiver.report_reading", "nniweb.experiments.ingest.unsupported_protocol"):
        monkeypatch.setattr(f"{module}.VERSIONS", frozenset({6, 7}))
    assert [report(attempt, version), report(attempt, version)] == [400, 400]
    trial = Trial.objects.get()
    assert words in trial.message
    assert (trial.status, Metric.objects.count(), Attempt.objects.get().accepted) == ("WAITING", 0, 0)
    revision = trial.revision
    assert report(attempt, version) == 400
    assert Trial.objects.get().revision == revision, "it is said once"

    assert report(attempt, 6) == 200
    trial = Trial.objects.get()
    assert (trial.message, trial.status, Metric.objects.count()) == ("", "RUNNING", 1)


def test_only_who_has_the_trials_token_is_believed(report: Callable[..., int],
                                                   make_attempt: Callable[..., Attempt]) -> None:
    assert report(make_attempt(), 99, token="another") == 401
    assert Trial.objects.get().message == ""
