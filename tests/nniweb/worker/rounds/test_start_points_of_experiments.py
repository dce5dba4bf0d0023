"""Points that a person gives run first, also when its tuner is made again, and with replicates."""

from typing import Any

from nniweb.experiments.models import Experiment, TrialParameters, TunerEvent
from tests.nniweb.worker.conftest import Rig, end, report

POINTS = [{"x": 0.25}, {"x": 0.5}, {"x": 0.75}]


def parameters(experiment: Experiment) -> list[dict[str, Any]]:
    return list(TrialParameters.objects.filter(trial__experiment=experiment).order_by("trial__sequence_id").values_list(
        "value", flat=True))


def test_they_run_first_and_a_new_tuner_goes_on_where_the_last_one_was(rig: Rig) -> None:
    experiment = rig.experiment(config={"startPoints": POINTS}, tuner={"name": "TPE"}, max_trial_number=5)
    first, second = rig.submitted(experiment, 2)
    assert parameters(experiment) == POINTS[:2]
    rig.runner.work.tuners.forget(experiment.pk)  # its tuner is made again from the record
    for trial in (first, second):
        report(trial, 1.0)
        end(rig, trial)
    rig.submitted(experiment, 4)
    assert parameters(experiment)[:3] == POINTS
    assert parameters(experiment)[3] not in POINTS
    told = [data for data in TunerEvent.objects.filter(experiment=experiment).order_by("number").values_list(
        "data", flat=True) if data["event"] == "tell"]
    assert [(event["number"], event["parameters"]) for event in told] == [(0, POINTS[0]), (1, POINTS[1])]


def test_each_is_repeated_as_a_proposal_of_the_tuner_is(rig: Rig) -> None:
    experiment = rig.experiment(config={"startPoints": POINTS}, replicates={"n": 2, "racing": False},
                                trial_concurrency=4)
    rig.submitted(experiment, 4)
    assert sorted(point["x"] for point in parameters(experiment)[:4]) == [0.25, 0.25, 0.5, 0.5]
