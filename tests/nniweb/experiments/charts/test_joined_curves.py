"""The curve of a trial whose attempt went on from a checkpoint: joined there, with the latest value of each step."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from nniweb.dashboard.trial.trial_report import TrialReport
from nniweb.experiments.charts.intermediate_series import Which, series_of_these, series_of_which, whole_curves
from nniweb.experiments.checkpoints.joined_attempts import IS_RESUMED
from nniweb.experiments.downloads.export import json_pieces
from nniweb.experiments.lifecycle.tuner_events import assessor_history
from nniweb.experiments.models import Attempt, Checkpoint, Experiment, Metric, Trial

pytestmark = pytest.mark.django_db
BEGAN = timezone.now()


def reported(attempt: Attempt, *values: float) -> Attempt:
    Attempt.objects.filter(pk=attempt.pk).update(started_at=BEGAN)
    Trial.objects.filter(pk=attempt.trial_id).update(intermediate_count=len(values), revision=1)
    Metric.objects.bulk_create(Metric(
        attempt=attempt, n=n + 2, kind="PERIODICAL", sequence=n, value=str(value), number=value,
        recorded_at=BEGAN + timedelta(seconds=10 * n), received_at=BEGAN) for n, value in enumerate(values))
    return attempt


def next_attempt(attempt: Attempt, after: int | None = None) -> Attempt:
    """``after``: the number of results in the joined curve at the checkpoint from which it goes on; None: of none."""
    checkpoint = None if after is None else Checkpoint.objects.create(
        attempt=attempt, trial=attempt.trial, manifest=f"{attempt.number:064x}", name="c", size=1, file_count=1,
        joined_sequence=after, confirmed_at=BEGAN, created_at=BEGAN)
    number = attempt.number + 1
    return Attempt.objects.create(trial=attempt.trial, number=number, job_name=f"{attempt.trial.public_id}r{number}",
                                  created_at=BEGAN, resumed_from=checkpoint, first_sequence=after)


@pytest.fixture
def resumed(make_attempt: Callable[..., Attempt]) -> Attempt:
    """0.0 to 0.4; from 2 on 1.0, 1.1; the last value of the first attempt is not repeated yet."""
    return reported(next_attempt(reported(make_attempt(), 0.0, 0.1, 0.2, 0.3, 0.4), after=2), 1.0, 1.1)


CURVE = [(0, 0.0), (1, 0.1), (2, 1.0), (3, 1.1), (4, 0.4)]


def test_values_that_are_repeated_replace_those_before_and_both_stay(resumed: Attempt) -> None:
    [one] = series_of_these(resumed.trial.experiment, ["0"], 100).series
    assert list(zip(one.steps, one.values, strict=True)) == CURVE
    assert one.seconds == [0, 10, 10, 20, 40], "time goes on from the result before the checkpoint"
    assert Metric.objects.count() == 7


def test_the_trials_page_shows_the_same_curve_and_of_an_earlier_attempt_its_own(resumed: Attempt) -> None:
    assert TrialReport(resumed.trial).curve == CURVE
    assert TrialReport(resumed.trial, attempt=1).curve == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]


def test_a_curve_is_joined_over_several_attempts(resumed: Attempt) -> None:
    third = reported(next_attempt(resumed, after=3), 2.0, 2.1, 2.2)
    [one] = whole_curves([third.trial])
    assert one.values == [0.0, 0.1, 1.0, 2.0, 2.1, 2.2]


def test_an_attempt_from_the_beginning_begins_a_new_curve(resumed: Attempt) -> None:
    reported(next_attempt(resumed), 9.0)
    [one] = whole_curves([resumed.trial])
    assert (one.steps, one.values) == ([0], [9.0])


def test_an_attempt_that_has_reported_nothing_yet_shows_what_it_goes_on_from(make_attempt) -> None:
    attempt = next_attempt(reported(make_attempt(), 0.0, 0.1), after=1)
    assert whole_curves([attempt.trial])[0].values == [0.0, 0.1]
    assert TrialReport(attempt.trial).curve == [(0, 0.0), (1, 0.1)]


@pytest.fixture
def continued(make_attempt: Callable[..., Attempt]) -> Attempt:
    """0.0, 0.1, 0.2, of which the last was after the checkpoint; another trial continues it there with 1.0, 1.1."""
    parent = reported(make_attempt(), 0.0, 0.1, 0.2)
    child = make_attempt(parent.trial.experiment, continues=parent.trial)
    child.resumed_from = Checkpoint.objects.create(
        attempt=parent, trial=parent.trial, manifest="0" * 64, name="c", size=1, file_count=1, joined_sequence=2,
        confirmed_at=BEGAN, created_at=BEGAN)
    child.first_sequence = 2
    child.save()
    return reported(child, 1.0, 1.1)


def test_a_trial_that_continues_another_one_has_its_curve_up_to_the_checkpoint(continued: Attempt) -> None:
    both = series_of_these(continued.trial.experiment, ["0", "1"], 100).series
    assert [list(zip(one.steps, one.values, strict=True)) for one in both] == [
        [(0, 0.0), (1, 0.1), (2, 0.2)], [(0, 0.0), (1, 0.1), (2, 1.0), (3, 1.1)]]
    assert both[1].seconds == [0, 10, 10, 20]
    [alone] = whole_curves([continued.trial])
    assert alone.values == [0.0, 0.1, 1.0, 1.1]
    assert TrialReport(continued.trial).curve == [(0, 0.0), (1, 0.1), (2, 1.0), (3, 1.1)]
    text = "".join(json_pieces(continued.trial.experiment, Trial.objects.all(), intermediate=True))
    assert [one["intermediate"] for one in json.loads(text)["trials"]] == [
        ["0.0", "0.1", "0.2"], ["0.0", "0.1", "1.0", "1.1"]]


def test_a_curve_goes_on_over_retries_of_both_trials(continued: Attempt) -> None:
    child = reported(next_attempt(continued, after=3), 2.0)
    parent = reported(next_attempt(continued.resumed_from.attempt), 9.0)
    assert [one.values for one in whole_curves([child.trial, parent.trial])] == [[0.0, 0.1, 1.0, 2.0], [9.0]]


def test_the_assessor_is_told_what_a_trial_has_of_the_one_that_it_continues(continued: Attempt) -> None:
    experiment = Experiment.objects.get()
    told = [(event["sequence"], event["value"], event.get("inherited", False))
            for event in assessor_history(experiment, 10**9)
            if event["event"] == "intermediate" and event["trial"] == continued.trial.public_id]
    assert told == [(0, 0.0, True), (1, 0.1, True), (2, 1.0, False), (3, 1.1, False)]


def test_the_export_has_the_joined_curve(resumed: Attempt) -> None:
    text = "".join(json_pieces(resumed.trial.experiment, Trial.objects.filter(pk=resumed.trial_id), intermediate=True))
    [trial] = json.loads(text)["trials"]
    assert [float(value) for value in trial["intermediate"]] == [value for _, value in CURVE]


def test_the_assessor_is_told_places_in_the_joined_curve(resumed: Attempt) -> None:
    experiment = Experiment.objects.get()
    told = [(event["sequence"], event["value"]) for event in assessor_history(experiment, 10**9)
            if event["event"] == "intermediate"]
    assert told == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4), (2, 1.0), (3, 1.1)]


def test_trials_without_checkpoints_cost_no_question_more(make_attempt, make_experiment, django_assert_num_queries
                                                         ) -> None:
    experiment = make_experiment()
    for _ in range(3):
        reported(make_attempt(experiment), 0.1, 0.2)
    with django_assert_num_queries(2):
        found = series_of_which(experiment, Which.LATEST, 10, 100)
    assert [one.values for one in found.series] == [[0.1, 0.2]] * 3
    trials: list[Any] = list(Trial.objects.annotate(is_resumed=IS_RESUMED))
    with django_assert_num_queries(1):
        whole_curves(trials)
