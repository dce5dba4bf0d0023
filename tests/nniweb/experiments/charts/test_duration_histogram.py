"""How trials' durations are counted for the chart."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from nniweb.experiments.charts.result_chart import Histogram, durations_of
from nniweb.experiments.models import Attempt, Experiment, Trial

Make = Callable[..., Experiment]


def histogram(experiment: Experiment, durations: list[float]) -> Histogram:
    now = timezone.now()
    for number, duration in enumerate(durations):
        trial = Trial.objects.create(experiment=experiment, sequence_id=number, status="SUCCEEDED", created_at=now,
                                     ended_at=now)
        Attempt.objects.create(trial=trial, job_name=trial.public_id, created_at=now, stage="ended", duration=duration)
    found = durations_of(experiment)
    assert found.until == (now.timestamp() if durations else None)
    return found


@pytest.mark.parametrize(("durations", "width", "counts"), [
    ([], 1.0, []),
    ([0.0, 0.0], 1.0, [2]),
    ([1.0, 1.9, 39.0], 2.0, [2, *[0] * 18, 1]),
    ([0.05], 0.005, [0] * 10 + [1]),
    ([3600.0, 3599.0], 200.0, [0] * 17 + [1, 1]),
])
def test_bars_have_round_widths_and_hold_every_duration(make_experiment: Make, durations: list[float], width: float,
                                                        counts: list[int]) -> None:
    found = histogram(make_experiment(), durations)
    assert (found.bar_width, found.counts) == (pytest.approx(width), counts)


@pytest.mark.parametrize("longest", [1e-6, 0.3, 1.0, 19.99, 20.0, 21.0, 1e5, 86400.0 * 30])
def test_there_are_never_more_bars_than_fit(make_experiment: Make, longest: float) -> None:
    found = histogram(make_experiment(), [longest, longest / 3])
    assert 4 <= len(found.counts) <= 20
    assert sum(found.counts) == 2
