"""What a cluster's rounds make of rows, reports and what the platform says."""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.actions import change_and_undo, intents
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Attempt, AuditEntry, ClusterMetadata, Experiment, LogLine, Trial, TunerEvent
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.results.running_time import running_seconds
from nniweb.worker.housekeeping.upkeep import Upkeep
from nniweb.worker.rounds import fill_slots
from nniweb.worker.rounds import runner as runner_module
from nniweb.worker.rounds.observing import observe_trials
from nniweb.worker.rounds.removal import delete_experiments
from nniweb.worker.rounds.telling import teach_tuner
from nniweb.worker.rounds.work_counts import work_counts_of
from tests.nniweb.worker.conftest import Rig, end, report
from tests.trialkeeper.keeper_run import wait_until
from trainingservice.errors import TemporaryError
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job import Interpreter
from trainingservice.trial_job_status import TrialJobStatus


def status_of(experiment: Experiment) -> str:
    experiment.refresh_from_db()
    return experiment.status


def statuses(experiment: Experiment) -> list[str]:
    return list(Trial.objects.filter(experiment=experiment).order_by("sequence_id").values_list("status", flat=True))


def test_an_experiment_runs_to_its_limit(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=5)
    for done in range(5):
        waiting = [trial for trial in rig.submitted(experiment, min(done + 2, 5)) if trial.status == "WAITING"]
        assert len(waiting) <= 2
        report(waiting[0], 0.1, 0.5)
    rig.until(lambda: status_of(experiment) == "DONE")
    assert statuses(experiment) == ["SUCCEEDED"] * 5
    trials = Trial.objects.filter(experiment=experiment).order_by("sequence_id")
    assert [trial.sequence_id for trial in trials] == [trial.ask_number for trial in trials] == [0, 1, 2, 3, 4]
    assert all(trial.taught for trial in trials)
    events = list(TunerEvent.objects.order_by("number").values_list("number", "data__event"))
    assert [number for number, _ in events] == list(range(10))
    assert sorted(event for _, event in events) == ["ask"] * 5 + ["tell"] * 5


