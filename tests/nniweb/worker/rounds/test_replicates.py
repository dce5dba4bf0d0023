"""Proposals that are run as several trials: what is started, what the tuner is told, and what survives a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from nniweb.experiments.actions import intents
from nniweb.experiments.launch.job_forms import application_form
from nniweb.experiments.models import (
    ApiToken,
    Attempt,
    Budget,
    Experiment,
    NotificationDelivery,
    NotificationRule,
    Proposal,
    Trial,
    TunerEvent,
)
from nniweb.experiments.models.trial import TrialSource
from nniweb.experiments.results.progress import progress_of
from nniweb.experiments.results.replicates import seed_of
from nniweb.experiments.retention.removal import Pace
from nniweb.worker.housekeeping.remove_rows import remove_rows_of
from nniweb.worker.rounds import fill_slots
from nniweb.worker.rounds.telling import teach_tuner
from tests.nniweb.worker.conftest import Rig, end, report
from trainingservice.trial_job import KeeperAccess

OWN = """
from nni.tuner import Tuner

class Mine(Tuner):
    def __init__(self):
        self.heard = []
        self.accept_customized_trials(True)
    def update_search_space(self, space):
        pass
    def generate_parameters(self, parameter_id, **more):
        given, self.heard = self.heard, []
        return {"heard": given}
    def receive_trial_result(self, parameter_id, parameters, value, **more):
        self.heard.append([parameter_id, parameters, value])
