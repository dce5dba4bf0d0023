"""Tuners that need results before they can go on: slots stay empty meanwhile, and the experiment does not end."""

from nniweb.experiments.models import Experiment, Trial
from tests.nniweb.worker.conftest import report


def test_a_generation_waits_for_the_last_one_and_the_experiment_goes_on(make_rig, tmp_path) -> None:
    rig = make_rig()
    tuner = {"name": "PBT", "class_args": {"population_size": 3, "all_checkpoint_dir": str(tmp_path)}}
    experiment = rig.experiment(tuner=tuner, trial_concurrency=5, max_trial_number=6)
    first = rig.submitted(experiment, 3)
    report(first[0], 1.0)
    report(first[1], 2.0)
    rig.until(lambda: Trial.objects.filter(experiment=experiment, taught=True).count() == 2)
    rig.rounds(5)
    assert Trial.objects.filter(experiment=experiment).count() == 3
    experiment.refresh_from_db()
    assert experiment.status == "RUNNING"
    report(first[2], 3.0)
    second = rig.submitted(experiment, 6)[3:]
    loaded = [trial.parameter_sets.get().value["load_checkpoint_dir"] for trial in second]
    saved = [trial.parameter_sets.get().value["save_checkpoint_dir"] for trial in first]
    assert set(loaded) <= set(saved)


def test_a_list_of_parameter_sets_ends_the_experiment_when_it_has_run(make_rig) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner={"name": "BatchTuner"}, max_trial_number=None, search_space={
        "all": {"_type": "choice", "_value": [{"lr": 1}, {"lr": 2}]}})
    for trial in rig.submitted(experiment, 2):
        report(trial, 1.0)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    values = [trial.parameter_sets.get().value for trial in Trial.objects.order_by("sequence_id")]
    assert values == [{"lr": 1}, {"lr": 2}]
