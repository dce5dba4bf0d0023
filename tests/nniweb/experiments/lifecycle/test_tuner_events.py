"""What an assessor is told when it is made again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils import timezone

from nniweb.experiments.lifecycle.tuner_events import assessor_history
from nniweb.experiments.models import Attempt, Metric

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
