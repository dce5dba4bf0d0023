"""Keepers that have nothing to say report the less often the more of them there are."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from nniweb.documents.last_heard import last_heard
from nniweb.experiments.ingest import report_intervals
from nniweb.experiments.ingest.report_intervals import Fleet, Intervals, counted, note_watched
from nniweb.experiments.lifecycle.heartbeats import missed_after
from nniweb.experiments.models import Attempt, Experiment, Place, Trial
from nniweb.experiments.queries.trial_advice import advice_for
from tests.nniweb.experiments.ingest.test_ingest import deliver, ended, metric, started

pytestmark = pytest.mark.django_db


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Intervals]:
    """An installation with so many running trials, of which so many are watched."""

    def make(running: int, watched: int = 0, chance: float = 0.0) -> Intervals:
        made = Intervals(chance=lambda: chance)
        made.fleet = Fleet(running, watched)
        monkeypatch.setattr("nniweb.experiments.ingest.one_report.intervals", made)
        monkeypatch.setattr(report_intervals, "intervals", made)
        monkeypatch.setattr(made, "count_if_due", lambda: None)
        return made

    return make


def within(attempt: Attempt, *entries: dict[str, Any], **more: Any) -> float:
    return float(deliver(attempt, *entries, **more).body["next_report_within"])


@pytest.mark.parametrize(("running", "seconds"), [(0, 10), (5_000, 10), (10_000, 20), (50_000, 100), (60_000, 120),
                                                  (1_000_000, 120)])
def test_the_interval_grows_with_the_keepers_from_ten_seconds_to_two_minutes(running: int, seconds: int) -> None:
    assert Fleet(running).quiet == seconds
    assert running / Fleet(running).quiet <= 500 or seconds == 120


@pytest.mark.parametrize(("watched", "seconds"), [(1, 10), (2_500, 10), (10_000, 40), (50_000, 100)])
def test_what_is_watched_reports_more_often_as_far_as_there_is_room_for_it(watched: int, seconds: int) -> None:
    assert Fleet(50_000, watched).of_watched == seconds


def test_a_quiet_keeper_is_asked_back_late_and_one_that_has_news_soon(make_attempt, fleet) -> None:
    fleet(50_000)
    attempt = make_attempt()
    assert within(attempt, started()) == 10, "it has just begun"
    assert within(attempt) == 100
    assert within(attempt, metric(2)) == 10
    assert within(attempt) == 100
    attempt.refresh_from_db()
    assert attempt.report_within == 100
    assert within(attempt, metric(3, kind="FINAL"), ended(4)) == 10


def test_keepers_that_came_back_together_do_not_stay_together(make_attempt, fleet) -> None:
    attempt = make_attempt()
    deliver(attempt, started())
    fleet(50_000, chance=1.0)
    assert within(attempt) == 80
    fleet(5_000, chance=1.0)
    assert within(attempt) == 10, "never less than the shortest"


@pytest.mark.parametrize("target", ["USER_CANCELED", "EARLY_STOPPED", "FROZEN"])
def test_a_trial_that_is_to_be_stopped_is_asked_back_soon(make_attempt, fleet, target: str) -> None:
    fleet(50_000)
    attempt = make_attempt()
    deliver(attempt, started())
    Trial.objects.update(target=target)
    answer = deliver(attempt)
    assert answer.body["orders"]
    assert answer.body["next_report_within"] == 10


def test_a_trial_in_a_warm_place_and_a_rank_of_several_are_asked_back_soon(make_attempt, fleet) -> None:
    fleet(50_000)
    attempt = make_attempt()
    deliver(attempt, started())
    assert within(attempt, keeper={"replica": 1}) == 10, "the answer is the way of its orders"
    experiment = attempt.trial.experiment
    now = timezone.now()
    place = Place.objects.create(job_name=attempt.job_name, attempt=attempt, experiment=experiment, key="k",
                                 cluster=experiment.cluster, given_at=now, asked_at=now, opened_at=now)
    Attempt.objects.update(place=place)
    assert within(attempt) == 10


def test_a_page_that_is_open_shortens_the_interval_of_what_it_shows(make_attempt, make_experiment, fleet) -> None:
    fleet(50_000, watched=1)
    of_trial, beside = make_attempt(), make_attempt()
    of_experiment = make_attempt(make_experiment())
    for attempt in (of_trial, beside, of_experiment):
        deliver(attempt, started())
    note_watched([of_experiment.trial.experiment_id], [of_trial.trial_id])
    assert [within(attempt) for attempt in (of_trial, beside, of_experiment)] == [10, 100, 10]
    assert counted().running == 3
    past = timezone.now() - timedelta(seconds=1)
    Trial.objects.update(watched_until=past)
    Experiment.objects.update(watched_until=past)
    assert within(of_trial) == within(of_experiment) == 100, "the pages were closed"


def test_nothing_is_written_of_what_is_watched_in_a_small_installation(make_attempt, fleet) -> None:
    fleet(5_000)
    attempt = make_attempt()
    note_watched([attempt.trial.experiment_id], [attempt.trial_id])
    assert not Trial.objects.filter(watched_until__isnull=False).exists()
    assert not Experiment.objects.filter(watched_until__isnull=False).exists()


def test_watched_trials_are_counted_where_there_are_many(make_attempt, make_experiment, fleet,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    fleet(50_000)
    monkeypatch.setattr(report_intervals, "TOGETHER", 0.1)
    attempts = [make_attempt() for _ in range(2)] + [make_attempt(make_experiment())]
    for attempt in attempts:
        deliver(attempt, started())
    make_attempt()  # it waits
    note_watched([attempts[2].trial.experiment_id], [attempts[0].trial_id])
    assert counted() == Fleet(running=3, watched=2)


def test_trials_are_counted_seldom_the_longer_it_takes(make_attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    now, counts = [0.0], []

    def count() -> Fleet:
        counts.append(now[0])
        now[0] += 1.0
        return Fleet(len(counts))

    monkeypatch.setattr(report_intervals, "counted", count)
    intervals = Intervals(monotonic=lambda: now[0])
    intervals.count_if_due()
    now[0] = 200.0
    intervals.count_if_due()
    assert (counts, intervals.fleet.running) == ([0.0], 1), "counting took a second: not again for 200"
    now[0] = 201.5
    intervals.count_if_due()
    assert intervals.fleet.running == 2

    def fail() -> Fleet:
        raise OperationalError

    monkeypatch.setattr(report_intervals, "counted", fail)
    now[0] = 1000.0
    intervals.count_if_due()
    assert intervals.fleet.running == 2, "the last count stays"


def test_a_keeper_is_not_missed_before_it_was_expected(make_attempt) -> None:
    assert [missed_after(seconds, 60.0).total_seconds() for seconds in (None, 10, 100, 120)] == [60, 60, 130, 150]
    attempt = make_attempt(status="RUNNING")
    now = timezone.now()
    Attempt.objects.update(heard_at=now, report_within=120)
    assert advice_for(attempt.trial_id, now + timedelta(seconds=149)) == []
    [advice] = advice_for(attempt.trial_id, now + timedelta(seconds=151))
    assert "has not called the server for more than 150 seconds" in advice.message


def test_a_page_is_told_when_a_running_trials_keeper_was_heard_and_will_be(make_attempt) -> None:
    attempt = make_attempt(status="RUNNING")
    now = timezone.now()
    assert last_heard(attempt.trial_id, now) is None
    Attempt.objects.update(heard_at=now - timedelta(seconds=40), report_within=100)
    assert last_heard(attempt.trial_id, now) == {"ago": 40.0, "within": 100}
    Attempt.objects.update(report_within=None)
    assert last_heard(attempt.trial_id, now) == {"ago": 40.0, "within": 10}
    Attempt.objects.update(stage="ended")
    assert last_heard(attempt.trial_id, now) is None
