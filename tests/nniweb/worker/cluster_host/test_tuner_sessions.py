"""The desk waits for a tuner that answers at once, and for no other."""

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from nniweb.experiments.models import Experiment
from nniweb.experiments.pubsub import doorbell
from nniweb.tuning.process.tuner_client import TunerProcessDied
from nniweb.worker.cluster_host.tuner_sessions import MOST_DEATHS, TunerSessions

pytestmark = pytest.mark.django_db

#: Seconds that are over only where something is wrong.
LONG = 30.0


class HandedOutFutures:
    """In place of the tuner process: the test answers."""

    def __init__(self) -> None:
        self.opened: list[Future[dict[str, Any]]] = []
        self.asked: list[Future[dict[str, Any]]] = []

    def open(self, *_: Any) -> Future[dict[str, Any]]:
        self.opened.append(Future())
        return self.opened[-1]

    def ask(self, *_: Any) -> Future[dict[str, Any]]:
        self.asked.append(Future())
        return self.asked[-1]


@pytest.fixture
def client() -> HandedOutFutures:
    return HandedOutFutures()


@pytest.fixture
def woken() -> list[bool]:
    return []


@pytest.fixture
def failed() -> list[Any]:
    """Why experiments could not go on."""
    return []


@pytest.fixture
def desk(client: HandedOutFutures, woken: list[bool], failed: list[Any]) -> TunerSessions:
    return TunerSessions(client, lambda: woken.append(True), lambda _, reason, *__: failed.append(reason),
                         lambda *_: None, lambda experiment, step, work: work(), lambda *_: None)  # type: ignore[arg-type]


def asked(desk: TunerSessions, experiment: Experiment) -> list[Any]:
    """Where the answer will be."""
    answers: list[Any] = []
    desk.ask(experiment, 0, 1, lambda proposals: answers.extend(proposals.parameters))
    return answers


ANSWER: dict[str, Any] = {"parameters": [{"x": 1}], "exhausted": False}


def test_an_answer_that_comes_while_it_waits_is_acted_on_without_a_round_more(
        make_experiment: Any, client: HandedOutFutures, desk: TunerSessions, woken: list[bool]) -> None:
    answers = asked(desk, make_experiment())
    threading.Timer(0.05, client.asked[0].set_result, [ANSWER]).start()
    desk.collect(LONG)
    assert answers == [{"x": 1}]
    assert not woken


def test_an_answer_that_comes_later_wakes_a_round(
        make_experiment: Any, client: HandedOutFutures, desk: TunerSessions, woken: list[bool]) -> None:
    answers = asked(desk, make_experiment())
    desk.collect(0.001)
    assert not answers
    client.asked[0].set_result(ANSWER)
    assert woken
    desk.collect()
    assert answers == [{"x": 1}]


def test_what_was_asked_in_an_earlier_round_is_not_waited_for_again(
        make_experiment: Any, client: HandedOutFutures, desk: TunerSessions) -> None:
    asked(desk, make_experiment())
    desk.collect(0.001)
    done = threading.Event()
    threading.Thread(target=lambda: (desk.collect(LONG), done.set())).start()
    assert done.wait(LONG / 2), "it waited for a tuner that takes long"


def test_a_slot_that_was_freed_while_the_tuner_thought_brings_a_round_when_it_has_answered(
        make_experiment: Any, client: HandedOutFutures, desk: TunerSessions) -> None:
    experiment = make_experiment()
    asked(desk, experiment)
    asked(desk, experiment)
    assert len(client.asked) == 1
    client.asked[0].set_result(ANSWER)
    with doorbell.listening(rounds_only=True) as bell:
        desk.collect()
        assert bell.take() == {experiment.pk}
        asked(desk, experiment)
        client.asked[1].set_result(ANSWER)
        desk.collect()
        assert not bell.take(), "nobody asked meanwhile"


def test_what_cannot_be_written_does_not_keep_later_answers_from_waking_a_round(
        make_experiment: Any, client: HandedOutFutures, desk: TunerSessions, woken: list[bool]) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("the disk is full")

    experiment = make_experiment()
    desk.ask(experiment, 0, 1, refuse)
    client.asked[0].set_result(ANSWER)
    woken.clear()
    with pytest.raises(OSError, match="the disk is full"):
        desk.collect(LONG)
    asked(desk, experiment)
    client.asked[1].set_result(ANSWER)
    assert woken


def dies(desk: TunerSessions, client: HandedOutFutures, experiment: Experiment) -> None:
    """It is asked, and its process dies."""
    asked(desk, experiment)
    client.asked[-1].set_exception(TunerProcessDied("the tuner process ended (exit code 3)", experiment.public_id))
    desk.collect()


def test_deaths_are_counted_in_a_row(
        make_experiment: Any, client: HandedOutFutures, desk: TunerSessions, failed: list[Any]) -> None:
    experiment = make_experiment()
    for _ in range(MOST_DEATHS - 1):
        dies(desk, client, experiment)
    asked(desk, experiment)
    client.asked[-1].set_result(ANSWER)
    desk.collect()
    for _ in range(MOST_DEATHS - 1):
        dies(desk, client, experiment)
    assert failed == []
    dies(desk, client, experiment)
    assert [reason.code for reason in failed] == ["tuner_died"]


def test_a_tuner_that_only_took_its_history_has_not_recovered(
        make_experiment: Any, client: HandedOutFutures, desk: TunerSessions, failed: list[Any]) -> None:
    experiment = make_experiment()
    for _ in range(MOST_DEATHS):
        desk.ready(experiment)
        client.opened[-1].set_result({})
        desk.collect()
        dies(desk, client, experiment)
    assert len(failed) == 1


def test_a_resumed_experiment_has_all_its_deaths_before_it(
        make_experiment: Any, client: HandedOutFutures, desk: TunerSessions, failed: list[Any]) -> None:
    experiment = make_experiment()
    for _ in range(MOST_DEATHS):
        dies(desk, client, experiment)
    failed.clear()
    for _ in range(MOST_DEATHS - 1):
        dies(desk, client, experiment)
    assert failed == []
