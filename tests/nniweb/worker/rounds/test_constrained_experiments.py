"""Experiments with constraints: what is never run, what leads, and what tuners are told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nniweb.dashboard.experiment_tabs.overview import best_trials
from nniweb.experiments.actions import change_and_undo, intents
from nniweb.experiments.actions.imported_results import import_results, imports_of
from nniweb.experiments.charts.result_chart import chart_of
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import (
    Attempt,
    Experiment,
    NotificationDelivery,
    NotificationRule,
    Proposal,
    Trial,
    TrialParameters,
    TunerEvent,
    User,
)
from nniweb.experiments.results.best_so_far import improvements_of
from nniweb.experiments.results.progress import progress_of
from nniweb.experiments.trial_filter import fitting_trials
from nniweb.worker.rounds.failed_trials import MOST_REFUSED
from tests.nniweb.worker.conftest import Rig, report

SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}
TUNER = """
from nni.tuner import Tuner

class Mine(Tuner):
    heard = []
    def __init__(self, step=0.4):
        self.step = step
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {"x": parameter_id * self.step, "heard": list(self.heard)}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.heard.append([parameter_id, value])
    def trial_end(self, parameter_id, success, **kwargs):
        if not success:
            self.heard.append([parameter_id, "failed"])
"""


def own(folder: Path, **arguments: Any) -> dict[str, Any]:
    (folder / "mine.py").write_text(TUNER)
    return {"class_name": "mine.Mine", "code_directory": str(folder), "class_args": arguments}


def parameters(experiment: Experiment) -> list[dict[str, Any]]:
    return list(TrialParameters.objects.filter(trial__experiment=experiment).order_by("trial__sequence_id").values_list(
        "value", flat=True))


def run_one(rig: Rig, experiment: Experiment, result: Any, exit_code: int = 0) -> Trial:
    """The next trial that runs reports this as its final result, None: nothing."""
    done = Trial.objects.filter(experiment=experiment, taught=True, attempts__isnull=False).count()
    trial = rig.submitted(experiment, done + 1)[done]
    report(trial, *(() if result is None else (json.dumps(result),)), exit_code=exit_code)
    rig.until(lambda: Trial.objects.get(pk=trial.pk).taught)
    return Trial.objects.get(pk=trial.pk)


# --- parameters ------------------------------------------------------------------------------


def test_what_a_custom_tuner_may_not_propose_is_not_run_and_it_is_told(rig: Rig, tmp_path: Path) -> None:
    experiment = rig.experiment(tuner=own(tmp_path), trial_concurrency=1, max_trial_number=6, search_space=SPACE,
                                constraints=["x < 0.7 or x > 1.5"])
    for _ in range(4):
        run_one(rig, experiment, 5.0)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    trials = list(Trial.objects.filter(experiment=experiment).order_by("sequence_id"))
    assert "".join(trial.status[0] for trial in trials) == "SSFFSS"
    refused = trials[2]
    assert (refused.reason, refused.reason_arguments) == (
        "constraint_broken", {"constraint": "x < 0.7 or x > 1.5", "by": "tuner"})
    assert "x < 0.7 or x > 1.5" in refused.message
    assert not Attempt.objects.filter(trial__in=trials[2:4]).exists()
    assert parameters(experiment)[4]["heard"] == [[0, 5.0], [1, 5.0], [2, "failed"], [3, "failed"]]


def test_a_tuner_that_proposes_nothing_else_is_given_up(rig: Rig, tmp_path: Path) -> None:
    experiment = rig.experiment(tuner=own(tmp_path), trial_concurrency=3, max_trial_number=None, search_space=SPACE,
                                constraints=["x < 0"])
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "ERROR", 120)
    experiment.refresh_from_db()
    assert (experiment.reason, experiment.reason_arguments) == (
        "proposals_refused", {"count": MOST_REFUSED, "constraint": "x < 0"})
    assert not Attempt.objects.filter(trial__experiment=experiment).exists()
    assert Trial.objects.filter(experiment=experiment).count() < MOST_REFUSED + 10


def test_a_refused_proposal_counts_as_tell_tuner_says(rig: Rig, tmp_path: Path) -> None:
    experiment = rig.experiment(tuner=own(tmp_path), trial_concurrency=1, max_trial_number=4, search_space=SPACE,
                                constraints=["x != 0.4"], failed_trials={"tellTuner": 99.0})
    for _ in range(3):
        run_one(rig, experiment, 5.0)
    assert parameters(experiment)[3]["heard"][:3] == [[0, 5.0], [1, 99.0], [1, "failed"]]


@pytest.mark.parametrize("racing", [True, False])
def test_a_refused_proposal_has_no_replicates(rig: Rig, tmp_path: Path, racing: bool) -> None:
    experiment = rig.experiment(
        tuner=own(tmp_path), trial_concurrency=2, max_trial_number=5, search_space=SPACE, optimize_mode="minimize",
        constraints=["x > 0"], replicates={"n": 2, "racing": racing}, failed_trials={"tellTuner": 99.0})
    for _ in range(4):
        run_one(rig, experiment, 5.0)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    trials = list(Trial.objects.filter(experiment=experiment).order_by("sequence_id"))
    assert [trial.sequence_id for trial in trials if trial.reason == "constraint_broken"] == [0]
    proposals = list(Proposal.objects.filter(experiment=experiment).order_by("first_sequence_id"))
    assert [(proposal.number, proposal.state, proposal.begun, proposal.mean) for proposal in proposals[:2]] == [
        (0, "dropped", 1, 99.0), (1, "complete", 2, 5.0)]
    assert progress_of([experiment], rig.runner.work.now())[experiment.pk].best_value == 5
    told = TunerEvent.objects.filter(experiment=experiment, data__event="tell").order_by("number")
    assert [(event.data["number"], event.data["value"]) for event in told][:2] == [(0, 99.0), (1, 5.0)]


@pytest.mark.parametrize("name", ["Auto", "TPE", "Random", "Anneal"])
def test_a_tuner_made_again_proposes_the_same_and_nothing_that_is_forbidden(rig: Rig, name: str) -> None:
    def run(interrupted: bool) -> list[dict[str, Any]]:
        experiment = rig.experiment(
            tuner={"name": name, "class_args": {"tpe_args": {"n_startup_jobs": 3}} if name == "TPE" else {}},
            trial_concurrency=1,
            max_trial_number=9, search_space={**SPACE, "y": {"_type": "randint", "_value": [0, 50]}}, seed=11,
            constraints=["x * y < 5"], outcome_constraints=["size < 3"], optimize_mode="maximize")
        for number in range(9):
            run_one(rig, experiment, {"default": number % 4, "size": number % 5})
            if interrupted and number in (2, 5):
                rig.runner.work.tuners.forget(experiment.pk)
        return parameters(experiment)

    whole = run(interrupted=False)
    assert run(interrupted=True) == whole
    assert all(point["x"] * point["y"] < 5 for point in whole)


def test_a_search_that_has_tried_all_that_is_allowed_says_so(rig: Rig) -> None:
    experiment = rig.experiment(tuner={"name": "GridSearch"}, trial_concurrency=2, search_space={
        "a": {"_type": "randint", "_value": [0, 5]}}, constraints=["a % 2 = 1"])
    for trial in rig.submitted(experiment, 2):
        report(trial, 1.0)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status in ("TUNER_NO_MORE_TRIAL", "DONE"))
    experiment.refresh_from_db()
    assert sorted(point["a"] for point in parameters(experiment)) == [1, 3]
    event = experiment.events.filter(kind="TUNER_NO_MORE_TRIAL").get()
    assert event.message == "The tuner has no further parameters to try that satisfy the constraints (a % 2 = 1)."


@pytest.mark.django_db
def test_what_people_submit_or_import_is_checked_and_the_constraint_named(make_experiment: Callable[..., Experiment]
                                                                           ) -> None:
    experiment = make_experiment(status="RUNNING", search_space=SPACE, constraints=["x < 0.5", "2 * x != 0.5"],
                                 tuner={"name": "TPE"})
    for wrong, constraint in ((0.7, "x < 0.5"), (0.25, "2 * x != 0.5")):
        with pytest.raises(Refused) as refused:
            intents.submit_trial(experiment, {"x": wrong})
        [(field, sentence)] = refused.value.errors
        assert (field, sentence.code, sentence.arguments["constraint"]) == (  # type: ignore[attr-defined]
            "parameters", "constraint_broken", constraint)
        with pytest.raises(Refused) as refused:
            import_results(experiment, [{"parameter": {"x": 0.1}, "value": 1}, {"parameter": {"x": wrong}, "value": 1}])
        assert [field for field, _ in refused.value.errors] == ["results[1].parameter"]
        assert constraint in refused.value.errors[0][1]
    assert not Trial.objects.exists()
    assert not TunerEvent.objects.exists()
    trial = intents.submit_trial(experiment, {"x": 0.3})
    with pytest.raises(Refused, match="break the constraint x < 0.5"):
        intents.rerun_trial(trial, parameters={"x": 0.9})


@pytest.mark.django_db
def test_a_trial_that_never_ran_for_its_parameters_is_not_run_again(make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment(status="RUNNING", search_space=SPACE, constraints=["x < 0.5"])
    trial = Trial.objects.create(experiment=experiment, sequence_id=0, created_at=experiment.created_at,
                                 status="FAILED", reason=intents.CONSTRAINT_BROKEN)
    with pytest.raises(Refused):
        intents.rerun_failed(experiment)
    assert intents.rerun_trials(experiment, [trial.pk]).again == []


@pytest.mark.django_db
def test_a_new_search_space_must_leave_room_for_the_constraints(make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment(status="RUNNING", search_space=SPACE, constraints=["x < 0.5"], tuner={"name": "TPE"})
    for space, said in (({"y": SPACE["x"]}, "x < 0.5: character 1 (x): is no parameter"),
                        ({"x": {"_type": "uniform", "_value": [0.6, 1]}}, "x < 0.5: none of 10,000 random points")):
        with pytest.raises(Refused) as refused:
            change_and_undo.change(experiment, {"search_space": space})
        [(field, sentence)] = refused.value.errors
        assert field == "search_space"
        assert said in sentence
    change_and_undo.change(experiment, {"search_space": {"x": {"_type": "uniform", "_value": [0, 0.6]}}})


# --- outcomes --------------------------------------------------------------------------------


def test_feasible_results_lead_and_a_trial_says_what_it_breaks(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=6, search_space=SPACE, tuner={"name": "TPE"},
                                optimize_mode="maximize", outcome_constraints=["latency <= 20", "memory < 8"])
    owner = User.objects.create(username="grace")
    Experiment.objects.filter(pk=experiment.pk).update(owner=owner)
    NotificationRule.objects.create(owner=owner, experiment=experiment, on_best=True, channel="webhook",
                                    created_at=experiment.created_at)
    ended = [run_one(rig, experiment, result) for result in (
        {"default": 0.9, "latency": 30, "memory": 1}, {"default": 0.5, "latency": 10, "memory": 2},
        {"default": 0.8, "latency": 10}, 0.99, {"default": 0.6, "latency": 20, "memory": float("nan")},
        {"default": 0.7, "latency": 20, "memory": 7})]
    assert [trial.feasible for trial in ended] == [False, True, False, False, False, True]
    slow, _, unknown, plain, nan, _ = ended
    assert slow.reason == "outcome_broken"
    assert slow.reason_arguments["constraints"] == [
        {"constraint": "latency <= 20", "values": {"latency": 30}, "missing": []}]
    assert slow.message.startswith("The result breaks the constraint latency <= 20 (latency = 30)")
    for trial in (unknown, nan):
        assert "It is not known whether the result satisfies the constraint memory < 8 (no number for memory)" in \
            trial.message
    assert "latency <= 20 (no number for latency), memory < 8 (no number for memory)" in plain.message
    told = list(TunerEvent.objects.filter(experiment=experiment, data__event="tell").order_by("number").values_list(
        "data", flat=True))
    assert [event["value"] for event in told] == [0.9, 0.5, 0.8, 0.99, 0.6, 0.7]
    assert [event.get("violation") for event in told] == [pytest.approx(0.2), None, 1, 2, 1, None]
    # everywhere
    experiment.refresh_from_db()
    best = ended[5]
    progress = progress_of([experiment], rig.runner.work.now())[experiment.pk]
    assert (progress.best_value, progress.best_trial_id) == (0.7, best.public_id)
    assert improvements_of([experiment.pk])[experiment.pk] == [(1, 0.5), (5, 0.7)]
    assert [trial.sequence_id for trial in best_trials(experiment)] == [5, 1, 3, 0, 2, 4]
    assert [point.sequence_id for point in chart_of(experiment).points if point.counts] == [1, 5]
    assert [point.sequence_id for point in chart_of(experiment).points if point.infeasible] == [0, 2, 3, 4]
    for text, found in (("feasible = yes", [1, 5]), ("feasible = no", [0, 2, 3, 4]),
                        ("reason = outcome_broken and latency > 20", [0])):
        fitting = fitting_trials(Trial.objects.filter(experiment=experiment), text, experiment, rig.runner.work.now())
        assert sorted(fitting.values_list("sequence_id", flat=True)) == found
    heard = [json.loads(one.body)["best"]["value"] for one in NotificationDelivery.objects.filter(
        occasion="experiment.new_best").order_by("pk")]
    assert heard == [0.5, 0.7]


def test_while_it_is_not_known_a_result_is_not_the_best(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, search_space=SPACE, outcome_constraints=["latency <= 20"],
                                optimize_mode="maximize")
    [trial] = rig.submitted(experiment, 1)
    report(trial, json.dumps({"default": 1, "latency": 3}))  # type: ignore[arg-type]
    trial.refresh_from_db()
    assert (trial.status, trial.feasible) == ("SUCCEEDED", False)
    assert progress_of([experiment], rig.runner.work.now())[experiment.pk].best_value is None
    rig.until(lambda: Trial.objects.get(pk=trial.pk).feasible)
    assert progress_of([experiment], rig.runner.work.now())[experiment.pk].best_value == 1


def test_a_failed_trial_with_an_assumed_result_is_not_feasible(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=3, search_space=SPACE, tuner={"name": "TPE"},
                                outcome_constraints=["latency <= 20"], failed_trials={"tellTuner": 7.0})
    run_one(rig, experiment, None, exit_code=1)
    [event] = TunerEvent.objects.filter(experiment=experiment, data__event="tell").values_list("data", flat=True)
    assert (event["value"], event["violation"]) == (7.0, 1)


def test_a_custom_tuner_is_told_a_number_that_puts_feasible_results_first(rig: Rig, tmp_path: Path) -> None:
    experiment = rig.experiment(tuner=own(tmp_path), trial_concurrency=1, max_trial_number=5, search_space=SPACE,
                                optimize_mode="maximize", outcome_constraints=["latency <= 20"])
    for result in ({"default": 0.9, "latency": 30}, {"default": 0.5, "latency": 10}, {"default": 0.8, "latency": 40},
                   {"default": 0.1, "latency": 40}, {"default": 0.6, "latency": 1}):
        run_one(rig, experiment, result)
    heard = parameters(experiment)[4]["heard"]
    assert heard == [[0, {"default": 0.9, "latency": 30}], [1, {"default": 0.5, "latency": 10}],
                     [2, {"default": 0.5, "latency": 40}], [3, {"default": 0.1, "latency": 40}]]


def test_a_front_has_feasible_trials_only(rig: Rig) -> None:
    experiment = rig.experiment(
        trial_concurrency=1, max_trial_number=3, search_space=SPACE, tuner={"name": "NSGAII"}, optimize_mode="maximize",
        objectives=[{"metric": "gain", "optimize_mode": "maximize"}, {"metric": "cost", "optimize_mode": "minimize"}],
        outcome_constraints=["cost < 5", "heat < 9"])
    for result in ({"gain": 9, "cost": 7, "heat": 1}, {"gain": 3, "cost": 4, "heat": 1}, {"gain": 4, "cost": 3}):
        run_one(rig, experiment, result)
    assert list(Trial.objects.filter(experiment=experiment, on_front=True).values_list("sequence_id", flat=True)) == [1]
    told = list(TunerEvent.objects.filter(experiment=experiment, data__event="tell").order_by("number").values_list(
        "data", flat=True))
    assert [(event["values"], "violation" in event) for event in told] == [
        ([9, 7], True), ([3, 4], False), ([4, 3], True)]


@pytest.mark.django_db
def test_imported_results_need_the_metrics_of_constraints(make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment(status="RUNNING", search_space=SPACE, tuner={"name": "TPE"},
                                 outcome_constraints=["latency <= 20"])
    with pytest.raises(Refused, match="a finite number for each of latency, which constraints on outcomes name"):
        import_results(experiment, [{"parameter": {"x": 0.1}, "value": 0.5}])
    assert import_results(experiment, [
        {"parameter": {"x": 0.1}, "value": {"default": 0.5, "latency": 10}},
        {"parameter": {"x": 0.2}, "value": {"default": 0.5, "latency": 60}}]) == 2
    told = TunerEvent.objects.order_by("number").values_list("data", flat=True)
    assert [event.get("violation") for event in told] == [None, pytest.approx(0.5)]


@pytest.mark.django_db
def test_a_custom_tuner_is_told_a_number_for_imported_results_that_are_not_feasible(
        make_experiment: Callable[..., Experiment], tmp_path: Path) -> None:
    experiment = make_experiment(status="RUNNING", search_space=SPACE, tuner=own(tmp_path), optimize_mode="maximize",
                                 outcome_constraints=["latency <= 20"])
    Trial.objects.create(experiment=experiment, sequence_id=0, status="SUCCEEDED", created_at=experiment.created_at,
                         final_number=0.25, final_value='{"default": 0.25, "latency": 1}', feasible=True)
    given = [{"parameter": {"x": 0.1}, "value": {"default": 0.5, "latency": 60}},
             {"parameter": {"x": 0.2}, "value": {"default": 0.125, "latency": 60}},
             {"parameter": {"x": 0.3}, "value": {"default": 0.5, "latency": 10}}]
    import_results(experiment, given)
    told = TunerEvent.objects.order_by("number").values_list("data", flat=True)
    assert [(event["value"], json.loads(event["result"])) for event in told] == [
        (0.25, {"default": 0.25, "latency": 60}), (0.125, {"default": 0.125, "latency": 60}),
        (0.5, {"default": 0.5, "latency": 10})]
    assert imports_of(experiment) == [given]
