"""What quotas and shares make of a cluster's rounds: who starts, who waits, and what a waiting trial says."""

from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext

from nniweb.experiments.actions import intents
from nniweb.experiments.clusters import editing
from nniweb.experiments.models import Attempt, Cluster, Experiment, Quota, Trial
from nniweb.experiments.quotas.quota_settings import set_quota
from nniweb.worker.cluster_host.fair_share import FairShares
from tests.nniweb.worker.conftest import Rig, report


def under_way(experiment: Experiment) -> int:
    return Attempt.objects.filter(trial__experiment=experiment).exclude(stage="ended").count()


def waiting(experiment: Experiment) -> list[Trial]:
    return list(Trial.objects.filter(experiment=experiment, status="WAITING", attempts=None))


def end_one(experiment: Experiment) -> None:
    trial = Trial.objects.filter(experiment=experiment, attempts__stage="submitted").order_by("sequence_id").first()
    assert trial is not None
    report(trial, 0.5)


def test_a_quota_keeps_trials_waiting_one_says_why_and_it_starts_when_there_is_room(rig: Rig, admin) -> None:
    quota = Quota.objects.create(user=admin, max_trials=2)
    experiment = rig.experiment(trial_concurrency=4, max_trial_number=8)
    rig.submitted(experiment, 2)
    rig.until(lambda: waiting(experiment))
    rig.rounds(5)
    assert under_way(experiment) == 2
    [held] = waiting(experiment)
    assert held.message.startswith("Waits for the quota of ada: at most 2 trials at a time.")
    revision = held.revision
    rig.rounds(3)
    held.refresh_from_db()
    assert held.revision == revision, "what has not changed is not written again"
    end_one(experiment)
    rig.until(lambda: Attempt.objects.filter(trial=held).exists())
    rig.rounds()
    assert under_way(experiment) == 2
    set_quota(quota, {"max_trials": None})
    rig.until(lambda: under_way(experiment) == 4)
    assert Trial.objects.filter(experiment=experiment, message__startswith="Waits for").count() == 0


def test_trials_queued_by_people_say_what_they_wait_for(rig: Rig, admin) -> None:
    Quota.objects.create(max_gpus=1)
    experiment = rig.experiment(trial_concurrency=3, gpus_of_a_trial=1)
    rig.submitted(experiment, 1)
    queued = [intents.submit_trial(experiment, {"x": 0.5}) for _ in range(2)]

    def messages() -> list[str]:
        return [Trial.objects.get(pk=trial.pk).message for trial in queued]

    rig.until(lambda: all("the quota that each person has: at most 1 GPU at" in message for message in messages()))
    assert under_way(experiment) == 1


def test_experiments_of_a_limited_cluster_come_to_equal_shares(rig: Rig) -> None:
    editing.change_cluster(rig.cluster, {"max_trials": 4})
    greedy = rig.experiment(name="greedy", trial_concurrency=10, max_trial_number=40)
    rig.submitted(greedy, 4)
    late = rig.experiment(name="late", trial_concurrency=10, max_trial_number=40)
    rig.until(lambda: waiting(late))
    for number in (1, 2):
        end_one(greedy)
        rig.until(lambda number=number: (under_way(greedy), under_way(late)) == (4 - number, number))
    rig.rounds(5)
    assert (under_way(greedy), under_way(late)) == (2, 2)
    assert waiting(greedy)[0].message.startswith(f"Waits for the limit of the cluster {rig.cluster.name}: at most 4")


def test_an_experiment_that_cannot_start_takes_nobody_s_share(rig: Rig) -> None:
    editing.change_cluster(rig.cluster, {"max_trials": 2})
    going = rig.experiment(trial_concurrency=10)
    rig.submitted(going, 2)
    paused = rig.experiment(trial_concurrency=10)
    rig.until(lambda: waiting(paused))
    intents.pause(paused)
    end_one(going)
    rig.until(lambda: Attempt.objects.filter(trial__experiment=going).count() == 3)


def test_the_questions_of_a_round_do_not_grow_with_experiments_or_with_what_was(rig: Rig, make_attempt) -> None:
    Quota.objects.create(max_trials=100)
    editing.change_cluster(rig.cluster, {"max_trials": 100})
    rig.cluster = Cluster.objects.get(pk=rig.cluster.pk)

    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            FairShares.of_round(rig.cluster)
        return len(asked)

    before = queries()
    for _ in range(5):
        experiment = rig.experiment(status="RUNNING")
        for _ in range(3):
            Attempt.objects.filter(pk=make_attempt(experiment).pk).update(stage="ended")
        make_attempt(experiment)
    assert queries() == before == 6


def test_without_any_limit_a_round_asks_once_whether_there_is_one(rig: Rig) -> None:
    with CaptureQueriesContext(connection) as asked:
        shares = FairShares.of_round(rig.cluster)
    assert len(asked) == 1
    experiment = rig.experiment(trial_concurrency=3)
    assert shares.room(experiment, 3).count == 3


def test_a_trial_that_is_tried_again_when_its_paused_experiment_goes_on_keeps_no_place_from_others(rig: Rig, admin
                                                                                                  ) -> None:
    Quota.objects.create(user=admin, max_trials=1)
    paused = rig.experiment(trial_concurrency=1, max_trial_number=1, retry={"onFailure": 1})
    [trial] = rig.submitted(paused, 1)
    intents.pause(paused)
    report(trial, exit_code=1)
    other = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [others] = rig.submitted(other, 1)
    assert Trial.objects.get(pk=trial.pk).reason == "experiment_held"
    intents.resume(paused)
    rig.until(lambda: Trial.objects.get(pk=trial.pk).reason == "quota")
    report(others, 0.5)
    rig.until(lambda: Attempt.objects.filter(trial=trial, number=2, stage="submitted").exists())
