"""What a round asks for does not look at a long history."""

from collections.abc import Callable

from django.db import connection
from django.utils import timezone

from nniweb.experiments.models import Experiment, Trial


def test_ends_that_the_tuner_was_not_told_of_are_found_without_looking_at_the_others(
        make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment()
    now = timezone.now()
    for number, (status, taught) in enumerate((("SUCCEEDED", True), ("FAILED", False), ("RUNNING", False))):
        Trial.objects.create(experiment=experiment, sequence_id=number, status=status, taught=taught, created_at=now)
    found = Trial.objects.not_taught().filter(experiment=experiment)
    assert [trial.sequence_id for trial in found] == [1]
    if connection.vendor == "sqlite":
        assert "INDEX trials_not_taught" in found.explain()
