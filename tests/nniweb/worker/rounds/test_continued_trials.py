"""Tuners with budgets: which trial a new one continues is stored with it."""

from __future__ import annotations

from nniweb.experiments.actions.intents import rerun_trial
from nniweb.experiments.models import Experiment, Trial, TunerEvent
from tests.nniweb.worker.conftest import Rig, report

ASHA = {"name": "ASHA", "class_args": {"max_budget": 9}}


def in_order() -> list[Trial]:
    return list(Trial.objects.order_by("sequence_id").select_related("continues"))


def end_all(rig: Rig, experiment: Experiment, count: int) -> None:
    for trial in rig.submitted(experiment, count)[-3:]:
        if not trial.is_finished:
            report(trial, float(trial.sequence_id))


def test_a_trial_that_goes_on_is_stored_with_the_one_that_it_continues(make_rig) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=ASHA, trial_concurrency=3, max_trial_number=9, optimize_mode="maximize")
    for count in (3, 6):
        end_all(rig, experiment, count)
    rig.submitted(experiment, 9)
    continued = {trial.sequence_id: trial.continues.sequence_id for trial in in_order() if trial.continues}
    assert continued == {3: 2, 6: 5}
    parameters = [trial.parameter_sets.get().value for trial in in_order()]
    assert [one["TRIAL_BUDGET"] for one in parameters] == [1, 1, 1, 3, 1, 1, 3, 1, 1]
    assert parameters[3]["x"] == parameters[2]["x"]
    asked = TunerEvent.objects.filter(experiment=experiment, data__event="ask").order_by("number")
    assert [event.data.get("continues") for event in asked] == [None, None, None, 2, None, None, 5, None, None]


def test_a_worker_that_is_begun_anew_continues_the_same_trials(make_rig) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=ASHA, trial_concurrency=3, max_trial_number=9, optimize_mode="maximize")
    end_all(rig, experiment, 3)
    rig.until(lambda: Trial.objects.filter(taught=True).count() == 3)
    rig.runner.work.tuners.forget(experiment.pk)
    end_all(rig, experiment, 6)
    rig.runner.work.tuners.forget(experiment.pk)
    rig.submitted(experiment, 9)
    assert {trial.sequence_id: trial.continues.sequence_id for trial in in_order() if trial.continues} == {3: 2, 6: 5}


def test_the_rerun_that_has_the_result_is_continued_and_a_rerun_continues_the_same(make_rig) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=ASHA, trial_concurrency=1, max_trial_number=3, optimize_mode="maximize")
    report(rig.submitted(experiment, 1)[0], 1.0)
    report(rig.submitted(experiment, 2)[1], 2.0)
    report(rig.submitted(experiment, 3)[2], 3.0)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    best = in_order()[2]
    Trial.objects.filter(pk=best.pk).update(status="FAILED")
    Trial.objects.create(experiment=experiment, sequence_id=3, rerun_of=best, status="SUCCEEDED", final_number=3.0,
                         created_at=best.created_at, ended_at=best.ended_at, taught=True)
    Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id=4, max_trial_number=5, status="RUNNING")
    going_on = rig.submitted(experiment, 4)[-1]
    assert (going_on.sequence_id, going_on.continues.sequence_id) == (4, 3)
    report(going_on, 4.0)
    rig.until(lambda: Trial.objects.get(pk=going_on.pk).is_finished)
    assert rerun_trial(Trial.objects.get(pk=going_on.pk)).continues_id == going_on.continues_id


def test_numbers_of_proposals_may_be_greater_than_those_of_trials(make_rig) -> None:
    """As where an experiment was imported whose tuner had proposed more than was run."""
    rig = make_rig()
    experiment = rig.experiment(tuner=ASHA, trial_concurrency=3, max_trial_number=4, optimize_mode="maximize",
                                next_ask=50)
    end_all(rig, experiment, 3)
    assert rig.submitted(experiment, 4)[-1].continues.sequence_id == 2


def test_trials_with_several_parameter_sets_continue_none(make_rig) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner={"name": "Hyperband", "class_args": {"R": 3}}, trial_concurrency=3,
                                max_trial_number=6, multi_phase=True)
    end_all(rig, experiment, 3)
    rig.submitted(experiment, 6)
    assert not Trial.objects.filter(continues__isnull=False).exists()
