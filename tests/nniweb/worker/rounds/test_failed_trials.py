"""What failed trials mean for the experiment: for its tuner, and for its going on."""

import pytest

from nniweb.experiments.actions import intents
from nniweb.experiments.errors import Refused
from nniweb.experiments.lifecycle.tuner_events import tuner_history
from nniweb.experiments.models import Experiment, Trial, TunerEvent
from nniweb.experiments.queries.failures import failures_of
from tests.nniweb.worker.conftest import Rig, report


def told(experiment: Experiment) -> list[float | None]:
    return [event["value"] for event in TunerEvent.objects.filter(
        experiment=experiment, data__event="tell").order_by("number").values_list("data", flat=True)]


def handed_over(experiment: Experiment) -> bool:
    """Whether the platform has a trial that has not ended."""
    return Trial.objects.unfinished().filter(experiment=experiment, attempts__stage="submitted").exists()


def finish(rig: Rig, experiment: Experiment, *ends: float | None, reason: str = "exited") -> None:
    """Trials end one after another: with this result, or (None) with an error."""
    for value in ends:
        before = len(told(experiment))
        rig.until(lambda: handed_over(experiment))
        trial = Trial.objects.unfinished().get(experiment=experiment)
        report(trial, *([] if value is None else [value]), exit_code=1 if value is None else 0, reason=reason)
        rig.until(lambda before=before: len(told(experiment)) > before)


@pytest.mark.parametrize(("mode", "tell", "heard"), [
    ("minimize", None, [None, 0.25, 0.75, None]),
    ("minimize", "worst", [None, 0.25, 0.75, 0.75]),
    ("maximize", "worst", [None, 0.25, 0.75, 0.25]),
    ("minimize", 10.0, [10.0, 0.25, 0.75, 10.0]),
])
def test_the_tuner_is_told_of_failed_trials_what_the_experiment_says(
        rig: Rig, mode: str, tell: str | float | None, heard: list[float | None]) -> None:
    policy = {} if tell is None else {"tellTuner": tell}
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=4, optimize_mode=mode, failed_trials=policy)
    finish(rig, experiment, None, 0.25, 0.75, None)
    assert told(experiment) == heard
    assert [event["value"] for event in tuner_history(experiment) if event["event"] == "tell"] == heard, \
        "a tuner that is rebuilt hears the same"
    assert Trial.objects.filter(experiment=experiment, status="FAILED", final_number=None).count() == 2, \
        "what the tuner is told is no result of the trial"


def test_a_trial_that_its_platform_lost_never_counts_as_a_result(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1, failed_trials={"tellTuner": 10.0})
    finish(rig, experiment, None, reason="lost")
    assert told(experiment) == [None]


def test_an_experiment_is_given_up_after_so_many_failed_trials_in_a_row(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=20, failed_trials={"giveUpAfter": 2})
    finish(rig, experiment, None, 0.5, None, None)
    experiment.refresh_from_db()
    assert experiment.status == "ERROR"
    assert experiment.message == ("2 trials in a row failed, and giveUpAfter is 2. Reasons: The command ended "
                                  "with exit code 1. Fix the cause, then resume the experiment.")
    assert (experiment.reason, experiment.reason_arguments["codes"]) == ("given_up", ["exit_code"])
    rig.rounds()
    assert Trial.objects.filter(experiment=experiment).count() == 4, "nothing new is started"


def test_a_resumed_experiment_counts_its_failures_anew(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=20, failed_trials={"giveUpAfter": 2})
    finish(rig, experiment, None, None)
    experiment.refresh_from_db()
    intents.resume(experiment)
    finish(rig, experiment, None)
    experiment.refresh_from_db()
    assert (experiment.status, experiment.failures_in_row) == ("RUNNING", 1)
    finish(rig, experiment, None)
    experiment.refresh_from_db()
    assert experiment.status == "ERROR"