"""
THREE: dict[str, Any] = {"n": 3}


def told(experiment: Experiment) -> list[dict[str, Any]]:
    return [data for data in TunerEvent.objects.filter(experiment=experiment).order_by("number").values_list(
        "data", flat=True) if data["event"] == "tell"]


def proposal(experiment: Experiment, first: int = 0) -> Proposal:
    return Proposal.objects.get(experiment=experiment, first_sequence_id=first)


def finish(rig: Rig, trial: Trial, *values: float, **fields: Any) -> None:
    """The trial reports and ends, and what follows from it is done."""
    report(trial, *values, **fields)
    end(rig, trial)
    rig.until(lambda: Trial.objects.filter(pk=trial.pk, taught=True).exists())


def trials(experiment: Experiment) -> list[Trial]:
    return list(Trial.objects.filter(experiment=experiment).order_by("sequence_id"))


def submitted(rig: Rig, experiment: Experiment, count: int) -> list[Trial]:
    found = rig.submitted(experiment, count)
    rig.rounds()
    assert len(trials(experiment)) == count
    return found


def test_the_first_replicate_runs_alone_and_the_mean_of_all_is_told_once(rig: Rig) -> None:
    experiment = rig.experiment(replicates=THREE, trial_concurrency=1, max_trial_number=3, optimize_mode="minimize")
    [first] = submitted(rig, experiment, 1)
    finish(rig, first, 1.0)
    assert told(experiment) == []
    [_, second] = submitted(rig, experiment, 2)
    finish(rig, second, 2.0)
    assert told(experiment) == []
    [*_, third] = submitted(rig, experiment, 3)
    finish(rig, third, 6.0)
    [event] = told(experiment)
    given = [list(trial.parameter_sets.values_list("value", "parameter_id")) for trial in trials(experiment)]
    assert given == [[(event["parameters"], 0)]] * 3
    assert (event["number"], event["value"], event["status"], event["replicates"]) == (0, 3.0, "SUCCEEDED", 3)
    assert event["standard_error"] == pytest.approx((14 / 6) ** 0.5)
    assert [(trial.replicate, trial.seed) for trial in trials(experiment)] == [
        (number, seed_of(experiment, number)) for number in range(3)]
    rig.until(lambda: Experiment.objects.filter(pk=experiment.pk, status="DONE").exists())
    assert len(told(experiment)) == 1
    progress = progress_of([Experiment.objects.get(pk=experiment.pk)], rig.runner.work.now())[experiment.pk]
    assert (progress.best_value, progress.best_sequence_id, progress.best_replicates) == (3.0, 0, 3)
    assert progress.best_standard_error == event["standard_error"]


def test_replicates_run_at_the_same_time_where_there_is_room(rig: Rig) -> None:
    experiment = rig.experiment(replicates={"n": 3, "racing": False}, trial_concurrency=6, optimize_mode="minimize")
    found = submitted(rig, experiment, 6)
    assert sorted((trial.proposal and trial.proposal.first_sequence_id, trial.replicate) for trial in found) == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_no_more_trials_run_than_the_experiment_may_have(rig: Rig) -> None:
    experiment = rig.experiment(replicates=THREE, trial_concurrency=4, max_trial_number=40, optimize_mode="minimize")
    most = 0

    def round_of_ends() -> bool:
        nonlocal most
        rig.rounds(1)
        running = list(Trial.objects.unfinished().filter(experiment=experiment, attempts__stage="submitted"))
        most = max(most, Attempt.objects.under_way().filter(trial__experiment=experiment).count())
        for trial in running[:2]:
            report(trial, 100.0 - trial.sequence_id % 7)
            end(rig, trial)
        return Experiment.objects.filter(pk=experiment.pk, status="DONE").exists()

    rig.until(round_of_ends)
    assert most == 4
    assert len(trials(experiment)) == 40
    events = told(experiment)
    assert len(events) == len({event["number"] for event in events}) == Proposal.objects.filter(
        experiment=experiment, is_told=True).count()
    for event in events:
        values = Trial.objects.filter(experiment=experiment, ask_number=event["number"]).values_list(
            "final_number", flat=True)
        assert event["value"] == pytest.approx(sum(value or 0.0 for value in values) / len(values))


def test_what_cannot_be_better_than_the_best_is_not_repeated(rig: Rig) -> None:
    experiment = rig.experiment(replicates=THREE, trial_concurrency=1, optimize_mode="minimize")
    for number, value in enumerate([1.0, 1.1, 0.9, 0.5, 0.6, 0.4]):  # two proposals, each better than all before it
        finish(rig, submitted(rig, experiment, number + 1)[-1], value)
    finish(rig, submitted(rig, experiment, 7)[-1], 0.9)
    assert [(event["number"], event["value"], event["replicates"]) for event in told(experiment)] == [
        (0, pytest.approx(1.0), 3), (1, pytest.approx(0.5), 3), (2, 0.9, 1)]
    assert proposal(experiment, 6).state == "dropped"
    [*_, eighth] = submitted(rig, experiment, 8)
    assert eighth.proposal == proposal(experiment, 7)


def test_a_lucky_single_run_is_not_the_best(rig: Rig) -> None:
    """With three values each the second proposal is the better one."""
    experiment = rig.experiment(replicates=THREE, trial_concurrency=1, optimize_mode="minimize")
    for number, value in enumerate([1.0, 1.1, 0.9, 0.5, 0.6, 0.4, 0.1]):
        finish(rig, submitted(rig, experiment, number + 1)[-1], value)
    progress = progress_of([Experiment.objects.get(pk=experiment.pk)], rig.runner.work.now())[experiment.pk]
    assert (progress.best_sequence_id, progress.best_value) == (3, pytest.approx(0.5))


def test_a_failed_replicate_has_no_value_and_the_mean_is_of_the_others(rig: Rig) -> None:
    experiment = rig.experiment(replicates={"n": 3, "racing": False}, trial_concurrency=3, max_trial_number=3)
    found = submitted(rig, experiment, 3)
    finish(rig, found[0], 1.0)
    finish(rig, found[1], exit_code=1)
    finish(rig, found[2], 2.0)
    [event] = told(experiment)
    assert (event["value"], event["status"], event["replicates"]) == (1.5, "SUCCEEDED", 2)
    assert proposal(experiment).failed_count == 1


def test_a_proposal_of_which_most_replicates_failed_has_failed(rig: Rig) -> None:
    experiment = rig.experiment(replicates={"n": 3, "racing": False}, trial_concurrency=3, max_trial_number=3)
    found = submitted(rig, experiment, 3)
    finish(rig, found[0], exit_code=1)
    finish(rig, found[1], 1.0)
    finish(rig, found[2], exit_code=1)
    [event] = told(experiment)
    assert (event["value"], event["status"]) == (None, "FAILED")


def test_a_failed_replicate_counts_what_a_failed_trial_counts(rig: Rig) -> None:
    experiment = rig.experiment(replicates={"n": 3, "racing": False}, trial_concurrency=3, max_trial_number=3,
                                failed_trials={"tellTuner": 9.0})
    found = submitted(rig, experiment, 3)
    finish(rig, found[0], 1.0)
    finish(rig, found[1], exit_code=1)
    finish(rig, found[2], 2.0)
    assert [event["value"] for event in told(experiment)] == [4.0]


def test_a_failed_first_replicate_is_not_followed_by_others(rig: Rig) -> None:
    experiment = rig.experiment(replicates=THREE, trial_concurrency=1)
    finish(rig, submitted(rig, experiment, 1)[0], exit_code=1)
    [event] = told(experiment)
    assert (event["value"], event["status"], event["replicates"]) == (None, "FAILED", 0)
    assert submitted(rig, experiment, 2)[-1].ask_number == 1


def test_a_rerun_of_a_replicate_takes_its_place(rig: Rig) -> None:
    experiment = rig.experiment(replicates={"n": 2, "racing": False}, trial_concurrency=2, max_trial_number=2)
    found = submitted(rig, experiment, 2)
    finish(rig, found[0], exit_code=1)
    finish(rig, found[1], exit_code=1)
    rig.until(lambda: Experiment.objects.filter(pk=experiment.pk, status="DONE").exists())
    outcome = intents.rerun_trials(Experiment.objects.get(pk=experiment.pk), [trial.pk for trial in found])
    assert [(again.replicate, again.seed, again.proposal) for again in outcome.again] == [
        (trial.replicate, trial.seed, trial.proposal) for trial in found]
    again = rig.submitted(experiment, 4)[2:]
    finish(rig, again[0], 3.0)
    finish(rig, again[1], 5.0)
    assert [event["value"] for event in told(experiment)] == [None, 3.0]  # half of them had a value then
    assert (proposal(experiment).mean, proposal(experiment).value_count) == (4.0, 2)


def test_a_rerun_of_a_replicate_with_a_value_changes_the_mean_and_is_not_told(rig: Rig) -> None:
    experiment = rig.experiment(replicates={"n": 2, "racing": False}, trial_concurrency=2, max_trial_number=3)
    found = submitted(rig, experiment, 2)
    finish(rig, found[0], 1.0)
    finish(rig, found[1], 2.0)
    [again] = intents.rerun_trials(experiment, [found[0].pk]).again
    rig.until(lambda: Attempt.objects.filter(trial=again, stage="submitted").exists())
    assert (again.replicate, again.source) == (0, TrialSource.RERUN)
    finish(rig, again, 4.0)
    assert proposal(experiment).mean == 3.0
    assert [event["value"] for event in told(experiment)] == [1.5]


def test_a_submitted_trial_is_run_in_full_and_is_not_told(rig: Rig) -> None:
    experiment = rig.experiment(replicates=THREE, trial_concurrency=1, max_trial_number=3)
    intents.submit_trial(experiment, {"x": 0.5})
    for number, value in enumerate([1.0, 2.0, 3.0]):
        finish(rig, submitted(rig, experiment, number + 1)[-1], value)
    assert {trial.source for trial in trials(experiment)} == {TrialSource.CUSTOMIZED}
    assert (proposal(experiment).mean, proposal(experiment).state) == (2.0, "complete")
    assert told(experiment) == []


def test_an_early_stop_ends_the_proposal(rig: Rig) -> None:
    experiment = rig.experiment(replicates=THREE, trial_concurrency=1)
    [first] = submitted(rig, experiment, 1)
    teach_tuner.stop_early(rig.runner.work, experiment, [first.public_id])
    report(first, 0.7, reason="stopped", exit_code=None)
    end(rig, first)
    rig.until(lambda: Trial.objects.filter(pk=first.pk, taught=True).exists())
    [event] = told(experiment)
    assert (event["value"], event["status"], event["replicates"]) == (0.7, "EARLY_STOPPED", 1)
    assert proposal(experiment).state == "dropped"


def test_replicates_are_run_though_the_tuner_has_no_more(rig: Rig) -> None:
    experiment = rig.experiment(replicates=THREE, trial_concurrency=1, tuner={"name": "GridSearch"},
                                search_space={"x": {"_type": "choice", "_value": [1]}}, optimize_mode="minimize")
    for number in range(3):
        finish(rig, submitted(rig, experiment, number + 1)[-1], float(number))
    rig.until(lambda: Experiment.objects.filter(pk=experiment.pk, status="DONE").exists())
    assert [event["value"] for event in told(experiment)] == [1.0]


def test_what_a_limit_keeps_from_running_is_not_told_and_runs_where_it_grows(rig: Rig) -> None:
    experiment = rig.experiment(replicates=THREE, trial_concurrency=1, max_trial_number=2, optimize_mode="minimize")
    for number in range(2):
        finish(rig, submitted(rig, experiment, number + 1)[-1], 1.0)
    rig.until(lambda: Experiment.objects.filter(pk=experiment.pk, status="DONE").exists())
    assert told(experiment) == []
    Experiment.objects.filter(pk=experiment.pk).update(max_trial_number=3)
    intents.resume(Experiment.objects.get(pk=experiment.pk))
    finish(rig, rig.submitted(experiment, 3)[-1], 1.0)
    assert [event["value"] for event in told(experiment)] == [1.0]


def test_a_class_of_ones_own_hears_the_mean_of_each_proposal(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    experiment = rig.experiment(
        tuner={"class_name": "mine.Mine", "code_directory": str(tmp_path), "class_args": {}},
        replicates={"n": 2, "racing": False}, trial_concurrency=1)
    intents.submit_trial(experiment, {"by": "hand"})
    for number, value in enumerate([1.0, 2.0, 5.0, 7.0]):
        finish(rig, submitted(rig, experiment, number + 1)[-1], value)
    heard = [trial.parameter_sets.get().value["heard"] for trial in submitted(rig, experiment, 5)[2:]]
    by_hand = [[None, {"by": "hand"}, 1.5]]
    assert heard == [by_hand, by_hand, [[0, {"heard": by_hand}, 6.0]]]


def test_people_are_told_of_a_best_mean_and_not_of_a_best_trial(rig: Rig) -> None:
    experiment = rig.experiment(replicates=THREE, trial_concurrency=1)
    NotificationRule.objects.create(owner=experiment.owner, channel="webhook", created_at=experiment.created_at,
                                    on_best=True)
    for number, value in enumerate([1.0, 3.0, 2.0]):
        assert not NotificationDelivery.objects.exists()
        finish(rig, submitted(rig, experiment, number + 1)[-1], value)
    [delivery] = NotificationDelivery.objects.all()
    best = json.loads(delivery.body)["best"]
    assert (best["sequence_id"], best["value"], best["replicates"]) == (0, 2.0, 3)


def test_proposals_go_with_their_experiment(rig: Rig) -> None:
    experiment = rig.experiment(replicates=THREE, trial_concurrency=1)
    finish(rig, submitted(rig, experiment, 1)[0], 1.0)
    assert remove_rows_of(experiment, rig.runner.work.now(), Pace(sleep=lambda seconds: None), lambda: False)
    assert not Proposal.objects.exists()
    assert not Trial.objects.exists()


def test_the_form_of_a_replicate_has_its_seed_in_the_environment(rig: Rig) -> None:
    experiment = rig.experiment(replicates={"n": 2, "seeds": [11, 22], "racing": False}, trial_concurrency=2,
                                config={"environment": {"MINE": "1", "NNI_TRIAL_SEED": "theirs"}})
    submitted(rig, experiment, 2)
    forms = [application_form(attempt, None, type(rig.service), KeeperAccess(urls=(), token=""))
             for attempt in Attempt.objects.filter(trial__experiment=experiment).order_by("trial__sequence_id")]
    assert [form.environment for form in forms] == [
        {"MINE": "1", "NNI_TRIAL_SEED": "11", "NNI_REPLICATE": "0"},
        {"MINE": "1", "NNI_TRIAL_SEED": "22", "NNI_REPLICATE": "1"}]


class Killed(BaseException):
    """Stands for the end of the process: what was not committed is gone."""


#: Where the process ends: just before and just after the commits that matter.
SHARP = [(teach_tuner, "take_ends"), (teach_tuner, "append_events"), (teach_tuner, "_log_ends"),
         (fill_slots, "make_replicates"), (fill_slots, "with_proposals"), (fill_slots, "_make_attempts"),
         (fill_slots, "_note_started")]


@pytest.mark.parametrize(("module", "name"), SHARP)
@pytest.mark.parametrize("is_after", [False, True])
def test_nothing_is_lost_or_told_twice_where_the_worker_dies(
        rig: Rig, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, is_after: bool) -> None:
    experiment = rig.experiment(replicates=THREE, trial_concurrency=2, max_trial_number=14, optimize_mode="minimize")
    real: Callable[..., Any] = getattr(module, name)
    calls = 0

    def dies(*args: Any, **fields: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 3 != 2:
            return real(*args, **fields)
        if is_after:
            real(*args, **fields)
        raise Killed

    monkeypatch.setattr(module, name, dies)
    generation = 1
    while not Experiment.objects.filter(pk=experiment.pk, status="DONE").exists():
        assert generation < 60, rig.state()
        for trial in Trial.objects.unfinished().filter(experiment=experiment, attempts__stage="submitted"):
            report(trial, 100.0 - trial.sequence_id % 5)
        try:
            rig.runner.round()
            rig.runner._wake.wait(0.02)
        except Killed:
            rig.runner._close()
            generation += 1
            rig.runner = rig.new_runner(f"worker-{generation}")
    assert calls > 2
    found = trials(experiment)
    assert [trial.sequence_id for trial in found] == list(range(14))
    assert len({(trial.proposal_id, trial.replicate) for trial in found}) == 14
    asked = [data["number"] for data in TunerEvent.objects.filter(
        experiment=experiment, data__event="ask").order_by("number").values_list("data", flat=True)]
    assert asked == list(range(Proposal.objects.filter(experiment=experiment).count()))
    events = {event["number"]: event for event in told(experiment)}
    assert len(events) == len(told(experiment))
    for one in Proposal.objects.filter(experiment=experiment):
        runs = [trial for trial in found if trial.proposal_id == one.pk]
        assert [trial.replicate for trial in runs] == list(range(one.begun))
        assert one.is_told == (one.state != "open") == (one.number in events)
        assert one.mean == pytest.approx(sum(trial.final_number or 0.0 for trial in runs) / len(runs))
        assert not one.is_told or events[one.number]["value"] == one.mean
    assert not Proposal.objects.filter(experiment=experiment, state="complete", begun__lt=F("wanted")).exists()


def test_further_replicates_count_for_the_token_that_asked_for_the_first_one_and_wait_for_its_leash_and_budget(
        rig: Rig, admin) -> None:
    agent = ApiToken.make_with_row(admin, "agent", "admin", None)[1]
    ApiToken.objects.filter(pk=agent.pk).update(max_trials=1)
    experiment = rig.experiment(replicates={"n": 3, "racing": False}, trial_concurrency=3, max_trial_number=3)
    Experiment.objects.filter(pk=experiment.pk).update(status="PAUSED", target="PAUSE")
    first = intents.submit_trial(experiment, {"x": 0.5})
    Trial.objects.filter(pk=first.pk).update(token=agent)
    intents.resume(experiment)
    rig.until(lambda: Attempt.objects.filter(trial=first, stage="submitted").exists())
    rig.rounds(5)
    assert {trial.token_id for trial in trials(experiment)} == {agent.pk}
    assert Attempt.objects.count() == 1
    assert {trial.reason for trial in trials(experiment)[1:]} == {"leash_trials"}
    budget = Budget.objects.create(token=agent, trials=2, period="total")
    report(first, 0.5)
    rig.until(lambda: Attempt.objects.count() == 2)
    report(trials(experiment)[1], 0.5)
    rig.until(lambda: trials(experiment)[2].reason == "budget")
    budget.delete()
    rig.until(lambda: Attempt.objects.count() == 3)
