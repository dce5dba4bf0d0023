"""A program outside of the server searches: it proposes parameters over REST, and reads results by a cursor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from nniweb.experiments.actions import external_proposals, intents
from nniweb.experiments.actions.imported_results import import_results
from nniweb.experiments.models import Attempt, Experiment, Proposal, ProposalKey, Trial, TrialParameters, User
from nniweb.experiments.retention.removal import Pace
from nniweb.worker.housekeeping.remove_rows import remove_rows_of
from tests.nniweb.worker.conftest import Rig, end, report
from trainingservice.trial_job_status import TrialJobStatus

EXTERNAL = {"name": "External"}


class Outside:
    """What the program outside does, over REST."""

    def __init__(self, client: APIClient, experiment: Experiment) -> None:
        self._client = client
        self._address = f"/api/v1/experiments/{experiment.public_id}/"

    def propose(self, *points: Any, status: int = 201, **more: Any) -> Any:
        """Each a value of x, or (key, value of x)."""
        proposals = [{"key": point[0], "parameters": {"x": point[1]}} if isinstance(point, tuple) else
                     {"parameters": {"x": point}} for point in points]
        answer = self._client.post(f"{self._address}proposals/", {"proposals": proposals, **more}, format="json")
        assert answer.status_code == status, answer.content
        return answer.json()

    def state(self) -> Any:
        return self._client.get(f"{self._address}proposals/").json()

    def results(self, after: int = -1) -> Any:
        return self._client.get(f"{self._address}results/", {"after": after}).json()


@pytest.fixture
def outside(with_token: Callable[..., APIClient], admin: User) -> Callable[[Experiment], Outside]:
    return lambda experiment: Outside(with_token(admin), experiment)


def errors(answer: Any) -> dict[str, str]:
    return {error["field"]: error["message"] for error in answer["errors"]}


def test_proposals_run_in_their_order_and_the_experiment_is_done_when_no_more_follow(rig: Rig, outside) -> None:
    experiment = rig.experiment(tuner=EXTERNAL)
    program = outside(experiment)
    assert program.state() == {"wanted": 2, "proposed": 0, "waiting": 0, "running": 0, "status": "INITIALIZED"}
    taken = program.propose(("a", 0.1), ("b", 0.2), ("c", 0.3))
    assert [(row["key"], row["is_new"], row["trial"]["sequence_id"], row["trial"]["source"], row["trial"]["parameters"])
            for row in taken["trials"]] == [(key, True, place, "tuner", {"x": x})
                                            for place, (key, x) in enumerate([("a", 0.1), ("b", 0.2), ("c", 0.3)])]
    first = rig.submitted(experiment, 2)
    rig.rounds()
    assert Attempt.objects.filter(trial__experiment=experiment).count() == 2
    assert program.state()["wanted"] == 0
    for trial in first:
        report(trial, 4.0 + trial.sequence_id)
        end(rig, trial)
    rig.submitted(experiment, 3)
    page = program.results()
    assert [(row["key"], row["sequence_id"], row["value"], row["status"], row["source"]) for row in page["results"]] \
        == [("a", 0, 4.0, "SUCCEEDED", "tuner"), ("b", 1, 5.0, "SUCCEEDED", "tuner")]
    assert program.results(page["next"])["results"] == []
    assert "or -1 to begin anew" in errors(program.results(page["next"] + 1))["after"]
    assert program.propose(status=200, complete=True)["status"] == "TUNER_NO_MORE_TRIAL"
    [last] = Trial.objects.filter(sequence_id=2)
    report(last, 1.0)
    end(rig, last)
    rig.until(lambda: program.state()["status"] == "DONE")
    assert [row["key"] for row in program.results(page["next"])["results"]] == ["c"]
    assert program.results(program.results(page["next"])["next"])["results"] == []
    experiment.refresh_from_db()
    assert experiment.reason == "proposals_complete"


def test_a_proposal_that_is_sent_again_finds_its_trial_also_after_the_end(rig: Rig, outside) -> None:
    experiment = rig.experiment(tuner=EXTERNAL)
    program = outside(experiment)
    [first] = program.propose(("a", 0.1), complete=True)["trials"]
    [trial] = rig.submitted(experiment, 1)
    again = program.propose(("a", 0.1), ("a", 0.1), status=200)["trials"]
    assert [(row["is_new"], row["trial"]["id"]) for row in again] == [(False, first["trial"]["id"])] * 2
    report(trial, 1.0)
    end(rig, trial)
    rig.until(lambda: program.state()["status"] == "DONE")
    assert program.propose(("a", 0.1), status=200)["trials"][0]["trial"]["id"] == first["trial"]["id"]
    assert "it takes no proposals" in errors(program.propose(("b", 0.1), status=409))[""]
    assert Trial.objects.filter(experiment=experiment).count() == 1


def test_a_key_names_the_same_parameters_for_ever(rig: Rig, outside) -> None:
    program = outside(rig.experiment(tuner=EXTERNAL))
    program.propose(("a", 0.1))
    refused = errors(program.propose(("c", 0.5), ("a", 0.2), status=400))
    assert list(refused) == ["proposals[1].key"]
    assert "names trial 0" in refused["proposals[1].key"]
    assert list(errors(program.propose(("b", 0.1), ("b", 0.2), status=400))) == ["proposals[1].key"]
    assert Trial.objects.count() == ProposalKey.objects.count() == 1


def test_proposals_that_cannot_run_are_named_and_none_of_the_request_is_taken(rig: Rig, outside) -> None:
    experiment = rig.experiment(tuner=EXTERNAL, constraints=["x < 0.9"], max_trial_number=3)
    program = outside(experiment)
    refused = errors(program.propose(0.5, 7, 0.95, status=400))
    assert list(refused) == ["proposals[1].parameters.x", "proposals[2].parameters"]
    assert "x < 0.9" in refused["proposals[2].parameters"]
    assert "maxTrialNumber" in errors(program.propose(0.1, 0.2, 0.3, 0.4, status=400))["proposals"]
    assert Trial.objects.count() == 0
    program.propose(0.1, 0.2, 0.3)
    assert "maxTrialNumber" in errors(program.propose(0.4, status=409))[""]
    assert program.state()["wanted"] == 0


def test_no_more_proposals_wait_than_may(rig: Rig, outside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_proposals, "MOST_WAITING", 3)
    program = outside(rig.experiment(tuner=EXTERNAL))
    program.propose(0.1, 0.2)
    assert "3 proposals wait" in errors(program.propose(0.3, 0.4, status=409))[""]


def test_an_experiment_with_another_tuner_takes_no_proposals(rig: Rig, outside) -> None:
    program = outside(rig.experiment())
    answer = program.propose(0.1, status=409)
    assert answer["errors"][0]["reason"]["code"] == "not_external"
    assert program.state()["wanted"] == 0


def test_an_experiment_that_nobody_proposes_for_says_so_until_somebody_does(rig: Rig, outside) -> None:
    experiment = rig.experiment(tuner=EXTERNAL)
    rig.until(lambda: Experiment.objects.get().reason == "waits_for_proposals")
    outside(experiment).propose(0.1)
    rig.submitted(experiment, 1)
    rig.rounds()
    assert Experiment.objects.get().message == ""


def test_the_program_reads_what_became_of_trials_that_others_chose_and_what_was_imported(rig: Rig, outside) -> None:
    experiment = rig.experiment(tuner=EXTERNAL)
    program = outside(experiment)
    intents.submit_trial(experiment, {"x": 0.9})
    import_results(experiment, [{"parameter": {"x": 0.7}, "value": 3.0}])
    [trial] = rig.submitted(experiment, 1)
    report(trial, 2.0, exit_code=1)
    end(rig, trial, TrialJobStatus.FAILED)
    rig.until(lambda: len(program.results()["results"]) == 2)
    assert [(row["source"], row["sequence_id"], row["parameters"], row["value"], row["status"])
            for row in program.results()["results"]] == [
        ("import", None, {"x": 0.7}, 3.0, "SUCCEEDED"), ("person", 0, {"x": 0.9}, None, "FAILED")]


def test_another_worker_goes_on_and_an_assessor_works_as_ever(rig: Rig, outside) -> None:
    experiment = rig.experiment(tuner=EXTERNAL, trial_concurrency=4,
                                assessor={"name": "Medianstop", "class_args": {"start_step": 0}})
    program = outside(experiment)
    program.propose(*[0.1 * place for place in range(3)])
    for trial in rig.submitted(experiment, 3):
        report(trial, 1.0, 1.0, 1.0)
        end(rig, trial)
    rig.until(lambda: len(program.results()["results"]) == 3)
    rig.close()
    rig.runner = rig.new_runner("worker-2")
    program.propose(("late", 0.9))
    late = rig.submitted(experiment, 4)[3]
    report(late, 9.0, 9.0, 9.0, end=False)
    rig.until(lambda: Trial.objects.get(pk=late.pk).target == "EARLY_STOPPED")


def test_each_proposal_is_repeated_and_told_once_with_its_mean(rig: Rig, outside) -> None:
    experiment = rig.experiment(tuner=EXTERNAL, trial_concurrency=4, replicates={"n": 2, "racing": False})
    program = outside(experiment)
    assert program.state()["wanted"] == 2
    program.propose(("a", 0.1))
    for trial in rig.submitted(experiment, 2):
        report(trial, 1.0 + trial.replicate)
        end(rig, trial)
    rig.until(lambda: program.results()["results"])
    [told] = program.results()["results"]
    assert (told["key"], told["value"], told["replicates"], told["sequence_id"]) == ("a", 1.5, 2, 0)
    assert Proposal.objects.get().state == "complete"


def test_another_tuner_goes_on_with_what_the_program_found(rig: Rig, outside) -> None:
    experiment = rig.experiment(tuner=EXTERNAL, trial_concurrency=1)
    program = outside(experiment)
    program.propose(0.25)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 1.0)
    end(rig, trial)
    rig.until(lambda: program.results()["results"])
    Experiment.objects.update(tuner={"name": "GridSearch"},
                              search_space={"x": {"_type": "choice", "_value": [0.25, 2]}})
    rig.submitted(experiment, 2)
    assert TrialParameters.objects.get(trial__sequence_id=1).value == {"x": 2}


def test_proposals_for_a_paused_experiment_wait_until_it_is_resumed(rig: Rig, outside) -> None:
    experiment = rig.experiment(tuner=EXTERNAL)
    program = outside(experiment)
    rig.rounds()
    intents.pause(experiment)
    [taken] = program.propose(0.1)["trials"]
    assert taken["trial"]["reason"]["code"] == "experiment_held"
    assert program.state()["wanted"] == 0
    assert "resume it" in errors(program.propose(status=400, complete=True))["complete"]
    intents.resume(experiment)
    rig.submitted(experiment, 1)


def test_keys_go_with_their_experiment(rig: Rig, outside) -> None:
    experiment = rig.experiment(tuner=EXTERNAL)
    outside(experiment).propose(("a", 0.1))
    Trial.objects.update(status="SUCCEEDED")
    Experiment.objects.update(status="DONE")
    intents.delete(experiment)
    experiment.refresh_from_db()
    assert remove_rows_of(experiment, rig.runner.work.now(), Pace(sleep=lambda seconds: None), lambda: False)
    assert not ProposalKey.objects.exists()
