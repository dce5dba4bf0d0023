"""What the worker does with trials that change the code: they run it, also again, and tuners are told with care."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.actions.external_proposals import Proposed, propose
from nniweb.experiments.earlier.source_results import results_for
from nniweb.experiments.lifecycle.tuner_events import tuner_history
from nniweb.experiments.models import Attempt, CodeVariant, Experiment, Proposal, Trial, TunerEvent
from nniweb.experiments.variants.stored_variants import keep_variant
from nniweb.tuning.search_space.parser import parse_search_space
from tests.nniweb.worker.conftest import Rig, end, report
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.variants.code_variant import ChangedFile, variant_content

EXTERNAL = {"name": "External"}


@pytest.fixture
def variant(rig: Rig) -> CodeVariant:
    return keep_variant(variant_content("b" * 64, [ChangedFile("trial.py", "x = 2\n", "x = 1\n")]), timezone.now())


def run(rig: Rig, experiment: Experiment, trial: Trial, value: float) -> None:
    """To its end, which is told to whoever is to hear of it."""
    rig.submitted(experiment, trial.sequence_id + 1)
    report(trial, value)
    end(rig, trial)
    rig.until(lambda: Trial.objects.get(pk=trial.pk).taught)


def told(experiment: Experiment) -> list[dict[str, Any]]:
    return [event for event in TunerEvent.objects.filter(experiment=experiment).order_by("number").values_list(
        "data", flat=True) if event["event"] == "tell"]


def test_the_platform_gets_the_variant_with_each_attempt_and_the_next_trial_none(rig: Rig, variant: CodeVariant
                                                                                 ) -> None:
    experiment = rig.experiment(tuner=EXTERNAL, trial_concurrency=1, retry={"onFailure": 1})
    [changed, plain], _ = propose(experiment, [Proposed({"x": 0.1}, variant=variant), Proposed({"x": 0.2})])
    rig.submitted(experiment, 1)
    forms = {job.id: job.form for job in rig.service.list_trial_jobs()}
    assert forms[changed.public_id].variant.sha256 == variant.sha256
    report(changed, exit_code=1)
    end(rig, changed, TrialJobStatus.FAILED, exit_code=1)
    again = f"{changed.public_id}r2"
    rig.until(lambda: Attempt.objects.filter(job_name=again, stage="submitted").exists())
    assert rig.service.get_trial_job(again).form.variant.sha256 == variant.sha256
    report(changed, 0.5)
    rig.service.say(again, TrialJobStatus.SUCCEEDED)
    rig.until(lambda: Attempt.objects.filter(trial=plain, stage="submitted").exists())
    assert rig.service.get_trial_job(plain.public_id).form.variant is None


def test_the_program_behind_external_is_told_the_result_with_the_hash(rig: Rig, variant: CodeVariant) -> None:
    experiment = rig.experiment(tuner=EXTERNAL)
    [changed, plain], _ = propose(experiment, [Proposed({"x": 0.1}, variant=variant), Proposed({"x": 0.2})])
    run(rig, experiment, changed, 0.5)
    run(rig, experiment, plain, 0.6)
    assert [(event["value"], event.get("variant")) for event in told(experiment)] == [
        (0.5, variant.sha256), (0.6, None)]
    # one that takes over later is not told what changed code is worth
    experiment.tuner = {"name": "Random"}
    assert [event["value"] for event in tuner_history(experiment) if event["event"] == "tell"] == [None, 0.6]
    assert results_for(experiment, parse_search_space(experiment.search_space)).results == [({"x": 0.2}, 0.6)]


@pytest.mark.parametrize("tuner", [{"name": "Random"}, {"class_name": "x.Y", "code_directory": "/", "class_args": {}}])
def test_other_tuners_are_told_nothing_of_changed_code(rig: Rig, variant: CodeVariant, tuner: dict[str, Any]) -> None:
    experiment = rig.experiment(tuner={"name": "Random"}, status="NO_MORE_TRIAL", max_trial_number=1)
    Experiment.objects.filter(pk=experiment.pk).update(max_trial_number=5)
    experiment.refresh_from_db()
    changed = intents.submit_trial(experiment, {"x": 0.1}, variant=variant)
    plain = intents.submit_trial(experiment, {"x": 0.2})
    rig.submitted(experiment, 2)
    Experiment.objects.filter(pk=experiment.pk).update(tuner=tuner)
    for trial in (changed, plain):
        report(trial, 0.5)
        end(rig, trial)
    rig.until(lambda: not Trial.objects.not_taught().exists())
    assert [event["parameters"] for event in told(experiment)] == ([] if "name" in tuner else [{"x": 0.2}])


def test_all_replicates_of_a_proposal_run_the_same_code(rig: Rig, variant: CodeVariant) -> None:
    experiment = rig.experiment(tuner=EXTERNAL, replicates={"n": 2, "racing": False}, trial_concurrency=4)
    propose(experiment, [Proposed({"x": 0.1}, variant=variant), Proposed({"x": 0.2})])
    trials = rig.submitted(experiment, 4)
    first, second = Proposal.objects.order_by("pk")
    assert {(trial.proposal_id, trial.replicate, trial.variant_id) for trial in trials} == {
        (proposal.pk, replicate, pk) for proposal, pk in ((first, variant.pk), (second, None)) for replicate in (0, 1)}
    for trial in trials:
        report(trial, 0.5)
        end(rig, trial)
    rig.until(lambda: len(told(experiment)) == 2)
    assert sorted(event.get("variant", "") for event in told(experiment)) == ["", variant.sha256]


def test_a_rerun_with_other_code_is_no_replicate_of_the_same_proposal(rig: Rig, variant: CodeVariant) -> None:
    experiment = rig.experiment(tuner=EXTERNAL, replicates={"n": 1, "racing": False})
    [first], _ = propose(experiment, [Proposed({"x": 0.1})])
    run(rig, experiment, first, 0.5)
    first.refresh_from_db()
    assert intents.rerun_trial(first).proposal_id == first.proposal_id
    changed = intents.rerun_trial(first, variant=variant)
    assert changed.proposal_id not in (None, first.proposal_id)
    assert changed.variant == variant
