"""The line above every tab, the card above the chart, the place of a trial's result."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from nniweb.dashboard.experiment_tabs.head import TABS
from nniweb.dashboard.page_data import json_texts
from nniweb.dashboard.words import ordinal
from nniweb.experiments.models import Attempt, Experiment, Proposal, Trial, TrialParameters
from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.queries.next_steps import next_steps
from nniweb.experiments.results.progress import progress_of
from nniweb.experiments.results.rank import rank_of
from tests.nniweb.dashboard.test_page_words import in_node

Make = Callable[..., Experiment]
MakeAttempt = Callable[..., Attempt]
Page = Callable[..., str]


def filled(experiment: Experiment, *statuses: str, best: int = 0) -> Experiment:
    """With trials of these statuses; the result of number ``best`` is the least, which is the best."""
    for number, status in enumerate(statuses):
        Trial.objects.create(experiment=experiment, sequence_id=number, status=status, created_at=experiment.created_at,
                             final_number=(0.1 if number == best else 0.5) if status == "SUCCEEDED" else None)
    return Experiment.objects.get(pk=experiment.pk)


def buttons(html: str) -> list[str]:
    """The primary actions that are shown."""
    line = html[html.index('id="controls"'):html.index('<details class="menu of-actions">')]
    return [tag.partition('data-action="')[2].partition('"')[0] for tag in line.split("<button")
            if 'class="primary"' in tag and "hidden" not in tag.partition(">")[0]]


@pytest.mark.parametrize(("fields", "shown"), [
    ({"status": "RUNNING"}, ["pause"]), ({"status": "PAUSED"}, ["resume"]), ({"status": "STOPPING"}, []),
    ({"status": "STOPPED"}, ["resume"]), ({"status": "DONE", "max_trial_number": 2}, ["more"]),
    ({"status": "RUNNING", "target": "STOP"}, [])])
def test_one_primary_action_is_there_before_any_script_runs(page: Page, make_experiment: Make, fields: dict[str, str],
                                                            shown: list[str]) -> None:
    experiment = filled(make_experiment(**fields), "SUCCEEDED", "SUCCEEDED")
    assert buttons(page(f"/experiments/{experiment.public_id}/")) == shown


@pytest.mark.parametrize("tab", TABS)
def test_facts_stand_on_the_overview_only(page: Page, make_experiment: Make, tab: str) -> None:
    experiment = make_experiment()
    html = page(reverse(tab, args=[experiment.public_id]))
    assert ('id="facts-of-experiment"' in html, 'class="verdict"' in html) == ((tab == "experiment",) * 2)
    assert html.count('id="head"') == 1


def test_the_card_has_the_best_with_its_parameters_and_stands_before_the_chart(page: Page, make_attempt: MakeAttempt
                                                                              ) -> None:
    best = make_attempt(status="SUCCEEDED", final_number=0.25).trial
    make_attempt(best.experiment, status="FAILED", failure=7, message="No module named torch.")
    html = page(f"/experiments/{best.experiment.public_id}/")
    card = html[html.index('class="verdict"'):html.index('id="facts-of-experiment"')]
    assert f'<a href="/trials/{best.public_id}/" title="0.25">0.25</a>' in card
    assert "<dt>x</dt><dd title=\"0.5\">0.5</dd>" in card
    assert "No module named torch." in card
    assert html.index('class="verdict"') < html.index('id="result-chart"') < html.index('id="top-trials"')


def test_the_best_is_shown_with_nested_parameters_by_their_names(page: Page, make_attempt: MakeAttempt) -> None:
    best = make_attempt(status="SUCCEEDED", final_number=0.25).trial
    TrialParameters.objects.filter(trial=best).update(value={"layer": {"_name": "conv", "k": 7}, "on": True})
    html = page(f"/experiments/{best.experiment.public_id}/")
    for title, value in (("conv", "conv"), ("7", "7"), ("true", "true")):
        assert f'<dd title="{title}">{value}</dd>' in html


def test_what_matters_stands_before_the_table(page: Page, make_experiment: Make) -> None:
    html = page(f"/experiments/{make_experiment().public_id}/parameters/")
    assert html.index('id="importance"') < html.index('id="chosen"')


@pytest.mark.parametrize(("fields", "statuses", "best", "said", "where"), [
    ({"status": "DONE"}, ["FAILED"] * 3, 0, "No trial succeeded.", "clone"),
    ({"status": "ERROR"}, ["FAILED"] * 3, 0, "Correct the cause, then resume the experiment.", "clone"),
    ({"status": "ERROR", "max_trial_number": 3, "next_sequence_id": 3}, ["FAILED"] * 3, 0,
     "Correct the cause, then run more trials.", "clone"),
    ({"status": "DONE"}, ["SUCCEEDED"] * 20, 18, "The best result came late, in trial 18 of 20.", "more"),
    ({"status": "DONE"}, ["SUCCEEDED"] * 20, 2, "The last 17 trials brought no better result.", "parameters"),
    ({"status": "DONE"}, ["USER_CANCELED"], 0, "No trial reported a result.", "clone"),
    ({"status": "DONE"}, ["SUCCEEDED", "FAILED"], 0, "1 trial failed.", "failures"),
    ({"status": "DONE"}, ["SUCCEEDED"], 0, "The search is complete.", "more"),
    ({"status": "STOPPED"}, ["SUCCEEDED"], 0, "The experiment was stopped. Resume it to continue the search.", ""),
    ({"status": "STOPPED"}, ["SUCCEEDED"] * 20, 2, "The experiment was stopped.", ""),
    ({"status": "PAUSED"}, ["SUCCEEDED"], 0, "The experiment is paused.", ""),
    ({"status": "RUNNING"}, ["FAILED", "FAILED", "SUCCEEDED"], 2, "2 of 3 ended trials failed.", "failures"),
    ({"status": "RUNNING"}, ["WAITING"], 0, "No trial has a result yet.", ""),
    ({"status": "RUNNING"}, ["SUCCEEDED"] * 3, 0, "Nothing needs to be done.", "")])
def test_what_to_do_next(make_experiment: Make, fields: dict[str, str], statuses: list[str], best: int, said: str,
                         where: str) -> None:
    experiment = filled(make_experiment(**fields), *statuses, best=best)
    steps = next_steps(experiment, progress_of([experiment], experiment.created_at)[experiment.pk])
    assert said in steps[0].message
    assert steps[0].where == where
    assert len(steps) <= 2


def test_replicates_of_the_best_proposal_are_no_trials_that_brought_no_better_result(make_experiment: Make) -> None:
    experiment = filled(make_experiment(status="DONE", replicates={"n": 10}), *["SUCCEEDED"] * 10)
    proposal = Proposal.objects.create(experiment=experiment, first_sequence_id=0, state=ProposalState.COMPLETE,
                                       mean=0.46, value_count=10)
    Trial.objects.filter(experiment=experiment).update(proposal=proposal)
    [step] = next_steps(experiment, progress_of([experiment], experiment.created_at)[experiment.pk])
    assert "no better result" not in step.message


@pytest.mark.parametrize(("fields", "others", "said"), [
    ({"status": "PAUSED"}, ["WAITING"] * 40, "The last 11 trials brought no better result."),
    ({"status": "RUNNING"}, ["RUNNING"] * 40, "The last 11 trials brought no better result."),
    ({"status": "STOPPED"}, ["USER_CANCELED"] * 4, "The last 11 trials brought no better result."),
    ({"status": "PAUSED", "tuner": {"name": "External"}}, [], None),
    ({"status": "DONE", "tuner": {"name": "External"}}, [], None)])
def test_only_trials_that_ran_brought_no_better_result_and_a_program_outside_gets_no_advice_about_the_space(
        make_experiment: Make, fields: dict[str, Any], others: list[str], said: str | None) -> None:
    experiment = filled(make_experiment(**fields), *["SUCCEEDED"] * 12, *others)
    steps = " ".join(step.message for step in next_steps(
        experiment, progress_of([experiment], experiment.created_at)[experiment.pk]))
    assert ("no better result" in steps) is (said is not None)
    assert said is None or said in steps


def test_the_rank_of_a_result_counts_the_better_ones(page: Page, make_experiment: Make, make_attempt: MakeAttempt
                                                     ) -> None:
    experiment = make_experiment()
    trials = [make_attempt(experiment, status="SUCCEEDED", final_number=number).trial
              for number in (0.5, 0.25, 0.25, 0.75)]
    failed = make_attempt(experiment, status="FAILED").trial
    ranks = [rank_of(trial) for trial in trials]
    assert [(rank.place, rank.of) for rank in ranks if rank] == [(3, 4), (1, 4), (1, 4), (4, 4)]
    assert rank_of(failed) is None
    assert ">3rd of 4</dd>" in page(f"/trials/{trials[0].public_id}/")
    Experiment.objects.filter(pk=experiment.pk).update(optimize_mode="maximize")
    assert rank_of(Trial.objects.get(pk=trials[3].pk)).place == 1
    assert [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"]


def test_parameters_are_copied_in_three_forms(tmp_path) -> None:
    given = {"lr": 0.01, "name": "it's", "deep": {"flags": [True, None]}, "none": None, "n": 3, "rate": 2.0}
    as_json, line, python = in_node(tmp_path, "lib/parameter_text.js", "FORMS", (
        f'["json", "command-line", "python"].map((form) => FORMS[form]({json.dumps(json_texts(given))}))'))
    assert repr(json.loads(as_json)) == repr(given)
    assert line == """--lr 0.01 --name 'it'\\''s' --deep '{"flags": [true,null]}' --n 3 --rate 2.0"""
    assert eval(python) == given  # noqa: S307


def test_the_best_curve_is_drawn_last(tmp_path) -> None:
    order = in_node(tmp_path, "experiment/intermediate/curve_order.js", "worstFirst", (
        "[true, false].map((greater) => worstFirst([{final: 0.5}, {final: null}, {final: 0.9}, {final: 0.1}], greater)"
        ".map(([, place]) => place))"))
    assert order == [[1, 3, 0, 2], [1, 2, 0, 3]]
