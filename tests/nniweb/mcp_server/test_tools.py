"""What the tools answer: pages by cursor, waits that end with news, dry runs, tables and comparisons."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from nniweb import asgi
from nniweb.experiments.access.request_actor import asked_by
from nniweb.experiments.actions.external_proposals import Proposed, propose
from nniweb.experiments.lifecycle.tuner_events import append_events
from nniweb.experiments.models import Attempt, AuditEntry, Experiment, Trial, TrialOutput, User
from nniweb.experiments.pubsub import doorbell
from nniweb.mcp_server.in_process import InProcessRest
from nniweb.mcp_server.server import called
from nniweb.mcp_server.tools import BY_NAME
from tests.nniweb.mcp_server.agent import said
from tests.trialkeeper.keeper_run import wait_until

CONFIG = {"searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "python3 trial.py",
          "tuner": {"name": "External"}, "trialConcurrency": 2, "maxTrialNumber": 5,
          "trainingService": {"platform": "local"}}


class ToolFailed(Exception):
    """The text is what the agent reads."""


@pytest.fixture
def ask(switched_on: None, admin: User, token_of: Callable[..., str]) -> Callable[..., dict[str, Any]]:
    """Calls a tool as Ada; the answer, or ToolFailed with what is wrong."""
    token = token_of(admin)

    def ask(name: str, **arguments: Any) -> dict[str, Any]:
        scope = {"type": "http", "scheme": "http", "client": ("127.0.0.1", 1), "server": ("localhost", 80),
                 "path": "/mcp/", "headers": [(b"host", b"localhost"), (b"authorization", f"Token {token}".encode())]}
        result = asyncio.run(called(BY_NAME[name], arguments, InProcessRest(asgi.django_application, scope)))
        if result.is_error:
            raise ToolFailed(said(result))
        answer: dict[str, Any] = result.structured_content
        return answer

    return ask


@pytest.fixture
def external(switched_on: None, make_experiment: Callable[..., Experiment]) -> Experiment:
    """Four trials were proposed."""
    experiment = make_experiment(tuner={"name": "External"}, max_trial_number=100, trial_concurrency=50)
    with asked_by("test"):
        propose(experiment, [Proposed({"x": number / 10}, f"p{number}") for number in range(4)])
    experiment.refresh_from_db()
    return experiment


def end(experiment: Experiment, number: int, value: float | None) -> None:
    """As the worker writes it when a trial has ended."""
    status = "SUCCEEDED" if value is not None else "FAILED"
    trial = Trial.objects.get(experiment=experiment, sequence_id=number)
    Trial.objects.filter(pk=trial.pk).update(status=status, final_number=value, ended_at=timezone.now(),
                                             final_value=None if value is None else str(value))
    append_events(experiment, [{"event": "tell", "number": trial.ask_number, "parameters": {"x": number / 10},
                                "status": status, "value": value}], timezone.now())


def test_lists_and_tables_come_in_pages_and_a_cursor_leads_to_the_next(
        ask: Callable[..., Any], external: Experiment, make_experiment: Callable[..., Experiment]) -> None:
    others = {make_experiment(name=f"other {number}").public_id for number in range(4)}
    found, cursor = [], None
    while True:
        page = ask("list_experiments", limit=2, **({} if cursor is None else {"cursor": cursor}))
        assert page["count"] == 5
        assert len(page["experiments"]) <= 2
        found += [line["id"] for line in page["experiments"]]
        if (cursor := page["cursor"]) is None:
            break
    assert sorted(found) == sorted([*others, external.public_id])

    first = ask("results", experiment=external.public_id, order="-parameters.x", limit=3, columns=["parameters.x"])
    assert first["rows"] == [[0.3], [0.2], [0.1]]
    second = ask("results", experiment=external.public_id, order="-parameters.x", limit=3, columns=["parameters.x"],
                 cursor=first["cursor"])
    assert (second["rows"], second["cursor"]) == ([[0.0]], None)
    with pytest.raises(ToolFailed, match="cursor: belongs to another question"):
        ask("results", experiment=external.public_id, order="parameters.x", limit=3, cursor=first["cursor"])


def test_the_best_come_first_whichever_way_is_better(ask: Callable[..., Any], external: Experiment) -> None:
    for number, value in enumerate((3.0, 1.0, None, 2.0)):
        end(external, number, value)
    values = ["value", "status"]
    rows = ask("results", experiment=external.public_id, columns=values)["rows"]
    assert rows == [[1.0, "SUCCEEDED"], [2.0, "SUCCEEDED"], [3.0, "SUCCEEDED"], [None, "FAILED"]]
    Experiment.objects.update(optimize_mode="maximize")
    assert ask("results", experiment=external.public_id, columns=["value"], filter="status = SUCCEEDED")["rows"] == [
        [3.0], [2.0], [1.0]]


def test_a_wait_returns_each_result_once_and_a_cursor(ask: Callable[..., Any], external: Experiment) -> None:
    end(external, 0, 3.0)
    end(external, 1, None)
    first = ask("wait", experiment=external.public_id, seconds=0)
    assert [(result["key"], result["value"], result["status"]) for result in first["results"]] == [
        ("p0", 3.0, "SUCCEEDED"), ("p1", None, "FAILED")]
    assert (first["has_more"], first["has_ended"]) == (False, False)
    again = ask("wait", experiment=external.public_id, seconds=0, cursor=first["cursor"])
    assert again["results"] == []
    end(external, 2, 1.0)
    later = ask("wait", experiment=external.public_id, seconds=0, cursor=again["cursor"])
    assert [result["key"] for result in later["results"]] == ["p2"]


def test_a_long_history_comes_in_parts_without_a_gap(ask: Callable[..., Any], external: Experiment) -> None:
    with asked_by("test"):
        propose(external, [Proposed({"x": 0.5}, f"more{number}") for number in range(70)])
    external.refresh_from_db()
    for number in range(74):
        end(external, number, float(number))
    found, cursor, has_more = [], None, True
    while has_more:
        part = ask("wait", experiment=external.public_id, seconds=0, **({} if cursor is None else {"cursor": cursor}))
        found += [result["sequence_id"] for result in part["results"]]
        cursor, has_more = part["cursor"], part["has_more"]
    assert found == list(range(74))


def test_a_wait_ends_with_a_ring_and_looks_seldom_meanwhile(ask: Callable[..., Any], external: Experiment,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = InProcessRest.ask

    async def noted(self: InProcessRest, method: str, path: str, **more: Any) -> Any:
        looked.append(path)
        return await real(self, method, path, **more)

    monkeypatch.setattr(InProcessRest, "ask", noted)
    monkeypatch.setattr("nniweb.mcp_server.in_process.LOOK_SECONDS", 600.0)  # nothing but the bell ends it

    def ends_later() -> None:
        from django.db import connection
        wait_until(lambda: looked, what="a look")
        end(external, 3, 0.5)

        def is_heard() -> bool:  # whoever waits may not listen yet
            doorbell.ring(external.pk)
            return bool(answers)

        wait_until(is_heard, what="the answer")
        connection.close()

    answers: list[Any] = []
    other = threading.Thread(target=ends_later)
    other.start()
    try:
        answers.append(ask("wait", experiment=external.public_id, seconds=30))
    finally:
        answers.append(None)
        other.join()
    assert [result["key"] for result in answers[0]["results"]] == ["p3"]
    assert len(looked) <= 6


def test_a_wait_ends_with_the_experiment_or_another_status(ask: Callable[..., Any], external: Experiment) -> None:
    first = ask("wait", experiment=external.public_id, seconds=0)
    Experiment.objects.update(status="PAUSED")
    paused = ask("wait", experiment=external.public_id, seconds=30, cursor=first["cursor"])
    assert (paused["status"], paused["has_ended"]) == ("PAUSED", False)
    Experiment.objects.update(status="DONE")
    assert ask("wait", experiment=external.public_id, seconds=30, cursor=paused["cursor"])["has_ended"] is True


def test_a_proposal_is_tried_told_its_cost_and_taken_once(ask: Callable[..., Any], external: Experiment) -> None:
    Experiment.objects.update(trial_gpu_number=2, max_trial_duration=7200.0)
    wish: dict[str, Any] = {"experiment": external.public_id, "proposals": [
        {"parameters": {"x": 0.9}, "key": "new"}, {"parameters": {"x": 0.0}, "key": "p0"}]}
    tried = ask("propose", **wish)
    assert [(row["is_new"], row["trial"] is None) for row in tried["trials"]] == [(True, True), (False, False)]
    forecast = tried["forecast"]
    assert (forecast["new_trials"], forecast["seconds_per_trial"], forecast["basis"]) == (1, 7200, "max_trial_duration")
    assert (forecast["trial_hours"], forecast["gpu_hours"]) == (2, 4)
    assert Trial.objects.count() == 4
    done = ask("propose", **wish, dry_run=False)
    again = ask("propose", **wish, dry_run=False)
    assert Trial.objects.count() == 5
    assert [row["trial"] for row in again["trials"]] == [row["trial"] for row in done["trials"]]
    entry = AuditEntry.objects.filter(action="trials.propose").latest("pk")
    assert (entry.via, entry.address) == ("token agent", "127.0.0.1")
    with pytest.raises(ToolFailed, match=r"Wrong input \(400\).\n- proposals\[0\].parameters.x: "):
        ask("propose", experiment=external.public_id, proposals=[{"parameters": {"x": 4}}])


def test_stopping_tells_before_what_would_end(ask: Callable[..., Any], external: Experiment) -> None:
    tried = ask("steer_experiment", experiment=external.public_id, action="stop")
    assert tried["unfinished_trials"] == {"WAITING": 4}
    assert set(Trial.objects.values_list("status", flat=True)) == {"WAITING"}
    some = ask("cancel_trials", experiment=external.public_id, filter="x > 0.15")
    assert (some["done"], some["is_dry_run"]) == (2, True)
    some = ask("cancel_trials", experiment=external.public_id, filter="x > 0.15", dry_run=False)
    assert (some["done"], Trial.objects.filter(status="USER_CANCELED").count()) == (2, 2)
    assert Experiment.objects.get().target == "RUN"
    ask("steer_experiment", experiment=external.public_id, action="stop", dry_run=False)
    assert Experiment.objects.get().target == "STOP"


def test_a_launch_is_checked_told_its_cost_and_done_once(ask: Callable[..., Any], switched_on: None) -> None:
    wish: dict[str, Any] = {"config": CONFIG, "files": {"trial.py": "print(1)\n", "lib/part.py": ""}, "key": "one"}
    tried = ask("launch", **wish)
    assert (tried["experiment"], tried["forecast"]["trials"], tried["tuner"]) == (None, 5, "External")
    assert Experiment.objects.count() == 0
    done = [ask("launch", **wish, dry_run=False) for _ in range(2)]
    assert done[0]["experiment"] == done[1]["experiment"]
    launched = Experiment.objects.select_related("code").get()
    assert launched.code is not None
    assert launched.code.file_count == 2
    with pytest.raises(ToolFailed, match="trialConcurency"):
        ask("launch", config={**CONFIG, "trialConcurency": 1}, files={})
    with pytest.raises(ToolFailed, match=r"\(400\)"):
        ask("launch", config=CONFIG, files={"../outside.py": ""})


def test_trials_are_compared_by_what_differs(ask: Callable[..., Any], external: Experiment) -> None:
    end(external, 1, 1.0)
    trials = list(Trial.objects.order_by("sequence_id").values_list("public_id", flat=True)[:2])
    answer = ask("compare", trials=trials)
    assert answer["differing"] == {"x": [0.0, 0.1]}
    assert [(trial["number"], trial["value"]) for trial in answer["trials"]] == [(0, None), (1, 1.0)]


def test_the_end_of_output_is_read_and_then_what_follows(ask: Callable[..., Any], external: Experiment,
                                                         make_attempt: Callable[..., Attempt]) -> None:
    attempt = make_attempt(external)
    for offset, data in ((0, b"a" * 5000), (5000, b"the end\n")):
        TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=offset, data=data)
    first = ask("tail_log", trial=attempt.trial.public_id, bytes=100)
    assert first["text"] == "a" * 92 + "the end\n"
    assert first["skipped"] == 4908
    TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=5008, data=b"more\n")
    assert ask("tail_log", trial=attempt.trial.public_id, cursor=first["cursor"])["text"] == "more\n"
    assert ask("tail_log", trial=Trial.objects.earliest("pk").public_id)["text"] == ""


def test_causes_of_failures_are_told_with_the_filter_that_finds_them(ask: Callable[..., Any], external: Experiment
                                                                     ) -> None:
    for number in (0, 1):
        end(external, number, None)
    Trial.objects.filter(sequence_id__lt=2).update(failure=7, message="The command ended with 1.")
    seen = ask("inspect_experiment", experiment=external.public_id)
    assert (seen["wanted"], seen["trials"]) == (48, {"WAITING": 2, "FAILED": 2})
    [cause] = seen["failures"]
    assert cause["count"] == 2
    assert ask("results", experiment=external.public_id, filter=cause["filter"])["count"] == 2
