"""Keepers gather metrics and output where more reports come than a web takes easily."""

from collections.abc import Callable
from typing import Any

import pytest

from nniweb.experiments.ingest import report_intervals
from nniweb.experiments.ingest.report_gathering import (
    AT_LEAST,
    COUNTED_FOR,
    FIRST,
    LATE,
    LONGEST,
    OF_WATCHED,
    SLOW,
    TOGETHER,
    Gathering,
)
from nniweb.experiments.models import Attempt, Trial
from tests.nniweb.experiments.ingest.test_ingest import deliver, ended, metric, started

pytestmark = pytest.mark.django_db


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gathering(clock: Clock) -> Gathering:
    return Gathering(clock, chance=lambda: 0.0)


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch, gathering: Gathering) -> Callable[[float], None]:
    """Have reports be answered by a web that asks for so many seconds."""
    monkeypatch.setattr("nniweb.experiments.ingest.one_report.gathering", gathering)
    monkeypatch.setattr(report_intervals, "gathering", gathering)

    def ask(seconds: float) -> None:
        gathering.seconds = seconds

    return ask


def come(gathering: Gathering, clock: Clock, rate: Callable[[float], float], times: int) -> None:
    """For so many times COUNTED_FOR, reports at the rate that keepers have who are asked for these seconds."""
    for _ in range(times):
        clock.now += COUNTED_FOR
        gathering.came(round(rate(gathering.seconds) * COUNTED_FOR))


def gather_for(attempt: Attempt, *entries: dict[str, Any]) -> float:
    return float(deliver(attempt, *entries).body.get("gather_for", 0.0))


def each_second(keepers: int) -> Callable[[float], float]:
    """Reports of a second, where each keeper has a metric each second."""
    return lambda seconds: keepers / max(1.0, seconds)


def test_up_to_some_hundred_reports_a_second_nothing_is_gathered(gathering: Gathering, clock: Clock) -> None:
    come(gathering, clock, each_second(int(TOGETHER)), 50)
    assert gathering.seconds == 0


@pytest.mark.parametrize("keepers", [500, 1_250, 1_900])
def test_keepers_gather_until_no_more_reports_come_than_are_taken_easily_and_it_stays_so(
        gathering: Gathering, clock: Clock, keepers: int) -> None:
    come(gathering, clock, each_second(keepers), 20)
    settled = gathering.seconds
    assert TOGETHER / 2 <= round(each_second(keepers)(settled)) <= TOGETHER
    come(gathering, clock, each_second(keepers), 50)
    assert gathering.seconds == settled


def test_where_reports_wait_for_their_answers_keepers_gather_although_fewer_come(
        gathering: Gathering, clock: Clock) -> None:
    for _ in range(40):
        gathering.waited(2 * SLOW)
        gathering.waited(0.0)  # the mean counts
        gathering.waited(4 * SLOW)
        come(gathering, clock, lambda _: 100, 1)
    assert gathering.seconds == LONGEST
    gathering.waited(0.7 * SLOW)
    come(gathering, clock, lambda _: 60, 1)
    assert gathering.seconds == LONGEST, "they still wait"
    come(gathering, clock, lambda _: 60, 60)
    assert gathering.seconds == 0


def test_keepers_whose_reports_wait_for_seconds_gather_for_longer_than_that_from_then_on(
        gathering: Gathering, clock: Clock) -> None:
    gathering.waited(2.0)
    come(gathering, clock, lambda _: TOGETHER, 1)
    assert gathering.seconds == 4.0
    gathering.waited(30.0)
    come(gathering, clock, lambda _: TOGETHER, 1)
    assert gathering.seconds == LONGEST


def test_where_many_wait_for_long_the_next_keepers_hear_of_it_at_once(gathering: Gathering) -> None:
    gathering.came(int(AT_LEAST))
    gathering.waited(2 * LATE)
    assert gathering.seconds == 0, "they are few"
    gathering.came(int(AT_LEAST))
    gathering.waited(LATE)
    assert gathering.seconds == 0, "they wait for a moment"
    gathering.waited(1.5)
    assert gathering.seconds == 3.0
    gathering.waited(1.0)
    assert gathering.seconds == 3.0
    gathering.waited(60.0)
    assert gathering.seconds == LONGEST


def test_of_a_few_reports_that_wait_nothing_is_gathered(gathering: Gathering, clock: Clock) -> None:
    for _ in range(20):
        gathering.waited(60.0)
        come(gathering, clock, each_second(int(AT_LEAST)), 1)
    assert gathering.seconds == 0


def test_nobody_gathers_longer_than_a_few_seconds(gathering: Gathering, clock: Clock) -> None:
    come(gathering, clock, each_second(50_000), 50)
    assert gathering.seconds == LONGEST


def test_when_fewer_reports_come_it_ends(gathering: Gathering, clock: Clock) -> None:
    come(gathering, clock, each_second(1_250), 10)
    assert gathering.seconds > FIRST
    come(gathering, clock, each_second(20), 40)
    assert gathering.seconds == 0
    clock.now += 3600
    gathering.came(1)
    assert gathering.seconds == 0


def test_an_answer_to_news_asks_for_it_and_one_to_a_quiet_keeper_does_not(make_attempt, asks) -> None:
    asks(4.0)
    attempt = make_attempt()
    assert "gather_for" not in deliver(attempt).body
    deliver(attempt, started())
    assert gather_for(attempt, metric(2)) == 4.0
    assert gather_for(attempt) == 0
    asks(0.0)
    assert "gather_for" not in deliver(attempt, metric(3)).body


def test_keepers_that_came_together_do_not_stay_together(make_attempt, asks, gathering: Gathering) -> None:
    asks(4.0)
    attempt = make_attempt()
    gathering._chance = lambda: 1.0
    deliver(attempt, started())
    assert gather_for(attempt, metric(2)) == 3.2


def test_who_watches_waits_a_second_at_most(make_attempt, asks) -> None:
    asks(4.0)
    attempt = make_attempt()
    report_intervals.note_watched([attempt.trial.experiment_id], [])
    deliver(attempt, started())
    assert gather_for(attempt, metric(2)) == OF_WATCHED


@pytest.mark.parametrize("target", ["USER_CANCELED", "EARLY_STOPPED", "FROZEN"])
def test_a_trial_that_is_to_be_stopped_gathers_nothing(make_attempt, asks, target: str) -> None:
    asks(4.0)
    attempt = make_attempt()
    deliver(attempt, started())
    Trial.objects.update(target=target)
    assert gather_for(attempt, metric(2)) == 0


def test_one_that_has_ended_gathers_nothing(make_attempt, asks) -> None:
    asks(4.0)
    attempt = make_attempt()
    deliver(attempt, started())
    assert gather_for(attempt, metric(2, kind="FINAL"), ended(3)) == 0
