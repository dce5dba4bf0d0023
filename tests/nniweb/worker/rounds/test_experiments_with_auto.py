"""Experiments whose tuner chooses among the others: what it chose is kept, also over a restart of the tuner."""

from typing import Any

from nniweb.experiments.models import Experiment
from tests.nniweb.worker.conftest import Rig, report

GP = {"tuner": "GP", "reason": {"code": "auto_model", "most": 150}}
EARLIER = {"tuner": "TPE", "reason": {"code": "auto_many_running", "most": 100}}


def choice(experiment: Experiment) -> Any:
    return Experiment.objects.values_list("tuner_choice", flat=True).get(pk=experiment.pk)


def test_what_auto_chose_is_kept_and_written_again_only_when_it_is_another_one(rig: Rig) -> None:
    experiment = rig.experiment(tuner={"name": "Auto"}, trial_concurrency=1, max_trial_number=5)
    assert choice(experiment) is None
    report(rig.submitted(experiment, 1)[0], 0.5)
    assert choice(experiment) == GP
    rig.submitted(experiment, 2)
    revision = Experiment.objects.get(pk=experiment.pk).revision
    rig.runner.work.tuners.forget(experiment.pk)  # it is made again and says the same
    rig.rounds()
    assert (choice(experiment), Experiment.objects.get(pk=experiment.pk).revision) == (GP, revision)
    Experiment.objects.filter(pk=experiment.pk).update(tuner_choice=EARLIER, trial_concurrency=2)
    rig.runner.work.tuners.forget(experiment.pk)
    rig.submitted(experiment, 3)
    assert choice(experiment) == GP


def test_another_tuner_chooses_nothing(rig: Rig) -> None:
    experiment = rig.experiment(tuner={"name": "Random"}, trial_concurrency=1, max_trial_number=2)
    rig.submitted(experiment, 1)
    assert choice(experiment) is None