def test_a_trial_that_ended_before_its_submission_was_written_down_still_says_when_and_with_which_python(
        rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = DocileTrainingService.submit_trial_job
    monkeypatch.setattr(DocileTrainingService, "submit_trial_job", lambda service, form: replace(
        submit(service, form), interpreter=Interpreter("/env/bin/python3", "3.11.7")))
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    rig.until(lambda: Attempt.objects.exists())
    assert Attempt.objects.get().stage == "submitting"
    rig.wait_for_job()
    report(Trial.objects.get(), 1.0)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE" and not rig.runner.work.submitting)
    trial, attempt = Trial.objects.get(), Attempt.objects.get()
    assert trial.status == "SUCCEEDED"
    assert attempt.stage == "ended"
    assert trial.submitted_at == attempt.submitted_at
    assert (attempt.interpreter, attempt.interpreter_version) == ("/env/bin/python3", "3.11.7")
    assert trial.created_at <= trial.submitted_at <= attempt.end_received_at


def test_a_limit_that_is_raised_takes_a_done_experiment_up_again(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    report(rig.submitted(experiment, 1)[0], 0.5)
    rig.until(lambda: status_of(experiment) == "DONE")
    change_and_undo.change(experiment, {"max_trial_number": 2})
    assert status_of(experiment) == "RUNNING"
    report(rig.submitted(experiment, 2)[1], 0.5)
    rig.until(lambda: status_of(experiment) == "DONE")


def test_concurrency_can_be_changed_while_running(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    rig.submitted(experiment, 1)
    change_and_undo.change(experiment, {"trial_concurrency": 3})
    assert len(rig.submitted(experiment, 3)) == 3
    change_and_undo.change(experiment, {"trial_concurrency": 1})
    rig.rounds()
    assert statuses(experiment) == ["WAITING"] * 3, "shrinking never ends trials"
    report(rig.submitted(experiment, 3)[0], 0.5)
    rig.rounds()
    assert Trial.objects.filter(experiment=experiment).count() == 3


def test_pause_starts_nothing_new_and_lets_running_trials_end(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    [trial] = rig.submitted(experiment, 1)
    intents.pause(experiment)
    report(trial, 0.5)
    rig.rounds()
    assert (status_of(experiment), statuses(experiment)) == ("PAUSED", ["SUCCEEDED"])
    intents.resume(experiment)
    assert len(rig.submitted(experiment, 2)) == 2


def test_stop_ends_all_trials_then_the_experiment(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=2)
    rig.submitted(experiment, 2)
    intents.stop(experiment)
    rig.until(lambda: rig.service.calls.count("cancel_trial_job") == 2)
    assert status_of(experiment) == "STOPPING"
    for trial in Trial.objects.all():
        report(trial, exit_code=143, reason="stopped")
    rig.until(lambda: status_of(experiment) == "STOPPED")
    assert statuses(experiment) == ["USER_CANCELED"] * 2
    assert set(Trial.objects.values_list("message", flat=True)) == {"The experiment was stopped."}


def test_a_stopped_experiment_can_be_resumed(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    report(rig.submitted(experiment, 1)[0], 0.5)
    intents.stop(experiment)
    rig.skip(61)
    rig.until(lambda: status_of(experiment) == "STOPPED")
    intents.resume(experiment)
    trials = rig.submitted(experiment, 1)
    rig.until(lambda: Trial.objects.filter(experiment=experiment).count() == 2)
    assert trials[0].sequence_id == 0
    assert Trial.objects.latest("sequence_id").ask_number == 1, "numbers go on, they do not begin anew"


def test_a_queued_trial_that_was_never_submitted_is_canceled_at_once(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    rig.submitted(experiment, 1)
    queued = intents.submit_trial(experiment, {"x": 0.25})
    intents.cancel_trial(queued)
    queued.refresh_from_db()
    assert (queued.status, queued.message) == ("USER_CANCELED", "Stopped by a person.")
    assert not queued.attempts.exists()


def test_a_running_trial_is_canceled_through_the_platform_and_its_slot_is_refilled(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    [trial] = rig.submitted(experiment, 1)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    rig.until(lambda: statuses(experiment) == ["RUNNING"])
    intents.cancel_trial(trial)
    rig.until(lambda: "cancel_trial_job" in rig.service.calls)
    report(trial, exit_code=0, reason="stopped")
    rig.until(lambda: statuses(experiment)[0] == "USER_CANCELED")
    rig.submitted(experiment, 2)


def test_hand_picked_trials_come_before_the_tuners_and_keep_their_parameters(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    [first] = rig.submitted(experiment, 1)
    picked = intents.submit_trial(experiment, {"x": 0.25, "outside the space": True})
    report(first, 0.5)
    rig.until(lambda: picked.attempts.filter(stage="submitted").exists())
    parameters = picked.parameter_sets.get()
    assert (parameters.value, parameters.parameter_id) == ({"x": 0.25, "outside the space": True}, None)
    report(picked, 0.5)
    rig.submitted(experiment, 3)
    assert not TunerEvent.objects.filter(data__event="tell", data__number=None).exists()


def test_a_rerun_is_a_new_trial_with_the_same_parameters(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=2)
    [first] = rig.submitted(experiment, 1)
    report(first, exit_code=1)
    rig.until(lambda: statuses(experiment)[0] == "FAILED")
    first.refresh_from_db()
    rig.submitted(experiment, 2)
    again = intents.rerun_trial(first)
    assert (again.rerun_of, again.sequence_id) == (first, 2)
    assert again.parameter_sets.get().value == first.parameter_sets.get().value
    experiment.refresh_from_db()
    assert experiment.max_trial_number == 3, "the limit was reached, and grew by one"


@pytest.mark.parametrize("tuner", ["TPE", "GridSearch", "Random"])
def test_a_rerun_with_changes_after_the_end_runs_that_trial_and_no_other(rig: Rig, tuner: str) -> None:
    """Whatever the tuner: it gets none of the slots, and the change of the limit can be seen and undone as others."""
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=2, tuner={"name": tuner})
    for trial in rig.submitted(experiment, 2):
        report(trial, 0.5)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    best = Trial.objects.filter(experiment=experiment).first()
    again = intents.rerun_trial(best, parameters={"x": 0.125})
    experiment.refresh_from_db()
    assert (experiment.status, experiment.max_trial_number, again.sequence_id) == ("RUNNING", 3, 2)
    *_, last = rig.submitted(experiment, 3)
    assert last.parameter_sets.get().value == {"x": 0.125}
    report(last, 0.25)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    assert Trial.objects.filter(experiment=experiment).count() == 3
    assert [change.fields for change in experiment.changes.all()] == [
        {"max_trial_number": {"before": 2, "after": 3}}]


def test_a_rerun_is_refused_where_the_time_is_up_and_the_limit_stays(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 0.5)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    Experiment.objects.filter(pk=experiment.pk).update(max_duration=0)
    trial.refresh_from_db()
    with pytest.raises(Refused, match="maxExperimentDuration"):
        intents.rerun_trial(trial, parameters={"x": 0.125})
    experiment.refresh_from_db()
    assert (experiment.max_trial_number, experiment.status) == (1, "DONE")


def test_the_end_the_platform_saw_waits_for_the_keepers_last_report(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 0.1, end=False)
    rig.service.say(trial.public_id, TrialJobStatus.SUCCEEDED)
    rig.rounds()
    assert statuses(experiment) == ["RUNNING"]
    report(trial, 0.1, 0.5)
    rig.until(lambda: status_of(experiment) == "DONE")
    trial.refresh_from_db()
    assert (trial.status, trial.final_number) == ("SUCCEEDED", 0.5)


def test_a_trial_began_when_its_keeper_says_not_when_that_was_seen(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    rig.until(lambda: Trial.objects.get().status == "RUNNING")
    seen = Trial.objects.get()
    report(trial, end=False)
    began = Attempt.objects.get().started_at
    assert began == Trial.objects.get().started_at
    assert began < seen.started_at, "the report says that it was long ago"
    assert Trial.objects.get().revision > seen.revision, "open pages hear of it"


def test_without_a_last_report_the_platforms_word_counts_after_the_drain_time(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    rig.service.say(trial.public_id, TrialJobStatus.FAILED, message="The node was lost.", exit_code=137)
    rig.rounds()
    assert statuses(experiment) == ["WAITING"]
    rig.skip(61)
    rig.until(lambda: statuses(experiment) == ["FAILED"])
    trial.refresh_from_db()
    assert (trial.message, trial.attempts.get().exit_code) == ("The node was lost.", 137)


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_clock_that_jumps_neither_prolongs_nor_cuts_the_wait_for_a_last_report(rig: Rig, jump: float) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 0.1, end=False)
    rig.service.say(trial.public_id, TrialJobStatus.FAILED, message="The node was lost.")
    rig.until(lambda: Attempt.objects.get().observed_end)
    rig.clock_error = jump
    rig.skip(59)
    report(trial, 0.1, 0.2, end=False)  # its keeper is still there
    rig.skip(2)
    rig.rounds()
    assert statuses(experiment) == ["RUNNING"]
    rig.skip(61)  # and then no more
    rig.until(lambda: statuses(experiment) == ["FAILED"])


def test_what_a_platform_said_is_looked_at_again_where_it_could_not_be_written(
        rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    rig.rounds()
    write = observe_trials._write

    def full(*_: object) -> None:
        raise OperationalError("database or disk is full")

    def try_and_fail() -> None:
        monkeypatch.setattr(observe_trials, "_write", full)
        with pytest.raises(OperationalError):
            rig.until(lambda: False)
        monkeypatch.setattr(observe_trials, "_write", write)

    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    try_and_fail()
    rig.until(lambda: statuses(experiment) == ["RUNNING"])  # by its bell: no full look is due
    with rig.service._lock:
        waiting = replace(rig.service._jobs[trial.public_id], status=TrialJobStatus.WAITING)
        rig.service._jobs[trial.public_id] = waiting
    rig.skip(31)
    try_and_fail()
    rig.until(lambda: statuses(experiment) == ["WAITING"])  # by a full look: nothing rang


def test_a_job_that_never_started_ends_at_once_with_the_platforms_sentence(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    rig.service.say(trial.public_id, TrialJobStatus.FAILED, message="It asks for 4 GPUs.", start_time=None)
    rig.until(lambda: statuses(experiment) == ["FAILED"])
    assert Trial.objects.get().message == "It asks for 4 GPUs."


def test_a_waiting_trial_says_why(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    [trial] = rig.submitted(experiment, 1)
    rig.service.say(trial.public_id, TrialJobStatus.WAITING, message="It waits for a GPU.", start_time=None)
    rig.until(lambda: Trial.objects.get().message == "It waits for a GPU.")


def test_a_job_the_platform_requeued_waits_again(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    [trial] = rig.submitted(experiment, 1)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    rig.until(lambda: statuses(experiment) == ["RUNNING"])
    rig.service.say(trial.public_id, TrialJobStatus.WAITING, message="Its node was drained.")
    rig.until(lambda: statuses(experiment) == ["WAITING"])
    assert Trial.objects.get().message == "Its node was drained."


def test_unknown_is_shown_after_five_minutes_of_silence_and_is_not_an_end(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 0.1, end=False)
    rig.service.say(trial.public_id, TrialJobStatus.UNKNOWN)
    rig.until(lambda: Attempt.objects.get().unseen_since is not None)
    Attempt.objects.update(heard_at=timezone.now() + timedelta(seconds=300))
    rig.skip(400)
    rig.rounds()
    assert statuses(experiment) == ["RUNNING"], "its keeper was heard"
    rig.skip(400)
    rig.until(lambda: statuses(experiment) == ["UNKNOWN"])
    report(trial, 0.1, 0.5)
    rig.until(lambda: statuses(experiment)[0] == "SUCCEEDED")


def test_a_keeper_that_may_be_quiet_for_two_minutes_is_not_given_up_earlier(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, end=False)
    Attempt.objects.update(report_within=120)
    end(rig, trial)
    rig.until(lambda: Attempt.objects.filter(observed_end__isnull=False).exists())
    rig.skip(140)
    rig.rounds()
    assert statuses(experiment) == ["RUNNING"]
    rig.skip(20)
    rig.until(lambda: status_of(experiment) == "DONE")


def test_a_keeper_of_a_large_installation_that_was_just_heard_costs_no_write_while_its_platform_is_away(
        rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 0.1, end=False)
    Attempt.objects.update(report_within=120)
    rig.service.say(trial.public_id, TrialJobStatus.UNKNOWN)
    rig.rounds()
    assert Attempt.objects.get().unseen_since is None
    rig.skip(160)
    rig.until(lambda: Attempt.objects.get().unseen_since is not None)
    assert statuses(experiment) == ["RUNNING"]
    rig.skip(301)
    rig.until(lambda: statuses(experiment) == ["UNKNOWN"])


def test_what_the_platform_says_of_a_state_it_does_not_know_replaces_why_the_trial_waited(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    [trial] = rig.submitted(experiment, 1)
    rig.service.say(trial.public_id, TrialJobStatus.WAITING, message="Waits in the queue.")
    rig.until(lambda: Trial.objects.get().message == "Waits in the queue.")
    rig.service.say(trial.public_id, TrialJobStatus.UNKNOWN, message="Its node does not answer.")
    rig.until(lambda: Trial.objects.get().message == "Its node does not answer.")
    assert statuses(experiment) == ["WAITING"]
    rig.skip(400)
    rig.until(lambda: statuses(experiment) == ["UNKNOWN"])
    assert Trial.objects.get().message == "Its node does not answer."
    rig.service.say(trial.public_id, TrialJobStatus.WAITING, message="Waits in the queue.")
    rig.until(lambda: statuses(experiment) == ["WAITING"])
    assert Trial.objects.get().message == "Waits in the queue."


def test_an_experiment_ends_at_its_longest_duration(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=None, max_duration=3600)
    [trial] = rig.submitted(experiment, 1)
    rig.skip(3601)
    rig.until(lambda: status_of(experiment) == "NO_MORE_TRIAL")
    assert "maxExperimentDuration" in experiment.message
    report(trial, 0.5)
    rig.until(lambda: status_of(experiment) == "DONE")
    assert len(statuses(experiment)) == 1


def test_the_time_in_which_the_last_trials_run_counts_as_in_nni(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    rig.until(lambda: status_of(experiment) == "NO_MORE_TRIAL")
    rig.skip(500)
    report(trial, 0.5)
    rig.until(lambda: status_of(experiment) == "DONE")
    assert 500 <= running_seconds(experiment, rig.runner.work.now()) < 600
    rig.skip(1000)  # what is done has no time any more
    assert running_seconds(experiment, rig.runner.work.now()) < 600


def test_pauses_do_not_count_towards_the_longest_duration(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_duration=3600)
    rig.submitted(experiment, 1)
    intents.pause(experiment)
    rig.skip(3601)
    rig.rounds()
    Experiment.objects.filter(pk=experiment.pk).update(target="RUN")
    assert status_of(experiment) == "PAUSED"
    assert experiment.running_seconds < 100


def test_the_worker_stops_a_trial_whose_keeper_forgot_the_time_limit(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_duration=60)
    [trial] = rig.submitted(experiment, 1)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    rig.until(lambda: statuses(experiment) == ["RUNNING"])
    rig.clock_error = 3600
    for _ in range(2):
        rig.skip(31)  # all trials are looked at every 30 s
        rig.rounds()
    assert Trial.objects.get().target == "RUN", "a wall clock that is put forward ends nothing"
    rig.skip(100)
    rig.until(lambda: Trial.objects.get(pk=trial.pk).target == "EARLY_STOPPED")


def test_the_assessor_stops_a_bad_trial_early(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=2, optimize_mode="maximize", assessor={"name": "Medianstop",
                                                                                       "class_args": {}})
    good, bad = rig.submitted(experiment, 2)
    report(good, 0.9, 0.9, 0.9, 0.9)
    rig.until(lambda: Trial.objects.get(pk=good.pk).taught)
    report(bad, 0.1, 0.1, end=False)
    rig.until(lambda: Trial.objects.get(pk=bad.pk).target == "EARLY_STOPPED")
    report(bad, 0.1, 0.1, exit_code=143, reason="stopped")  # one metric too few is no matter: numbers go on
    rig.until(lambda: Trial.objects.get(pk=bad.pk).status == "EARLY_STOPPED")


def test_an_exhausted_grid_ends_the_experiment(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=3, max_trial_number=None, tuner={"name": "GridSearch"},
                                search_space={"x": {"_type": "choice", "_value": [1, 2]}})
    for trial in rig.submitted(experiment, 2):
        report(trial, 0.5)
    rig.until(lambda: status_of(experiment) == "DONE")
    assert len(statuses(experiment)) == 2
    assert "no further parameters" in experiment.message


def test_a_tuner_that_raises_stops_its_own_experiment_with_the_reason_and_no_other(rig: Rig) -> None:
    broken = rig.experiment(tuner={"name": "NoSuchTuner"})
    sound = rig.experiment(trial_concurrency=1)
    rig.until(lambda: status_of(broken) == "ERROR")
    assert "NoSuchTuner" in broken.message
    rig.submitted(sound, 1)
    assert status_of(sound) == "RUNNING"


def test_the_tuner_hears_of_an_end_before_it_is_asked_for_more(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    [trial] = rig.submitted(experiment, 1)
    experiment.refresh_from_db()
    found = work_counts_of([experiment.pk], experiment.cluster_id)[experiment.pk]
    teach_tuner.teach_tuner(rig.runner.work, experiment, found)
    report(trial, 0.5)  # just between two steps of a round
    with monkeypatch.context() as patch:
        asked: list[int] = []
        patch.setattr(rig.runner.work.tuners, "ask", lambda experiment, number, count, done: asked.append(number))
        fill_slots.fill_slots(rig.runner.work, experiment, found)
    assert asked == []
    rig.submitted(experiment, 2)
    events = TunerEvent.objects.order_by("number").values_list("data__event", "data__number")
    assert list(events) == [("ask", 0), ("tell", 0), ("ask", 1)]


def test_a_tuner_process_that_dies_is_rebuilt_and_suggests_the_same(rig: Rig) -> None:
    space = {"x": {"_type": "uniform", "_value": [0, 1]}}
    parameters = []
    for kill in (False, True):
        experiment = rig.experiment(trial_concurrency=1, tuner={"name": "TPE"}, search_space=space, seed=5)
        for number in range(6):
            trial = rig.submitted(experiment, number + 1)[number]
            if kill and number == 3:
                os.kill(rig.tuner_client.pid, signal.SIGKILL)
            report(trial, trial.parameter_sets.get().value["x"])
        parameters.append([trial.parameter_sets.get().value for trial in rig.submitted(experiment, 6)[:6]])
        intents.pause(experiment)
    assert parameters[0] == parameters[1]


def test_a_new_search_space_reaches_the_tuner(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    [first] = rig.submitted(experiment, 1)
    change_and_undo.change(experiment, {"search_space": {"y": {"_type": "choice", "_value": [7]}}})
    report(first, 0.5)
    assert rig.submitted(experiment, 2)[1].parameter_sets.get().value == {"y": 7}
    assert TunerEvent.objects.filter(data__event="search_space").count() == 1


def test_a_tuner_that_is_made_again_is_not_told_a_search_space_again(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    [first] = rig.submitted(experiment, 1)
    for value in (7, 8):  # between two rounds
        change_and_undo.change(experiment, {"search_space": {"y": {"_type": "choice", "_value": [value, 9]}}})
    report(first, 0.5)
    second = rig.submitted(experiment, 2)[1]
    os.kill(rig.tuner_client.pid, signal.SIGKILL)
    report(second, 0.5)
    rig.submitted(experiment, 3)
    assert [event["event"] for event in TunerEvent.objects.order_by("number").values_list("data", flat=True)] == [
        "ask", "search_space", "tell", "ask", "tell", "ask"]


def test_a_wrong_search_space_names_its_field_and_changes_nothing(rig: Rig) -> None:
    experiment = rig.experiment()
    with pytest.raises(Refused) as refused:
        change_and_undo.change(experiment, {"search_space": {"x": {"_type": "uniform", "_value": [2, 1]}}})
    assert refused.value.errors[0][0].startswith("search_space.x")
    experiment.refresh_from_db()
    assert experiment.search_space_version == 0


def test_a_deleted_experiment_is_cleaned_up_on_the_platform_and_gone(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    report(rig.submitted(experiment, 1)[0], 0.1, 0.5)
    rig.until(lambda: status_of(experiment) == "DONE")
    LogLine.objects.create(experiment=experiment, number=1, at=timezone.now(), level=20, source="worker", message="x")
    intents.delete(experiment)
    assert Upkeep(sleep=lambda seconds: None).look()
    rig.until(lambda: not Experiment.objects.exists())
    assert "clean_up_experiment" in rig.service.calls
    assert not Trial.objects.exists()
    assert not LogLine.objects.exists()


def test_what_a_platform_cannot_remove_is_tried_again_and_given_up_after_a_week(
        rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    report(rig.submitted(experiment, 1)[0], 0.1, 0.5)
    rig.until(lambda: status_of(experiment) == "DONE")
    tries = []

    def refuse(experiment_id: str) -> None:
        tries.append(experiment_id)
        raise TemporaryError("gpu7 does not answer")

    monkeypatch.setattr(rig.service, "clean_up_experiment", refuse)
    intents.delete(experiment)
    assert Upkeep(sleep=lambda seconds: None).look()
    for pause in delete_experiments.PAUSES:
        before = len(tries)
        rig.until(lambda before=before: Experiment.objects.get().cleanup_tries > before)
        rig.rounds()
        assert len(tries) == before + 1, "before the pause is over"
        rig.skip(pause + 1)
    assert Experiment.objects.get().message == \
        f"Its data on cluster {rig.cluster.name} cannot be removed yet: gpu7 does not answer"
    assert "next try in 10 s" in caplog.text
    rig.until(lambda: not Experiment.objects.exists())
    assert len(tries) == len(delete_experiments.PAUSES) + 1
    left = AuditEntry.objects.get(action="experiment.left-behind")
    assert (left.target, left.details["why"]) == (experiment.public_id, "gpu7 does not answer")


def test_a_rounds_work_does_not_grow_with_the_history(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=None)
    rig.submitted(experiment, 1)
    stood = rig.runner.work.monotonic()
    rig.runner.work.monotonic = lambda: stood  # looks that come after some seconds would come in one of the two alone

    def settled() -> list[str]:
        """What a round asks when the platform says nothing new: as much as the one before it."""
        before: list[str] = []
        for _ in range(100):
            with CaptureQueriesContext(connection) as captured:
                rig.runner.round()
            asked = [query["sql"] for query in captured]
            if len(asked) == len(before):
                return asked
            before = asked
        pytest.fail(f"each round asks something else: {before}")

    asked = []
    for _ in range(2):
        asked.append(settled())
        experiment.refresh_from_db()
        first = experiment.next_sequence_id
        Trial.objects.bulk_create(
            Trial(experiment=experiment, sequence_id=first + number, status="SUCCEEDED", taught=True,
                  created_at=timezone.now()) for number in range(500))
        experiment.next_sequence_id += 500
        experiment.save()
    assert len(asked[0]) == len(asked[1]), asked


def test_what_has_ended_is_kept_in_rows_alone(rig: Rig) -> None:
    """Neither the worker nor the platform's object grows with the trials that are over."""
    experiment = rig.experiment(trial_concurrency=4, max_trial_number=None)
    kept = []
    for done in range(0, 40, 4):
        for trial in rig.submitted(experiment, done + 4)[done:]:
            rig.until(lambda trial=trial: Attempt.objects.filter(  # type: ignore[misc]
                trial=trial, stage="submitted", trial__in=Trial.objects.unfinished()).exists())
            report(trial, 1.0)
            end(rig, trial)
        rig.until(lambda done=done: Trial.objects.filter(taught=True).count() >= done + 4)  # type: ignore[misc]
        rig.until(lambda: all(not job.status.is_end for job in rig.service.list_trial_jobs()))
        kept.append({name: len(value) for name, value in vars(rig.runner.work).items()
                     if isinstance(value, (dict, set, list))})
    assert max(sum(counts.values()) for counts in kept[1:]) <= sum(kept[0].values()) + 4, kept
    assert len(rig.service.list_trial_jobs()) <= 4


def test_an_end_that_only_the_platform_has_told_is_remembered_until_it_is_written(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, end=False)
    end(rig, trial)
    rig.until(lambda: Attempt.objects.filter(observed_end__isnull=False).exists())
    rig.rounds()
    assert [job.id for job in rig.service.list_trial_jobs()] == [trial.public_id]
    rig.skip(observe_trials.DRAIN_SECONDS + 1)
    rig.until(lambda: status_of(experiment) == "DONE")
    rig.skip(observe_trials.FULL_LOOK_SECONDS + 1)
    rig.until(lambda: not rig.service.list_trial_jobs())


class Noting(DocileTrainingService):
    metadata_keys: ClassVar[dict[str, str]] = {"queue": "Where jobs go."}

    def set_cluster_metadata(self, key: str, value: str) -> None:
        self.calls.append("set_cluster_metadata")


def test_a_service_is_called_in_the_promised_order(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(Noting)
    ClusterMetadata.objects.create(cluster=rig.cluster, key="queue", value="fast")
    rig.submitted(rig.experiment(trial_concurrency=1), 1)
    wanted = ["set_cluster_metadata", "resume_trial_jobs", "run", "submit_trial_job"]
    assert sorted(wanted, key=rig.service.calls.index) == wanted


def test_a_slot_is_filled_by_the_bell_not_by_the_next_round(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "ROUND_SECONDS", 3600.0)
    experiment = rig.experiment(trial_concurrency=1)
    [first] = rig.submitted(experiment, 1)
    full_round, one_round = threading.Event(), rig.runner.round

    def round_and_note(bell: doorbell.Listener, is_full: bool, gathers: bool) -> None:
        one_round(bell, is_full, gathers)
        if is_full:
            full_round.set()

    monkeypatch.setattr(rig.runner, "round", round_and_note)
    rig.runner.start()
    assert full_round.wait(90)

    def submitted() -> int:
        return Attempt.objects.filter(trial__experiment=experiment, stage__in=["submitted", "ended"]).count()

    try:
        report(first, 0.5)
        wait_until(lambda: submitted() >= 2, 60, "a trial that is submitted before the next round")
    finally:
        rig.runner.stop()
        rig.runner.join(60)