def test_an_experiment_none_of_whose_trials_succeeded_ends_after_five_equal_failures(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=20)
    finish(rig, experiment, None, None, None, None)
    experiment.refresh_from_db()
    assert experiment.status == "RUNNING"
    finish(rig, experiment, None)
    experiment.refresh_from_db()
    assert (experiment.status, experiment.reason) == ("ERROR", "equal_failures")
    assert experiment.message == ("5 trials in a row failed for the same reason, and none has succeeded: The command "
                                  "ended with exit code 1. Fix the cause, then resume the experiment.")
    assert experiment.reason_arguments["because"]["code"] == "exit_code"


@pytest.mark.parametrize(("policy", "ends"), [
    ({}, [0.5, None, None, None, None, None]),
    ({"giveUpAfterEqual": 0}, [None] * 6),
    ({"giveUpAfter": 7}, [None] * 6),
])
def test_equal_failures_end_nothing_after_a_success_or_where_the_file_says_so(
        rig: Rig, policy: dict[str, int], ends: list[float | None]) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=20, failed_trials=policy)
    finish(rig, experiment, *ends)
    experiment.refresh_from_db()
    assert experiment.status == "RUNNING"


def test_failures_of_several_kinds_end_nothing(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=20)
    finish(rig, experiment, None, None, None)
    finish(rig, experiment, None, reason="lost")
    finish(rig, experiment, None)
    experiment.refresh_from_db()
    assert experiment.status == "RUNNING"
    assert [failures.count for failures in failures_of(experiment, 5)] == [4, 1]


def test_an_experiment_whose_last_trials_failed_ends_with_error_not_done(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=2, failed_trials={"giveUpAfter": 2})
    finish(rig, experiment, None, None)
    rig.rounds()
    experiment.refresh_from_db()
    assert experiment.status == "ERROR"


def test_canceled_trials_neither_count_as_failed_nor_break_the_row(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=20, failed_trials={"giveUpAfter": 2})
    finish(rig, experiment, None)
    rig.until(lambda: handed_over(experiment))
    intents.cancel_trial(Trial.objects.unfinished().get(experiment=experiment))
    finish(rig, experiment, None, reason="stopped")
    finish(rig, experiment, None)
    experiment.refresh_from_db()
    assert experiment.status == "ERROR"
    assert Trial.objects.filter(experiment=experiment).count() == 3


def test_all_failed_trials_are_run_again_with_their_parameters_beyond_the_limit_that_was_set(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=3)
    finish(rig, experiment, None, 0.5, None)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    intents.rerun_failed(experiment)
    experiment.refresh_from_db()
    assert (experiment.status, experiment.max_trial_number) == ("RUNNING", 5)
    for _ in range(2):
        rig.until(lambda: handed_over(experiment))
        report(Trial.objects.unfinished().get(experiment=experiment, attempts__stage="submitted"), 0.25)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    trials = list(Trial.objects.filter(experiment=experiment).order_by("sequence_id"))
    assert [trial.status for trial in trials] == ["FAILED", "SUCCEEDED", "FAILED", "SUCCEEDED", "SUCCEEDED"]
    assert [trial.rerun_of_id for trial in trials[3:]] == [trials[0].pk, trials[2].pk]
    values = [trial.parameter_sets.get().value for trial in trials]
    assert values[3:] == [values[0], values[2]]
    with pytest.raises(Refused, match="There is no failed trial that has not been run again"):
        intents.rerun_failed(experiment)


def test_failed_trials_of_an_experiment_that_was_given_up_are_run_again_once_it_is_resumed(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=20, failed_trials={"giveUpAfter": 1})
    finish(rig, experiment, None)
    experiment.refresh_from_db()
    with pytest.raises(Refused, match="The experiment is ERROR; resume it before submitting a trial"):
        intents.rerun_failed(experiment)
    intents.resume(experiment)
    intents.rerun_failed(experiment)
    assert Trial.objects.filter(experiment=experiment, source="rerun").count() == 1
