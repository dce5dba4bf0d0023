"""Trials at a time of a token's leash in the rounds of workers: who starts, who waits, and what a trial says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.actions import intents, token_end
from nniweb.experiments.clusters import editing
from nniweb.experiments.models import ApiToken, Attempt, Experiment, Trial, TrialParameters, User
from nniweb.experiments.models.account import Scope
from nniweb.experiments.quotas.leash_limits import trials_under_way
from nniweb.worker.cluster_host.fair_share import FairShares
from tests.nniweb.at_once import at_once
from tests.nniweb.worker.conftest import Rig, report


@pytest.fixture
def leash(rig: Rig, admin: User) -> ApiToken:
    return make_leash(admin, 2)


def make_leash(person: User, most: int, name: str = "agent") -> ApiToken:
    return ApiToken.make_with_row(person, name, Scope.CHANGE, None, roles=["read", "launch", "propose"],
                                  max_trials=most)[1]


def asked_for(experiment: Experiment, token: ApiToken | None, count: int) -> list[Trial]:
    """Trials that wait, as a program submits them."""
    trials = []
    for _ in range(count):
        trials.append(intents.submit_trial(experiment, {"x": 0.5}))
        Trial.objects.filter(pk=trials[-1].pk).update(token=token)
    return trials


def under_way(experiment: Experiment) -> int:
    return Attempt.objects.filter(trial__experiment=experiment).exclude(stage="ended").count()


def started(trials: list[Trial]) -> int:
    return Attempt.objects.filter(trial__in=trials).count()


def test_what_a_token_launches_starts_as_many_trials_as_its_leash_allows_on_all_experiments_together(
        rig: Rig, leash: ApiToken) -> None:
    first = rig.experiment(token=leash, trial_concurrency=4, max_trial_number=9)
    rig.submitted(first, 2)
    second = rig.experiment(token=leash, trial_concurrency=4, max_trial_number=9)
    rig.until(lambda: Trial.objects.filter(reason="leash_trials").count() == 2)
    assert (under_way(first), under_way(second)) == (2, 0)
    report(Trial.objects.filter(experiment=first, attempts__stage="submitted")[0], 0.5)
    rig.until(lambda: under_way(second) == 1)
    rig.rounds(5)
    assert (under_way(first), under_way(second)) == (1, 1), "fair, as for a quota"
    assert trials_under_way([leash.pk]) == {leash.pk: 2}
    held = Trial.objects.filter(experiment=second, reason="leash_trials").get()
    assert held.message.startswith('Waits for the leash of the token "agent": at most 2 trials at a time.')
    assert held.reason_arguments == {"token": "agent", "most": 2}
    revision = held.revision
    rig.rounds(3)
    held.refresh_from_db()
    assert held.revision == revision, "what has not changed is not written again"
    for experiment in (first, second):
        report(Trial.objects.filter(experiment=experiment, attempts__stage="submitted").get(), 0.5)
    rig.until(lambda: Attempt.objects.filter(trial=held).exists())
    rig.until(lambda: under_way(first) + under_way(second) == 2)
    rig.rounds(3)
    assert under_way(first) + under_way(second) == 2


def test_trials_of_a_leash_in_another_experiment_wait_and_keep_nobody_else_waiting(
        rig: Rig, leash: ApiToken, admin: User) -> None:
    experiment = rig.experiment(tuner={"name": "External"}, optimize_mode="maximize", trial_concurrency=6)
    of_leash, of_person = asked_for(experiment, leash, 4), asked_for(experiment, None, 2)
    other = make_leash(admin, 1, "other")
    of_other = asked_for(experiment, other, 2)
    rig.until(lambda: under_way(experiment) == 5)
    rig.until(lambda: Trial.objects.filter(reason="leash_trials").count() == 3)
    rig.rounds(3)
    assert (started(of_leash), started(of_person), started(of_other)) == (2, 2, 1)
    said = dict(Trial.objects.filter(reason="leash_trials").values_list("sequence_id", "reason_arguments"))
    assert said == {2: {"token": "agent", "most": 2}, 3: {"token": "agent", "most": 2},
                    7: {"token": "other", "most": 1}}
    report(of_leash[0], 0.5)
    rig.until(lambda: started(of_leash) == 3)


def test_trials_that_wait_for_a_leash_take_no_share_of_a_limited_cluster(rig: Rig, leash: ApiToken) -> None:
    editing.change_cluster(rig.cluster, {"max_trials": 4})
    blocked = rig.experiment(tuner={"name": "External"}, optimize_mode="maximize", trial_concurrency=4)
    asked_for(blocked, leash, 6)
    rig.until(lambda: under_way(blocked) == 2)
    rig.until(lambda: Trial.objects.filter(reason="leash_trials").count() == 4)
    going = rig.experiment(trial_concurrency=9, max_trial_number=20)
    rig.until(lambda: under_way(going) == 2)
    report(Trial.objects.filter(experiment=blocked, attempts__stage="submitted").order_by("sequence_id")[0], 0.5)
    rig.until(lambda: under_way(going) + under_way(blocked) == 4)
    rig.rounds(3)
    assert under_way(going) + under_way(blocked) == 4


def test_a_second_attempt_of_a_failed_trial_keeps_its_place_and_takes_no_other(rig: Rig, leash: ApiToken) -> None:
    experiment = rig.experiment(token=leash, trial_concurrency=4, max_trial_number=6,
                                retry={"onFailure": 1})
    trials = rig.submitted(experiment, 2)
    report(trials[0], exit_code=1)
    rig.until(lambda: Attempt.objects.filter(trial=trials[0], stage="submitted").count() == 1)
    rig.rounds(3)
    assert under_way(experiment) == 2


def test_the_limit_holds_after_the_token_was_ended(rig: Rig, leash: ApiToken, admin: User) -> None:
    experiment = rig.experiment(token=leash, trial_concurrency=4, max_trial_number=9)
    rig.submitted(experiment, 2)
    token_end.end(leash, admin, stop=False)
    rig.until(lambda: Trial.objects.filter(reason="leash_trials").exists())
    rig.rounds(5)
    assert under_way(experiment) == 2


def test_what_a_token_runs_ends_with_it_and_says_by_whom(rig: Rig, leash: ApiToken, admin: User) -> None:
    launched = rig.experiment(token=leash, trial_concurrency=1, max_trial_number=9)
    other = rig.experiment(tuner={"name": "External"}, optimize_mode="maximize", trial_concurrency=6)
    [of_leash], [of_person] = asked_for(other, leash, 1), asked_for(other, None, 1)
    rig.submitted(launched, 1)
    rig.until(lambda: started([of_leash, of_person]) == 2)
    stopped = token_end.end(leash, admin, stop=True)
    assert (stopped.experiments, stopped.trials) == (1, 1)
    rig.rounds()
    rig.skip(61)  # no keeper has more to say
    rig.until(lambda: Experiment.objects.get(pk=launched.pk).status == "STOPPED"
              and Trial.objects.get(pk=of_leash.pk).is_finished)
    rig.rounds(3)
    for row in (Experiment.objects.get(pk=launched.pk), Trial.objects.get(pk=of_leash.pk),
                Trial.objects.filter(experiment=launched).order_by("sequence_id")[0]):
        assert (row.reason, row.message) == ("token_ended", 'The token "agent" was ended by ada.')
    other.refresh_from_db()
    assert (other.status, Trial.objects.get(pk=of_person.pk).status) == ("RUNNING", "WAITING")


def test_eight_workers_at_once_start_exactly_as_many_as_the_leash_allows(
        make_rig: Callable[..., Rig], admin: User) -> None:
    """Half of the experiments were launched by the token; in the others it has asked for trials."""
    leash = make_leash(admin, 5)
    rigs = [make_rig() for _ in range(8)]
    rounds = [lambda _, rig=rig: rig.rounds(4) for rig in rigs]
    trials = []
    for place, rig in enumerate(rigs):
        experiment = rig.experiment(tuner={"name": "External"}, optimize_mode="maximize", trial_concurrency=3,
                                    token=leash if place % 2 else None)
        trials += asked_for(experiment, None if place % 2 else leash, 3)
    at_once(*rounds)
    assert trials_under_way([leash.pk]) == {leash.pk: 5}
    ending = list(Trial.objects.filter(attempts__stage="submitted")[:3])  # of others the submission may be under way
    assert ending
    for trial in ending:
        report(trial, 0.5)
    at_once(*rounds)
    assert trials_under_way([leash.pk]) == {leash.pk: 5}
    assert started(trials) == 5 + len(ending)


def test_without_a_leash_the_questions_of_a_round_are_those_of_before(rig: Rig, make_attempt: Any, admin: User) -> None:
    experiment = rig.experiment(status="RUNNING")
    make_attempt(experiment)

    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            FairShares.of_round(rig.cluster).room(experiment, 3)
        return len(asked)

    assert queries() == 1
    ApiToken.make(admin, "plain")
    assert queries() == 1, "a token without a limit costs nothing"
    trial = Trial.objects.create(experiment=experiment, sequence_id=99, created_at=timezone.now())
    TrialParameters.objects.create(trial=trial, parameter_id=None, value={"x": 0.5})
    make_leash(admin, 4)
    assert queries() == 5, "what is limited, what is under way, what waits"
