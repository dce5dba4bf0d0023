"""What came of an experiment that has ended, from the counts of its trials and its best result."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from nniweb.documents.experiments import document
from nniweb.experiments.models import Attempt, Experiment

FAILED, STOPPED = {"status": "FAILED"}, {"status": "EARLY_STOPPED"}
GOOD = {"status": "SUCCEEDED", "final_number": 0.5, "final_value": "0.5"}
SILENT, CANCELED = {"status": "SUCCEEDED"}, {"status": "USER_CANCELED"}


@pytest.mark.parametrize(("status", "trials", "outcome"), [
    ("DONE", [GOOD, GOOD], "succeeded"),
    ("DONE", [GOOD, CANCELED], "succeeded"),
    ("DONE", [GOOD, FAILED], "partly_failed"),
    ("STOPPED", [GOOD, FAILED], "partly_failed"),
    ("DONE", [FAILED, FAILED], "failed"),
    ("ERROR", [FAILED, CANCELED], "failed"),
    ("DONE", [SILENT, FAILED], "no_result"),
    ("DONE", [STOPPED], "no_result"),
    ("STOPPED", [], "no_result"),
    ("RUNNING", [FAILED, FAILED], None),
])
def test_the_outcome_follows_from_how_trials_ended(
        make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt],
        status: str, trials: list[dict[str, object]], outcome: str | None) -> None:
    experiment = make_experiment()
    for fields in trials:
        make_attempt(experiment, ended_at=timezone.now(), **fields)
    experiment.status = status
    assert document(experiment)["outcome"] == outcome


def test_a_pareto_front_is_a_result(make_experiment: Callable[..., Experiment],
                                    make_attempt: Callable[..., Attempt]) -> None:
    experiment = make_experiment(objectives=[{"metric": "default", "optimize_mode": "minimize"},
                                             {"metric": "latency", "optimize_mode": "minimize"}])
    make_attempt(experiment, on_front=True, **GOOD)
    experiment.status = "DONE"
    assert document(experiment)["outcome"] == "succeeded"
