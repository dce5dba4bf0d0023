"""What keeps keepers from finding metrics of a script is told in the experiment's history."""

import pytest

from nniweb.experiments.models import ExperimentEvent
from tests.nniweb.experiments.ingest.test_ingest import deliver, ended, started

pytestmark = pytest.mark.django_db


def test_each_kind_of_problem_is_told_once_of_the_first_trial_that_has_it(make_attempt, make_experiment) -> None:
    experiment = make_experiment()
    first, second = make_attempt(experiment), make_attempt(experiment)
    none = [{"problem": "no_result", "detail": "loss, acc"}]
    slow = {"problem": "slow_pattern", "detail": "lines of stdout"}
    deliver(first, started(), ended(2, metric_problems=none))
    deliver(second, started(), ended(2, metric_problems=[*none, slow, {"problem": "other"}, "text"]))
    said = [event.message for event in ExperimentEvent.objects.filter(kind__startswith="metrics").order_by("pk")]
    assert len(said) == 2
    number = first.trial.sequence_id
    assert said[0].startswith(f"Trial {number} ended well, but its result was not found. Found: loss, acc.")
    assert "the pattern for lines of stdout takes too long" in said[1]
    assert f"trial {second.trial.sequence_id} " in said[1]
