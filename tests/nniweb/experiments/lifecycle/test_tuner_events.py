"""What an assessor is told when it is made again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from nniweb.experiments.lifecycle.tuner_events import assessor_history
from nniweb.experiments.models import Attempt, CodeVariant, Experiment, Metric

pytestmark = pytest.mark.django_db


def test_a_trial_that_has_changed_since_is_told_as_far_as_it_was(make_attempt: Callable[..., Attempt]) -> None:
    attempt = make_attempt(status="SUCCEEDED", revision=9, intermediate_count=2)
    now = timezone.now()
    for n, revision in ((1, 4), (2, 9)):
        Metric.objects.create(attempt=attempt, n=n, kind="PERIODICAL", sequence=n, value="1", number=1.0,
                              recorded_at=now, received_at=now, revision=revision)
    experiment = attempt.trial.experiment
    assert [(event["event"], event.get("sequence")) for event in assessor_history(experiment, 5)] == [
        ("intermediate", 1)]
    assert [(event["event"], event.get("sequence")) for event in assessor_history(experiment, 9)] == [
        ("intermediate", 1), ("intermediate", 2), ("trial_end", None)]


def test_the_end_of_a_trial_that_somebody_tags_while_the_assessor_is_made_again_is_told(
        make_attempt: Callable[..., Attempt]) -> None:
    attempt = make_attempt(status="SUCCEEDED", revision=9, intermediate_count=1, taught=True)
    now = timezone.now()
    Metric.objects.create(attempt=attempt, n=1, kind="PERIODICAL", sequence=0, value="1", number=1.0, recorded_at=now,
                          received_at=now, revision=4)
    told = [event["event"] for event in assessor_history(attempt.trial.experiment, 5)]
    assert told == ["intermediate", "trial_end"], "nobody tells it later"


def test_a_running_trial_is_told_before_those_that_ended_after_its_last_result(make_attempt: Callable[..., Attempt]
                                                                               ) -> None:
    began = timezone.now()
    order = []
    experiment = None
    for ends_after, status in ((9, "SUCCEEDED"), (3, "SUCCEEDED"), (None, "RUNNING")):
        attempt = make_attempt(experiment, status=status, revision=1, intermediate_count=1, ended_at=(
            None if ends_after is None else began + timedelta(minutes=ends_after)))
        experiment = attempt.trial.experiment
        order.append(attempt.trial.public_id)
        Metric.objects.create(attempt=attempt, n=1, kind="PERIODICAL", sequence=0, value="1", number=1.0,
                              recorded_at=began, received_at=began + timedelta(minutes=5), revision=1)
    assert experiment is not None
    assert [event["trial"] for event in assessor_history(experiment, 9) if event["event"] == "intermediate"] == [
        order[1], order[2], order[0]]


def test_a_custom_tuner_that_is_made_again_is_told_no_results_of_changed_code(make_attempt: Callable[..., Attempt]
                                                                              ) -> None:
    now = timezone.now()
    attempt = make_attempt(status="RUNNING", revision=1, intermediate_count=1, variant=CodeVariant.objects.create(
        sha256="a" * 64, size=1, changed_bytes=1, file_count=1, storage_path="variants/a", last_used=now))
    Metric.objects.create(attempt=attempt, n=1, kind="PERIODICAL", sequence=0, value="1", number=1.0, recorded_at=now,
                          received_at=now, revision=1)
    experiment = Experiment.objects.get()
    assert len(list(assessor_history(experiment, 9))) == 1
    experiment.tuner = {"class_name": "own.Advisor"}
    assert list(assessor_history(experiment, 9)) == []
